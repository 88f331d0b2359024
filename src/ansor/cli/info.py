"""`ansor info`: what was detected about this machine, and what is missing."""

from __future__ import annotations

import os
import platform
import sqlite3
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ansor.cli.answer import Answer
from ansor.cli.measuring import Measuring
from ansor.cli.measuring import as_json as json_option
from ansor.cli.units import duration, size
from ansor.errors import AnsorError
from ansor.target import Target
from ansor.target.calibrate import load
from ansor.target.gpus import device
from ansor.target.settings import cache_dir

if TYPE_CHECKING:  # measuring loads LLVM, which --help does not need
    from ansor.records.outcome import Outcome

HELP = """What was detected about this machine, versions, and what is missing.

    Measures a tiny kernel to see whether measuring works here; the exit code is 1 if it
    does not.

    \b
    Examples:
      ansor info
      ansor info --json
"""


@dataclass(frozen=True)
class Optional:
    """A package that some things need."""

    package: str
    use: str
    install: str


OPTIONAL = (
    Optional("torch", "models from PyTorch", "pip install 'ansor[torch]'"),
    Optional("onnx", "models from ONNX files", "pip install 'ansor[onnx]'"),
    Optional("distributed", "a Dask cluster", "pip install 'ansor[dask]'"),
    Optional("lightgbm", "boosted trees as cost model", "pip install lightgbm"),
    Optional("cuda-bindings", "NVIDIA GPUs", "pip install 'ansor[cuda]'"),
)


@click.command(help=HELP)
@json_option
@click.option("--quiet", is_flag=True, help="Only what is missing or does not work.")
def info(as_json: bool, quiet: bool) -> None:
    machine = Machine.look()
    text = "\n".join(machine.problems if quiet else machine.lines)
    answer = Answer(machine.data, text, machine.trial.works)
    if as_json or text:
        answer.show(as_json, quiet)
    if not answer.is_good:
        click.get_current_context().exit(1)


@dataclass(frozen=True)
class Trial:
    """Whether a kernel can be built, run and timed in a worker."""

    seconds: float | None
    reason: str = ""  # why not
    steal: float | None = None  # share of time that the host took meanwhile

    @property
    def works(self) -> bool:
        return self.seconds is not None

    @classmethod
    def run(cls) -> Trial:
        """Start a worker and time a tiny kernel in it."""
        before = _ticks()
        try:
            outcome = _outcome()
        except AnsorError as error:
            return cls(None, str(error))
        seconds: float | None = getattr(outcome, "estimate", None)
        reason = "" if seconds is not None else str(outcome)
        return cls(seconds, reason, _steal(before, _ticks()))

    def __str__(self) -> str:
        if self.seconds is None:
            return f"DOES NOT WORK: {self.reason}"
        return f"works: a tiny kernel takes {duration(self.seconds)}"


def _outcome() -> Outcome:
    from ansor.search.untuned import untuned
    from ansor.te import ops
    from ansor.te.task import Task
    from ansor.te.tensor import placeholder

    task = Task(ops.relu(placeholder((64, 64), name="X")), Target.host())
    with Measuring().runner() as runner:
        (measured,) = runner.measure(task, [untuned(task)])
    return measured.outcome


def _ticks() -> list[int]:
    """Ticks of all cores by what they did; of Linux, else none."""
    try:
        words = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    except OSError:
        return []
    return [int(x) for x in words[1:9]]


def _steal(before: list[int], after: list[int]) -> float | None:
    spent = [y - x for x, y in zip(before, after, strict=True)]
    total = sum(spent)
    return spent[7] / total if len(spent) == 8 and total else None


@dataclass(frozen=True)
class Machine:
    """All that is told, once as data and once as lines."""

    target: Target
    versions: dict[str, str]
    optional: dict[str, str | None]
    trial: Trial

    @classmethod
    def look(cls) -> Machine:
        return cls(
            Target.host(),
            _versions(),
            {x.package: _version(x.package) for x in OPTIONAL},
            Trial.run(),
        )

    @property
    def data(self) -> dict[str, object]:
        from ansor.measure.identity import host
        from ansor.target.data import target_to_data

        gpu, speeds = device(), load(self.target.fingerprint)
        return {
            "target": target_to_data(self.target),
            "fingerprint": self.target.fingerprint,
            "host": host(),
            "gpu": None if gpu is None else asdict(gpu),
            "calibration": None if speeds is None else asdict(speeds),
            "versions": self.versions,
            "optional": self.optional,
            "measuring": {"works": self.trial.works, **asdict(self.trial)},
            "load": list(os.getloadavg()),
            "cache_dir": str(cache_dir()),
        }

    @property
    def lines(self) -> list[str]:
        rows = {
            "machine": str(self.target),
            "features": self.target.features or "none",
            "caches": _caches(self.target),
            "gpu": _gpu(),
            "speeds": str(load(self.target.fingerprint) or "not calibrated yet"),
            "versions": ", ".join(f"{x} {y}" for x, y in self.versions.items()),
            "cache": str(cache_dir()),
            "load": _load(self.target.cores, self.trial.steal),
            "measuring": str(self.trial),
        }
        width = max(map(len, rows))
        told = [f"{name:{width}}  {text}" for name, text in rows.items()]
        here = [f"{x} {y}" for x, y in self.optional.items() if y is not None]
        return [
            *told,
            f"{'optional':{width}}  {', '.join(here) or 'none'}",
            *(f"{'missing':{width}}  {text}" for text in self.missing),
        ]

    @property
    def missing(self) -> list[str]:
        return [
            f"{x.package}, for {x.use}: {x.install}"
            for x in OPTIONAL
            if self.optional[x.package] is None
        ]

    @property
    def problems(self) -> list[str]:
        broken = [] if self.trial.works else [f"measuring {self.trial}"]
        return [*broken, *(f"missing {text}" for text in self.missing)]


def _versions() -> dict[str, str]:
    from ansor.measure.identity import versions

    return {
        **versions(),
        "llvmlite": metadata.version("llvmlite"),
        "sqlite": sqlite3.sqlite_version,
        platform.system(): platform.release(),
    }


def _version(package: str) -> str | None:
    """The installed version, without importing it."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _caches(target: Target) -> str:
    levels = zip(("L1", "L2", "L3"), target.cache_bytes, strict=True)
    sizes = ", ".join(f"{name} {size(count)}" for name, count in levels)
    return f"{sizes}, lines of {target.line_bytes} bytes"


def _gpu() -> str:
    gpu = device()
    return "none" if gpu is None else f"{gpu.arch}, {gpu.multiprocessors} processors"


def _load(cores: int, steal: float | None) -> str:
    average = os.getloadavg()[0]
    taken = "" if steal is None else f"; {steal:.0%} taken by the host"
    busy = "; busy: times will be noisy" if average > cores else ""
    return f"{average:.2f} on average{taken}{busy}"
