"""The arithmetic of a statement's body: which operations, and how often each runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from ansor.ir.dtypes import is_float
from ansor.ir.expr import Binary, Call, Cast, Expr, Load, Select
from ansor.ir.visit import children, variables, walk
from ansor.schedule.plan import Nest

FMA, ADD, MUL, DIV = "fma", "add", "mul", "div"
COMPARE, SELECT, FUNCTION, INTEGER = "compare", "select", "function", "integer"
KINDS = (FMA, ADD, MUL, DIV, COMPARE, SELECT, FUNCTION, INTEGER)

# What an operation takes, in multiply-adds of the same width.
SLOTS = {
    "div": 9, "floordiv": 10, "mod": 12, "pow": 45,
    "exp": 22, "log": 18, "log2": 18, "sqrt": 12, "rsqrt": 20, "tanh": 22,
    "sigmoid": 24, "erf": 26, "sin": 24, "cos": 24,
}  # fmt: skip
CHEAP = 1.0
# Instructions for a load that may lie in a padding: where loops are cut at its borders,
# and where it is every second element.
BORDER, PERIODIC = 1.0, 20.0
INTEGER_SLOTS = 0.4  # they have units of their own


@dataclass(frozen=True)
class Term:
    """One operation of the body: its kind, its cost, and what changes its value."""

    kind: str
    slots: float
    flops: int
    levels: frozenset[int]  # of the loops that change its value


@dataclass(frozen=True)
class Work:
    """All distinct operations of a body."""

    terms: tuple[Term, ...]
    guard: float = 0  # instructions for a load that may lie in a padding
    # Levels of the loops that decide whether a load of a buffer lies in a padding.
    guarded: dict[str, frozenset[int]] = field(default_factory=dict)

    def count(self, kind: str) -> int:
        """Operations of a kind that each innermost iteration has."""
        return self.counts[kind]

    @cached_property
    def counts(self) -> Counter[str]:
        return Counter(term.kind for term in self.terms)

    @cached_property
    def by_levels(self) -> dict[frozenset[int], float]:
        """Slots of the operations that the same loops change."""
        found: dict[frozenset[int], float] = {}
        for term in self.terms:
            found[term.levels] = found.get(term.levels, 0) + term.slots
        return {levels: slots for levels, slots in found.items() if slots}

    @cached_property
    def flops(self) -> int:
        return sum(term.flops for term in self.terms)


def work(nest: Nest, own: int) -> Work:
    """The operations of a nest whose loops begin at level `own` of its stack.

    Equal expressions are computed once. What no inner loop changes is computed outside
    it. A sum of products is one multiply-add for each.
    """
    distinct = dict.fromkeys(node for expr in nest.stage.body for node in _values(expr))
    fused = set(_fused(nest, list(distinct)))
    free = {x for node in distinct for x in _borders(node)}
    terms = []
    for node in distinct:
        kind = _kind(node)
        if kind and node not in fused:
            is_fma = kind == ADD and any(x in fused for x in children(node))
            name = FMA if is_fma else kind
            flops = 2 if is_fma else 1
            slots = 0 if node in free else _slots(node)
            terms.append(Term(name, slots, flops, _levels(nest, own, node)))
    every = any(_is_periodic(node) for node in distinct)
    guard = PERIODIC if every else BORDER if free else 0
    guarded = _guarded(nest, own, list(distinct))
    return Work((*terms, *_combined(nest, own, fused)), guard, guarded)


def _guarded(nest: Nest, own: int, nodes: list[Expr]) -> dict[str, frozenset[int]]:
    found: dict[str, frozenset[int]] = {}
    for node in nodes:
        if isinstance(node, Select) and any(_borders(node)):
            levels = _levels(nest, own, node.condition)
            for load in (x for x in walk(node) if isinstance(x, Load)):
                name = load.buffer.name
                found[name] = found.get(name, frozenset()) | levels
    return found


def _values(expr: Expr) -> Iterator[Expr]:
    """The nodes that compute values; not those that compute where to load from."""
    yield expr
    if not isinstance(expr, Load):
        for child in children(expr):
            yield from _values(child)


def _borders(node: Expr) -> Iterator[Expr]:
    """A choice that depends on the position only, with its condition: loops are cut
    where it changes, so it costs nothing inside them. Not so every second element."""
    if isinstance(node, Select):
        tests = list(_values(node.condition))
        if not any(isinstance(x, Load) or _is_periodic(x) for x in tests):
            yield node
            yield from tests


def _is_periodic(node: Expr) -> bool:
    is_test = isinstance(node, Binary) and node.op in ("mod", "floordiv")
    return is_test and not is_float(node.dtype)


def _fused(nest: Nest, nodes: list[Expr]) -> Iterator[Expr]:
    """Products that only an addition uses."""
    if nest.stage.reducer == "sum":
        yield from (x for x in nest.stage.body if _is_float_product(x))
    for node in nodes:
        if isinstance(node, Binary) and node.op in ("add", "sub"):
            products = [x for x in (node.a, node.b) if _is_float_product(x)]
            yield from products[:1]


def _is_float_product(expr: Expr) -> bool:
    return isinstance(expr, Binary) and expr.op == "mul" and is_float(expr.dtype)


def _combined(nest: Nest, own: int, fused: set[Expr]) -> Iterator[Term]:
    """How a reduction combines its values."""
    reducer = nest.stage.combiner
    if reducer is None:
        return
    level = frozenset(range(own, own + len(nest.loops)))
    if nest.stage.reducer == "sum":
        for expr in nest.stage.body:
            is_fma = expr in fused
            yield Term(FMA if is_fma else ADD, CHEAP, 2 if is_fma else 1, level)
    else:
        kind = {"add": ADD, "mul": MUL}.get(reducer.op, COMPARE)
        cost = CHEAP * (1 if len(nest.stage.body) == 1 else 4)  # with positions
        yield Term(kind, cost, 1, level)


def _kind(node: Expr) -> str:
    """The row of KINDS that a node counts in; empty if it costs nothing."""
    match node:
        case Binary(op, a):
            if not is_float(a.dtype):
                return INTEGER
            arithmetic = {
                "add": ADD,
                "sub": ADD,
                "mul": MUL,
                "div": DIV,
                "pow": FUNCTION,
            }
            return arithmetic.get(op, COMPARE)
        case Call(function):
            return ADD if function in ("neg", "abs", "not") else FUNCTION
        case Select():
            return SELECT
        case Cast(value, dtype):
            return INTEGER if value.dtype != dtype else ""
        case _:
            return ""


def _slots(node: Expr) -> float:
    match node:
        case Binary(_, a) if not is_float(a.dtype):
            return INTEGER_SLOTS
        case Binary(op):
            return SLOTS.get(op, CHEAP)
        case Call(function):
            return SLOTS.get(function, CHEAP)
        case _:
            return CHEAP


def _levels(nest: Nest, own: int, node: Expr) -> frozenset[int]:
    used = variables(node)
    return frozenset(
        own + at for at, loop in enumerate(nest.loops) if nest.axis_of(loop) & used
    )
