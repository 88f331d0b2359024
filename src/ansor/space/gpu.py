"""Derivation rules for GPUs: tiles in blocks and threads, shared memory.

A tiled stage C, computed into registers (C.local) and then written out, becomes

    C:  S0 # blockIdx.x, S1 # vthread, S2 # threadIdx.x
      C.local:  k.0
        A.shared, B.shared: filled by all threads of the block
        k.1 | S3 | k.2 | S4
      S3 S4: C = C.local

S0 … S4 each stand for one loop of every spatial axis, the first three fused. What is
not tiled is for `threads` to spread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ansor.ir.dtypes import DTYPES
from ansor.ir.visit import loads
from ansor.schedule.bounds import Bounds
from ansor.schedule.knobs import Follow, Points
from ansor.schedule.plan import Nest, SplitRelation
from ansor.schedule.steps import (
    Annotate,
    CacheRead,
    ComputeAt,
    Reorder,
    Split,
    Step,
)
from ansor.space import lengths
from ansor.space.rules import (
    AddCacheWrite,
    AlwaysInline,
    ConstantTensor,
    TileFused,
    attempt,
    elementwise_consumer,
    lanes_of,
    origin,
)
from ansor.space.sketch import Sketch
from ansor.space.threads import BLOCK, THREAD, fused_loop, gpu_of
from ansor.space.tiling import Candidates, Tiling
from ansor.te.analysis import affine, is_elementwise_match
from ansor.te.stage import Axis

STRUCTURE = "SSSRRSRS"
VTHREADS = (1, 2, 4, 8)
MOST_THREADS = 256  # along one axis of a tile
MOST_ELEMENTS = 8  # of a thread, along one axis of each of its two levels
MOST_STEPS = 64  # of a reduction, in each level inside the outermost


def gpu_lengths(tiling: Tiling, axis: Axis, levels: int) -> Candidates:
    """Virtual threads, threads, and two levels inside a thread; or steps of a
    reduction."""
    blocks = lengths.block_lengths(axis.extent)
    if tiling.is_reduce(axis):
        return (tuple(n for n in blocks if n <= MOST_STEPS),) * levels
    own = lengths.row_lengths(axis.extent, MOST_ELEMENTS)
    return (
        tuple(n for n in VTHREADS if n <= axis.extent),
        tuple(n for n in blocks if n <= MOST_THREADS),
        *((own,) * (levels - 2)),
    )


@dataclass(frozen=True)
class LocalResults(AddCacheWrite):
    """Sum up in registers, then write out: every tiled stage without an element-wise
    consumer does."""

    alone: bool = True

    def matches(self, sketch: Sketch, stage: str) -> bool:
        reducer = sketch.stage(stage).reducer
        return reducer is not None and super().matches(sketch, stage)


@dataclass(frozen=True)
class TileThreads(TileFused):
    """Tile a stage inside the blocks and threads of its element-wise consumer."""

    structure: str = STRUCTURE
    levels: tuple[int, ...] = (3,)
    always: bool = True
    usual = 1

    def apply(self, sketch: Sketch, stage: str) -> Iterator[Sketch]:
        consumer = elementwise_consumer(sketch, stage)
        assert consumer is not None, "see matches"
        tiling = Tiling(
            sketch.stage(stage),
            self.structure,
            knobs=origin(sketch, stage),
            choose=gpu_lengths,
        )
        for level in self.levels:
            steps = tiling.fused(sketch.stage(consumer), level, ())
            name = f"tile {stage} in threads of {consumer}"
            for tiled in attempt(sketch, name, steps):
                yield tiled.then(*_thread_steps(tiled, stage))


def _thread_steps(sketch: Sketch, stage: str) -> list[Step]:
    """Bind the outer levels of the consumer; unroll what is left to one thread."""
    nest = sketch.plan.nest(stage)
    assert nest.at is not None, "tiled inside its consumer"
    consumer = sketch.plan.nest(nest.at.stage)
    inside = consumer.loops.index(nest.at.loop) + 1
    count = sum(isinstance(relation, SplitRelation) for relation in consumer.relations)
    outer = consumer.loops[:inside]
    levels = outer[: -2 * count], outer[-2 * count : -count], outer[-count:]
    steps: list[Step] = []
    for loops, kind in zip(levels, (BLOCK, "vthread", THREAD), strict=True):
        fused = fused_loop(consumer.name, loops, steps)
        steps.append(Annotate(consumer.name, fused, kind))
    # Registers have no addresses: the loops that choose among them are written out.
    rest = consumer.loops[inside:]
    steps += [Annotate(consumer.name, loop, "unroll") for loop in rest]
    parts = {r.parts[0] for r in nest.relations if isinstance(r, SplitRelation)}
    own = (x for x in nest.loops if x in parts and not nest.is_reduce(x))
    return steps + [Annotate(stage, loop, "unroll") for loop in own]


@dataclass(frozen=True)
class ReadShared:
    """Read the operands of a tiled stage through shared memory, which all threads of
    the block fill together.

        A.shared:  d0@d1.0 | d0@d1.1 # threadIdx.x | d0@d1.2 # vectorize

    An operand that is gathered, or of which no block fits, is read where it is.
    """

    def matches(self, sketch: Sketch, stage: str) -> bool:
        nest = sketch.plan.nest(stage)
        return (
            nest.at is not None
            and THREAD in sketch.plan.nest(nest.at.stage).annotations.values()
            and any(nest.is_reduce(loop) for loop in nest.loops)
            and THREAD not in nest.annotations.values()
            and bool(_operands(nest))
        )

    def apply(self, sketch: Sketch, stage: str) -> Iterator[Sketch]:
        nest = sketch.plan.nest(stage)
        (loop, *_) = (x for x in sketch.level_ends(stage) if nest.is_reduce(x))
        for tensor in _operands(nest):
            read = CacheRead(tensor, stage, "shared")
            steps: list[Step] = [read, ComputeAt(read.copy, stage, loop)]
            for made in attempt(sketch, f"share {tensor} for {stage}", steps):
                if _has_blocks(nest, tensor) or _fits(made, stage):
                    sketch = made.then(*_fetch(made, read.copy))
        yield sketch


def _operands(nest: Nest) -> tuple[str, ...]:
    """The tensors with axes that a nest reads at places known ahead."""
    reads = tuple(nest.reads())
    gathered = {
        read.buffer.name
        for read in reads
        if any(True for index in read.indices for _ in loads(index))
    }
    names = dict.fromkeys(read.buffer.name for read in reads if read.indices)
    return tuple(name for name in names if name not in gathered)


def _has_blocks(nest: Nest, tensor: str) -> bool:
    """True if small tiles need small blocks of a tensor, whatever its size."""
    accesses = {r.indices for r in nest.reads() if r.buffer.name == tensor}
    indices = (index for access in accesses for index in access)
    return len(accesses) == 1 and all(affine(index) is not None for index in indices)


def _fits(sketch: Sketch, stage: str) -> bool:
    """True if the smallest tiles of a stage need no more shared memory than there
    is."""
    least = [[knob.candidates[0] for knob in sketch.knobs]]
    bounds = Bounds(sketch.plan, Points.of(sketch.knobs, least))
    total = 0
    for nest in sketch.attached(stage):
        elements = prod(int(region.span[0]) for region in bounds.regions(nest.name))
        total += elements * DTYPES[nest.stage.buffers[0].dtype].bytes
    return total <= gpu_of(sketch).shared_bytes


def _fetch(sketch: Sketch, copy: str) -> list[Step]:
    """Give every thread of the block its share of a copy."""
    nest = sketch.plan.nest(copy)
    assert nest.at is not None, "a copy is made at a loop"
    reader = sketch.plan.nest(nest.at.stage)
    assert reader.at is not None, "the reader runs in a thread"
    lanes = lanes_of(sketch, copy)
    widths = tuple(1 << n for n in range(lanes.bit_length()))
    steps: list[Step] = []
    fused = fused_loop(copy, nest.loops, steps)
    threads = Follow(reader.at.stage, reader.at.loop)
    width = lengths.length(copy, f"{fused}.2", widths)
    return [
        *steps,
        Split(copy, fused, (threads, width)),
        Annotate(copy, f"{fused}.1", THREAD),
        Annotate(copy, f"{fused}.2", "vectorize"),
    ]


@dataclass(frozen=True)
class KeepOperand:
    """Leave an operand a stage of its own, where a tiled stage can be fused with it:
    the end of a first layer that the next layer reads. It may be inlined as well."""

    alone = False

    def matches(self, sketch: Sketch, stage: str) -> bool:
        body = sketch.stage(stage)
        return (
            body.reducer is None
            and sketch.is_untouched(stage)
            and any(consumer.scope == "shared" for consumer in sketch.consumers(stage))
            and any(
                nest.stage.reducer is not None
                and sketch.has_data_reuse(nest.name)
                and is_elementwise_match(sketch.dag, nest.stage, body)
                for nest in sketch.plan
            )
        )

    def apply(self, sketch: Sketch, stage: str) -> Iterator[Sketch]:
        yield sketch


@dataclass(frozen=True)
class PlaceBeforeUnrolled:
    """Compute what a stage with unrolled matrices reads once per thread, and do not
    repeat it in every copy (the input tile of Winograd's method)."""

    def matches(self, sketch: Sketch, stage: str) -> bool:
        return (
            AlwaysInline(strictly=False).matches(sketch, stage)
            and any(True for _ in sketch.plan.nest(stage).reads())
            and self._loop(sketch, stage) is not None
        )

    def apply(self, sketch: Sketch, stage: str) -> Iterator[Sketch]:
        (consumer,) = sketch.consumers(stage)
        loop = self._loop(sketch, stage)
        assert loop is not None, "see matches"
        step = ComputeAt(stage, consumer.name, loop)
        return attempt(sketch, f"place {stage} at {consumer.name}.{loop}", [step])

    def _loop(self, sketch: Sketch, stage: str) -> str | None:
        """The loop around the unrolled ones of the only consumer, if it is at the
        root."""
        consumers = sketch.consumers(stage)
        if len(consumers) != 1 or consumers[0].at is not None:
            return None
        (nest,) = consumers
        kinds = [nest.annotations.get(loop) for loop in nest.loops]
        first = kinds.index("unroll") if "unroll" in kinds else 0
        return nest.loops[first - 1] if first else None


@dataclass(frozen=True)
class ConstantThreads(ConstantTensor):
    """Unroll the axes of small constant matrices; the others are left to threads.

    for e n p c: for a b: V[e, n, p, c] += D[a, b, p, c] * M[a, e] * M[b, n]
    ==>  p c | e n a b, all unrolled
    """

    def apply(self, sketch: Sketch, stage: str) -> Iterator[Sketch]:
        constant = sketch.constant_axes(stage)
        body = sketch.stage(stage)
        names = [axis.name for axis in (*body.axes, *body.reduce_axes)]
        outer = [name for name in names if name not in constant]
        inner = [name for name in names if name in constant]
        steps: list[Step] = [Reorder(stage, (*outer, *inner))]
        steps += [Annotate(stage, name, "unroll") for name in inner]
        return attempt(sketch, f"constant-tensor {stage}", steps)
