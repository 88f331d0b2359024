"""A machine whose clock is simulated: drift, bursts of load, and noisy samples."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass
class Machine:
    """Time passes only in kernels. All noise comes from `rng`.

    Speed drifts by up to `drift`, with a correlation time of `memory` seconds; the
    share `noisy` of all runs takes 20 to 300 % longer; each run has a `jitter`. Bursts
    of other load start `bursts` times per second and last `burst` seconds on average;
    kernels run at half speed in them. `watch` tells what bursts took, nothing else.
    """

    rng: np.random.Generator
    drift: float = 0.10
    memory: float = 0.05
    noisy: float = 0.05
    jitter: float = 0.005
    bursts: float = 0.0
    burst: float = 0.01
    now: float = 0.0

    def __post_init__(self) -> None:
        self.calls = 0
        self._speed = self.rng.standard_normal()
        self._stolen = 0.0
        self._starts, self._ends = self._next_burst()

    def clock(self) -> float:
        return self.now

    def watch(self) -> float:
        stolen, self._stolen = self._stolen, 0.0
        return stolen

    def kernel(self, seconds: float) -> Callable[[int], float]:
        def run(count: int) -> float:
            self.calls += count
            start = self.now
            self._work(count * seconds * self._factor(count))
            self._change_speed(self.now - start)
            return self.now - start

        return run

    def _factor(self, count: int) -> float:
        drift = np.clip(self.drift / 2 * self._speed, -self.drift, self.drift)
        jitter = self.jitter * abs(self.rng.standard_normal()) / count**0.5
        factor = (1 + float(drift)) * (1 + jitter)
        if self.rng.random() < self.noisy:
            factor *= 1.2 + 2.8 * self.rng.random()
        return factor

    def _work(self, left: float) -> None:
        """Do `left` seconds of work: at full speed outside bursts, half inside."""
        while left > 0:
            if self.now >= self._ends:
                self._starts, self._ends = self._next_burst()
            busy = self.now >= self._starts
            until = self._ends if busy else self._starts
            share = 0.5 if busy else 1.0
            done = min(left, (until - self.now) * share)
            finished = done == left
            self.now = self.now + done / share if finished else until
            self._stolen += done if busy else 0.0
            left = 0.0 if finished else left - done

    def _next_burst(self) -> tuple[float, float]:
        if not self.bursts:
            return (np.inf, np.inf)
        start = self.now + self.rng.exponential(1 / self.bursts)
        return (start, start + self.rng.exponential(self.burst))

    def _change_speed(self, seconds: float) -> None:
        keep = float(np.exp(-seconds / self.memory))
        noise = (1 - keep * keep) ** 0.5 * self.rng.standard_normal()
        self._speed = keep * self._speed + noise


NOISES: dict[str, dict[str, float]] = {
    "drift": {},
    "slow drift": {"memory": 0.5},
    "fast drift": {"memory": 0.01},
    "noisy": {"noisy": 0.2},
    "bursts": {"bursts": 10, "burst": 0.01},
    "heavy bursts": {"bursts": 50, "burst": 0.01},
}
