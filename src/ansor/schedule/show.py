"""The loop nests of a plan as text, extents in terms of its knobs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import TypeAlias

import numpy as np

from ansor.errors import ScheduleError
from ansor.ir.expr import Var
from ansor.schedule.bounds import Atom, Bounds
from ansor.schedule.knobs import Follow, Knob, Length, Points
from ansor.schedule.plan import FuseRelation, Nest, Plan, SplitRelation

REDUCE_SIGNS = {"sum": "+=", "prod": "*=", "any": "|=", "all": "&="}  # else "max="
Factors: TypeAlias = tuple[str, ...]  # texts to be multiplied, at most one a number
LISTED = 8  # candidates of a knob that are all written out


def show(plan: Plan) -> str:
    """The loops of every nest, outermost first, and what they compute.

    Nests computed inside a loop stand where they run. A knob is `?name`, a loop of
    another stage `stage.loop`; what remains of a split is `ceil(extent / lengths)`.
    An axis of which only a part is computed is given by the loops of its reader that
    span the part, or as `(part of 512)`. Loops that run once are left out unless
    they are annotated.

    >>> import ansor
    >>> from ansor.schedule import Knob, Sketch, Split
    >>> A = ansor.placeholder((31,), name="A")
    >>> B = ansor.compute((31,), lambda i: A[i] * 2.0, name="B")
    >>> sketch = Sketch(ansor.Task(B)).then(Split("B", "i", (Knob("t", (4, 8)),)))
    >>> print(show(sketch.plan))
    B:
      for i.0 in ceil(31 / i.1):
        for i.1 in ?t:
          B[i] = A[i] * 2.0
    """
    printer = _Printer(plan)
    roots = (nest for nest in plan if nest.at is None)
    return "\n".join(line for nest in roots for line in printer.lines(nest))


def show_knobs(knobs: Iterable[Knob]) -> Iterator[str]:
    """A heading and a line for each knob; nothing if there is none."""
    for at, knob in enumerate(knobs):
        if at == 0:
            yield "knobs:"
        yield f"  {knob} in {_candidates(knob.candidates)}"


def _candidates(values: tuple[int, ...]) -> str:
    if len(values) <= LISTED:
        return ", ".join(map(str, values))
    first = ", ".join(map(str, values[:3]))
    return f"{first} … {values[-1]} ({len(values)} values)"


class _Printer:
    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.extents = _Extents(plan)

    def lines(self, nest: Nest) -> Iterator[str]:
        """The nest with everything that runs inside it."""
        yield _header(nest)
        indent = "  "
        for loop in nest.loops:
            if not self.is_left_out(nest, loop):
                yield indent + self.loop(nest, loop)
                indent += "  "
            for where, buffer, distance in nest.prefetches:
                if where == loop:
                    yield f"{indent}prefetch {buffer} for {loop} + {distance}"
            for other in self.plan:
                place = other.at
                if place and (place.stage, place.loop) == (nest.name, loop):
                    yield from (indent + line for line in self.lines(other))
        yield indent + _statement(nest)

    def is_left_out(self, nest: Nest, loop: str) -> bool:
        return self.extents.text(nest, loop) == "1" and loop not in nest.annotations

    def loop(self, nest: Nest, loop: str) -> str:
        notes = [nest.annotations[loop]] if loop in nest.annotations else []
        notes += ["reduce"] if nest.is_reduce(loop) else []
        notes += _tail(nest, loop)
        comment = f"  # {', '.join(notes)}" if notes else ""
        return f"for {loop} in {self.extents.text(nest, loop)}:{comment}"


def _header(nest: Nest) -> str:
    words = []
    if nest.scope != "global" and not nest.ahead:
        words.append(nest.scope)
    if nest.layout is not None:
        words.append(f"[{', '.join(nest.layout)}]")
    if nest.at is not None:
        words.append(f"at {nest.at.stage}.{nest.at.loop}")
    if nest.ahead:
        words.append("ahead of time")
    return f"{nest.name}: {' '.join(words)}".rstrip()


def _statement(nest: Nest) -> str:
    stage = nest.stage
    axes = [axis.name for axis in stage.axes]
    if nest.factored is not None:
        axes.append(nest.factored)
    indices = ", ".join(axes)
    written = ", ".join(f"{buffer.name}[{indices}]" for buffer in stage.buffers)
    reducer = stage.reducer
    sign = "=" if reducer is None else REDUCE_SIGNS.get(reducer, f"{reducer}=")
    return f"{written} {sign} {', '.join(map(str, stage.body))}"


def _tail(nest: Nest, loop: str) -> list[str]:
    """How the blocks of a split end, where that is not the usual way."""
    for split in nest.relations:
        if isinstance(split, SplitRelation) and loop in split.parts[1:]:
            return [f"{split.tail} blocks"] if split.tail != "peel" else []
    return []


class _Extents:
    """Extents as text: numbers where no open knob decides them, else formulas."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        lengths = (
            length
            for nest in plan
            for split in nest.relations
            if isinstance(split, SplitRelation)
            for length in split.lengths
        )
        knobs = (x for x in lengths if isinstance(x, Knob) and len(x.candidates) == 1)
        self.closed = {knob.name: knob.candidates[0] for knob in knobs}
        row = {name: np.array([value]) for name, value in self.closed.items()}
        self.bounds = Bounds(plan, Points(1, row))

    def text(self, nest: Nest, node: str) -> str:
        """The extent of a loop, an axis, or what came between."""
        return "*".join(self.factors(nest, node))

    def factors(self, nest: Nest, node: str) -> Factors:
        try:
            return (str(self.bounds.extent(nest.name, node)[0]),)
        except ScheduleError:  # a knob without a value
            return self.formula(nest, node)

    def formula(self, nest: Nest, node: str) -> Factors:
        for relation in nest.relations:
            if isinstance(relation, SplitRelation) and node in relation.parts:
                return self.part(nest, relation, relation.parts.index(node))
            if isinstance(relation, FuseRelation) and node == relation.fused:
                return _product(*(self.factors(nest, x) for x in relation.parts))
        if node in nest.sizes:
            return (self.length(nest.sizes[node]),)
        return self.region(nest, node)

    def part(self, nest: Nest, split: SplitRelation, at: int) -> Factors:
        if at > 0:
            return (self.length(split.lengths[at - 1]),)
        total = self.factors(nest, split.parent)
        lengths = [self.length(length) for length in split.lengths]
        whole = _quotient(total, _product(lengths))
        if whole is not None:
            return whole
        # Name the loops; those of moved blocks are not as long as was asked for.
        for n, part in enumerate(split.parts[1:]):
            is_loop = part in nest.loops and split.tail == "peel"
            if is_loop and not lengths[n].isdecimal():
                lengths[n] = part
        below = _product(lengths)
        divisor = "*".join(below) if len(below) == 1 else f"({'*'.join(below)})"
        return (f"ceil({'*'.join(total)} / {divisor})",)

    def length(self, length: Length) -> str:
        """A number, `?knob`, or the loop that is followed."""
        found = self.followed(length)
        if isinstance(found, Knob):
            found = self.closed.get(found.name, found)
        return str(found if isinstance(found, int) else length)

    def followed(self, length: Length) -> Length:
        """The length of the loop that a length follows, where it was given."""
        seen: set[Length] = set()
        while isinstance(length, Follow) and length not in seen:
            seen.add(length)
            for split in self.plan.nest(length.stage).relations:
                if isinstance(split, SplitRelation) and split.tail == "peel":
                    inner = dict(zip(split.parts[1:], split.lengths, strict=True))
                    if length.loop in inner:
                        length = inner[length.loop]
                        break
        return length

    def region(self, nest: Nest, axis: str) -> Factors:
        """The part of an axis that is computed each time a nest runs."""
        at = [x.name for x in nest.stage.axes].index(axis)
        written = {buffer.name for buffer in nest.stage.buffers}
        indices = {
            (reader.name, load.indices[at])
            for reader in self.plan.consumers(nest.stage.buffers)
            for load in reader.reads()
            if load.buffer.name in written
        }
        if len(indices) == 1:
            ((reader_name, index),) = indices
            if isinstance(index, Var):
                reader = self.plan.nest(reader_name)
                span = self.span(reader, index.name, self.bounds.fixed_loops(nest))
                if span is not None:
                    return span
        return (f"(part of {nest.stage.axes[at].extent})",)

    def span(
        self, reader: Nest, axis: str, fixed: frozenset[tuple[str, str]]
    ) -> Factors | None:
        """How much of its axis a reader covers while some loops are fixed.

        None if that is not a product of extents.
        """
        digits = _digits(reader, axis)
        if digits is None or not self.bounds.fixed_loops(reader) <= fixed:
            return None
        free = [
            digit
            for digit in digits
            if not self.bounds.atom_loops(Atom(reader.name, digit)) <= fixed
        ]
        if free == digits:
            return self.factors(reader, axis)
        if free != digits[len(digits) - len(free) :]:
            return None
        found = _product(*(self.named(reader, digit) for digit in free))
        return _least(found, self.factors(reader, axis))

    def named(self, nest: Nest, node: str) -> Factors:
        """The extent of a node, seen from another nest."""
        found = self.factors(nest, node)
        is_number = len(found) == 1 and found[0].isdecimal()
        return (
            found if is_number or node not in nest.loops else (f"{nest.name}.{node}",)
        )


