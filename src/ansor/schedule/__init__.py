"""The answer: steps, sketches and programs, their bounds, and lowering to loops."""

from ansor.schedule.data import (
    from_data,
    sketch_from_data,
    sketch_to_data,
    to_data,
)
from ansor.schedule.knobs import Follow, Knob, Points
from ansor.schedule.program import Program, Sketch
from ansor.schedule.steps import (
    STEPS,
    Annotate,
    CacheRead,
    CacheWrite,
    ComputeAt,
    ComputeRoot,
    Fuse,
    Inline,
    LayoutRewrite,
    Pack,
    Prefetch,
    Reorder,
    RFactor,
    Split,
    Step,
)

__all__ = [
    "STEPS",
    "Annotate",
    "CacheRead",
    "CacheWrite",
    "ComputeAt",
    "ComputeRoot",
    "Follow",
    "Fuse",
    "Inline",
    "Knob",
    "LayoutRewrite",
    "Pack",
    "Points",
    "Prefetch",
    "Program",
    "RFactor",
    "Reorder",
    "Sketch",
    "Split",
    "Step",
    "from_data",
    "sketch_from_data",
    "sketch_to_data",
    "to_data",
]
