"""The one table of steps: what a program can be made of."""

from typing import TypeAlias

from ansor.schedule.loops import Annotate, Fuse, Prefetch, Reorder, Split
from ansor.schedule.stages import (
    CacheRead,
    CacheWrite,
    ComputeAt,
    ComputeRoot,
    Inline,
    LayoutRewrite,
    Pack,
    RFactor,
)

Step: TypeAlias = (
    Split
    | Fuse
    | Reorder
    | Annotate
    | Prefetch
    | ComputeAt
    | ComputeRoot
    | Inline
    | CacheRead
    | CacheWrite
    | Pack
    | RFactor
)

STEPS: dict[str, type[Step]] = {
    "split": Split,
    "fuse": Fuse,
    "reorder": Reorder,
    "annotate": Annotate,
    "prefetch": Prefetch,
    "compute-at": ComputeAt,
    "compute-root": ComputeRoot,
    "inline": Inline,
    "cache-read": CacheRead,
    "cache-write": CacheWrite,
    "pack": Pack,
    "rfactor": RFactor,
}

__all__ = [
    "STEPS",
    "Annotate",
    "CacheRead",
    "CacheWrite",
    "ComputeAt",
    "ComputeRoot",
    "Fuse",
    "Inline",
    "LayoutRewrite",
    "Pack",
    "Prefetch",
    "RFactor",
    "Reorder",
    "Split",
    "Step",
]
