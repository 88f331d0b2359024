"""Tensors: inputs and computed arrays, described element by element."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

from ansor.errors import ExpressionError
from ansor.ir.affine import linear
from ansor.ir.dtypes import DTYPES, INDEX
from ansor.ir.expr import Buffer, Const, Expr, Load, Select
from ansor.ir.visit import DEEPEST, children, depth, walk
from ansor.te.reduction import Reduction, as_extent, check_name
from ansor.te.value import IndexVar, Scalar, Value, as_index, wrap

Body = Callable[..., Scalar]


@dataclass(frozen=True, slots=True)
class Operation:
    """How a tensor is computed: the body of one element, over axes and reduce axes."""

    axes: tuple[IndexVar, ...]
    reduce_axes: tuple[IndexVar, ...]
    body: tuple[Expr, ...]
    reducer: str | None


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Tensor(Buffer):
    """An input or a computed array; what `placeholder` and `compute` return.

    Tensors are compared by identity: two of the same name are two tensors. `A[i, j]`
    is one element, for use inside `compute`; an index may be a number, an axis, a
    formula of axes or an element of another integer tensor (a gather).

    >>> import ansor
    >>> A = ansor.placeholder((2, 3), dtype="int8", name="A")
    >>> A.shape, A.dtype, A.name, A.ndim
    ((2, 3), 'int8', 'A', 2)
    """

    operation: Operation | None = None  # None: an input
    constant: bool = False

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def is_input(self) -> bool:
        return self.operation is None

    def __repr__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"<tensor {self.name}: {self.dtype}[{shape}]>"

    def __len__(self) -> int:
        raise ExpressionError(f"len({self.name})", "undefined", "use .shape or .ndim")

    def __iter__(self) -> Iterator[Value]:
        raise ExpressionError(
            f"iteration over {self.name!r}", "its elements exist only in a kernel"
        )

    def _refuse_operator(self, other: object) -> NoReturn:
        raise ExpressionError(
            f"arithmetic on tensor {self.name!r}",
            "operators work on elements",
            f"write it inside compute, {self.name}[i] + 1, or use ansor.ops.add",
        )

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = _refuse_operator
    __truediv__ = __rtruediv__ = __matmul__ = __rmatmul__ = _refuse_operator

    def __getitem__(self, indices: Scalar | tuple[Scalar, ...]) -> Value:
        given = indices if isinstance(indices, tuple) else (indices,)
        text = f"{self.name}[{', '.join(map(str, given))}]"
        if len(given) != self.ndim:
            raise ExpressionError(
                text,
                f"{len(given)} indices, but shape {self.shape} has {self.ndim} axes",
            )
        return Value(
            Load(self, tuple(self._index(text, d, x) for d, x in enumerate(given)))
        )

    def _index(self, text: str, dim: int, index: Scalar) -> Expr:
        if isinstance(index, slice):
            raise ExpressionError(
                text, "slices are not elements", "use ansor.ops.slice"
            )
        expr = as_index(index, f"{text}: index")
        if isinstance(expr, Const) and not 0 <= expr.value < self.shape[dim]:
            raise ExpressionError(
                text, f"index {expr.value} of axis {dim} is outside 0 to "
                f"{self.shape[dim] - 1}"
            )  # fmt: skip
        return expr


def placeholder(
    shape: int | Sequence[int],
    dtype: str = "float32",
    name: str | None = None,
    constant: bool = False,
) -> Tensor:
    """An input. `constant` ones keep their values over many calls, like weights:
    their layout may be rewritten ahead of time.

    >>> import ansor
    >>> ansor.placeholder((512, 512), name="A")
    <tensor A: float32[512, 512]>
    """
    what = _what("placeholder", name)
    if not isinstance(dtype, str) or dtype not in DTYPES:
        known = ", ".join(DTYPES)
        raise ExpressionError(what, f"unknown dtype {dtype!r}", f"use one of {known}")
    extents = as_shape(what, shape)
    return Tensor(name or "input", extents, dtype, constant=bool(constant))


def compute(
    shape: int | Sequence[int],
    function: Body,
    name: str | None = None,
    *,
    axes: Sequence[str] | None = None,
) -> Tensor:
    """A tensor whose element at `i, j, …` is `function(i, j, …)`.

    The parameters' names become the names of the axes, unless `axes` gives others.
    The function is called once, with axes, and returns a formula, a number or a
    reduction such as `ansor.sum(…, axis=k)`, whose type the tensor gets.

    >>> import ansor
    >>> A = ansor.placeholder((512, 512), name="A")
    >>> ansor.compute((512, 512), lambda i, j: ansor.maximum(A[j, i], 0), name="B")
    <tensor B: float32[512, 512]>
    """
    what = _what("compute", name)
    extents = as_shape(what, shape)
    vars = _make_axes(what, function, extents, axes)
    result = function(*map(Value, vars))
    if isinstance(result, Reduction):
        operation = Operation(vars, result.axes, result.body, result.reducer)
    else:
        operation = Operation(vars, (), (wrap(result, f"{what}: result").expr,), None)
    _check_depth(what, operation)
    _check_scope(what, operation)
    _check_bounds(what, operation)
    dtype = operation.body[-1].dtype
    return Tensor(name or "compute", extents, dtype, operation=operation)


def as_shape(what: str, shape: object) -> tuple[int, ...]:
    """Positive ints; one int stands for a shape of one axis."""
    if hasattr(shape, "__index__"):
        shape = (shape,)
    if not isinstance(shape, (tuple, list)):
        raise ExpressionError(what, f"shape {shape!r} is not a tuple of integers")
    return tuple(as_extent(f"{what}: shape {tuple(shape)}", extent) for extent in shape)


def _what(kind: str, name: str | None) -> str:
    if name is None:
        return kind
    check_name(kind, name)
    return f"{kind} {name!r}"


def _make_axes(
    what: str, function: Body, shape: tuple[int, ...], given: Sequence[str] | None
) -> tuple[IndexVar, ...]:
    if not callable(function):
        raise ExpressionError(what, f"{function!r} is not a function of the axes")
    names = _axis_names(what, function, len(shape)) if given is None else list(given)
    for name in names:
        check_name(f"{what}: axis", name)
    if len(names) != len(shape):
        raise ExpressionError(
            what, f"{len(names)} axes are named, but the shape has {len(shape)}"
        )
    return tuple(IndexVar(n, INDEX, e) for n, e in zip(names, shape, strict=True))


def _axis_names(what: str, function: Body, rank: int) -> list[str]:
    parameters = inspect.signature(function).parameters.values()
    names: list[str] = []
    for p in parameters:
        if p.kind == p.VAR_POSITIONAL:
            return names + [f"{p.name}{d}" for d in range(rank - len(names))]
        if p.kind == p.KEYWORD_ONLY or (
            p.default is not p.empty and len(names) >= rank
        ):
            continue
        names.append(p.name)
    if len(names) != rank:
        raise ExpressionError(
            what, f"the function takes {len(names)} axes, but the shape has {rank}"
        )
    return names


def _check_depth(what: str, op: Operation) -> None:
    levels = max(map(depth, op.body))
    if levels > DEEPEST:
        raise ExpressionError(
            what,
            f"the formula has {levels} levels of operands, more than {DEEPEST}",
            "make two computes of it",
        )


def _check_scope(what: str, op: Operation) -> None:
    own = {*op.axes, *op.reduce_axes}
    for expr in op.body:
        for node in walk(expr):
            if isinstance(node, IndexVar) and node not in own:
                raise ExpressionError(what, *_foreign(node))
    names = [axis.name for axis in (*op.axes, *op.reduce_axes) if axis.named]
    for name in names:
        if names.count(name) > 1:
            raise ExpressionError(
                what, f"two axes are called {name!r}", "rename one of them"
            )


def _foreign(axis: IndexVar) -> tuple[str, str]:
    if axis.reduce:
        return (
            f"reduce axis {axis.name!r} is used outside its reduction",
            f"wrap the formula: ansor.sum(…, axis={axis.name})",
        )
    return (f"axis {axis.name!r} belongs to another compute", "use this one's axes")


def _check_bounds(what: str, op: Operation) -> None:
    """Refuse loads that certainly leave their tensor; `select` sides may."""
    for expr in op.body:
        for load in _unguarded(expr):
            for dim, index in enumerate(load.indices):
                _check_index(what, load, dim, index)


def _check_index(what: str, load: Load, dim: int, index: Expr) -> None:
    form = linear(index)
    if not all(isinstance(atom, IndexVar) for atom in form.terms):
        return
    low = high = form.const
    for axis, c in form.terms.items():
        assert isinstance(axis, IndexVar)
        low, high = (
            low + min(0, c * (axis.extent - 1)),
            high + max(0, c * (axis.extent - 1)),
        )
    if low < 0 or high >= load.buffer.shape[dim]:
        raise ExpressionError(
            f"{what}: {load}",
            f"index {index} of axis {dim} runs from {low} to {high}, outside 0 to "
            f"{load.buffer.shape[dim] - 1}",
            "guard it: ansor.select(condition, element, 0)",
        )


def _unguarded(expr: Expr) -> Iterator[Load]:
    """Loads that happen for every element."""
    if isinstance(expr, Load):
        yield expr
    below = (expr.condition,) if isinstance(expr, Select) else children(expr)
    for child in below:
        yield from _unguarded(child)
