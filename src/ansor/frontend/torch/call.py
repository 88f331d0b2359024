"""One call of an ATen operator, as converters see it: plain data, no torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ansor.errors import UnsupportedError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.frontend.operators.operator import Type
from ansor.ir.dtypes import DTYPES, is_float

Number = int | float | bool
# Types, devices and memory formats are given by their names ("float32").
Argument = Value | Number | str | None | tuple["Argument", ...]

FLOAT = "float32"  # of Python numbers, and of what functions make of integers


@dataclass(frozen=True)
class Call:
    """An application of an ATen operator whose tensors are converted already.

    `results` are the types that torch infers, None where a result is no tensor.
    """

    op: str  # "aten.add.Tensor"
    name: str
    arguments: Mapping[str, Argument]  # by their names in the schema, with defaults
    results: tuple[Type | None, ...] = field(default=())

    def __str__(self) -> str:
        return f"node {self.name!r} ({self.op})"

    @property
    def dtype(self) -> str:
        """Of the first result."""
        return self._result[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the first result."""
        return self._result[1]

    @property
    def _result(self) -> Type:
        first = self.results[0] if self.results else None
        if first is None:
            raise self.unsupported("its result is not a tensor")
        return first

    def has(self, name: str) -> bool:
        return self.arguments.get(name) is not None

    def value(self, name: str) -> Value:
        """A tensor."""
        found = self.arguments.get(name)
        if not isinstance(found, Value):
            raise self.unsupported(f"argument {name!r} is not a tensor")
        return found

    def maybe(self, name: str) -> Value | None:
        """A tensor that may be left out."""
        return self.value(name) if self.has(name) else None

    def values(self, name: str) -> list[Value]:
        """A list of tensors."""
        found = self.arguments.get(name)
        items = found if isinstance(found, tuple) else ()
        return [x for x in items if isinstance(x, Value)]

    def number(self, name: str) -> Number:
        found = self.arguments.get(name)
        if not isinstance(found, int | float):
            raise self.unsupported(f"argument {name!r} is not a number")
        return found

    def whole(self, name: str) -> int:
        return int(self.number(name))

    def flag(self, name: str) -> bool:
        return bool(self.arguments.get(name))

    def text(self, name: str) -> str:
        found = self.arguments.get(name)
        return found if isinstance(found, str) else ""

    def numbers(self, name: str, count: int | None = None) -> tuple[int, ...]:
        """A list of integers; one stands for `count` equal ones."""
        found = self.arguments.get(name)
        items = found if isinstance(found, tuple) else (found,)
        if found is None:
            items = ()
        whole = [x for x in items if isinstance(x, int)]
        if len(whole) < len(items):
            raise self.unsupported(f"argument {name!r} is not a list of integers")
        return tuple(whole * count if count and len(whole) == 1 else whole)

    def axis(self, name: str, rank: int) -> int:
        """An axis of an array of this rank, from its start."""
        found = self.whole(name)
        return found % rank if rank else 0

    def axes(self, name: str, rank: int) -> tuple[int, ...]:
        """Several; none at all stands for all."""
        found = tuple(sorted({x % rank for x in self.numbers(name)} if rank else ()))
        return found or tuple(range(rank))

    def unsupported(self, reason: str, hint: str = "") -> UnsupportedError:
        return UnsupportedError(str(self), reason, hint)


Results = Value | tuple[Value | None, ...]  # None: a result that is never computed
Converter = Callable[[Call, Builder], Results]


# -- types -----------------------------------------------------------------------------


def cast(build: Builder, x: Value, dtype: str) -> Value:
    """`x` in another type, as torch converts: to bool is whether it is not zero."""
    if x.dtype == dtype:
        return x
    if dtype == "bool":
        return build.add("not_equal", x, scalar(build, 0, x.dtype))
    return build.add("cast", x, dtype=dtype)


def scalar(build: Builder, number: Number, dtype: str) -> Value:
    """A number as an array without axes."""
    with np.errstate(over="ignore"):
        array = np.asarray(number).astype(DTYPES[dtype].numpy)
    return build.constant(array, "number")


