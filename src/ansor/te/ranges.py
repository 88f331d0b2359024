"""Which values integer inputs may take so that what they address exists.

An input that is used in an index (a gather), or as the number of bits of a shift, may
take only some values. They are found from the sum form of the index where it has one,
else by trying ranges until interval arithmetic shows every access inside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ansor.ir.affine import Range, Ranges, interval, linear
from ansor.ir.dtypes import DTYPES, is_float
from ansor.ir.expr import Binary, Buffer, Call, Cast, Const, Expr, Load, Select, Var
from ansor.ir.ops import highest, lowest
from ansor.ir.visit import children, loads, rebuild
from ansor.te.dag import DAG
from ansor.te.stage import LOCATING, Stage

TRIES = 128  # values below and above 0


@dataclass(frozen=True)
class Access:
    """`place` must lie in 0 … extent-1 for every iteration of `stage`."""

    stage: Stage
    place: Expr  # as `_plain` makes it
    extent: int
    guarded: bool  # by a select, which may keep it inside
    inputs: frozenset[str]  # names of the integer inputs it depends on


def input_ranges(dag: DAG) -> dict[str, Range]:
    """By name, the values of every integer input that an index depends on.

    >>> import ansor
    >>> A = ansor.placeholder((10, 4), name="A")
    >>> N = ansor.placeholder((3,), "int32", name="N")
    >>> G = ansor.compute((3, 2), lambda i, j: A[2 * N[i] + j, j], name="G")
    >>> input_ranges(DAG.build([G]))
    {'N': (0, 4)}
    """
    accesses = list(_accesses(dag))
    ranges: dict[str, Range] = {}
    for access in sorted(accesses, key=lambda a: a.guarded):
        for name, found in _first_guess(access, dag).items():
            ranges[name] = _meet(ranges.get(name, found), found)
    for name in _outside(dag, accesses, ranges):
        ranges[name] = _tried(dag, accesses, ranges, name)
    return ranges


def _outside(dag: DAG, accesses: Sequence[Access], ranges: Ranges) -> list[str]:
    """The inputs of accesses that are not known to be inside."""
    known = _bounds(dag, ranges)
    bad = {n for a in accesses if not _is_inside(a, known) for n in a.inputs}
    return sorted(bad)


def _tried(dag: DAG, accesses: Sequence[Access], ranges: Ranges, name: str) -> Range:
    """A range of one input for which its accesses are inside, perhaps of one value."""
    own = [access for access in accesses if name in access.inputs]

    def suits(candidate: Range) -> bool:
        known = _bounds(dag, {**ranges, name: candidate})
        return all(_is_inside(access, known) for access in own)

    low, high = ranges[name]
    while not suits((low, high)) and low < high:
        high = low + (high - low) // 2
    if suits((low, high)):
        return low, high
    (dtype,) = (buffer.dtype for buffer in dag.inputs if buffer.name == name)
    least, most = _meet(type_range(dtype), (-TRIES, TRIES))
    first = next((v for v in range(least, most) if suits((v, v))), low)
    last = first
    while last < most and suits((first, last + 1)):
        last += 1
    return first, last


def type_range(dtype: str) -> Range:
    """The least and the greatest value of an integer type or bool."""
    return int(lowest(dtype)), int(highest(dtype))


def _meet(a: Range, b: Range) -> Range:
    """What both allow; `a` where that is nothing."""
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low <= high else a


# -- what is addressed ----------------------------------------------------------------


def _accesses(dag: DAG) -> Iterator[Access]:
    """The indices and shifts that depend on integer inputs."""
    roots = _roots(dag)
    for stage in dag.stages:
        for expr in stage.body:
            for place, extent, guarded in _places(expr, False):
                inputs = _reached(place, roots)
                if inputs:
                    yield Access(stage, _plain(place), extent, guarded, inputs)


def _places(e: Expr, guarded: bool) -> Iterator[tuple[Expr, int, bool]]:
    if isinstance(e, Load):
        for index, extent in zip(e.indices, e.buffer.shape, strict=True):
            yield index, extent, guarded
    if isinstance(e, Binary) and e.op in ("shl", "shr"):
        yield e.b, DTYPES[e.dtype].bits, guarded
    sides = (e.a, e.b) if isinstance(e, Select) else ()
    for child in children(e):
        yield from _places(child, guarded or any(child is side for side in sides))


def _roots(dag: DAG) -> dict[str, frozenset[str]]:
    """By buffer: the integer inputs its elements depend on."""
    roots = {
        b.name: frozenset((b.name,)) if _is_whole(b) else frozenset()
        for b in dag.inputs
    }
    for stage in dag.stages:
        found = frozenset[str]().union(*(_reached(expr, roots) for expr in stage.body))
        roots.update((buffer.name, found) for buffer in stage.buffers)
    return roots


def _is_whole(buffer: Buffer) -> bool:
    return DTYPES[buffer.dtype].kind in ("int", "uint")


def _reached(e: Expr, roots: Mapping[str, frozenset[str]]) -> frozenset[str]:
    return frozenset[str]().union(*(roots[load.buffer.name] for load in loads(e)))


# -- formulas of integers -------------------------------------------------------------


def _plain(e: Expr) -> Expr:
    """`e` as an index expression: elements are variables @name, casts are gone.

    What is no arithmetic of integers becomes a variable of its type, @int8.
    """
    match e:
        case Var():
            return e
        case Const(value):
            return Const(int(value))
        case Load(buffer) if not is_float(buffer.dtype):
            return Var(f"@{buffer.name}")
        case Cast(value) if not is_float(value.dtype):
            return _plain(value)
        case Select(condition, a, b) if not is_float(e.dtype):
            return Select(_condition(condition), _plain(a), _plain(b))
        case Binary() | Call() if DTYPES[e.dtype].kind in ("int", "uint"):
            return rebuild(e, _plain)
        case _:
            return Var(f"@ {e.dtype}")


def _condition(e: Expr) -> Expr:
    """A comparison of integers as it is, any other as one that may hold or not."""
    if isinstance(e, Binary) and e.op in ("lt", "le") and not is_float(e.a.dtype):
        return rebuild(e, _plain)
    return Binary("lt", Var("@ bool"), Const(1))


def _bounds(dag: DAG, inputs: Ranges) -> dict[str, Range]:
    """What the variables @name can be, given what the inputs can."""
    bounds = {f"@ {name}": type_range(name) for name in DTYPES if not is_float(name)}
    for buffer in dag.inputs:
        if not is_float(buffer.dtype):
            whole = type_range(buffer.dtype)
            bounds[f"@{buffer.name}"] = inputs.get(buffer.name, whole)
    for stage in dag.stages:
        for buffer, body in zip(stage.buffers, stage.body, strict=True):
            if not is_float(buffer.dtype):
                bounds[f"@{buffer.name}"] = _result(stage, body, buffer, bounds)
    return bounds


def _result(stage: Stage, body: Expr, buffer: Buffer, bounds: Ranges) -> Range:
    """What the elements of a stage can be."""
    whole = type_range(buffer.dtype)
    if stage.reducer in LOCATING and buffer is stage.output:
        return 0, prod(axis.extent for axis in stage.reduce_axes) - 1
    low, high = _interval(_plain(body), {**bounds, **_axes(stage)})
    if stage.reducer == "sum":
        many = prod(axis.extent for axis in stage.reduce_axes)
        low, high = many * low, many * high
    fits = whole[0] <= low and high <= whole[1]
    return (low, high) if fits and stage.reducer != "prod" else whole


def _axes(stage: Stage) -> dict[str, Range]:
    every = (*stage.axes, *stage.reduce_axes)
    return {axis.name: (0, axis.extent - 1) for axis in every}


def _is_inside(access: Access, bounds: Ranges) -> bool:
    low, high = _interval(access.place, {**bounds, **_axes(access.stage)})
    return low >= 0 and high < access.extent


def _interval(e: Expr, known: Ranges) -> Range:
    return interval(_decided(e, known), known)


def _decided(e: Expr, known: Ranges) -> Expr:
    """`e` without the selects and absolute values whose outcome is known."""
    e = rebuild(e, lambda x: _decided(x, known))
    if isinstance(e, Select):
        is_true = _truth(e.condition, known)
        return e if is_true is None else (e.a if is_true else e.b)
    if isinstance(e, Call) and e.function == "abs":
        low, high = interval(e.args[0], known)
        if low >= 0 or high <= 0:
            return e.args[0] if low >= 0 else Call("neg", e.args)
    return e


def _truth(e: Expr, known: Ranges) -> bool | None:
    """Whether a comparison holds, where the intervals of its sides say so."""
    if not isinstance(e, Binary) or e.op not in ("lt", "le"):
        return None
    low, high = interval(Binary("sub", e.b, e.a), known)
    least = 1 if e.op == "lt" else 0
    return True if low >= least else (False if high < least else None)


# -- a first guess --------------------------------------------------------------------


def _first_guess(access: Access, dag: DAG) -> dict[str, Range]:
    """Ranges that suit one access if it is a sum of inputs and axes."""
    types = {b.name: type_range(b.dtype) for b in dag.inputs if _is_whole(b)}
    guess = {n: _meet(types[n], (0, access.extent - 1)) for n in access.inputs}
    form, axes = linear(access.place), _axes(access.stage)
    own = {f"@{name}": name for name in access.inputs}
    terms = {own[str(a)]: c for a, c in form.terms.items() if str(a) in own}
    rest = {atom: c for atom, c in form.terms.items() if str(atom) not in own}
    if not terms or any(str(atom) not in axes for atom in rest):
        return guess
    form.terms = rest
    low, high = form.interval(axes)
    room = access.extent - 1 - (high - low)
    if room < 0:
        return guess
    shares = _shares(list(terms.values()), -low, room)
    for (name, _), share in zip(terms.items(), shares, strict=True):
        guess[name] = _meet(types[name], share)
    return guess


def _shares(factors: Sequence[int], start: int, room: int) -> list[Range]:
    """Ranges of v with start <= Σ factor·v <= start + room; the first one shifts."""
    each, result = room // len(factors), []
    for c in factors:
        first, last = start, start + each
        low, high = (first, last) if c > 0 else (-last, -first)
        size = abs(c)
        result.append((-(-low // size), max(-(-low // size), high // size)))
        start = 0
    return result
