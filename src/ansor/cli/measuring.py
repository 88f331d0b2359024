"""What commands that measure share: options and runners."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:  # measuring loads LLVM, which --help does not need
    from ansor.cost.model import CostModel
    from ansor.measure.runner import Runner
    from ansor.records.database import Database
    from ansor.target import Target

run_timeout = click.option(
    "--run-timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="Seconds that checking a candidate may take, and timing it. [default: 10]",
)
as_json = click.option(
    "--json", "as_json", is_flag=True, help="For machines: JSON on stdout."
)


@dataclass(frozen=True)
class Asked:
    """What a search is asked for, whatever it is of."""

    database: Database
    trials: int | None
    seconds: float | None
    seed: int
    policy: str
    model: CostModel | None
    quiet: bool

    def limit(self, usual: int) -> int | None:
        """Trials; so many if neither they nor seconds are given."""
        if self.trials is None and self.seconds is None:
            return usual
        return self.trials


@dataclass(frozen=True)
class Measuring:
    """How to measure. The runner is made when it is needed."""

    run_seconds: float | None = None
    seed: int = 0
    cluster: str | None = None  # the address of a Dask cluster, instead of this machine
    cold: Target | None = None  # whose caches are emptied before every call

    @contextmanager
    def runner(self) -> Iterator[Runner]:
        made = self._runner()
        try:
            yield made
        finally:
            made.close()

    def _runner(self) -> Runner:
        from ansor.measure.dask import DaskRunner
        from ansor.measure.limits import Limits
        from ansor.measure.local import LocalRunner
        from ansor.measure.sampling import Sampling

        seconds = self.run_seconds
        limits = Limits() if seconds is None else Limits(run_seconds=seconds)
        last = 0 if self.cold is None else max(self.cold.cache_bytes)
        sampling = Sampling.cold_cache(2 * last) if last else Sampling()
        if self.cluster is None:
            return LocalRunner(limits=limits, sampling=sampling, seed=self.seed)
        return DaskRunner(
            self.cluster, limits=limits, sampling=sampling, seed=self.seed
        )
