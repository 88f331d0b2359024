"""Holes in a program, and the integers that fill them: one row per program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ansor.errors import ScheduleError

Column: TypeAlias = npt.NDArray[np.int64]  # one entry per point


@dataclass(frozen=True, slots=True)
class Knob:
    """A named hole in a step, with the values it may take.

    Steps that share a name share the value.

    >>> print(Knob("tile", (4, 8, 16)))
    ?tile
    """

    name: str
    candidates: tuple[int, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.candidates, tuple) or not all(
            isinstance(value, int) and value > 0 for value in self.candidates
        ):
            raise ScheduleError(
                f"knob {self.name!r}",
                f"candidates {self.candidates!r} are not a tuple of positive integers",
                "for example (4, 8, 16)",
            )
        if not self.candidates:
            raise ScheduleError(
                f"knob {self.name!r}", "no candidates given", "for example (4, 8, 16)"
            )

    def __str__(self) -> str:
        return f"?{self.name}"


@dataclass(frozen=True, slots=True)
class Follow:
    """The extent of a loop of another stage, whatever the point makes of it.

    >>> print(Follow("C", "j.1"))
    C.j.1
    """

    stage: str
    loop: str

    def __str__(self) -> str:
        return f"{self.stage}.{self.loop}"


class Fixed:
    """A step without holes."""

    __slots__ = ()

    @property
    def knobs(self) -> tuple[Knob, ...]:
        return ()


Length: TypeAlias = int | Knob | Follow


@dataclass(frozen=True)
class Points:
    """The values of all knobs for n programs at once; a program is a batch of one.

    >>> tile = Knob("tile", (4, 8))
    >>> Points.of([tile], [[4], [8], [8]]).value(tile)
    array([4, 8, 8])
    """

    count: int = 1
    columns: Mapping[str, Column] = field(default_factory=dict)

    @staticmethod
    def of(knobs: Sequence[Knob], matrix: npt.ArrayLike) -> Points:
        """Points from an integer matrix, one column per knob."""
        values = np.asarray(matrix)
        if values.size and values.dtype.kind not in "iu":
            raise ScheduleError(
                "points", f"a matrix of {values.dtype}", "knobs take integers"
            )
        values = values.astype(np.int64, copy=False)
        if values.ndim != 2 or values.shape[1] != len(knobs):
            raise ScheduleError(
                "points",
                f"a matrix of shape {values.shape} for {len(knobs)} knobs",
                "one row per program, one column per knob",
            )
        columns = {knob.name: values[:, at] for at, knob in enumerate(knobs)}
        return Points(len(values), columns)

    def constant(self, value: int) -> Column:
        """A column that is the same for all points: one entry stands for all."""
        return np.array([value], np.int64)

    def value(self, length: int | Knob) -> Column:
        """The column of a length."""
        if isinstance(length, int):
            return self.constant(length)
        if length.name not in self.columns:
            raise ScheduleError(
                f"knob {length.name!r}",
                "has no value",
                "fill every knob: sketch.program(point)",
            )
        return self.columns[length.name]
