"""Random inputs on which a DAG is well defined, and kernels can be told apart.

Floats lie between -1 and 1, integers take the values of 8 bits, those that address
something only values for which it exists. Where that gives results that nothing can be
compared with (NaN, infinities, unbounded errors), other ranges are tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ansor.ir.affine import Range
from ansor.ir.dtypes import DTYPES, is_float
from ansor.ir.expr import Binary, Buffer, Call, Cast, Expr
from ansor.ir.visit import loads, walk
from ansor.te.approximate import Array
from ansor.te.dag import DAG
from ansor.te.ranges import input_ranges, type_range
from ansor.te.reference import expected

# Functions and operators that turn ordinary values into NaN, infinities or nothing.
RISKY = frozenset(("exp", "log", "log2", "sqrt", "rsqrt", "div", "mod", "pow"))
ROOTS = frozenset(("log", "log2", "sqrt", "rsqrt"))  # defined above 0
SOUND = 0.9  # share of finite elements with a finite tolerance that is enough
TELLING = 0.1  # share of elements that differ from 0 by more than the tolerance


class Manner(NamedTuple):
    """How to draw: bounds of floats, of those below a root, and of integers."""

    floats: tuple[float, float]
    positive: tuple[float, float]
    integers: Range


MANNERS = (
    Manner((-1.0, 1.0), (-1.0, 1.0), (-128, 127)),
    Manner((-1.0, 1.0), (0.5, 1.5), (-128, 127)),  # variances
    Manner((0.1, 2.0), (0.1, 2.0), (1, 4)),
    Manner((0.9, 1.1), (0.9, 1.1), (1, 2)),  # long products
    Manner((-0.1, 0.1), (0.01, 0.1), (0, 1)),
)


class Trial(NamedTuple):
    """Inputs and what they give."""

    inputs: list[Array]
    values: tuple[Array, ...]
    allowed: tuple[Array, ...]


def random_inputs(dag: DAG, rng: np.random.Generator) -> list[Array]:
    """Inputs in the order of `dag.inputs`: dense arrays of their types.

    The same state of the generator gives the same inputs.

    >>> import ansor
    >>> A = ansor.placeholder((10,), name="A")
    >>> N = ansor.placeholder((1000,), "int32", name="N")
    >>> dag = DAG.build([ansor.compute((1000,), lambda i: A[N[i]])])
    >>> a, n = random_inputs(dag, np.random.default_rng(0))
    >>> n.dtype, int(n.min()), int(n.max())
    (dtype('int32'), 0, 9)
    """
    if not _is_risky(dag):
        return _draw(dag, rng, MANNERS[0])
    return random_trial(dag, rng).inputs


def random_trial(dag: DAG, rng: np.random.Generator) -> Trial:
    """The same inputs with what `reference.expected` says of them.

    Choosing inputs may need the results, so this saves computing them twice.
    """
    best: tuple[tuple[float, float], Trial] | None = None
    for manner in MANNERS if _is_risky(dag) else MANNERS[:1]:
        inputs = _draw(dag, rng, manner)
        trial = Trial(inputs, *expected(dag, inputs))
        sound, telling = _quality(trial)
        grade = (min(sound, SOUND), min(telling, TELLING))
        if best is None or grade > best[0]:
            best = grade, trial
        if grade == (SOUND, TELLING):
            break
    assert best is not None
    return best[1]


def _quality(trial: Trial) -> tuple[float, float]:
    """The shares of sound and of telling elements, of the output that has least."""
    sound, telling = [], []
    for value, allowed in zip(trial.values, trial.allowed, strict=True):
        size = np.abs(value.astype(np.float64))
        is_sound = np.isfinite(size) & np.isfinite(allowed)
        tells = size > allowed
        if value.dtype.kind in "biu":
            tells |= allowed == 0
        sound.append(float(is_sound.mean()))
        telling.append(float((is_sound & tells).mean()))
    return min(sound), min(telling)


# -- drawing --------------------------------------------------------------------------


def _draw(dag: DAG, rng: np.random.Generator, manner: Manner) -> list[Array]:
    ranges, roots = input_ranges(dag), _below_roots(dag)
    result = []
    for buffer in dag.inputs:
        if is_float(buffer.dtype):
            chosen = manner.positive if buffer.name in roots else manner.floats
            result.append(_floats(buffer, rng, *chosen))
        else:
            result.append(_integers(buffer, rng, manner.integers, ranges))
    return result


def _floats(buffer: Buffer, rng: np.random.Generator, low: float, high: float) -> Array:
    """Single precision is drawn as such, which is faster."""
    dtype = DTYPES[buffer.dtype].numpy
    if buffer.dtype == "float64":
        return np.asarray(rng.uniform(low, high, buffer.shape))
    array = np.asarray(rng.random(buffer.shape, np.float32))
    array = array * np.float32(high - low) + np.float32(low)
    return np.asarray(array, dtype)


def _integers(
    buffer: Buffer,
    rng: np.random.Generator,
    usual: Range,
    ranges: Mapping[str, Range],
) -> Array:
    least, greatest = type_range(buffer.dtype)
    low, high = ranges.get(buffer.name, usual)
    if least >= 0 and buffer.name not in ranges:
        low, high = 0, high - low  # an unsigned type has as many values
    low, high = max(low, least), min(high, greatest)
    array = rng.integers(low, high, buffer.shape, endpoint=True)
    return np.asarray(array, DTYPES[buffer.dtype].numpy)


# -- what the DAG does ----------------------------------------------------------------


def _nodes(dag: DAG) -> Iterator[Expr]:
    return (node for stage in dag.stages for e in stage.body for node in walk(e))


def _is_risky(dag: DAG) -> bool:
    if any(stage.reducer == "prod" for stage in dag.stages):
        return True
    return any(_name(node) in RISKY or _truncates(node) for node in _nodes(dag))


def _name(node: Expr) -> str:
    """The function or operator of a node that computes floats."""
    if not is_float(node.dtype):
        return ""
    if isinstance(node, Call):
        return node.function
    return node.op if isinstance(node, Binary) else ""


def _truncates(node: Expr) -> bool:
    return (
        isinstance(node, Cast)
        and is_float(node.value.dtype)
        and not is_float(node.dtype)
    )


def _below_roots(dag: DAG) -> frozenset[str]:
    """The inputs that a root, a logarithm, a divisor or the base of a power reads."""
    sources: dict[str, frozenset[str]] = {
        b.name: frozenset((b.name,)) for b in dag.inputs
    }
    found: frozenset[str] = frozenset()
    for stage in dag.stages:
        read = frozenset[str]().union(*(sources[x.buffer.name] for x in stage.loads))
        sources.update((buffer.name, read) for buffer in stage.buffers)
        for expr in stage.body:
            for node in walk(expr):
                below = [x for e in _domain(node) for x in loads(e)]
                found = found.union(*(sources[load.buffer.name] for load in below))
    return found


def _domain(node: Expr) -> Sequence[Expr]:
    """The operands of a node that should be above 0."""
    match node:
        case Call(function, args) if function in ROOTS:
            return args
        case Binary("div" | "mod", _, b):
            return (b,)
        case Binary("pow", a, _):
            return (a,)
        case _:
            return ()