def _product(*products: Sequence[str]) -> Factors:
    """All factors, the numbers among them multiplied: `?t*4`, never empty."""
    factors = [factor for product in products for factor in product]
    names = tuple(factor for factor in factors if not factor.isdecimal())
    number = prod(int(factor) for factor in factors if factor.isdecimal())
    return names if names and number == 1 else (*names, str(number))


def _number(factors: Factors) -> int | None:
    is_number = len(factors) == 1 and factors[0].isdecimal()
    return int(factors[0]) if is_number else None


def _least(span: Factors, limit: Factors) -> Factors:
    """A span, no longer than its axis if both are numbers."""
    most, longest = _number(span), _number(limit)
    is_clipped = most is not None and longest is not None and longest < most
    return limit if is_clipped else span


def _quotient(total: Factors, divisor: Factors) -> Factors | None:
    """The quotient rounded up, if both are numbers or the divisor cancels out."""
    a, b = _number(total), _number(divisor)
    if a is not None and b is not None:
        return (str(-(-a // b)),)
    rest = list(_product(total, ("1",)))
    for factor in divisor:
        if factor in rest:
            rest.remove(factor)
        elif factor != "1":
            return None
    return _product(rest)


def _digits(nest: Nest, node: str) -> list[str] | None:
    """The loops or parts of fused loops that a node is made of; None if blocks move."""
    if Bounds.fuse_of(nest, node) is not None:
        return [node]
    split = Bounds.split_of(nest, node)
    if split is None:
        return [node]
    parts = [_digits(nest, part) for part in split.parts]
    if split.tail != "peel" or None in parts:
        return None
    return [digit for part in parts if part is not None for digit in part]
