"""Softmax and normalisations."""

from __future__ import annotations

from math import prod

from ansor.errors import ExpressionError
from ansor.te import reduction
from ansor.te.functions import exp, log, rsqrt, sqrt
from ansor.te.ops.elementwise import each
from ansor.te.ops.reduce import reduced
from ansor.te.ops.shape import as_axis
from ansor.te.tensor import Tensor, compute
from ansor.te.value import Value


def _without(indices: tuple[Value, ...], axis: int) -> tuple[Value, ...]:
    return indices[:axis] + indices[axis + 1 :]


def softmax(x: Tensor, axis: int = -1, name: str = "softmax") -> Tensor:
    """exp(x) over its sum along an axis, shifted by the maximum so as not to overflow.

    >>> import ansor
    >>> softmax(ansor.placeholder((256, 256)))
    <tensor softmax: float32[256, 256]>
    """
    at = as_axis(name, axis, x.ndim)
    top = reduced(x, at, False, reduction.max, f"{name}_max")
    powers = compute(
        x.shape, lambda *i: exp(x[i] - top[_without(i, at)]), name=f"{name}_exp"
    )
    total = reduced(powers, at, False, reduction.sum, f"{name}_sum")
    # The sum is at least 1, so its reciprocal is safe, and the same along the axis.
    return compute(
        x.shape, lambda *i: powers[i] * (1.0 / total[_without(i, at)]), name=name
    )


def log_softmax(x: Tensor, axis: int = -1, name: str = "log_softmax") -> Tensor:
    """The logarithm of softmax, without computing the quotient.

    >>> import ansor
    >>> log_softmax(ansor.placeholder((8, 10)))
    <tensor log_softmax: float32[8, 10]>
    """
    at = as_axis(name, axis, x.ndim)
    top = reduced(x, at, False, reduction.max, f"{name}_max")
    total = reduced(
        x, at, False, reduction.sum, f"{name}_sum", lambda i, o: exp(x[i] - top[o])
    )
    logs = each(total, log, f"{name}_log")
    return compute(
        x.shape,
        lambda *i: x[i] - top[_without(i, at)] - logs[_without(i, at)],
        name=name,
    )


def _check_scale(name: str, x: Tensor, scale: Tensor | None) -> None:
    if scale is not None and scale.shape != x.shape[x.ndim - scale.ndim :]:
        raise ExpressionError(
            name, f"scale or shift of shape {scale.shape} does not end {x.shape}"
        )


def layer_norm(
    x: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    axes: int = 1,
    epsilon: float = 1e-5,
    name: str = "layer_norm",
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * gamma + beta over the last `axes` axes.

    The variance comes from a second pass, after the mean.

    >>> import ansor
    >>> layer_norm(ansor.placeholder((512, 768)), ansor.placeholder((768,)))
    <tensor layer_norm: float32[512, 768]>
    """
    _check_scale(name, x, gamma)
    _check_scale(name, x, beta)
    lead = x.ndim - axes
    if not 0 <= lead < x.ndim:
        raise ExpressionError(name, f"{axes} axes of a tensor that has {x.ndim}")
    gone = range(lead, x.ndim)
    inverse = 1 / prod(x.shape[lead:])
    total = reduced(x, gone, False, reduction.sum, f"{name}_sum")
    mean = each(total, lambda v: v * inverse, f"{name}_mean")

    def square(i: tuple[Value, ...], o: tuple[Value, ...]) -> Value:
        return (x[i] - mean[o]) * (x[i] - mean[o])

    squares = reduced(x, gone, False, reduction.sum, f"{name}_squares", square)

    def body(*i: Value) -> Value:
        scale = rsqrt(squares[i[:lead]] * inverse + epsilon)
        return _affine((x[i] - mean[i[:lead]]) * scale, i, gamma, beta)

    return compute(x.shape, body, name=name)


def _affine(
    value: Value, i: tuple[Value, ...], gamma: Tensor | None, beta: Tensor | None
) -> Value:
    if gamma is not None:
        value = value * gamma[i[len(i) - gamma.ndim :]]
    return value if beta is None else value + beta[i[len(i) - beta.ndim :]]


def rms_norm(
    x: Tensor,
    gamma: Tensor | None = None,
    epsilon: float = 1e-6,
    name: str = "rms_norm",
) -> Tensor:
    """x over the root of its mean square along the last axis, times gamma.

    >>> import ansor
    >>> rms_norm(ansor.placeholder((4, 64)))
    <tensor rms_norm: float32[4, 64]>
    """
    _check_scale(name, x, gamma)
    squares = reduced(
        x, -1, False, reduction.sum, f"{name}_squares", lambda i, o: x[i] * x[i]
    )
    inverse = 1 / x.shape[-1]

    def body(*i: Value) -> Value:
        scale = rsqrt(squares[i[:-1]] * inverse + epsilon)
        return _affine(x[i] * scale, i, gamma, None)

    return compute(x.shape, body, name=name)


def batch_norm(
    x: Tensor,
    mean: Tensor,
    variance: Tensor,
    gamma: Tensor | None = None,
    beta: Tensor | None = None,
    axis: int = 1,
    epsilon: float = 1e-5,
    name: str = "batch_norm",
) -> Tensor:
    """Normalise channels with known statistics (inference); `axis` is the channels'.

    >>> import ansor
    >>> m, v = ansor.placeholder((8,)), ansor.placeholder((8,))
    >>> batch_norm(ansor.placeholder((1, 8, 4, 4)), m, v)
    <tensor batch_norm: float32[1, 8, 4, 4]>
    """
    at = as_axis(name, axis, x.ndim)
    for vector in (mean, variance, gamma, beta):
        if vector is not None and vector.shape != (x.shape[at],):
            raise ExpressionError(
                name, f"{vector.name!r} has shape {vector.shape}, not ({x.shape[at]},)"
            )
    scale = compute(
        mean.shape,
        lambda c: _affine(rsqrt(variance[c] + epsilon), (c,), gamma, None),
        name=f"{name}_scale",
    )

    def body(*i: Value) -> Value:
        return _affine((x[i] - mean[i[at]]) * scale[i[at]], (i[at],), None, beta)

    return compute(x.shape, body, name=name)


def matrix_norm(x: Tensor, name: str = "matrix_norm") -> Tensor:
    """The root of the sum of squares of each matrix in the last two axes.

    >>> import ansor
    >>> matrix_norm(ansor.placeholder((16, 256, 256)))
    <tensor matrix_norm: float32[16]>
    """
    squares = reduced(
        x, (-2, -1), False, reduction.sum, f"{name}_squares", lambda i, o: x[i] * x[i]
    )
    return each(squares, sqrt, name)
