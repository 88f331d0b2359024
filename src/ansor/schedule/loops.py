"""Steps on the loops of one stage: split, fuse, reorder, annotate, prefetch."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ansor.errors import ScheduleError
from ansor.ir.stmt import THREADS
from ansor.schedule.knobs import Fixed, Follow, Knob, Length
from ansor.schedule.plan import TAILS, FuseRelation, Nest, Plan, SplitRelation

KINDS = ("parallel", "vectorize", "unroll", *THREADS)


@dataclass(frozen=True, slots=True)
class Split:
    """Split one loop into a nest; the outermost extent is what remains, rounded up.

        for i in 31:            for i.0 in 3:            # ceil(31 / 12)
            body(i)     ==>         for i.1 in 12:
                                        body(i.0*12 + i.1)   where i.0*12 + i.1 < 31

    >>> print(Split("C", "i", (12,)))
    split C.i -> [12]

    A length is an integer, a `Knob`, or `Follow` (the extent of another stage's loop).
    `tail` says what happens where lengths do not divide: "peel" cuts the loop into a
    full part and a smaller rest, "equal" evens the blocks out (31 as 11 + 10 + 10),
    "shift" moves the last block inwards and computes the overlap twice.
    Requires: at least one length, all positive; "equal" and "shift" take one length;
    "shift" is for spatial loops of stages without a reduction.
    """

    stage: str
    loop: str
    lengths: tuple[Length, ...]
    tail: str = "peel"

    def __post_init__(self) -> None:
        check_tuple(f"split {self.stage}.{self.loop}", "lengths", self.lengths)

    def apply(self, plan: Plan) -> Plan:
        nest, at = find_loop(self, plan, self.stage, self.loop)
        self._check(nest)
        for length in self.lengths:
            self._check_length(plan, length)
        relation = SplitRelation(self.loop, self.parts, self.lengths, self.tail)
        loops = (*nest.loops[:at], *self.parts, *nest.loops[at + 1 :])
        new = replace(nest, loops=loops, relations=(*nest.relations, relation))
        return move_attached(plan.with_nest(new), self.stage, self.loop, self.parts[-1])

    def _check(self, nest: Nest) -> None:
        if not self.lengths:
            raise ScheduleError(str(self), "no length given", "for example (8,)")
        if self.tail not in TAILS:
            known = ", ".join(TAILS)
            raise ScheduleError(
                str(self), f"unknown tail {self.tail!r}", f"use {known}"
            )
        if self.tail in ("equal", "shift"):
            self._check_moved_blocks(nest)
        if self.loop in nest.annotations:
            kind = nest.annotations[self.loop]
            raise ScheduleError(
                str(self), f"loop {self.loop!r} is {kind}", "split before annotating"
            )

    def _check_length(self, plan: Plan, length: Length) -> None:
        if isinstance(length, Follow):
            find_loop(self, plan, length.stage, length.loop)
        elif isinstance(length, bool) or not isinstance(length, (int, Knob)):
            raise ScheduleError(
                str(self),
                f"length {length!r} is of type {type(length).__name__}",
                "use an int, a Knob or a Follow",
            )
        elif isinstance(length, int) and length < 1:
            raise ScheduleError(
                str(self),
                f"length {length} is less than 1",
                "lengths are the iterations of the inner loops",
            )

    def _check_moved_blocks(self, nest: Nest) -> None:
        axes = {axis.name for axis in (*nest.stage.axes, *nest.stage.reduce_axes)}
        if len(self.lengths) != 1 or self.loop not in axes:
            raise ScheduleError(
                str(self),
                f'tail "{self.tail}" takes one length on an axis of the stage',
                "split the axis with it first, then split its parts",
            )
        if self.tail == "shift" and nest.stage.reducer is not None:
            raise ScheduleError(
                str(self),
                f"stage {nest.name!r} accumulates, and shifted blocks overlap",
                'use tail "peel" or "equal"',
            )

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the loops it makes, outermost first."""
        return tuple(f"{self.loop}.{n}" for n in range(len(self.lengths) + 1))

    @property
    def knobs(self) -> tuple[Knob, ...]:
        return tuple(length for length in self.lengths if isinstance(length, Knob))

    def __str__(self) -> str:
        tail = "" if self.tail == "peel" else f", {self.tail}"
        lengths = ", ".join(map(str, self.lengths))
        return f"split {self.stage}.{self.loop} -> [{lengths}]{tail}"


@dataclass(frozen=True, slots=True)
class Fuse(Fixed):
    """Make one loop of several adjacent ones.

        for i in 4:
            for j in 8:      ==>    for i@j in 32:
                body(i, j)              body(i@j // 8, i@j % 8)

    >>> print(Fuse("C", ("i", "j")))
    fuse C [i, j]

    Requires: at least two loops, adjacent, in this order, all spatial or all reduced.
    """

    stage: str
    loops: tuple[str, ...]

    def __post_init__(self) -> None:
        check_tuple(f"fuse {self.stage}", "loops", self.loops)

    def apply(self, plan: Plan) -> Plan:
        nest = plan.nest(self.stage, self)
        if len(self.loops) < 2:
            raise ScheduleError(
                str(self), f"{len(self.loops)} loop given", "name two or more"
            )
        _, at = find_loop(self, plan, self.stage, self.loops[0])
        for loop in self.loops:
            find_loop(self, plan, self.stage, loop)
        if nest.loops[at : at + len(self.loops)] != self.loops:
            order = ", ".join(nest.loops)
            raise ScheduleError(
                str(self), f"loops are not adjacent in [{order}]", "reorder first"
            )
        if len({nest.is_reduce(loop) for loop in self.loops}) != 1:
            kinds = ("spatial", "reduction")
            mixed = (f"{loop} is {kinds[nest.is_reduce(loop)]}" for loop in self.loops)
            raise ScheduleError(
                str(self), ", ".join(mixed), "fuse loops of one kind only"
            )
        loops = (*nest.loops[:at], self.fused, *nest.loops[at + len(self.loops) :])
        relation = FuseRelation(self.loops, self.fused)
        new = replace(nest, loops=loops, relations=(*nest.relations, relation))
        plan = plan.with_nest(new)
        return move_attached(plan, self.stage, self.loops[-1], self.fused)

    @property
    def fused(self) -> str:
        return "@".join(self.loops)

    def __str__(self) -> str:
        return f"fuse {self.stage} [{', '.join(self.loops)}]"


@dataclass(frozen=True, slots=True)
class Reorder(Fixed):
    """Put the loops of a stage into this order, outermost first.

        for i: for j: for k: body    ==>    for k: for i: for j: body

    >>> print(Reorder("C", ("k", "i", "j")))
    reorder C [k, i, j]

    Requires: every loop of the stage, once.
    """

    stage: str
    loops: tuple[str, ...]

    def __post_init__(self) -> None:
        check_tuple(f"reorder {self.stage}", "loops", self.loops)

    def apply(self, plan: Plan) -> Plan:
        nest = plan.nest(self.stage, self)
        if sorted(self.loops) != sorted(nest.loops):
            order = ", ".join(nest.loops)
            raise ScheduleError(
                str(self), f"stage {self.stage!r} has loops [{order}]", "name each once"
            )
        return plan.with_nest(replace(nest, loops=self.loops))

    def __str__(self) -> str:
        return f"reorder {self.stage} [{', '.join(self.loops)}]"


@dataclass(frozen=True, slots=True)
class Annotate(Fixed):
    """Say how a loop runs: parallel, vectorize, unroll, or bound to a GPU thread index.

        for j in 16: body    ==>    for j in 16: body   # vectorize

    >>> print(Annotate("C", "j", "vectorize"))
    vectorize C.j

    Requires: no annotation yet; "parallel" only on a spatial loop at the root; one
    parallel and one vectorized loop in a stage.
    """

    stage: str
    loop: str
    kind: str

    def apply(self, plan: Plan) -> Plan:
        nest, _ = find_loop(self, plan, self.stage, self.loop)
        if self.kind not in KINDS:
            known = ", ".join(KINDS)
            raise ScheduleError(
                str(self), f"unknown kind {self.kind!r}", f"use {known}"
            )
        if self.loop in nest.annotations:
            kind = nest.annotations[self.loop]
            raise ScheduleError(
                str(self),
                f"loop {self.loop!r} is already {kind}",
                "split it, and annotate the parts",
            )
        if self.kind in ("parallel", "vectorize"):
            self._check_single(nest)
        if self.kind == "parallel":
            self._check_parallel(nest)
        annotations = {**nest.annotations, self.loop: self.kind}
        return plan.with_nest(replace(nest, annotations=annotations))

    def _check_single(self, nest: Nest) -> None:
        for other, kind in nest.annotations.items():
            if kind == self.kind:
                raise ScheduleError(
                    str(self),
                    f"loop {other!r} of {self.stage!r} is already {kind}",
                    "fuse the two first, or annotate one of them",
                )

    def _check_parallel(self, nest: Nest) -> None:
        if nest.is_reduce(self.loop):
            raise ScheduleError(
                str(self),
                f"loop {self.loop!r} accumulates; threads would race",
                "rfactor it first",
            )
        if nest.at is not None:
            raise ScheduleError(
                str(self),
                f"{self.stage!r} is computed inside loop {nest.at.loop!r} of "
                f"{nest.at.stage!r}",
                "run a loop of the stage at the root in parallel",
            )

    def __str__(self) -> str:
        return f"{self.kind} {self.stage}.{self.loop}"


@dataclass(frozen=True, slots=True)
class Prefetch(Fixed):
    """Touch what `distance` later iterations of a loop will read from a buffer.

        for k in 512:            for k in 512:
            … B[k, j] …   ==>        prefetch B[k + 8, j]
                                     … B[k, j] …

    >>> print(Prefetch("C", "k", "B", 8))
    prefetch B in C.k +8

    Requires: the stage reads the buffer; a positive distance.
    """

    stage: str
    loop: str
    buffer: str
    distance: int

    def apply(self, plan: Plan) -> Plan:
        nest, _ = find_loop(self, plan, self.stage, self.loop)
        names = sorted({load.buffer.name for load in nest.reads()})
        if self.buffer not in names:
            raise ScheduleError(
                str(self),
                f"stage {self.stage!r} does not read {self.buffer!r}",
                f"it reads {', '.join(names)}",
            )
        if not isinstance(self.distance, int) or self.distance < 1:
            raise ScheduleError(
                str(self),
                f"distance {self.distance} is not a positive integer",
                "say how many iterations ahead",
            )
        entry = (self.loop, self.buffer, self.distance)
        return plan.with_nest(replace(nest, prefetches=(*nest.prefetches, entry)))

    def __str__(self) -> str:
        return f"prefetch {self.buffer} in {self.stage}.{self.loop} +{self.distance}"


def check_tuple(what: str, field: str, value: object) -> None:
    """Steps are values: their sequences are tuples, never a string or a list."""
    if not isinstance(value, tuple):
        raise ScheduleError(
            what,
            f"{field} {value!r} is of type {type(value).__name__}",
            "pass a tuple, such as (8,) or ('i', 'j')",
        )


def find_loop(step: object, plan: Plan, stage: str, loop: str) -> tuple[Nest, int]:
    """The nest and the position of a loop; an error that lists the loops else."""
    nest = plan.nest(stage, step)
    if loop not in nest.loops:
        raise ScheduleError(
            str(step),
            f"stage {stage!r} has no loop {loop!r}",
            f"loops are {', '.join(nest.loops)}",
        )
    return nest, nest.loops.index(loop)


def move_attached(plan: Plan, stage: str, old: str, new: str) -> Plan:
    """After a loop changed its name, stages computed at it follow."""
    for nest in plan.nests:
        if nest.at is not None and (nest.at.stage, nest.at.loop) == (stage, old):
            plan = plan.with_nest(replace(nest, at=replace(nest.at, loop=new)))
    return plan
