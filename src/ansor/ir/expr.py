"""Scalar and vector expressions: frozen values, checked on construction.

    expr  = Var | Const | Binary | Call | Select | Cast | Load
          | Ramp | Broadcast | Lanes                  (vectors, after vectorisation)

Every expression has a `dtype` and a number of `lanes` (1 for a scalar). Operands of
one operator have the same dtype and lanes; nothing is converted silently. Integers
wrap around; integer division and modulo round towards minus infinity, and a zero
divisor gives 0. A load outside its buffer is undefined.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

from ansor.errors import IRError
from ansor.ir.dtypes import INDEX, dtype, is_float
from ansor.ir.ops import BINARY, FUNCTIONS


@dataclass(frozen=True, slots=True)
class Buffer:
    """A dense row-major array that loads and stores refer to.

    Scopes: "global" is an argument of the function, "packed" a heap block, "local" a
    small block near the core, "register" is meant to live in registers, "shared"
    belongs to a GPU thread block.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    scope: str = "global"

    def __post_init__(self) -> None:
        dtype(self.dtype)
        if any(extent < 1 for extent in self.shape):
            raise IRError(
                f"buffer {self.name!r}", f"shape {self.shape} has an empty axis"
            )

    @property
    def size(self) -> int:
        """Number of elements."""
        size = 1
        for extent in self.shape:
            size *= extent
        return size

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements to step over for one step along each axis."""
        return _strides(self.shape)

    @property
    def bytes(self) -> int:
        return self.size * dtype(self.dtype).bytes

    def __str__(self) -> str:
        shape = ", ".join(map(str, self.shape))
        return f"{self.name}: {self.dtype}[{shape}] {self.scope}"


@dataclass(frozen=True, slots=True)
class Var:
    """A loop variable. Two of one function with the same name are the same."""

    name: str
    dtype: str = INDEX

    @property
    def lanes(self) -> int:
        return 1

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Const:
    """A literal of one dtype."""

    value: int | float | bool
    dtype: str = INDEX

    @property
    def lanes(self) -> int:
        return 1

    def __str__(self) -> str:
        if self.dtype == INDEX:
            return str(self.value)
        if self.dtype in ("float32", "bool"):
            return str(self.value)
        return f"{self.dtype}({self.value})"


@dataclass(frozen=True, slots=True)
class Binary:
    """`a op b`, with op a row of `ops.BINARY`."""

    op: str
    a: Expr
    b: Expr

    def __post_init__(self) -> None:
        if self.op not in BINARY:
            raise IRError(f"operator {self.op!r}", "unknown")
        if self.a.dtype != self.b.dtype or self.a.lanes != self.b.lanes:
            raise IRError(
                f"{self.a} {BINARY[self.op].symbol} {self.b}",
                f"operands are {_type(self.a)} and {_type(self.b)}",
                "cast or broadcast one of them",
            )

    @property
    def dtype(self) -> str:
        return "bool" if BINARY[self.op].result == "bool" else self.a.dtype

    @property
    def lanes(self) -> int:
        return self.a.lanes

    def __str__(self) -> str:
        row = BINARY[self.op]
        if not row.infix:
            return f"{row.symbol}({self.a}, {self.b})"
        level = PRECEDENCE[row.symbol]
        return f"{_wrap(self.a, level)} {row.symbol} {_wrap(self.b, level + 1)}"


@dataclass(frozen=True, slots=True)
class Call:
    """`function(args)`, with function a row of `ops.FUNCTIONS`."""

    function: str
    args: tuple[Expr, ...]

    def __post_init__(self) -> None:
        row = FUNCTIONS.get(self.function)
        if row is None:
            raise IRError(f"function {self.function!r}", "unknown")
        if len(self.args) != row.arity:
            raise IRError(
                f"{self.function}({', '.join(map(str, self.args))})",
                f"{len(self.args)} arguments, but it takes {row.arity}",
            )
        if row.floats and not is_float(self.args[0].dtype):
            raise IRError(
                f"{self}",
                f"the argument is {self.args[0].dtype}, but it takes floats",
                'cast it first, for example cast(x, "float32")',
            )

    @property
    def dtype(self) -> str:
        return "bool" if self.function == "isnan" else self.args[0].dtype

    @property
    def lanes(self) -> int:
        return self.args[0].lanes

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.args))})"


@dataclass(frozen=True, slots=True)
class Select:
    """`a` where `condition` holds, else `b`; only the chosen side is evaluated."""

    condition: Expr
    a: Expr
    b: Expr

    def __post_init__(self) -> None:
        if self.condition.dtype != "bool":
            raise IRError(
                f"{self}", f"the condition is {self.condition.dtype}, not bool"
            )
        if self.a.dtype != self.b.dtype or self.a.lanes != self.b.lanes:
            raise IRError(f"{self}", f"branches are {_type(self.a)}, {_type(self.b)}")
        if self.condition.lanes not in (1, self.a.lanes):
            raise IRError(f"{self}", f"the condition has {self.condition.lanes} lanes")

    @property
    def dtype(self) -> str:
        return self.a.dtype

    @property
    def lanes(self) -> int:
        return self.a.lanes

    def __str__(self) -> str:
        return f"select({self.condition}, {self.a}, {self.b})"


@dataclass(frozen=True, slots=True)
class Cast:
    """Convert as NumPy's astype does; float to integer truncates."""

    value: Expr
    dtype: str

    def __post_init__(self) -> None:
        dtype(self.dtype)

    @property
    def lanes(self) -> int:
        return self.value.lanes

    def __str__(self) -> str:
        return f"{self.dtype}({self.value})"


