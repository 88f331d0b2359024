"""Inputs that must be constants: found by trying, and fixed to what they are given as.

Some models take shapes, axes or lengths as inputs. Code has fixed shapes here, so such
an input becomes a constant, and other values of it need a conversion of their own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ansor.errors import UnsupportedError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Array, Graph, Value
from ansor.frontend.onnx.messages import ModelData
from ansor.frontend.onnx.model import convert, input_names, title
from ansor.frontend.onnx.shapes import Shapes

LARGEST = 1 << 16  # elements of an input that may be fixed


class Asking(Builder):
    """A builder that notes what was asked for, but is no constant."""

    def __init__(self, name: str = "graph") -> None:
        super().__init__(name)
        self.missed: list[Value] = []

    def known(self, value: Value) -> Array | None:
        found = super().known(value)
        if found is None:
            self.missed.append(value)
        return found


def specialised(model: ModelData, arrays: Sequence[Array]) -> tuple[Graph, set[str]]:
    """The graph for inputs of these shapes, and the names of inputs that are fixed."""
    names = input_names(model)
    given = dict(zip(names, arrays, strict=True))
    fixed: set[str] = set()
    while True:
        build = Asking(title(model))
        constants = {name: given[name] for name in fixed}
        try:
            return convert(model, _shapes(given, fixed), constants, build), fixed
        except UnsupportedError:
            more = _small(behind(build, build.missed), given) - fixed
            if not more:
                raise
            fixed |= more


def behind(build: Builder, values: Iterable[Value]) -> set[str]:
    """The names of the inputs that values depend on."""
    producers = {x.name: node for node in build.nodes for x in node.outputs}
    found, todo = set(), [x.name for x in values]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        found.add(name)
        if name in producers:
            todo += [x.name for x in producers[name].inputs]
    return found & {x.name for x in build.inputs}


def _shapes(given: Mapping[str, Array], fixed: set[str]) -> Shapes:
    return Shapes({k: x.shape for k, x in given.items() if k not in fixed})


def _small(names: set[str], given: Mapping[str, Array]) -> set[str]:
    return {name for name in names if given[name].size <= LARGEST}
