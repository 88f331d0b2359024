"""Which of several tasks that compute the same is the one that runs."""

from __future__ import annotations

from collections.abc import Iterable


def fastest(rows: Iterable[tuple[float, bool]]) -> int:
    """The number of the one that counts, by (seconds, has it run): the fastest of those
    that ran. Beliefs do not stand against measurements; if there are none, the first.

    >>> fastest([(3.0, True), (2.0, True), (1.0, False)]), fastest([(3.0, False)])
    (1, 0)
    """
    ran = [(seconds, n) for n, (seconds, has_run) in enumerate(rows) if has_run]
    return min(ran)[1] if ran else 0
