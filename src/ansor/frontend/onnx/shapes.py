"""The shapes of a model's inputs: what the file says and what the caller adds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ansor.errors import ModelError
from ansor.frontend.onnx.messages import Dimension, Shape
from ansor.frontend.onnx.tensors import MOST_AXES
from ansor.reading import brief


class Shapes:
    """Lengths by the name of an input (all of them) or of a symbol (one)."""

    def __init__(self, given: Mapping[str, int | Sequence[int]]) -> None:
        self._given = {name: _lengths(name, x) for name, x in given.items()}
        self._known: list[str] = []  # names that could have been given
        self._used: set[str] = set()

    def of(self, name: str, declared: Shape | None) -> tuple[int, ...]:
        """The shape of an input."""
        self._known.append(name)
        own = self._take(name)
        if declared is None:
            if own is None:
                raise ModelError(
                    f"input {brief(name)}",
                    "the file does not say its shape",
                    f"give it: shapes={{{name!r}: (…)}}",
                )
            return own
        if len(declared.dimensions) > MOST_AXES:
            raise ModelError(f"input {brief(name)}", f"more than {MOST_AXES} axes")
        if own is not None and len(own) != len(declared.dimensions):
            raise ModelError(
                f"input {brief(name)}",
                f"{len(declared.dimensions)} axes, but {len(own)} lengths are given",
            )
        lengths: Sequence[int | None] = own or [None] * len(declared.dimensions)
        return tuple(
            self._length(name, axis, x, length)
            for axis, (x, length) in enumerate(
                zip(declared.dimensions, lengths, strict=True)
            )
        )

    def finish(self) -> None:
        """Every given name was one of the model's."""
        for name in self._given:
            if name not in self._used:
                known = ", ".join(map(brief, dict.fromkeys(self._known[:20])))
                raise ModelError(
                    f"shapes[{brief(name)}]",
                    "the model has no such input or symbol",
                    f"it has {known}" if known else "",
                )

    def _take(self, name: str) -> tuple[int, ...] | None:
        found = self._given.get(name)
        if found is not None:
            self._used.add(name)
        return found

    def _length(self, name: str, axis: int, x: Dimension, own: int | None) -> int:
        what = f"input {brief(name)}"
        if x.value is not None:
            if x.value < 0:
                raise ModelError(what, f"axis {axis} has the length {x.value}")
            if own not in (None, x.value):
                raise ModelError(
                    what, f"axis {axis} has the length {x.value}, but {own} is given"
                )
            return x.value
        symbol = self._symbol(x.symbol)
        if own is not None:
            return own
        if symbol is not None:
            return symbol
        called = f" ({brief(x.symbol)})" if x.symbol else ""
        hint = f"shapes={{{name!r}: (…)}}"
        if x.symbol:
            hint += f" or shapes={{{x.symbol!r}: …}}"
        raise ModelError(what, f"the length of axis {axis}{called} is open", hint)

    def _symbol(self, symbol: str) -> int | None:
        if not symbol:
            return None
        self._known.append(symbol)
        found = self._take(symbol)
        if found is None:
            return None
        if len(found) != 1:
            raise ModelError(f"shapes[{brief(symbol)}]", f"{found} is not one length")
        return found[0]


def _lengths(name: str, given: int | Sequence[int]) -> tuple[int, ...]:
    found = (given,) if isinstance(given, int) else tuple(given)
    for length in found:
        if not isinstance(length, int) or length < 0:
            raise ModelError(f"shapes[{name!r}]", f"{length!r} is not a length")
    return found
