"""The vocabulary of graphs: every operator, written in the tensor language."""

from __future__ import annotations

from collections.abc import Mapping

from ansor.errors import UnsupportedError
from ansor.frontend.operators import (
    contraction,
    elementwise,
    indexing,
    movement,
    norm,
    patches,
    ranking,
    reduction,
    resize,
    running,
    window,
)
from ansor.frontend.operators.operator import Operator

_TOPICS: tuple[tuple[Operator, ...], ...] = (
    elementwise.OPERATORS,
    indexing.OPERATORS,
    movement.OPERATORS,
    contraction.OPERATORS,
    norm.OPERATORS,
    patches.OPERATORS,
    ranking.OPERATORS,
    reduction.OPERATORS,
    resize.OPERATORS,
    running.OPERATORS,
    window.OPERATORS,
)

OPERATORS: Mapping[str, Operator] = {x.name: x for topic in _TOPICS for x in topic}


def operator(name: str) -> Operator:
    """The operator of this name."""
    found = OPERATORS.get(name)
    if found is None:
        raise UnsupportedError(f"operator {name!r}", "is not in the vocabulary")
    return found
