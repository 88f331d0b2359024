"""What convolutions and pooling share: layouts, windows and padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import index
from typing import SupportsIndex, TypeVar

from ansor.errors import ExpressionError
from ansor.te.ops.matmul import check_rank
from ansor.te.ops.shape import pad
from ansor.te.tensor import Tensor
from ansor.te.value import Scalar, Value

Sizes = int | Sequence[int]
Padding = int | Sequence[int] | Sequence[tuple[int, int]]
T = TypeVar("T")

AXES = ("z", "y", "x")


@dataclass(frozen=True)
class Layout:
    """Where the batch, the channels and the spatial axes of an image stand."""

    last: bool  # channels come last
    rank: int  # number of spatial axes

    @staticmethod
    def of(what: str, text: str, rank: int) -> Layout:
        """The layout called `text`, such as "NCHW" or "NHWC"."""
        space = "DHW"[3 - rank :]
        known = {f"NC{space}": False, f"N{space}C": True}
        if text not in known:
            names = " or ".join(map(repr, known))
            raise ExpressionError(what, f"unknown layout {text!r}", f"use {names}")
        return Layout(known[text], rank)

    def join(self, n: T, c: T, space: Sequence[T]) -> tuple[T, ...]:
        """Batch, channel and spatial items in this layout's order."""
        return (n, *space, c) if self.last else (n, c, *space)

    def weight(self, o: T, i: T, space: Sequence[T]) -> tuple[T, ...]:
        """Output, input and spatial items in the order of weights."""
        return (*space, i, o) if self.last else (o, i, *space)

    def space(self, items: Sequence[T]) -> tuple[T, ...]:
        start = 1 if self.last else 2
        return tuple(items[start : start + self.rank])

    def channel(self, items: Sequence[T]) -> T:
        return items[-1] if self.last else items[1]

    def split_weight(self, items: Sequence[T]) -> tuple[T, T, tuple[T, ...]]:
        """Output, input and spatial items of a weight."""
        if self.last:
            return items[-1], items[-2], tuple(items[:-2])
        return items[0], items[1], tuple(items[2:])


@dataclass(frozen=True)
class Window:
    """How a window moves over the spatial axes; one number per axis."""

    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    dilation: tuple[int, ...]

    @property
    def spans(self) -> tuple[int, ...]:
        """How far the last element of the window lies from the first."""
        both = zip(self.kernel, self.dilation, strict=True)
        return tuple((k - 1) * d for k, d in both)

    def outputs(self, what: str, extents: Sequence[int]) -> tuple[int, ...]:
        """How many places the window has along each axis."""
        result = []
        for n, span, (before, after), step in zip(
            extents, self.spans, self.padding, self.stride, strict=True
        ):
            room = n + before + after - span
            if room < 1:
                raise ExpressionError(
                    what,
                    f"a window over {span + 1} elements does not fit {n} elements "
                    f"padded by {before} and {after}",
                )
            result.append((room - 1) // step + 1)
        return tuple(result)

    def at(self, place: Sequence[Value], inside: Sequence[Value]) -> list[Scalar]:
        """The padded input index of a window's element."""
        parts = zip(place, self.stride, inside, self.dilation, strict=True)
        return [p * s + r * d for p, s, r, d in parts]


def window(
    what: str, kernel: Sequence[int], stride: Sizes, padding: Padding, dilation: Sizes
) -> Window:
    """A checked window; single numbers stand for all axes."""
    rank = len(kernel)
    return Window(
        kernel=tuple(kernel),
        stride=sizes(f"{what}: stride", stride, rank),
        padding=_pairs(f"{what}: padding", padding, rank),
        dilation=sizes(f"{what}: dilation", dilation, rank),
    )


def sizes(what: str, given: Sizes, rank: int) -> tuple[int, ...]:
    """One positive integer per axis."""
    result = tuple(given) if isinstance(given, Sequence) else (given,) * rank
    if len(result) != rank or not all(
        isinstance(n, SupportsIndex) and n >= 1 for n in result
    ):
        raise ExpressionError(
            f"{what} {given!r}", f"is neither a positive integer nor {rank} of them"
        )
    return result


def _pairs(what: str, given: Padding, rank: int) -> tuple[tuple[int, int], ...]:
    each = tuple(given) if isinstance(given, Sequence) else (given,) * rank
    pairs = [tuple(p) if isinstance(p, Sequence) else (p, p) for p in each]
    if len(pairs) != rank or not all(map(_is_pair, pairs)):
        raise ExpressionError(
            f"{what} {given!r}",
            f"is not {rank} sizes or (before, after) pairs from 0 up",
        )
    return tuple((index(before), index(after)) for before, after in pairs)


def _is_pair(pair: tuple[object, ...]) -> bool:
    return len(pair) == 2 and all(
        isinstance(n, SupportsIndex) and index(n) >= 0 for n in pair
    )


def padded(x: Tensor, layout: Layout, w: Window, value: Scalar, name: str) -> Tensor:
    """`x` with its spatial axes padded; `x` itself where there is nothing to add."""
    check_rank(name, x, layout.rank + 2)
    if not any(n for pair in w.padding for n in pair):
        return x
    none = (0, 0)
    axes = layout.join("n", "c", AXES[3 - layout.rank :])
    return pad(x, layout.join(none, none, w.padding), value, f"{name}_pad", axes)
