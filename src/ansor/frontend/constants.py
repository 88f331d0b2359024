"""The constants of a model in the layouts that its kernels want."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from ansor.codegen import arrays, engine
from ansor.codegen.arrays import Parameter
from ansor.frontend.graph import Array
from ansor.frontend.pages import (
    check_unchanged,
    give_back,
    give_back_all,
    mapped_file,
)
from ansor.frontend.subgraph import Made
from ansor.frontend.units import Packing, Unit


@dataclass(frozen=True)
class _Layout:
    """How a kernel wants a constant."""

    unit: Unit
    packing: Packing
    code: engine.Compiled


@dataclass
class Constants:
    """Blocks of memory by symbol; one that several kernels read alike is there once.

    Symbols are given out first, and `fill` makes the blocks: all of them are needed
    for as long as the model runs, so that nothing else should be in memory then. A
    constant whose layout stays is used in place, unless it is in a file; a copy in
    another layout is made by the kernel's own function.
    """

    given: Mapping[str, Array]
    made: Mapping[str, Made] = field(default_factory=dict)  # of these, when filled
    blocks: dict[str, Array] = field(default_factory=dict)
    _wanted: dict[str, dict[str, _Layout | None]] = field(default_factory=dict)
    _known: dict[tuple[str, str], str] = field(default_factory=dict)

    def plain(self, name: str) -> str:
        """The symbol of a constant as it is."""
        return self._symbol(name, "", None)

    def packed(
        self, name: str, unit: Unit, packing: Packing, code: engine.Compiled
    ) -> str:
        """The symbol of a constant in the layout of one argument of a unit."""
        return self._symbol(name, packing.entry, _Layout(unit, packing, code))

    def _symbol(self, name: str, entry: str, layout: _Layout | None) -> str:
        found = self._known.setdefault((name, entry), f"constant_{len(self._known)}")
        self._wanted.setdefault(name, {})[found] = layout
        return found

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(self._known.values())

    def fill(self) -> None:
        """Make the blocks of all symbols that were asked for.

        Of constants that are in files one at a time is in memory, the largest first:
        there is room for copies of it then, and smaller blocks fill what they leave.
        """
        check_unchanged(self.given)
        give_back_all(self.given)
        made: dict[str, Array] = {}
        for name in sorted(self._wanted, key=self._size, reverse=True):
            made.update(self._filled(name))
        self.blocks = {symbol: made[symbol] for symbol in self.symbols}

    def _size(self, name: str) -> int:
        made = self.made.get(name)
        return self.given[name].nbytes if made is None else made.value.bytes

    def _array(self, name: str) -> Array:
        made = self.made.get(name)
        if made is None:
            return self.given[name]
        found = made.array(self.given)
        give_back(self.given[made.source.name])
        return found

    def _filled(self, name: str) -> Iterator[tuple[str, Array]]:
        array = self._array(name)
        dense = array if _fits(array) else np.array(array, order="C")
        give_back(array)
        seen: list[Array] = []
        for symbol, layout in self._wanted[name].items():
            block = dense if layout is None else _pack(dense, layout)
            same = next((x for x in seen if _same(x, block)), None)
            if same is None:
                seen.append(block)
            yield symbol, block if same is None else same

    @property
    def bytes(self) -> int:
        """Of all blocks, each counted once."""
        return sum({id(x): x.nbytes for x in self.blocks.values()}.values())


def _fits(array: Array) -> bool:
    """True for elements one after the other, in memory that holds nothing else."""
    root = array
    while isinstance(root.base, np.ndarray):
        root = root.base
    is_dense = array.flags.c_contiguous and array.flags.aligned
    return is_dense and root.nbytes <= array.nbytes and mapped_file(array) is None


def _pack(array: Array, layout: _Layout) -> Array:
    packing = layout.packing
    block = arrays.empty(Parameter.of(layout.unit.symbol, packing.packed))
    types = (ctypes.c_void_p, ctypes.c_void_p)
    write = ctypes.CFUNCTYPE(None, *types)(layout.code.address(packing.entry))
    write(arrays.address(array), arrays.address(block))
    return block


def _same(one: Array, other: Array) -> bool:
    """Equal bytes, whatever the numbers mean."""
    if one.nbytes != other.nbytes:
        return False
    return bool(np.array_equal(_bytes(one), _bytes(other)))


def _bytes(block: Array) -> Array:
    return block.reshape(-1).view(np.uint8)
