"""Random steps, drawn against the plan that the steps before them made."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from ansor.errors import ScheduleError
from ansor.schedule import (
    Annotate,
    CacheRead,
    CacheWrite,
    ComputeAt,
    ComputeRoot,
    Follow,
    Fuse,
    Inline,
    Knob,
    LayoutRewrite,
    Pack,
    Points,
    Prefetch,
    Program,
    Reorder,
    RFactor,
    Sketch,
    Split,
    Step,
)
from ansor.schedule.bounds import Bounds
from ansor.schedule.plan import Nest, Plan
from ansor.te.task import Task

LENGTHS = (1, 2, 3, 4, 5, 7, 8, 13, 16, 31)
WORK = 20_000  # iterations of one nest, those that guards skip included
COPIES = 48  # of a statement, by unrolling and in vectors


@dataclass
class Stepper:
    """A program in the making; steps that do not apply are dropped."""

    r: Random
    task: Task
    steps: tuple[Step, ...] = ()
    point: tuple[int, ...] = ()
    plan: Plan = field(init=False)

    def __post_init__(self) -> None:
        self.plan = Plan.of(self.task.dag)

    def program(self) -> Program:
        for _ in range(self.r.choice((1, 2, 3, 4, 6, 8, 10, 0))):
            self.r.choice(DRAWS)(self)
        return Program(Sketch(self.task, self.steps), self.point)

    def take(self, step: Step, value: int | None = None) -> bool:
        """Add a step if it is legal and its loops stay small."""
        point = self.point if value is None else (*self.point, value)
        steps = (*self.steps, step)
        try:
            plan = Sketch(self.task, steps).plan
            is_small = _is_small(plan, _bounds(plan, steps, point))
        except ScheduleError:
            return False
        if is_small:
            self.plan, self.steps, self.point = plan, steps, point
        return is_small

    # -- single steps ------------------------------------------------------------

    def nest(self) -> Nest:
        return self.r.choice(self.plan.nests)

    def loop(self, nest: Nest) -> str | None:
        return self.r.choice(nest.loops) if nest.loops else None

    def extent(self, nest: Nest, loop: str) -> int:
        bounds = _bounds(self.plan, self.steps, self.point)
        return int(bounds.extent(nest.name, loop)[0])

    def split(self) -> None:
        nest = self.nest()
        loop = self.loop(nest)
        if loop is None:
            return
        tail = self.r.choice(("peel", "peel", "peel", "equal", "shift"))
        lengths = tuple(self.r.choice(LENGTHS) for _ in range(self.r.choice((1, 1, 2))))
        if self.r.random() < 0.15:
            knob = Knob(f"t{len(self.point)}", LENGTHS)
            self.take(Split(nest.name, loop, (knob,), tail), lengths[0])
            return
        self.take(Split(nest.name, loop, lengths, tail))

    def fuse(self) -> None:
        nest = self.nest()
        count = self.r.choice((2, 2, 3))
        if len(nest.loops) >= count:
            at = self.r.randrange(len(nest.loops) - count + 1)
            self.take(Fuse(nest.name, nest.loops[at : at + count]))

    def reorder(self) -> None:
        nest = self.nest()
        self.take(Reorder(nest.name, tuple(self.r.sample(nest.loops, len(nest.loops)))))

    def annotate(self) -> None:
        nest = self.nest()
        kind = self.r.choice(("parallel", "vectorize", "vectorize", "unroll"))
        if nest.loops:
            loop = self.r.choice((nest.loops[-1], self.r.choice(nest.loops)))
            loop = nest.loops[0] if kind == "parallel" else loop
            self.annotated(nest, loop, kind)

    def annotated(self, nest: Nest, loop: str, kind: str) -> None:
        if kind == "parallel" or self.copies(nest, loop) <= COPIES:
            self.take(Annotate(nest.name, loop, kind))

    def copies(self, nest: Nest, loop: str) -> int:
        """How often the innermost statement would be written with this loop, too."""
        count = self.extent(nest, loop)
        for other, kind in nest.annotations.items():
            count *= self.extent(nest, other) if kind in ("vectorize", "unroll") else 1
        return count

    def compute_at(self) -> None:
        nest = self.nest()
        readers = self.plan.consumers(nest.stage.buffers)
        if readers:
            consumer = self.r.choice((self.r.choice(readers), self.nest()))
            loop = self.loop(consumer)
            if loop is not None:
                self.take(ComputeAt(nest.name, consumer.name, loop))

    def compute_root(self) -> None:
        self.take(ComputeRoot(self.nest().name))

    def inline(self) -> None:
        plain = [nest for nest in self.plan if nest.stage.reducer is None]
        if plain:
            self.take(Inline(self.r.choice(plain).name))

    def tensor_of(self, nest: Nest) -> str | None:
        names = sorted({load.buffer.name for load in nest.reads()})
        return self.r.choice(names) if names else None

    def cache_read(self) -> None:
        nest = self.nest()
        tensor = self.tensor_of(nest)
        if tensor is not None:
            step = CacheRead(tensor, nest.name, self.r.choice(("local", "packed")))
            if self.take(step) and self.r.random() < 0.6:
                loop = self.loop(self.plan.nest(nest.name))
                if loop is not None:
                    self.take(ComputeAt(step.copy, nest.name, loop))

    def cache_write(self) -> None:
        untouched = [nest for nest in self.plan if nest.is_fresh]
        if not untouched:
            return
        nest, scope = self.r.choice(untouched), self.r.choice(("local", "packed"))
        if self.take(CacheWrite(nest.name, scope)) and self.r.random() < 0.6:
            loop = self.loop(self.plan.nest(nest.name))
            if loop is not None:
                self.take(ComputeAt(f"{nest.name}.{scope}", nest.name, loop))

    def pack(self) -> None:
        nest = self.nest()
        tensor = self.tensor_of(nest)
        if tensor is not None:
            loop = self.loop(nest) if self.r.random() < 0.7 else None
            self.take(Pack(tensor, nest.name, loop))

    def layout(self) -> None:
        for nest in self.plan.nests:
            for tensor in sorted({load.buffer.name for load in nest.reads()}):
                if tensor in self.plan.dag.constants and self.r.random() < 0.7:
                    self.take(LayoutRewrite(tensor, nest.name))

    def rfactor(self) -> None:
        reduced = [nest for nest in self.plan.nests if nest.stage.reduce_axes]
        if not reduced:
            return
        nest = self.r.choice(reduced)
        axis = self.r.choice(nest.stage.reduce_axes).name
        split = Split(nest.name, axis, (self.r.choice(LENGTHS),))
        self.take(split)
        nest = self.plan.nest(nest.name)
        loops = [loop for loop in nest.loops if nest.is_reduce(loop)]
        if loops:
            self.take(RFactor(nest.name, self.r.choice(loops)))

    def prefetch(self) -> None:
        nest = self.nest()
        tensor, loop = self.tensor_of(nest), self.loop(nest)
        if tensor is not None and loop is not None:
            self.take(Prefetch(nest.name, loop, tensor, self.r.choice((1, 2, 8))))

    # -- the shape of fast programs ----------------------------------------------

    def tile(self) -> None:
        """Split the axes, outer parts first, inner parts in registers."""
        nest = self.nest()
        inner: dict[str, str] = {}
        for axis in (*nest.stage.axes, *nest.stage.reduce_axes):
            if axis.name in self.plan.nest(nest.name).loops and self.r.random() < 0.7:
                split = Split(nest.name, axis.name, (self.r.choice((2, 3, 4, 8)),))
                if self.take(split):
                    inner[axis.name] = split.parts[-1]
        nest = self.plan.nest(nest.name)
        last = [loop for loop in nest.loops if loop in inner.values()]
        last.sort(key=lambda loop: not nest.is_reduce(loop))
        first = [loop for loop in nest.loops if loop not in last]
        self.take(Reorder(nest.name, (*first, *last)))
        for at, loop in enumerate(reversed(last)):
            kind = "vectorize" if at == 0 else "unroll"
            if self.r.random() < 0.85:
                self.annotated(self.plan.nest(nest.name), loop, kind)
        if first and self.r.random() < 0.4:
            self.annotated(self.plan.nest(nest.name), first[0], "parallel")
        if first and self.r.random() < 0.4:
            tensor = self.tensor_of(nest)
            if tensor is not None:
                self.take(Pack(tensor, nest.name, self.r.choice(first)))

    def follow(self) -> None:
        """Split a producer by the extent of a loop elsewhere."""
        nest, other = self.nest(), self.nest()
        loop, length = self.loop(nest), self.loop(other)
        if nest.name != other.name and loop is not None and length is not None:
            self.take(Split(nest.name, loop, (Follow(other.name, length),)))


DRAWS: tuple[Callable[[Stepper], None], ...] = (
    *(Stepper.split,) * 4,
    *(Stepper.fuse,) * 2,
    *(Stepper.reorder,) * 3,
    *(Stepper.annotate,) * 5,
    *(Stepper.compute_at,) * 5,
    Stepper.compute_root,
    *(Stepper.inline,) * 4,
    *(Stepper.cache_read,) * 2,
    *(Stepper.cache_write,) * 2,
    *(Stepper.pack,) * 2,
    Stepper.layout,
    *(Stepper.rfactor,) * 2,
    Stepper.prefetch,
    Stepper.follow,
    *(Stepper.tile,) * 4,
)


def _bounds(plan: Plan, steps: tuple[Step, ...], point: tuple[int, ...]) -> Bounds:
    knobs = {knob.name: knob for step in steps for knob in step.knobs}
    return Bounds(plan, Points.of(tuple(knobs.values()), [list(point)]))


def _is_small(plan: Plan, bounds: Bounds) -> bool:
    return all(work <= WORK for work in _works(plan, bounds))


def _works(plan: Plan, bounds: Bounds) -> Iterator[int]:
    """Iterations of each nest, with those of the loops it is computed in."""
    for nest in plan:
        count = 1
        around = {(nest.name, loop) for loop in nest.loops}
        for stage, loop in around | bounds.fixed_loops(nest):
            count *= int(bounds.extent(stage, loop)[0])
        yield count
