"""The local pool: builders and one runner on this machine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from ansor.errors import MeasureError
from ansor.measure.batch import Batch
from ansor.measure.builder import Candidate
from ansor.measure.limits import Limits
from ansor.measure.runner import FOREVER, Closing, Incumbent, Measured, Ranked
from ansor.measure.sampling import Sampling
from ansor.measure.shop import Shop
from ansor.te.task import Task


class LocalRunner(Closing):
    """Measures on this machine, in processes that may crash.

    A kernel that uses all cores is timed while nothing is built; else builders use the
    cores that are left. With the same seed candidates are checked on the same inputs.

    >>> import ansor
    >>> A = ansor.placeholder((64, 64), name="A")
    >>> task = ansor.Task(ansor.ops.softmax(A))
    >>> sketch = ansor.sketches(task)[0]
    >>> with LocalRunner() as runner:
    ...     (measured,) = runner.measure(task, [sketch.program(sketch.sample(1, 0)[0])])
    >>> type(measured.outcome).__name__
    'Timed'
    """

    def __init__(
        self,
        *,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        sampling: Sampling = Sampling(),  # noqa: B008 - frozen
        builders: int | None = None,
        seed: int = 0,
    ) -> None:
        self._shop = Shop(limits, sampling, builders, seed)
        self._is_closed = False

    def prepare(self, task: Task) -> None:
        """Begin with inputs and right results, while the caller chooses candidates."""
        self._check(task)
        self._shop.prepare(task)

    def measure(
        self,
        task: Task,
        candidates: Sequence[Candidate],
        incumbent: Incumbent | None = None,
        until: float = FOREVER,
    ) -> Iterator[Measured]:
        """One outcome per candidate, as they come."""
        with self._batch(task, candidates, incumbent, until) as batch:
            yield from batch.run()

    def rank(
        self, task: Task, candidates: Sequence[Candidate], until: float = FOREVER
    ) -> Ranked:
        """Check again with other memory contents, then time side by side."""
        with self._batch(task, candidates, until=until) as batch:
            return batch.rank()

    def close(self) -> None:
        """End all processes; safe to call twice."""
        self._is_closed = True
        self._shop.close()

    def __del__(self) -> None:
        if not getattr(self, "_is_closed", True):
            self.close()

    def _check(self, task: Task) -> None:
        if self._is_closed:
            raise MeasureError("this runner", "is closed", "make a new LocalRunner()")
        if not task.target.is_host:
            raise MeasureError(
                f"measuring for {task.target}",
                "this machine cannot run its code",
                "use Target.host(), or a runner on such a machine",
            )

    @contextlib.contextmanager
    def _batch(
        self,
        task: Task,
        candidates: Sequence[Candidate],
        incumbent: Incumbent | None = None,
        until: float = FOREVER,
    ) -> Iterator[Batch]:
        self._check(task)
        batch = Batch(self._shop, task, candidates, incumbent, until)
        try:
            yield batch
        finally:
            batch.stop()
