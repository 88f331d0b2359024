"""From a task to its sketches: rules applied stage by stage, siblings by likelihood."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from typing import NamedTuple

from ansor.errors import ScheduleError
from ansor.space.constraints import Constraint, check_meant, restricted
from ansor.space.gpu import (
    ConstantThreads,
    KeepOperand,
    LocalResults,
    PlaceBeforeUnrolled,
    ReadShared,
    TileThreads,
)
from ansor.space.pack import PackOperands
from ansor.space.place import ComputeLocation, Loops, Parallel
from ansor.space.rules import (
    AddCacheWrite,
    AddRFactor,
    AlwaysInline,
    ConstantTensor,
    InTurn,
    Rule,
    Tile,
    TileFused,
    stands_alone,
)
from ansor.space.sketch import Sketch
from ansor.space.threads import BindThreads, CrossThread
from ansor.te.task import Task

MOST = 64  # sketches of one task
STEPS = 1600  # and steps of all of them together, about
LOOKED = 1024  # sketches on which constraints are tried

# Rules are asked in this order. Each phase visits every stage, consumers first.
Phases = tuple[tuple[Rule, ...], ...]
CPU: Phases = (
    (
        AlwaysInline(),
        ConstantTensor(),
        AddRFactor(),
        AddCacheWrite(),
        TileFused(),
        Tile(),
    ),
    (PackOperands(),),
    (InTurn((ComputeLocation(), Loops())),),
    (Parallel(),),
)
CUDA: Phases = (
    (
        PlaceBeforeUnrolled(),
        KeepOperand(),
        AlwaysInline(strictly=False),
        ConstantThreads(),
        CrossThread(),
        LocalResults(),
        InTurn((TileThreads(), ReadShared())),
    ),
    (BindThreads(),),
)
LAST = 1 << 10  # beyond any phase: nothing is left to ask
PHASES: dict[str, Phases] = {"cpu": CPU, "cuda": CUDA}


class _Node(NamedTuple):
    """A sketch in the making, and where the questions about it stand."""

    sketch: Sketch
    phase: int = 0
    done: frozenset[str] = frozenset()  # stages asked about in this phase


class _Choice(NamedTuple):
    """Sketches still to be made; those with fewer unusual choices come first, and of
    these what is nearly finished."""

    unusual: int
    left: int  # questions, as far as known
    number: int
    usual: int  # so many more are as usual as the first
    more: Iterator[_Node]


def derive(task: Task, rules: Sequence[Rule] = ()) -> Iterator[Sketch]:
    """The sketches of a task, those with the fewest unusual choices first. Lazy:
    nothing is applied before its turn."""
    start = _Node(Sketch(task))
    phases = PHASES[task.target.kind]
    phases = ((*rules, *phases[0]), *phases[1:])
    number = count()
    heap = [_Choice(0, 0, next(number), 1, iter((start,)))]
    while heap:
        choice = heapq.heappop(heap)
        node = next(choice.more, None)
        if node is None:
            continue
        heapq.heappush(heap, _rest(choice, next(number)))
        node, stage = _next_question(node, len(phases))
        if stage is None:
            yield node.sketch
            continue
        left = _questions_left(node, len(phases))
        for rule, more in _answers(node, stage, phases[node.phase]):
            cost = choice.unusual + getattr(rule, "unusual", 0)
            usual = getattr(rule, "usual", 1)
            heapq.heappush(heap, _Choice(cost, left, next(number), usual, more))


def _rest(choice: _Choice, number: int) -> _Choice:
    """What remains after one sketch was taken."""
    last = choice.usual == 1  # of the usual ones; all later ones count alike
    return choice._replace(
        unusual=choice.unusual + last, usual=choice.usual - 1, number=number
    )


def _next_question(node: _Node, phases: int) -> tuple[_Node, str | None]:
    """The next stage to ask about: consumers come before producers."""
    while node.phase < phases:
        for nest in reversed(node.sketch.plan.nests):
            if nest.name not in node.done:
                return node, nest.name
        node = _Node(node.sketch, node.phase + 1)
    return node, None


def _questions_left(node: _Node, phases: int) -> int:
    stages = len(node.sketch.plan.nests)
    return (phases - node.phase) * stages - len(node.done)


def _answers(
    node: _Node, stage: str, rules: tuple[Rule, ...]
) -> Iterator[tuple[Rule | None, Iterator[_Node]]]:
    """What each rule would make of one stage; the sketch as it is unless a rule that
    stands alone applies."""
    done = node.done | {stage}
    for rule in rules:
        if not rule.matches(node.sketch, stage):
            continue
        phase = LAST if getattr(rule, "finishes", False) else node.phase
        yield (
            rule,
            (
                _Node(_named(made, node.sketch, rule, stage), phase, done)
                for made in rule.apply(node.sketch, stage)
            ),
        )
        if stands_alone(rule, node.sketch, stage):
            return
    yield None, iter((node._replace(done=done),))


def sketches(
    task: Task,
    rules: Sequence[Rule] = (),
    constraints: Iterable[Constraint] = (),
    most: int | None = None,
) -> list[Sketch]:
    """The search space of a task: its structures, with knobs.

    `rules` of your own are asked before the built-in ones; `constraints` restrict the
    space. At most `most` sketches, those with the fewest unusual choices first; if it
    is not given, 64, or fewer where they are long. Raises ScheduleError if none is
    left.

    >>> import ansor
    >>> A, B = ansor.placeholder((64, 64)), ansor.placeholder((64, 64))
    >>> found = sketches(ansor.Task(ansor.ops.matmul(A, B, name="C")))
    >>> found[0].trace[0]
    'tile C along j'
    """
    given = tuple(constraints)
    seen: list[Sketch] = []
    kept: list[Sketch] = []
    long = 0
    limit = MOST if most is None else most
    for sketch in islice(derive(task, rules), max(LOOKED, limit)):
        if len(kept) >= limit:
            break
        if most is None and long >= STEPS:
            break
        seen.append(sketch)
        new = restricted(sketch, given)
        if new is not None:
            kept.append(new)
            long += len(new.steps)
    check_meant(given, seen)
    if not kept and most != 0:
        raise _nothing_left(task, given)
    return kept


def _nothing_left(task: Task, constraints: tuple[Constraint, ...]) -> ScheduleError:
    what = f"sketches of {', '.join(buffer.name for buffer in task.dag.outputs)}"
    if not constraints:
        return ScheduleError(
            what,
            "the rules make none",
            "a rule that matches a stage yields at least one sketch",
        )
    names = ", ".join(map(str, constraints))
    return ScheduleError(
        what,
        f"none is left under {names}",
        "relax a constraint; print(sketch) shows the knobs and their candidates",
    )


def _named(made: Sketch, before: Sketch, rule: Rule, stage: str) -> Sketch:
    """A rule that says nothing about itself is called after its class."""
    if not isinstance(made, Sketch):
        raise ScheduleError(
            f"rule {type(rule).__name__} for {stage!r}",
            f"it yields {made!r} of type {type(made).__name__}, not a sketch",
            "yield sketch.then(*steps), or sketch.by(name, *steps)",
        )
    if isinstance(rule, Parallel):  # not a choice
        return made
    if made.trace != before.trace or made.steps == before.steps:
        return made
    return made.traced((*before.trace, f"{type(rule).__name__} {stage}"))
