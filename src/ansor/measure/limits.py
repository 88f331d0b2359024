"""What building and running one candidate may cost."""

from __future__ import annotations

from dataclasses import dataclass

from ansor.errors import MeasureError


@dataclass(frozen=True)
class Limits:
    """Seconds and bytes; who exceeds them is ended, and the outcome says which.

    `run_seconds` holds for checking a candidate's result and again for timing it. Bytes
    come on top of what a worker uses by itself and of the task's own arrays.
    """

    build_seconds: float = 20.0
    build_bytes: int = 2 << 30
    run_seconds: float = 10.0
    run_bytes: int = 2 << 30
    problem_seconds: float = 300.0  # to compute inputs and reference, once per task
    jobs: int = 500  # of one worker, before a fresh one takes its place

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise MeasureError(f"limit {name}={value!r}", "is not a number")
            if not 0 < value < float("inf"):
                raise MeasureError(
                    f"limit {name}={value!r}", "is not above 0", "give a positive limit"
                )
