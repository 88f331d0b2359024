"""One tensor computation as a plain value: what schedules transform."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ansor.ir.expr import Buffer, Expr, Load, Var
from ansor.ir.ops import REDUCERS, Reducer
from ansor.ir.visit import loads

LOCATING = {"argmax": "max", "argmin": "min"}  # tuple reductions and what they compare


@dataclass(frozen=True, slots=True)
class Axis:
    """One iteration axis: var = 0 … extent-1."""

    name: str
    extent: int

    @property
    def var(self) -> Var:
        return Var(self.name)


@dataclass(frozen=True)
class Stage:
    """Write `buffers[n][axes] = body[n]`, combined over `reduce_axes` by `reducer`.

    Reducers are None, a row of `ir.ops.REDUCERS`, or "argmax" / "argmin", which have
    two bodies and buffers: the value (`name.value`) and its position (`name`).
    """

    name: str
    axes: tuple[Axis, ...]
    reduce_axes: tuple[Axis, ...]
    body: tuple[Expr, ...]
    reducer: str | None
    buffers: tuple[Buffer, ...]

    @cached_property
    def loads(self) -> tuple[Load, ...]:
        """Every load in the body."""
        return tuple(load for expr in self.body for load in loads(expr))

    @cached_property
    def read_names(self) -> frozenset[str]:
        """The names of the buffers that the body reads."""
        return frozenset(load.buffer.name for load in self.loads)

    @property
    def output(self) -> Buffer:
        """The buffer that has the stage's name."""
        return self.buffers[-1]

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(axis.extent for axis in self.axes)

    @property
    def combiner(self) -> Reducer | None:
        """How two values combine; that of the compared value for argmax and argmin."""
        if self.reducer is None:
            return None
        return REDUCERS[LOCATING.get(self.reducer, self.reducer)]

    def __str__(self) -> str:
        indices = ", ".join(axis.name for axis in self.axes)
        text = ", ".join(map(str, self.body))
        if self.reducer is not None:
            over = ", ".join(
                f"{axis.name} in {axis.extent}" for axis in self.reduce_axes
            )
            text = f"{self.reducer}({text}) over {over}"
        return f"{self.name}[{indices}] = {text}"
