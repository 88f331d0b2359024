"""Sums of products over blocks, through matrix products where there is one in them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from ansor.ir.expr import Binary, Expr
from ansor.ir.visit import variables
from ansor.te.approximate import Array

WORTHWHILE = 256  # multiplications of one matrix product; below, einsum is as good


def factors(e: Expr) -> list[Expr]:
    """The operands of a product, in order."""
    if isinstance(e, Binary) and e.op == "mul":
        return [*factors(e.a), *factors(e.b)]
    return [e]


def spans(parts: Sequence[Expr]) -> list[set[str]]:
    """The axes each expression uses."""
    return [variables(part) for part in parts]


def contract(parts: Sequence[Array], spatial: int, lengths: Sequence[int]) -> Array:
    """Sum the product of `parts` over all axes but the leading `spatial` ones.

    The result has length 1 along axes that no part uses.
    """
    used = [{d for d, n in enumerate(part.shape) if n > 1} for part in parts]
    present = set[int]().union(*used)  # none for constants
    kept = [d for d in range(spatial) if d in present]
    missing = [d for d in range(spatial, len(lengths)) if d not in present]
    if len(parts) == 2 and _is_matrix_product(parts, used, spatial):
        result = _multiply(parts, used, spatial)
    else:
        result = _einsum(parts, used, kept)
    shape = [lengths[d] if d in present else 1 for d in range(spatial)]
    repeats = prod(lengths[d] for d in missing)
    result = result.reshape(shape)
    return result if repeats == 1 else result * repeats


def _einsum(
    parts: Sequence[Array], used: Sequence[set[int]], kept: Sequence[int]
) -> Array:
    operands: list[object] = []
    for part, own in zip(parts, used, strict=True):
        operands += [part.reshape([part.shape[d] for d in sorted(own)]), sorted(own)]
    result = np.einsum(*operands, kept, optimize=True)  # type: ignore[call-overload]
    return np.asarray(result)


def _is_matrix_product(
    parts: Sequence[Array], used: Sequence[set[int]], spatial: int
) -> bool:
    """Floats, nothing to sum up in one operand alone, and matrices of some size."""
    a, b = used
    if parts[0].dtype.kind != "f" or parts[0].dtype != parts[1].dtype:
        return False
    if any(d >= spatial for d in a ^ b):
        return False
    sizes = {
        d: part.shape[d] for part, own in zip(parts, used, strict=True) for d in own
    }
    apart = prod(sizes[d] for d in a ^ b)
    inner = prod(sizes[d] for d in a & b if d >= spatial)
    return bool(apart * inner >= WORTHWHILE)


def _multiply(parts: Sequence[Array], used: Sequence[set[int]], spatial: int) -> Array:
    """The kept axes of a product of two parts, in their order."""
    a, b = used
    batch = sorted(d for d in a & b if d < spatial)
    inner = sorted(d for d in a & b if d >= spatial)
    rows, columns = sorted(a - b), sorted(b - a)
    left = _matrix(parts[0], batch, rows, inner)
    right = _matrix(parts[1], batch, columns, inner).swapaxes(-1, -2)
    axes = [*batch, *rows, *columns]
    part_of = {d: parts[0] if d in a else parts[1] for d in axes}
    shape = [part_of[d].shape[d] for d in axes]
    result: Array = np.matmul(left, right).reshape(shape)
    return result.transpose([axes.index(d) for d in sorted(axes)])


def _matrix(
    part: Array, batch: Sequence[int], rows: Sequence[int], columns: Sequence[int]
) -> Array:
    """`part` as a stack of matrices that BLAS takes.

    Copies run along the longer of the two last axes: the windows of a convolution are
    short, its rows are long.
    """

    def length(axes: Sequence[int]) -> int:
        return part.shape[axes[-1]] if axes else 1

    turned = length(rows) > length(columns)
    order = [*batch, *columns, *rows] if turned else [*batch, *rows, *columns]
    others = tuple(d for d in range(part.ndim) if d not in order)
    view = part.squeeze(others)
    kept = sorted(order)
    view = view.transpose([kept.index(d) for d in order])
    sizes = [prod(part.shape[d] for d in axes) for axes in (rows, columns)]
    shape = [part.shape[d] for d in batch] + (sizes[::-1] if turned else sizes)
    matrix = _dense(view.reshape(shape))
    return matrix.swapaxes(-1, -2) if turned else matrix


def _dense(matrix: Array) -> Array:
    """A copy unless BLAS can step through the matrices themselves."""
    (m, n), (outer, inner) = matrix.shape[-2:], matrix.strides[-2:]
    size = matrix.itemsize
    by_rows = inner == size and outer >= n * size
    by_columns = outer == size and inner >= m * size
    return matrix if by_rows or by_columns else np.ascontiguousarray(matrix)
