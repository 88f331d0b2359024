"""Loop statements: what a program becomes before it becomes machine code.

    stmt     = For | Store | If | Seq | Allocate | Prefetch
    function = Function(name, parameters, body)

Loops run from 0 to a constant extent; shapes are static, so tails are loops of their
own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ansor.errors import IRError
from ansor.ir.expr import Buffer, Expr, Var, check_indices

KINDS = ("serial", "parallel", "vectorize", "unroll", "thread")
THREADS = ("blockIdx.x", "blockIdx.y", "blockIdx.z", "vthread",
           "threadIdx.x", "threadIdx.y", "threadIdx.z")  # fmt: skip


@dataclass(frozen=True, slots=True)
class For:
    """Run `body` for var = 0 … extent-1.

    "parallel" iterations are independent; "vectorize" and "unroll" are promises that
    later passes turn into vectors and copies; "thread" binds to a GPU index (`thread`).
    `reduce` marks a loop whose iterations combine into the same elements.
    """

    var: Var
    extent: int
    body: Stmt
    kind: str = "serial"
    reduce: bool = False
    thread: str = ""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise IRError(f"loop {self.var}", f"unknown kind {self.kind!r}")
        if self.extent < 1:
            raise IRError(f"loop {self.var}", f"extent {self.extent} is less than 1")


@dataclass(frozen=True, slots=True)
class Store:
    """`buffer[indices] = value`; only the leading `active` lanes where given."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    value: Expr
    active: int | None = None

    def __post_init__(self) -> None:
        check_indices("store", self.buffer, self.indices)
        if self.value.dtype != self.buffer.dtype:
            raise IRError(
                f"store to {self.buffer.name!r}",
                f"the value is {self.value.dtype}, the buffer {self.buffer.dtype}",
            )


@dataclass(frozen=True, slots=True)
class If:
    """Run `then` where the condition holds, else `otherwise` (may be empty)."""

    condition: Expr
    then: Stmt
    otherwise: Stmt | None = None

    def __post_init__(self) -> None:
        if self.condition.dtype != "bool":
            raise IRError(f"if {self.condition}", "the condition is not bool")


@dataclass(frozen=True, slots=True)
class Seq:
    """Statements one after another; empty means nothing happens."""

    stmts: tuple[Stmt, ...]


@dataclass(frozen=True, slots=True)
class Allocate:
    """`buffer` exists, uninitialised, while `body` runs."""

    buffer: Buffer
    body: Stmt


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Bring `buffer[indices]` closer; may point outside the buffer."""

    buffer: Buffer
    indices: tuple[Expr, ...]
    write: bool = False


Stmt: TypeAlias = For | Store | If | Seq | Allocate | Prefetch


@dataclass(frozen=True, slots=True)
class Function:
    """A loop program over its parameters; the last `outputs` of them are written."""

    name: str
    parameters: tuple[Buffer, ...]
    body: Stmt
    outputs: int = 1

    def __str__(self) -> str:
        from ansor.ir.printer import print_function

        return print_function(self)