def operand(call: Call, build: Builder, name: str, dtype: str) -> Value:
    """An argument that may be a tensor or a number, in this type."""
    found = call.arguments.get(name)
    if isinstance(found, Value):
        return cast(build, found, dtype)
    return scalar(build, call.number(name), dtype)


def promoted(operands: Sequence[Argument]) -> str:
    """The type in which torch computes with these tensors and numbers.

    Tensors without axes and numbers count only where they are of a higher category
    (bool, integer, float) than the other tensors.

    >>> promoted([Value("x", "int8", (4,)), 2.0])
    'float32'
    >>> promoted([Value("x", "float16", (4,)), Value("y", "float64", ())])
    'float16'
    """
    found = ""
    tensors = [x for x in operands if isinstance(x, Value)]
    for group in (
        [x.dtype for x in tensors if x.shape],
        [x.dtype for x in tensors if not x.shape],
        [_of_number(x) for x in operands if isinstance(x, int | float)],
    ):
        for dtype in group[1:]:
            group[0] = wider(group[0], dtype)
        if group:
            found = _combined(found, group[0])
    return found


def _of_number(number: Number) -> str:
    if isinstance(number, bool):
        return "bool"
    return FLOAT if isinstance(number, float) else "int64"


def _combined(higher: str, lower: str) -> str:
    """Of two groups: the lower one counts if its category is higher."""
    if not higher:
        return lower
    if is_float(higher):
        return higher
    return wider(higher, lower) if higher == "bool" or is_float(lower) else higher


def wider(a: str, b: str) -> str:
    """The type that holds both, as torch has it.

    >>> wider("uint8", "int8"), wider("int64", "float16"), wider("float16", "bfloat16")
    ('int16', 'float16', 'float32')
    """
    if a == b:
        return a
    first, second = sorted((a, b), key=_rank)
    if is_float(first) and {first, second} == {"float16", "bfloat16"}:
        return "float32"
    return "int16" if (first, second) == ("uint8", "int8") else second


def _rank(dtype: str) -> int:
    order = ("bool", "uint8", "int8", "int16", "int32", "int64")
    return order.index(dtype) if dtype in order else 8 + DTYPES[dtype].bits


# -- short words for what many converters need -----------------------------------------


def reshaped(build: Builder, x: Value, shape: Sequence[int]) -> Value:
    if x.shape == tuple(shape):
        return x
    return build.add("reshape", x, shape=tuple(shape))


def transposed(build: Builder, x: Value, axes: Sequence[int]) -> Value:
    if list(axes) == list(range(len(x.shape))):
        return x
    return build.add("transpose", x, axes=tuple(axes))


def expanded(build: Builder, x: Value, shape: Sequence[int]) -> Value:
    if x.shape == tuple(shape):
        return x
    return build.add("expand", x, shape=tuple(shape))


def sliced(
    build: Builder, x: Value, axis: int, start: int, stop: int, step: int = 1
) -> Value:
    """Elements `start`, `start + step`, … before `stop` along one axis."""
    if (start, stop, step) == (0, x.shape[axis], 1):
        return x
    rank = len(x.shape)
    starts, stops, steps = [0] * rank, list(x.shape), [1] * rank
    starts[axis], stops[axis], steps[axis] = start, stop, step
    return build.add(
        "slice", x, starts=tuple(starts), stops=tuple(stops), steps=tuple(steps)
    )


def along(build: Builder, x: Value, axis: int, rank: int) -> Value:
    """A vector, so that it broadcasts along one axis of an array of this rank."""
    return reshaped(build, x, [x.size if n == axis else 1 for n in range(rank)])


def filled(build: Builder, number: Number, dtype: str, shape: Sequence[int]) -> Value:
    """A constant whose elements are all equal."""
    with np.errstate(over="ignore"):
        one = np.asarray(number).astype(DTYPES[dtype].numpy)
    return build.constant(np.full(tuple(shape), one), "full")
