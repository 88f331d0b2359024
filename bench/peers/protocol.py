"""Competitors in processes of their own, which run in turn.

Thread pools that spin disturb each other inside one process. So every competitor is a
child that sets itself up, says what it found (`Hello`, one line of JSON), and then
answers each line "go N" by the seconds of one of N calls. While one works, the others
wait for their line. Nothing here needs more than the standard library: a child may be
run by the Python of another environment.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import IO

TURN = 0.03  # seconds of calls in one turn
RISE = 0.03  # and before them: a core that was idle has to find its clock frequency
LONG = 0.05  # calls that take longer are not repeated to warm up
PAUSE = 0.005  # between turns: pools of the one before stop spinning
WARM = 3  # calls before the first look at the time of one
LEAST_LOOK = 0.02  # seconds of calls that the first look takes, at least


@dataclass(frozen=True)
class Hello:
    """What a competitor says when it is ready, or why it is not."""

    error: str = ""  # empty: ready
    correct: bool = False  # its result is that of the reference
    once: float = 0.0  # seconds of one call, about
    setup: float = 0.0  # seconds until it was ready
    notes: dict[str, object] = field(default_factory=dict)


# -- the child -------------------------------------------------------------------------


def private_output() -> IO[str]:
    """The line to the parent; whatever else is printed goes to standard error."""
    mine = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return mine


def serve(prepare: Callable[[], tuple[Callable[[], object], Hello]]) -> None:
    """Set up a competitor, then run it as often as the parent wants."""
    line = private_output()
    start = time.perf_counter()
    try:
        call, hello = prepare()
        once = look(call)
    except Exception as error:  # the cause is for the table: a peer may do anything
        reason = f"{type(error).__name__}: {error}".strip()
        line.write(json.dumps(asdict(Hello(error=reason[:2000]))) + "\n")
        return
    setup = time.perf_counter() - start
    told = {**asdict(hello), "once": once, "setup": setup}
    line.write(json.dumps(told) + "\n")
    for request in sys.stdin:
        word, _, count = request.partition(" ")
        if word != "go":
            return
        line.write(f"{timed(call, int(count), once):.9g}\n")


def look(call: Callable[[], object]) -> float:
    """Seconds of one call, about, after a few to warm up."""
    start = time.perf_counter()
    call()
    if time.perf_counter() - start < LONG:
        for _ in range(WARM):
            call()
    count, seconds = 1, timed(call, 1, LONG)
    while seconds * count < LEAST_LOOK:
        count *= 2
        seconds = timed(call, count, LONG)
    return seconds


def timed(call: Callable[[], object], count: int, once: float) -> float:
    """Seconds of one of `count` calls, after some that are not timed."""
    before = time.perf_counter()
    while once < LONG and time.perf_counter() - before < RISE:
        call()
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


# -- the parent ------------------------------------------------------------------------


class Competitor:
    """A child, confined to as many CPUs as it may have threads.

    `passive` switches spinning off where the environment can; otherwise each library
    waits as it does by default.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        threads: int,
        passive: bool = False,
        quiet: bool = True,
    ) -> None:
        self.name = name
        cpus = sorted(os.sched_getaffinity(0))[:threads]
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL if quiet else None,
            text=True,
            env={**os.environ, **environment(threads, passive)},
            preexec_fn=lambda: os.sched_setaffinity(0, cpus),
        )
        self.hello = Hello(error="not heard yet")

    def wait(self) -> Hello:
        """Until it is ready, or says that it never will be."""
        text = self._read()
        told = json.loads(text) if text else {"error": self._ending()}
        self.hello = Hello(**told)
        return self.hello

    @property
    def is_ready(self) -> bool:
        return not self.hello.error

    @property
    def turn(self) -> int:
        """Calls of one turn."""
        return max(1, round(TURN / max(self.hello.once, 1e-9)))

    def go(self) -> float:
        """Seconds of one call, from one turn."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"go {self.turn}\n")
        self._process.stdin.flush()
        text = self._read()
        if not text:
            raise RuntimeError(f"{self.name} ended during a turn: {self._ending()}")
        return float(text)

    def close(self) -> None:
        """End it; safe to call twice."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not stream.closed:
                stream.close()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def _ending(self) -> str:
        code = self._process.wait()
        return f"ended by signal {-code}" if code < 0 else f"ended with status {code}"


def environment(threads: int, passive: bool = False) -> dict[str, str]:
    """Variables by which libraries learn how many threads they may use."""
    names = ("OMP", "MKL", "OPENBLAS", "TVM")
    found = {f"{name}_NUM_THREADS": str(threads) for name in names}
    if passive:
        found |= {"OMP_WAIT_POLICY": "passive", "KMP_BLOCKTIME": "0"}
    return found


def race(
    competitors: Sequence[Competitor], rounds: int, seed: int = 0
) -> dict[str, list[float]]:
    """Seconds of a call by round, of every competitor that is ready.

    All run in every round, in a new random order each time.
    """
    ready = [one for one in competitors if one.is_ready]
    found: dict[str, list[float]] = {one.name: [] for one in ready}
    order = random.Random(seed)
    for _ in range(rounds):
        for one in order.sample(ready, len(ready)):
            time.sleep(PAUSE)
            found[one.name].append(one.go())
    return found


def ratio(over: Sequence[float], under: Sequence[float]) -> float:
    """The median of the ratios of the rounds."""
    return median(a / b for a, b in zip(over, under, strict=True))


def figures(seconds: Sequence[float]) -> Mapping[str, float]:
    """Median and best, in microseconds."""
    return {"median_us": 1e6 * median(seconds), "best_us": 1e6 * min(seconds)}
