"""The constants of a model in the layouts that its kernels want."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ansor.codegen import arrays, engine
from ansor.codegen.arrays import Parameter
from ansor.frontend.graph import Array
from ansor.frontend.units import Packing, Unit


@dataclass
class Constants:
    """Blocks of memory by symbol; one that several kernels read alike is there once.

    A constant whose layout stays is used in place; a copy in another layout is made
    by the kernel's own function.
    """

    given: Mapping[str, Array]
    blocks: dict[str, Array] = field(default_factory=dict)
    _known: dict[tuple[str, str], str] = field(default_factory=dict)

    def plain(self, name: str) -> str:
        """The symbol of a constant as it is."""
        key = name, ""
        if key not in self._known:
            self._known[key] = self._add(np.ascontiguousarray(self.given[name]))
        return self._known[key]

    def packed(
        self, name: str, unit: Unit, packing: Packing, code: engine.Compiled
    ) -> str:
        """The symbol of a constant in the layout of one argument of a unit."""
        key = name, packing.entry
        if key not in self._known:
            block = _pack(self.given[name], unit, packing, code)
            self._known[key] = self._like(name, block) or self._add(block)
        return self._known[key]

    def _like(self, name: str, block: Array) -> str | None:
        """The symbol of this constant in a layout that gives the same bytes."""
        for (other, _), symbol in self._known.items():
            if other == name and _same(self.blocks[symbol], block):
                return symbol
        return None

    def _add(self, block: Array) -> str:
        symbol = f"constant_{len(self.blocks)}"
        self.blocks[symbol] = block
        return symbol

    @property
    def bytes(self) -> int:
        return sum(block.nbytes for block in self.blocks.values())


def _pack(array: Array, unit: Unit, packing: Packing, code: engine.Compiled) -> Array:
    block = arrays.empty(Parameter.of(unit.symbol, packing.packed))
    types = (ctypes.c_void_p, ctypes.c_void_p)
    write = ctypes.CFUNCTYPE(None, *types)(code.address(packing.entry))
    dense = np.ascontiguousarray(array)
    write(arrays.address(dense), arrays.address(block))
    return block


def _same(one: Array, other: Array) -> bool:
    """Equal bytes, whatever the numbers mean."""
    if one.nbytes != other.nbytes:
        return False
    return bool(np.array_equal(_bytes(one), _bytes(other)))


def _bytes(block: Array) -> Array:
    return block.reshape(-1).view(np.uint8)
