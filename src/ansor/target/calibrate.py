"""What was measured about a machine, kept between runs. Measuring is `codegen`'s."""

import hashlib
import json
import math
import os
import tempfile
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from ansor.errors import TargetError
from ansor.target.settings import cache_dir

VERSION = 1  # bump when a figure changes its meaning; older files are then ignored


@dataclass(frozen=True)
class Calibration:
    """Speeds of one core of a machine; `fork_join_seconds` is of all its cores."""

    peak_flops_per_core: float  # float32 per second, a fused multiply-add counts two
    l1_bandwidth: float  # bytes per second read
    l2_bandwidth: float
    l3_bandwidth: float
    dram_bandwidth: float
    fork_join_seconds: float  # an empty parallel region

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            number = isinstance(value, int | float) and not isinstance(value, bool)
            if not number or not math.isfinite(value) or value <= 0:
                raise TargetError(
                    f"calibration {name}={value!r}", "not a positive number"
                )

    def __str__(self) -> str:
        bandwidths = (
            *(self.l1_bandwidth, self.l2_bandwidth),
            *(self.l3_bandwidth, self.dram_bandwidth),
        )
        return (
            f"{self.peak_flops_per_core / 1e9:.1f} GFLOP/s per core; "
            f"L1 / L2 / L3 / memory "
            f"{' / '.join(f'{x / 1e9:.1f}' for x in bandwidths)} GB/s; "
            f"fork and join {self.fork_join_seconds * 1e6:.1f} us"
        )


def load(fingerprint: str) -> Calibration | None:
    """What was stored for a target; None without a file that can be trusted.

    A file that is damaged, of another version or of another target counts as none:
    measuring again is cheap, and a wrong figure would mislead every later search.
    """
    try:
        stored = json.loads(_path(fingerprint).read_text(encoding="utf-8"))
        if (stored["version"], stored["target"]) != (VERSION, fingerprint):
            return None
        names = [field.name for field in fields(Calibration)]
        return Calibration(**{name: stored["speeds"][name] for name in names})
    except (OSError, ValueError, KeyError, TypeError, TargetError):
        return None


def store(fingerprint: str, calibration: Calibration) -> Path:
    """Write it for `load`. Whole or not at all: readers never see half a file."""
    path = _path(fingerprint)
    stored = {
        "version": VERSION,
        "target": fingerprint,
        "speeds": asdict(calibration),
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".new")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(stored, file, indent=1)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def _path(fingerprint: str) -> Path:
    digest = hashlib.sha256(fingerprint.encode()).hexdigest()[:16]
    return cache_dir() / f"calibration-{digest}.json"
