"""Rules that let threads share a stage as it is: its results, or its reductions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ansor.schedule.knobs import Follow, Length
from ansor.schedule.plan import Nest
from ansor.schedule.steps import Annotate, ComputeAt, Fuse, Split, Step
from ansor.space import lengths
from ansor.space.place import Parallel
from ansor.space.rules import attempt, copies
from ansor.space.sketch import Sketch
from ansor.target.gpus import Gpu
from ansor.te.analysis import num_common_outer_axes

BLOCK, THREAD = "blockIdx.x", "threadIdx.x"


def gpu_of(sketch: Sketch) -> Gpu:
    """The limits of the target."""
    gpu = sketch.task.target.gpu
    assert gpu is not None, "these rules are for GPUs"
    return gpu


def thread_counts(gpu: Gpu, extent: int) -> tuple[int, ...]:
    """Threads of a block that share `extent` iterations: powers of two from a warp on.

    >>> thread_counts(Gpu("sm_90", 132, 0), 100)
    (32, 64, 128)
    """
    counts = (gpu.warp << n for n in range(gpu.max_threads.bit_length()))
    most = min(gpu.max_threads, 2 * extent - 1)
    return tuple(n for n in counts if n <= most) or (gpu.warp,)


def fused_loop(stage: str, loops: tuple[str, ...], steps: list[Step]) -> str:
    """The name of the one loop that several become."""
    if len(loops) == 1:
        return loops[0]
    fuse = Fuse(stage, loops)
    steps.append(fuse)
    return fuse.fused


@dataclass(frozen=True)
class CrossThread:
    """Let the threads of a block share a long reduction of few results.

        for i: for k: S[i] += A[i, k]    ==>    i # blockIdx.x | k.0 | k.1 # threadIdx.x

    Where one stage needs all the results, and shares its outer axes with them, they are
    computed inside it, by the threads that run it:

        D:  i # blockIdx.x
          S:  k.0 | k.1 # threadIdx.x
          j.0 | j.1 # threadIdx.x: D[i, j] = A[i, j] / S[i]
    """

    alone = False

    def matches(self, sketch: Sketch, stage: str) -> bool:
        body = sketch.stage(stage)
        if body.reducer is None or not sketch.plan.nest(stage).is_fresh:
            return False
        if any(copies(consumer, stage) for consumer in sketch.consumers(stage)):
            return False
        gpu = gpu_of(sketch)
        space, reduced = prod(body.shape), prod(a.extent for a in body.reduce_axes)
        if sketch.has_data_reuse(stage):
            return space <= gpu.max_threads and space < reduced
        return reduced > gpu.warp

    def apply(self, sketch: Sketch, stage: str) -> Iterator[Sketch]:
        body = sketch.stage(stage)
        steps: list[Step] = []
        fused = fused_loop(stage, tuple(axis.name for axis in body.reduce_axes), steps)
        extent = prod(axis.extent for axis in body.reduce_axes)
        counts = thread_counts(gpu_of(sketch), extent)
        threads = lengths.length(stage, f"{fused}.1", counts)
        found = False
        for made in self._inside(sketch, stage, fused, threads, steps):
            found = True
            yield made
        if not found:
            steps += _across(stage, fused, threads)
            yield sketch.by(f"cross-thread {stage}", *steps)

    def _inside(
        self, sketch: Sketch, stage: str, fused: str, threads: Length, steps: list[Step]
    ) -> Iterator[Sketch]:
        """The reduction inside the loops of the stage that needs it."""
        target = _host(sketch, stage)
        common = 0
        if target is not None:
            common = num_common_outer_axes(
                sketch.dag, sketch.stage(stage), target.stage
            )
        if target is None or common == 0:
            return
        bound = [x for x, kind in target.annotations.items() if kind == THREAD]
        loops = target.loops
        if bound:
            threads = Follow(target.name, bound[0])
        steps = [*steps, *_across(stage, fused, threads)]
        if not bound:
            last = loops[-1]
            steps += _across(target.name, last, Follow(stage, f"{fused}.1"))
            loops = (*loops[:-1], f"{last}.0")
        steps.append(ComputeAt(stage, target.name, loops[common - 1]))
        yield from attempt(sketch, f"cross-thread {stage} in {target.name}", steps)


def _across(stage: str, loop: str, threads: Length) -> list[Step]:
    """Split a loop among threads."""
    return [Split(stage, loop, (threads,)), Annotate(stage, f"{loop}.1", THREAD)]


def _host(sketch: Sketch, stage: str) -> Nest | None:
    """The stage at the root inside which all readers of a stage run, if threads can
    share its loops: they do already, or nothing was decided about it."""
    roots = {_root(sketch, consumer) for consumer in sketch.consumers(stage)}
    if len(roots) != 1:
        return None
    nest = sketch.plan.nest(roots.pop())
    if nest.stage.reducer is not None:
        return None
    kinds = set(nest.annotations.values())
    shared = THREAD in kinds and BLOCK not in kinds
    return nest if shared or sketch.is_untouched(nest.name) else None


def _root(sketch: Sketch, nest: Nest) -> str:
    name = nest.name
    for place in sketch.plan.inside(nest):
        name = place.stage
    return name


@dataclass(frozen=True)
class BindThreads(Parallel):
    """Spread the results of a stage at the root over blocks and threads.

        for i: for j: D[i, j] = …    ==>    i@j.0 # blockIdx.x | i@j.1 # threadIdx.x

    Where threads share a reduction already, every block has a result of its own.
    """

    def matches(self, sketch: Sketch, stage: str) -> bool:
        nest = sketch.plan.nest(stage)
        return (
            nest.at is None
            and BLOCK not in nest.annotations.values()
            and bool(self._loops(sketch, stage))
        )

    def apply(self, sketch: Sketch, stage: str) -> Iterator[Sketch]:
        nest = sketch.plan.nest(stage)
        loops = self._loops(sketch, stage)
        steps: list[Step] = []
        fused = fused_loop(stage, loops, steps)
        gpu = gpu_of(sketch)
        extent = prod(a.extent for a in nest.stage.axes if a.name in loops)
        if THREAD in nest.annotations.values():
            steps.append(Annotate(stage, fused, BLOCK))
        elif extent <= gpu.warp:
            steps.append(Annotate(stage, fused, THREAD))
        else:
            counts = thread_counts(gpu, extent)
            threads = lengths.length(stage, f"{fused}.1", counts)
            steps += _across(stage, fused, threads)
            steps.append(Annotate(stage, f"{fused}.0", BLOCK))
        yield sketch.then(*steps)

    def _loops(self, sketch: Sketch, stage: str) -> tuple[str, ...]:
        return sketch.free_loops(stage)
