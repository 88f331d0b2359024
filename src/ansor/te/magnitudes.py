"""How far off a sum of products may be: Σ|a·b| and what errors of a and b add.

With sizes sᵢ = |aᵢ| and errors eᵢ of n factors, each product contributes

    u·s₁⋯sₙ + ((s₁+e₁)⋯(sₙ+eₙ) - s₁⋯sₙ)
        = (u·s₁ + e₁)·s₂⋯sₙ + (s₁+e₁)·e₂·s₃⋯sₙ + … + (s₁+e₁)⋯(sₙ₋₁+eₙ₋₁)·eₙ

which is a few more sums of products, of numbers that are not negative: large ones are
computed in float32 and rounded up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import frexp, inf, prod

import numpy as np

from ansor.ir.expr import Expr, Load
from ansor.te.analysis import affine
from ansor.te.approximate import Approx, Array
from ansor.te.contract import contract
from ansor.te.evaluate import Block, Evaluator
from ansor.te.stage import Stage

LARGE = 1 << 24  # multiplications from which float32 pays
OFTEN = 32  # multiplications by each element, likewise
_STEP = 2.0**-23  # of float32; a rounding is half of it
_MOST = 0.005  # that rounding up may add
_LEAST = 2.0**-60  # of the largest element: products stay normal numbers


def product_error(
    parts: Sequence[Approx], u: float, spatial: int, lengths: Sequence[int]
) -> Array | None:
    """The error of Σ Π parts with rounding unit u; None where it is exact."""
    if all(part.error is None for part in parts):
        sizes = [np.abs(part.value).astype(np.float64) for part in parts]
        return u * contract(sizes, spatial, lengths) if u else None
    total: Array | None = None
    for term in _terms(parts, u):
        found = contract(term, spatial, lengths)
        total = found if total is None else total + found
    return total


def _terms(parts: Sequence[Approx], u: float) -> list[list[Array]]:
    """The factors of each sum of products that makes up the error."""
    sizes = [np.abs(p.value).astype(np.float64) for p in parts]
    terms = []
    for n, part in enumerate(parts):
        error = part.error
        if n == 0 and u:
            own = u * sizes[0]
            error = own if error is None else own + error
        if error is not None:
            before = [_wide(s, p) for s, p in zip(sizes[:n], parts[:n], strict=True)]
            terms.append([*before, error, *sizes[n + 1 :]])
    return terms


def _wide(size: Array, part: Approx) -> Array:
    return size if part.error is None else size + part.error


@dataclass(frozen=True)
class Magnitudes:
    """The same for a stage that multiplies elements, from whole arrays in float32."""

    loads: tuple[Load, ...]
    terms: tuple[tuple[float, tuple[Array, ...]], ...]  # what to multiply by, factors

    def error(self, block: Block, spatial: int) -> Array:
        """The error of the part of the sums that lies in the block."""
        total: Array | None = None
        for scale, arrays in self.terms:
            pairs = zip(self.loads, arrays, strict=True)
            views = [_view(load, array, block) for load, array in pairs]
            found = contract(views, spatial, block.lengths).astype(np.float64)
            found *= scale
            total = found if total is None else total + found
        assert total is not None
        return total


def _view(load: Load, array: Array, block: Block) -> Array:
    return Evaluator({load.buffer.name: Approx(array)}, block, 0.0).value(load).value


def magnitudes(
    stage: Stage, parts: Sequence[Expr], arrays: Mapping[str, Approx], u: float
) -> Magnitudes | None:
    """None where float32 does not pay, or cannot hold what is to be multiplied."""
    loads = [part for part in parts if isinstance(part, Load) and _is_affine(part)]
    if u == 0 or len(loads) < len(parts):
        return None
    count = prod(axis.extent for axis in stage.reduce_axes)
    growth = (count + 2 * len(parts)) * _STEP
    elements = sum(load.buffer.size for load in loads)
    if count * prod(stage.shape) < max(LARGE, OFTEN * elements) or growth > _MOST:
        return None
    result = []
    for term in _terms([arrays[load.buffer.name] for load in loads], u):
        scaled = [_single(array) for array in term]
        found = [pair for pair in scaled if pair is not None]
        if len(found) < len(scaled):
            return None
        scale = prod(pair[0] for pair in found) * (1 + growth)
        result.append((scale, tuple(pair[1] for pair in found)))
    return Magnitudes(tuple(loads), tuple(result))


def _is_affine(load: Load) -> bool:
    return all(affine(index) is not None for index in load.indices)


def _single(array: Array) -> tuple[float, Array] | None:
    """A power of two and what to multiply it by, at most 1, if float32 holds that."""
    top = float(array.max())
    if not 0 < top < inf:
        return (1.0, array.astype(np.float32)) if top == 0 else None
    power = frexp(top)[1]
    if abs(power) > 1000:
        return None
    single = (array * 2.0**-power).astype(np.float32)
    if np.count_nonzero(single >= _LEAST) < np.count_nonzero(array):
        return None
    return 2.0**power, single
