"""Activation functions."""

from __future__ import annotations

import math

from ansor.errors import ExpressionError
from ansor.te import functions as f
from ansor.te.ops.elementwise import each
from ansor.te.tensor import Tensor, compute


def bias_add(x: Tensor, bias: Tensor, axis: int = -1, name: str = "bias_add") -> Tensor:
    """x plus a vector along `axis`: 1 for NCHW, -1 for NHWC.

    >>> import ansor
    >>> x, b = ansor.placeholder((1, 8, 4, 4)), ansor.placeholder((8,))
    >>> bias_add(x, b, axis=1)
    <tensor bias_add: float32[1, 8, 4, 4]>
    """
    at = axis % x.ndim
    if bias.shape != (x.shape[at],):
        raise ExpressionError(
            name, f"bias of shape {bias.shape}, but axis {at} of {x.shape} needs "
            f"({x.shape[at]},)"
        )  # fmt: skip
    return compute(x.shape, lambda *i: x[i] + bias[i[at]], name=name)


def relu(x: Tensor, name: str = "relu") -> Tensor:
    """max(x, 0).

    >>> import ansor
    >>> relu(ansor.placeholder((4,)))
    <tensor relu: float32[4]>
    """
    return each(x, lambda v: f.maximum(v, 0), name)


def relu6(x: Tensor, name: str = "relu6") -> Tensor:
    """x between 0 and 6.

    >>> import ansor
    >>> relu6(ansor.placeholder((4,)))
    <tensor relu6: float32[4]>
    """
    return each(x, lambda v: f.clip(v, 0, 6), name)


def leaky_relu(x: Tensor, slope: float = 0.01, name: str = "leaky_relu") -> Tensor:
    """x, times `slope` where negative.

    >>> import ansor
    >>> leaky_relu(ansor.placeholder((4,)))
    <tensor leaky_relu: float32[4]>
    """
    return each(x, lambda v: f.select(v < 0, v * slope, v), name)


def elu(x: Tensor, alpha: float = 1.0, name: str = "elu") -> Tensor:
    """x, or alpha * (exp(x) - 1) where negative.

    >>> import ansor
    >>> elu(ansor.placeholder((4,)))
    <tensor elu: float32[4]>
    """
    return each(x, lambda v: f.select(v < 0, (f.exp(v) - 1) * alpha, v), name)


def sigmoid(x: Tensor, name: str = "sigmoid") -> Tensor:
    """1 / (1 + exp(-x)).

    >>> import ansor
    >>> sigmoid(ansor.placeholder((4,)))
    <tensor sigmoid: float32[4]>
    """
    return each(x, f.sigmoid, name)


def tanh(x: Tensor, name: str = "tanh") -> Tensor:
    """The hyperbolic tangent.

    >>> import ansor
    >>> tanh(ansor.placeholder((4,)))
    <tensor tanh: float32[4]>
    """
    return each(x, f.tanh, name)


def silu(x: Tensor, name: str = "silu") -> Tensor:
    """x * sigmoid(x), also called swish.

    >>> import ansor
    >>> silu(ansor.placeholder((4,)))
    <tensor silu: float32[4]>
    """
    return each(x, lambda v: v * f.sigmoid(v), name)


def hard_swish(x: Tensor, name: str = "hard_swish") -> Tensor:
    """x * relu6(x + 3) / 6.

    >>> import ansor
    >>> hard_swish(ansor.placeholder((4,)))
    <tensor hard_swish: float32[4]>
    """
    return each(x, lambda v: v * f.clip(v + 3, 0, 6) * (1 / 6), name)


def gelu(x: Tensor, approximate: bool = False, name: str = "gelu") -> Tensor:
    """x * Φ(x) with the error function, or its approximation with tanh.

    >>> import ansor
    >>> gelu(ansor.placeholder((4,)))
    <tensor gelu: float32[4]>
    """
    if approximate:
        c = math.sqrt(2 / math.pi)
        return each(
            x, lambda v: 0.5 * v * (1 + f.tanh(c * (v + 0.044715 * v * v * v))), name
        )
    return each(x, lambda v: 0.5 * v * (1 + f.erf(v * math.sqrt(0.5))), name)
