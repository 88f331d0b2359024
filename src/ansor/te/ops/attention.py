"""Attention and embedding."""

from __future__ import annotations

from math import sqrt

from ansor.te.ops.elementwise import broadcast_shape, element
from ansor.te.ops.matmul import batch_matmul, check_rank
from ansor.te.ops.norm import softmax
from ansor.te.tensor import Tensor, compute
from ansor.te.value import Value


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    scale: float | None = None,
    name: str = "attention",
) -> Tensor:
    """softmax(query · keyᵀ * scale + mask) · value, over the last two axes.

    The scale is 1 / sqrt(width of the heads) unless given; a mask is added.

    >>> import ansor
    >>> q, k, v = (ansor.placeholder((12, 128, 64)) for _ in range(3))
    >>> attention(q, k, v)
    <tensor attention: float32[12, 128, 64]>
    """
    factor = 1 / sqrt(query.shape[-1]) if scale is None else scale
    scores = batch_matmul(query, key, f"{name}_scores", transpose_b=True)
    if mask is not None:
        broadcast_shape(f"{name}: mask", scores.shape, mask.shape)

    def body(*i: Value) -> Value:
        scaled = scores[i] * factor
        return scaled if mask is None else scaled + element(mask, scores.shape, i)

    scaled = compute(scores.shape, body, name=f"{name}_scaled")
    weights = softmax(scaled, name=f"{name}_softmax")
    return batch_matmul(weights, value, name)


def embedding(table: Tensor, indices: Tensor, name: str = "embedding") -> Tensor:
    """Rows of `table` picked by `indices` (a gather).

    Indices must be in range: a kernel does not check them, and reads whatever lies
    there if they are not.

    >>> import ansor
    >>> table, ids = ansor.placeholder((1000, 64)), ansor.placeholder((2, 8), "int64")
    >>> embedding(table, ids)
    <tensor embedding: float32[2, 8, 64]>
    """
    check_rank(name, table, 2)
    shape = (*indices.shape, table.shape[1])
    return compute(shape, lambda *i: table[indices[i[:-1]], i[-1]], name=name)
