"""What an operator of a graph is: its mathematics, and how it may be grouped."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ansor.frontend.graph import Array, Attribute, Value
from ansor.te.analysis import count_flops
from ansor.te.dag import DAG
from ansor.te.reference import reference
from ansor.te.tensor import Tensor, placeholder

Attributes = Mapping[str, Attribute]
Type = tuple[str, tuple[int, ...]]  # dtype and shape


class Kind(StrEnum):
    """How an operator may stand with others in one task."""

    VIEW = "view"  # the same elements in the same order: no code, if it stands alone
    INJECTIVE = "injective"  # an element from few elements: can be inlined anywhere
    REDUCTION = "reduction"  # an element from many; cheap beside an anchor
    ANCHOR = "anchor"  # contractions: a task has one at most


@dataclass(frozen=True)
class Operator:
    """`define(*tensors, **attributes)` writes it in the tensor language.

    Operators take and give arrays of fixed rank and type, without optional inputs:
    importers spell those out with other operators. `evaluate(*arrays, **attributes)`
    is the same in NumPy, where that is faster than the reference, or where arrays
    without elements have a meaning, which the tensor language does not know; `infer`,
    then, gives the outputs' types: infer(*values, **attributes).
    """

    name: str
    define: Callable[..., Any]
    kind: Kind = Kind.INJECTIVE
    evaluate: Callable[..., Any] | None = None
    infer: Callable[..., Sequence[Type]] | None = None

    def tensors(
        self, inputs: Sequence[Tensor], attributes: Attributes
    ) -> tuple[Tensor, ...]:
        return _all(self.define(*inputs, **attributes), Tensor)

    def types(self, inputs: Sequence[Value], attributes: Attributes) -> list[Type]:
        """Of the outputs."""
        if self.infer is not None:
            return list(self.infer(*inputs, **attributes))
        stand_ins = [placeholder(x.shape, x.dtype, f"x{n}") for n, x in _each(inputs)]
        return [(x.dtype, x.shape) for x in self.tensors(stand_ins, attributes)]

    def values(
        self, inputs: Sequence[Array], attributes: Attributes
    ) -> tuple[Array, ...]:
        """The outputs for these inputs, by NumPy."""
        if self.evaluate is not None:
            return tuple(_all(self.evaluate(*inputs, **attributes), None))
        stand_ins = [
            placeholder(x.shape, str(x.dtype), f"x{n}") for n, x in _each(inputs)
        ]
        outputs = self.tensors(stand_ins, attributes)
        direct = [x for x in outputs if x.is_input]
        if direct:  # an operator that gives back what it took
            return tuple(inputs[stand_ins.index(x)] for x in outputs)
        read = DAG.build(outputs)
        order = {x.name: value for x, value in zip(stand_ins, inputs, strict=True)}
        return reference(read, [order[x.name] for x in read.inputs])

    def work(self, inputs: Sequence[Value], attributes: Attributes) -> int:
        """Operations that `values` takes by the reference; 0 where it is NumPy's."""
        if self.evaluate is not None:
            return 0
        stand_ins = [placeholder(x.shape, x.dtype, f"x{n}") for n, x in _each(inputs)]
        outputs = self.tensors(stand_ins, attributes)
        made = [x for x in outputs if not x.is_input]
        return count_flops(DAG.build(made)) if made else 0


def _each(items: Sequence[Any]) -> enumerate[Any]:
    return enumerate(items)


def _all(found: Any, kind: type | None) -> tuple[Any, ...]:
    """One or several results as a tuple."""
    if kind is not None and isinstance(found, kind):
        return (found,)
    return tuple(found) if isinstance(found, (tuple, list)) else (found,)
