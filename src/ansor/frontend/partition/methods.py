"""Other ways to compute a product, by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ansor.errors import ModelError
from ansor.frontend.graph import Node, Value
from ansor.frontend.operators.operator import Operator
from ansor.frontend.partition.winograd import Winograd
from ansor.frontend.subgraph import Made


class Method(Protocol):
    """Computes a product with constant weights from other weights, made of them."""

    @property
    def operator(self) -> Operator:
        """What the product becomes. Its name is not in the vocabulary of graphs."""

    def applies(self, node: Node) -> bool:
        """True if the product, whose second operand is constant, can be computed so."""

    def weight(self, given: Value, name: str) -> Made:
        """Its weights, under this name."""

    def instead(self, node: Node, weight: Value) -> Node:
        """The product with these weights: the same result."""


METHODS: dict[str, Method] = {"winograd": Winograd(), "winograd4": Winograd(4)}
USUAL = ("winograd", "winograd4")  # those that a model has unless told otherwise


def checked(names: Iterable[str]) -> tuple[str, ...]:
    """The names of methods, each once; one alone may stand without a list."""
    given = (names,) if isinstance(names, str) else tuple(names)
    for name in given:
        if name not in METHODS:
            known = ", ".join(map(repr, METHODS))
            raise ModelError(
                f"alternative {name!r}", "is unknown", f"alternatives are {known}"
            )
    return tuple(dict.fromkeys(given))


def methods(names: Iterable[str]) -> tuple[Method, ...]:
    """Those of these names."""
    return tuple(METHODS[name] for name in checked(names))
