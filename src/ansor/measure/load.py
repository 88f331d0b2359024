"""What else runs on the machine, as far as Linux tells."""

import contextlib
import os
import resource
import time
from pathlib import Path

_SWITCH = 1e-4  # seconds an involuntary switch counts for, where no delays are known
_TICK = 0.01  # seconds: steal time is counted in such steps, so asked for as often


class Watch:
    """Says how long others kept this process from running, since it was last asked.

    A call gives seconds: the longest that any one thread waited for a core (a parallel
    kernel waits for its last thread), or what the host of a virtual machine took from
    an average core, if that is more. What the system does not tell counts as nothing;
    without run-queue delays, each involuntary switch counts for a fixed time instead.
    Steal time is counted in ticks, and found up to a tick late. Asking takes about ten
    microseconds, and two more per thread.
    """

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._tasks = proc / "self" / "task"
        self._files: dict[str, int] = {}  # open, by thread
        self._stat = _opened(proc / "stat")
        self._ticks = os.sysconf("SC_CLK_TCK") * (os.cpu_count() or 1)
        self._steal, self._asked = 0.0, -_TICK
        self._before = self._now()

    def __call__(self) -> float:
        (waits, switches, steal), before = self._now(), self._before
        self._before = (waits, switches, steal)
        switched = (switches - before[1]) * _SWITCH
        new = {task: wait - before[0].get(task, 0.0) for task, wait in waits.items()}
        return max(0.0, steal - before[2], max(new.values(), default=switched))

    def close(self) -> None:
        """Close the files; afterwards it knows of no load."""
        for file in (*self._files.values(), self._stat):
            _close(file)
        self._files, self._stat, self._tasks = {}, -1, Path(os.devnull)

    def __enter__(self) -> "Watch":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _now(self) -> tuple[dict[str, float], int, float]:
        """Seconds waited by each thread, involuntary switches, seconds stolen."""
        switches = resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
        if time.monotonic() >= self._asked + _TICK:
            self._steal, self._asked = self._stolen(), time.monotonic()
        return self._waits(), switches, self._steal

    def _waits(self) -> dict[str, float]:
        tasks: list[str] = []
        with contextlib.suppress(OSError):
            tasks = os.listdir(self._tasks)
        for gone in self._files.keys() - set(tasks):
            _close(self._files.pop(gone))
        waits = {task: self._wait(task) for task in tasks}
        return {task: wait for task, wait in waits.items() if wait is not None}

    def _wait(self, task: str) -> float | None:
        """The second number of schedstat: nanoseconds spent on a run queue."""
        file = self._files.get(task, -1)
        if file < 0:
            file = _opened(self._tasks / task / "schedstat")
        if file < 0:
            return None
        self._files[task] = file
        numbers = _read(file)
        return _number(numbers, 1) * 1e-9 if len(numbers) >= 2 else None

    def _stolen(self) -> float:
        """The eighth number of the first line of stat, in ticks of all cores."""
        numbers = _read(self._stat) if self._stat >= 0 else []
        return _number(numbers, 8) / self._ticks if numbers[:1] == ["cpu"] else 0.0


def _opened(path: Path) -> int:
    """A file descriptor, or -1."""
    try:
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return -1


def _close(file: int) -> None:
    """Code under test may have closed it already."""
    with contextlib.suppress(OSError):
        os.close(file)


def _read(file: int) -> list[str]:
    """The words at the start of an open file; none if it cannot be read."""
    try:
        return os.pread(file, 256, 0).decode("ascii", "replace").split()
    except OSError:
        return []


def _number(words: list[str], at: int) -> int:
    return int(words[at]) if len(words) > at and words[at].isdigit() else 0