@dataclass(frozen=True, slots=True)
class Load:
    """Read `buffer[indices]`. Vector indices read one element per lane.

    `active` counts the leading lanes that are read at all; the others give 0.
    """

    buffer: Buffer
    indices: tuple[Expr, ...]
    active: int | None = None

    def __post_init__(self) -> None:
        check_indices("load", self.buffer, self.indices)

    @property
    def dtype(self) -> str:
        return self.buffer.dtype

    @property
    def lanes(self) -> int:
        for index in self.indices:
            if index.lanes > 1:
                return index.lanes
        return 1

    def __str__(self) -> str:
        mask = "" if self.active is None else f":{self.active}"
        return f"{self.buffer.name}[{', '.join(map(str, self.indices))}]{mask}"


@dataclass(frozen=True, slots=True)
class Ramp:
    """The vector base, base + stride, … with `lanes` elements."""

    base: Expr
    stride: int
    lanes: int

    @property
    def dtype(self) -> str:
        return self.base.dtype

    def __str__(self) -> str:
        step = "" if self.stride == 1 else f" by {self.stride}"
        return f"{_wrap(self.base, 1)} +: {self.lanes}{step}"


@dataclass(frozen=True, slots=True)
class Broadcast:
    """One scalar in every lane."""

    value: Expr
    lanes: int

    @property
    def dtype(self) -> str:
        return self.value.dtype

    def __str__(self) -> str:
        return f"x{self.lanes}({self.value})"


@dataclass(frozen=True, slots=True)
class Lanes:
    """Combine the leading `active` lanes of a vector into one scalar with `op`."""

    op: str
    value: Expr
    active: int

    @property
    def dtype(self) -> str:
        return self.value.dtype

    @property
    def lanes(self) -> int:
        return 1

    def __str__(self) -> str:
        return f"lanes_{self.op}({self.value}:{self.active})"


Expr: TypeAlias = (
    Var | Const | Binary | Call | Select | Cast | Load | Ramp | Broadcast | Lanes
)


@cache
def _strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def check_indices(what: str, buffer: Buffer, indices: tuple[Expr, ...]) -> None:
    """Raise IRError unless `indices` can address `buffer`."""
    if len(indices) != len(buffer.shape):
        raise IRError(
            f"{what} of {buffer.name!r}",
            f"{len(indices)} indices, but its shape {buffer.shape} has "
            f"{len(buffer.shape)} axes",
        )
    for index in indices:
        if index.dtype != INDEX:
            raise IRError(
                f"{what} of {buffer.name!r}",
                f"index {index} is {index.dtype}, not {INDEX}",
            )


def _type(e: Expr) -> str:
    return e.dtype if e.lanes == 1 else f"{e.dtype} x{e.lanes}"


# How tightly the printer binds infix operators; a looser operand gets parentheses.
PRECEDENCE = {
    "*": 6, "/": 6, "//": 6, "%": 6, "+": 5, "-": 5, "<<": 4, ">>": 4,
    "&": 3, "^": 2, "|": 2, "<": 1, "<=": 1, "==": 1, "!=": 1,
}  # fmt: skip


def _wrap(e: Expr, level: int) -> str:
    """An operand, in parentheses where it binds less tightly than `level`."""
    if isinstance(e, Ramp):
        return f"({e})"
    if isinstance(e, Binary) and BINARY[e.op].infix:
        own = PRECEDENCE[BINARY[e.op].symbol]
        return f"({e})" if own < level else str(e)
    return str(e)
