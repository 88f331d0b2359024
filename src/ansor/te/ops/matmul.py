"""Matrix products and einsum."""

from __future__ import annotations

from ansor.errors import ExpressionError
from ansor.te.functions import cast
from ansor.te.ops.elementwise import broadcast_shape, repeated
from ansor.te.reduction import reduce_axis, sum
from ansor.te.tensor import Tensor, compute
from ansor.te.value import Scalar, Value


def check_rank(what: str, tensor: Tensor, rank: int) -> None:
    """Raise ExpressionError unless `tensor` has `rank` axes."""
    if tensor.ndim != rank:
        raise ExpressionError(
            what,
            f"{tensor.name!r} of shape {tensor.shape} has {tensor.ndim} axes, "
            f"not {rank}",
        )


def _check_inner(what: str, a: Tensor, b: Tensor, left: int, right: int) -> None:
    if left != right:
        raise ExpressionError(
            what, f"inner extents {left} of {a.shape} and {right} of {b.shape} differ"
        )


def product(a: Value, b: Value, dtype: str | None) -> Value:
    """a * b, in the accumulator's type where one is given."""
    if dtype is None:
        return a * b
    return cast(a, dtype) * cast(b, dtype)


def matmul(
    a: Tensor,
    b: Tensor,
    name: str = "matmul",
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    dtype: str | None = None,
) -> Tensor:
    """The product of two matrices; `dtype` is the type to accumulate in.

    >>> import ansor
    >>> A, B = ansor.placeholder((8, 16)), ansor.placeholder((16, 4))
    >>> matmul(A, B, name="C")
    <tensor C: float32[8, 4]>
    """
    check_rank(name, a, 2)
    check_rank(name, b, 2)
    m, inner = reversed(a.shape) if transpose_a else a.shape
    other, n = reversed(b.shape) if transpose_b else b.shape
    _check_inner(name, a, b, inner, other)
    k = reduce_axis(inner, "k")

    def body(i: Value, j: Value) -> Scalar:
        x = a[k, i] if transpose_a else a[i, k]
        y = b[j, k] if transpose_b else b[k, j]
        return sum(product(x, y, dtype), axis=k)

    return compute((m, n), body, name=name)


def dense(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    name: str = "dense",
    *,
    dtype: str | None = None,
) -> Tensor:
    """x · weightᵀ + bias: a fully connected layer; weight is (outputs, inputs).

    >>> import ansor
    >>> x, w = ansor.placeholder((2, 16)), ansor.placeholder((8, 16), constant=True)
    >>> dense(x, w)
    <tensor dense: float32[2, 8]>
    """
    if bias is None:
        return matmul(x, weight, name, transpose_b=True, dtype=dtype)
    product = matmul(x, weight, f"{name}_product", transpose_b=True, dtype=dtype)
    return compute(product.shape, lambda i, j: product[i, j] + bias[j], name=name)


def batch_matmul(
    a: Tensor,
    b: Tensor,
    name: str = "batch_matmul",
    *,
    transpose_b: bool = False,
    dtype: str | None = None,
) -> Tensor:
    """Products of the matrices in the last two axes; leading axes broadcast.

    >>> import ansor
    >>> A, B = ansor.placeholder((12, 8, 16)), ansor.placeholder((12, 16, 4))
    >>> batch_matmul(A, B)
    <tensor batch_matmul: float32[12, 8, 4]>
    """
    if a.ndim < 2 or b.ndim < 2:
        raise ExpressionError(
            name, f"shapes {a.shape} and {b.shape} are not batches of matrices"
        )
    other, n = reversed(b.shape[-2:]) if transpose_b else b.shape[-2:]
    _check_inner(name, a, b, a.shape[-1], other)
    batch = broadcast_shape(name, a.shape[:-2], b.shape[:-2])
    k = reduce_axis(a.shape[-1], "k")

    def body(*axes: Value) -> Scalar:
        lead, i, j = axes[:-2], axes[-2], axes[-1]
        left = a[(*repeated(a.shape[:-2], batch, lead), i, k)]
        order = (j, k) if transpose_b else (k, j)
        right = b[(*repeated(b.shape[:-2], batch, lead), *order)]
        return sum(product(left, right, dtype), axis=k)

    names = ("b",) if len(batch) == 1 else tuple(f"b{d}" for d in range(len(batch)))
    return compute((*batch, a.shape[-2], n), body, name=name, axes=(*names, "i", "j"))


def einsum(spec: str, *tensors: Tensor, name: str = "einsum") -> Tensor:
    """A sum of products in Einstein's notation; axes are named by their letters.

    Letters missing on the right are summed over. Without an arrow the letters that
    occur once remain, in alphabetical order.

    >>> import ansor
    >>> A, B = ansor.placeholder((5, 8, 16)), ansor.placeholder((5, 16, 4))
    >>> einsum("bij,bjk->bik", A, B)
    <tensor einsum: float32[5, 8, 4]>
    """
    what = f"einsum {spec!r}"
    terms, kept = _parse(what, spec, len(tensors))
    extents = _extents(what, terms, tensors)
    for letter in kept:
        if letter not in extents:
            raise ExpressionError(what, f"{letter!r} occurs in no operand")
    summed = {x: reduce_axis(n, x) for x, n in extents.items() if x not in kept}

    def body(*axes: Value) -> Scalar:
        place: dict[str, Value] = {**dict(zip(kept, axes, strict=True)), **summed}
        elements = [
            tensor[tuple(place[x] for x in term)]
            for term, tensor in zip(terms, tensors, strict=True)
        ]
        total = elements[0]
        for other in elements[1:]:
            total = total * other
        return sum(total, axis=list(summed.values())) if summed else total

    shape = tuple(extents[x] for x in kept)
    return compute(shape, body, name=name, axes=tuple(kept))


def _parse(what: str, spec: str, count: int) -> tuple[list[str], str]:
    left, arrow, right = spec.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != count:
        raise ExpressionError(what, f"{len(terms)} operands named, {count} given")
    if not all(x.isascii() and x.isalpha() for x in "".join(terms) + right):
        raise ExpressionError(what, "axes are single letters")
    if not arrow:
        right = "".join(x for x in sorted(set(left) - {","}) if left.count(x) == 1)
    if len(set(right)) != len(right):
        raise ExpressionError(what, f"an axis occurs twice in the result {right!r}")
    return terms, right


def _extents(
    what: str, terms: list[str], tensors: tuple[Tensor, ...]
) -> dict[str, int]:
    extents: dict[str, int] = {}
    for term, tensor in zip(terms, tensors, strict=True):
        check_rank(f"{what}: operand {term!r}", tensor, len(term))
        for letter, extent in zip(term, tensor.shape, strict=True):
            if extents.setdefault(letter, extent) != extent:
                raise ExpressionError(
                    what, f"axis {letter!r} is both {extents[letter]} and {extent} long"
                )
    return extents
