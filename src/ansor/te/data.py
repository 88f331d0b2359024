"""DAGs as plain data, and back.

    {"version": 1,
     "inputs": [{"name": name, "shape": [extent, …], "dtype": dtype,
                 "constant": flag}, …],
     "stages": [{"name": name, "axes": [[name, extent], …],
                 "reduce_axes": [[name, extent], …], "reducer": reducer | null,
                 "body": expr}, …],
     "outputs": [name, …]}

    expr = name                               an axis
         | integer                            an int64 constant
         | ["const", dtype, value]            "inf", "-inf" and "nan" are texts
         | ["cast", dtype, expr] | ["load", name, expr, …]
         | ["select", expr, expr, expr]
         | [operator, expr, expr]             a row of ir.ops.BINARY
         | [function, expr]                   a row of ir.ops.FUNCTIONS

Of argmax and argmin the body is the compared value; the position follows from the
axes. Reading trusts nothing: whatever the data, the result is a DAG that could have
been written in the tensor language, or an ExpressionError that says why there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ansor.errors import ExpressionError, IRError
from ansor.ir.dtypes import DTYPES, INDEX, is_float
from ansor.ir.expr import Binary, Call, Cast, Const, Expr, Load, Select, Var
from ansor.ir.ops import BINARY, FUNCTIONS, REDUCERS
from ansor.ir.visit import DEEPEST
from ansor.reading import Data, Reader, brief
from ansor.te import reduction
from ansor.te.dag import DAG
from ansor.te.reduction import check_name
from ansor.te.stage import LOCATING, Axis, Stage
from ansor.te.tensor import Tensor, compute, placeholder
from ansor.te.value import Value, constant

VERSION = 1
MAX_TENSORS = 2_000  # inputs, and stages
MAX_RANK = 64
MAX_EXTENT = 1 << 40
MAX_POINTS = 1 << 48  # of a tensor, and of what a stage runs over
MAX_NODES = 200_000  # of all bodies together
MAX_NAME = 4_096  # characters

DAG_FIELDS = ("version", "inputs", "stages", "outputs")
INPUT_FIELDS = ("name", "shape", "dtype", "constant")
STAGE_FIELDS = ("name", "axes", "reduce_axes", "reducer", "body")

_NUMBERS = ("float", "int", "uint")
_INTEGERS = ("int", "uint")
_BITS = ("int", "uint", "bool")
_ALL = (*_NUMBERS, "bool")

# The kinds of operands that the language lets an operator or a function have.
OPERANDS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("add", "sub", "mul", "mod", "min", "max"), _NUMBERS),
    **dict.fromkeys(("div", "pow"), ("float",)),
    **dict.fromkeys(("floordiv", "shl", "shr"), _INTEGERS),
    **dict.fromkeys(("and", "or", "xor"), _BITS),
    **dict.fromkeys(("lt", "le", "eq", "ne"), _ALL),
    **{name: ("float",) if row.floats else _NUMBERS for name, row in FUNCTIONS.items()},
    "not": _BITS,
}

_TEXTS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_read = Reader(ExpressionError)


def dag_to_data(dag: DAG) -> Data:
    """A DAG as numbers, texts, lists and dictionaries: ready for JSON.

    >>> import ansor
    >>> A = ansor.placeholder((4,), name="A")
    >>> B = ansor.compute((4,), lambda i: A[i] * 2.0, name="B")
    >>> dag_to_data(ansor.DAG.build([B]))["stages"][0]["body"]
    ['mul', ['load', 'A', 'i'], ['const', 'float32', 2.0]]
    """
    return {
        "version": VERSION,
        "inputs": [
            {
                "name": buffer.name,
                "shape": list(buffer.shape),
                "dtype": buffer.dtype,
                "constant": buffer.name in dag.constants,
            }
            for buffer in dag.inputs
        ],
        "stages": [_stage_data(stage) for stage in dag.stages],
        "outputs": [buffer.name for buffer in dag.outputs],
    }


def dag_from_data(data: object) -> DAG:
    """The DAG that `dag_to_data` was given, with its names.

    Raises ExpressionError, and nothing else, for data that is malformed, larger than
    the limits of this module, or describes nothing that can be computed.

    >>> import ansor
    >>> A = ansor.placeholder((4,), name="A")
    >>> dag = ansor.DAG.build([ansor.compute((4,), lambda i: A[i] * 2.0, name="B")])
    >>> dag_from_data(dag_to_data(dag)) == dag
    True
    """
    what = "DAG data"
    try:
        return _dag(what, data)
    except RecursionError as error:
        raise ExpressionError(
            what, "its formulas nest too deep here", "read it from a shallower call"
        ) from error


# -- writing --------------------------------------------------------------------------


def _stage_data(stage: Stage) -> Data:
    return {
        "name": stage.name,
        "axes": _axes_data(stage.axes),
        "reduce_axes": _axes_data(stage.reduce_axes),
        "reducer": stage.reducer,
        "body": _expr_data(stage.body[0]),
    }


def _axes_data(axes: Sequence[Axis]) -> list[object]:
    return [[axis.name, axis.extent] for axis in axes]


def _expr_data(e: Expr) -> object:
    match e:
        case Var(name):
            return name
        case Const(value, dtype):
            return _const_data(value, dtype)
        case Binary(op, a, b):
            return [op, _expr_data(a), _expr_data(b)]
        case Call(function, args):
            return [function, *map(_expr_data, args)]
        case Select(condition, a, b):
            return ["select", *map(_expr_data, (condition, a, b))]
        case Cast(value, dtype):
            return ["cast", dtype, _expr_data(value)]
        case Load(buffer, indices):
            return ["load", buffer.name, *map(_expr_data, indices)]
        case _:
            raise AssertionError(f"{type(e).__name__} cannot occur in a stage")


def _const_data(value: int | float | bool, dtype: str) -> object:
    if dtype == INDEX:
        return int(value)
    if isinstance(value, float) and not math.isfinite(value):
        return ["const", dtype, str(value)]
    return ["const", dtype, value]


# -- reading --------------------------------------------------------------------------


def _dag(what: str, data: object) -> DAG:
    found = _read.versioned(what, data, VERSION, DAG_FIELDS)
    tensors: dict[str, Tensor] = {}
    for n, entry in enumerate(_tensors(what, found, "inputs")):
        tensor = _input(f"{what}, inputs[{n}]", entry, tensors)
        tensors[tensor.name] = tensor
    inputs = list(tensors.values())
    nodes = _Budget(MAX_NODES)
    for n, entry in enumerate(_tensors(what, found, "stages")):
        tensor = _stage(f"{what}, stages[{n}]", entry, tensors, nodes)
        tensors[tensor.name] = tensor
    outputs = []
    for n, entry in enumerate(_tensors(what, found, "outputs")):
        outputs.append(_known(f"{what}, outputs[{n}]", entry, tensors))
    dag = DAG.build(outputs, inputs)
    _check_order(what, dag, list(tensors)[len(inputs) :])
    return dag


def _tensors(what: str, data: Data, name: str) -> list[object]:
    return _read.list(f"{what}, {name}", data[name], MAX_TENSORS)


def _check_order(what: str, dag: DAG, names: Sequence[str]) -> None:
    """The stages are those that the outputs need, in the order of the language."""
    order = [stage.name for stage in dag.stages]
    spare = [name for name in names if name not in set(order)]
    if spare:
        raise ExpressionError(
            f"{what}, stages", f"no output needs {spare[0]!r}", "leave it out"
        )
    for name, wanted in zip(names, order, strict=True):
        if name != wanted:
            raise ExpressionError(
                f"{what}, stages",
                f"{name!r} stands where {wanted!r} belongs",
                "order them depth first from the outputs",
            )


def _input(what: str, data: object, taken: Mapping[str, object]) -> Tensor:
    found = _read.fields(what, data, INPUT_FIELDS)
    name = _new_name(f"{what}, name", found["name"], taken)
    entries = _read.list(f"{what}, shape", found["shape"], MAX_RANK)
    shape = [_extent(f"{what}, shape[{n}]", x) for n, x in enumerate(entries)]
    _check_points(what, shape)
    dtype = _dtype(f"{what}, dtype", found["dtype"])
    constant = _read.flag(f"{what}, constant", found["constant"])
    return placeholder(shape, dtype, name, constant)


def _new_name(what: str, data: object, taken: Mapping[str, object]) -> str:
    name = _read.text(what, data, MAX_NAME)
    check_name(what, name)
    if name in taken:
        raise ExpressionError(what, f"{brief(name)} is taken", "rename one of the two")
    return name


def _extent(what: str, data: object) -> int:
    return _read.integer(what, data, 1, MAX_EXTENT)


def _check_points(what: str, extents: Sequence[int]) -> None:
    if math.prod(extents) > MAX_POINTS:
        raise ExpressionError(what, f"more than {MAX_POINTS} elements or iterations")


def _dtype(what: str, data: object) -> str:
    name = _read.text(what, data)
    if name not in DTYPES:
        known = ", ".join(DTYPES)
        raise ExpressionError(
            what, f"unknown dtype {brief(name)}", f"use one of {known}"
        )
    return name


def _known(what: str, data: object, tensors: Mapping[str, Tensor]) -> Tensor:
    name = _read.text(what, data, MAX_NAME)
    if name not in tensors:
        raise ExpressionError(
            what, f"no tensor {brief(name)} so far", "producers come first"
        )
    return tensors[name]


def _stage(
    what: str, data: object, tensors: Mapping[str, Tensor], nodes: _Budget
) -> Tensor:
    found = _read.fields(what, data, STAGE_FIELDS)
    name = _new_name(f"{what}, name", found["name"], tensors)
    what = f"{what} ({brief(name)[1:-1]})"
    spatial = _axes(f"{what}, axes", found["axes"])
    reduce = _axes(f"{what}, reduce_axes", found["reduce_axes"])
    shape = [axis.extent for axis in spatial]
    _check_points(what, [axis.extent for axis in (*spatial, *reduce)])
    reducer = _reducer(f"{what}, reducer", found["reducer"], reduce)

    def element(*variables: Value) -> Value:
        over = [reduction.reduce_axis(axis.extent, axis.name) for axis in reduce]
        names = [axis.name for axis in (*spatial, *reduce)]
        axes = dict(zip(names, (*variables, *over), strict=True))
        body = _Body(tensors, axes, nodes)
        value = Value(body.read(f"{what}, body", found["body"], 1))
        return value if reducer is None else reducer(value, over)

    return compute(shape, element, name, axes=[axis.name for axis in spatial])


def _axes(what: str, data: object) -> list[Axis]:
    result = []
    for n, entry in enumerate(_read.list(what, data, MAX_RANK)):
        pair = _read.list(f"{what}[{n}]", entry, 2)
        if len(pair) != 2:
            raise ExpressionError(
                f"{what}[{n}]", f"{len(pair)} entries", "an axis is [name, extent]"
            )
        name = _read.text(f"{what}[{n}], name", pair[0], MAX_NAME)
        check_name(f"{what}[{n}]", name)
        result.append(Axis(name, _extent(f"{what}[{n}], extent", pair[1])))
    return result


_Reduce = Callable[[Value, list[reduction.ReduceAxis]], Value]


def _reducer(what: str, data: object, axes: Sequence[Axis]) -> _Reduce | None:
    """What makes the reduction; None for a stage without one."""
    if data is None:
        if axes:
            raise ExpressionError(what, "there is none, but there are reduce axes")
        return None
    name = _read.text(what, data)
    if name not in REDUCERS and name not in LOCATING:
        known = ", ".join((*REDUCERS, *LOCATING))
        raise ExpressionError(
            what, f"unknown reducer {brief(name)}", f"use one of {known}"
        )
    make: _Reduce = getattr(reduction, name)
    return make


class _Budget:
    """How many nodes may still be read."""

    def __init__(self, left: int) -> None:
        self.left = left

    def spend(self, what: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise ExpressionError(
                what, f"all formulas together have more than {MAX_NODES} operands"
            )


@dataclass(frozen=True, slots=True)
class _Body:
    """Reads the formulas of one stage."""

    tensors: Mapping[str, Tensor]
    axes: Mapping[str, Value]
    nodes: _Budget

    def read(self, what: str, data: object, level: int) -> Expr:
        self.nodes.spend(what)
        if level > DEEPEST:
            raise ExpressionError(
                what, f"the formula has more than {DEEPEST} levels of operands"
            )
        if isinstance(data, str):
            return self._axis(what, data)
        if isinstance(data, int):
            return _constant(what, INDEX, data)
        entries = _read.list(what, data, MAX_RANK + 2)
        if not entries:
            raise ExpressionError(what, "an empty list is no formula")
        try:
            return self._node(what, entries, level)
        except IRError as error:
            raise ExpressionError(what, *error.args[1:]) from error

    def _axis(self, what: str, name: str) -> Expr:
        if name not in self.axes:
            known = ", ".join(self.axes) or "none"
            raise ExpressionError(what, f"no axis {brief(name)}", f"axes are {known}")
        return self.axes[name].expr

    def _node(self, what: str, entries: list[object], level: int) -> Expr:
        head = _read.text(f"{what}[0]", entries[0])
        taken, count = _SHAPES.get(head, (0, None))
        if head not in _SHAPES:
            known = ", ".join(_SHAPES)
            raise ExpressionError(
                what, f"unknown head {brief(head)}", f"use one of {known}"
            )
        if len(entries) <= taken or count not in (None, len(entries) - 1 - taken):
            raise ExpressionError(what, f"{head!r} with {len(entries) - 1} operands")
        if head == "const":
            dtype = _dtype(f"{what}[1]", entries[1])
            return _constant(f"{what}[2]", dtype, entries[2])
        operands = [
            self.read(f"{what}[{n}]", entries[n], level + 1)
            for n in range(1 + taken, len(entries))
        ]
        return self._made(what, head, entries, operands)

    def _made(
        self, what: str, head: str, entries: list[object], operands: list[Expr]
    ) -> Expr:
        if head == "load":
            tensor = _known(f"{what}[1]", entries[1], self.tensors)
            return tensor[tuple(map(Value, operands))].expr
        if head == "cast":
            return Cast(operands[0], _dtype(f"{what}[1]", entries[1]))
        if head == "select":
            return Select(*operands)
        kind = DTYPES[operands[0].dtype].kind
        if kind not in OPERANDS[head]:
            raise ExpressionError(
                what,
                f"{head!r} of {operands[0].dtype}",
                f"its operands are {', '.join(OPERANDS[head])}",
            )
        return Binary(head, *operands) if head in BINARY else Call(head, (*operands,))


# By head: entries before the operands, and how many operands follow (None: any).
_SHAPES: dict[str, tuple[int, int | None]] = {
    "const": (1, 1),
    "cast": (1, 1),
    "load": (1, None),
    "select": (0, 3),
    **dict.fromkeys(BINARY, (0, 2)),
    **{name: (0, row.arity) for name, row in FUNCTIONS.items()},
}


def _constant(what: str, dtype: str, data: object) -> Const:
    if dtype == "bool":
        return Const(_read.flag(what, data), dtype)
    if not is_float(dtype):
        return constant(_read.integer(what, data, -(1 << 63), (1 << 63) - 1), dtype)
    if isinstance(data, str) and data in _TEXTS:
        return Const(_TEXTS[data], dtype)
    if not isinstance(data, float) or not math.isfinite(data):
        raise ExpressionError(
            what,
            f"{brief(data)} is not a finite float",
            f"others are the texts {', '.join(_TEXTS)}",
        )
    return constant(data, dtype)
