"""What lasts from batch to batch: workers, the arrays of tasks, object code."""

from __future__ import annotations

import os

from ansor.measure.builder import Asker, Built, Candidate
from ansor.measure.crew import Crew, Pending, Place
from ansor.measure.limits import Limits
from ansor.measure.sampling import Sampling
from ansor.te.task import Task

REMEMBERED = 32  # pieces of object code
TASKS = 64  # of which arrays are kept


class Shop:
    """The means of measuring on this machine."""

    def __init__(
        self, limits: Limits, sampling: Sampling, builders: int | None, seed: int
    ) -> None:
        self.limits = limits
        self.sampling = sampling
        self.seed = seed
        self.cpus = len(os.sched_getaffinity(0))
        self.builders = builders or min(self.cpus, 16)
        self.asker = Asker()
        self.crew = Crew(limits)
        self._places: dict[str, Place] = {}
        self._pending: Pending | None = None  # the next of them
        self._objects: dict[int, tuple[Candidate, Built]] = {}

    def prepare(self, task: Task) -> None:
        """Begin to compute a task's inputs and reference, which `place` waits for."""
        if task.key not in self._places:
            self._drop()
            self._pending = Pending.start(self.crew, task, self.seed)

    def place(self, task: Task) -> Place:
        """The task's inputs and reference, computed at the first call."""
        found = self._places.get(task.key)
        if found is not None and (found.task is task or found.task == task):
            return found
        if found is not None or len(self._places) >= TASKS:
            key = task.key if found is not None else next(iter(self._places))
            os.close(self._places.pop(key).memory)
        pending, self._pending = self._pending, None
        if pending is not None and not self._is_for(pending, task):
            os.close(pending.memory)
            pending = None
        if pending is None:
            pending = Pending.start(self.crew, task, self.seed)
        made = self._places[task.key] = pending.finish(self.crew)
        return made

    def _is_for(self, pending: Pending, task: Task) -> bool:
        return pending.task == task and self.crew.has(pending.worker)

    def _drop(self) -> None:
        """Forget what was begun; its worker may live on until all are ended."""
        if self._pending is not None:
            os.close(self._pending.memory)
            self._pending = None

    def known(self, candidate: Candidate) -> Built | None:
        """Object code of a candidate that was built lately; by identity."""
        found = self._objects.get(id(candidate))
        return None if found is None else found[1]

    def remember(self, candidate: Candidate, built: Built) -> None:
        """The last ones may be needed again: as the incumbent, or to be ranked."""
        self._objects.pop(id(candidate), None)
        self._objects[id(candidate)] = (candidate, built)
        while len(self._objects) > REMEMBERED:
            del self._objects[next(iter(self._objects))]

    def close(self) -> None:
        """End all workers and give the memory back."""
        self.crew.close()
        self._drop()
        for place in self._places.values():
            os.close(place.memory)
        self._places.clear()
        self._objects.clear()
