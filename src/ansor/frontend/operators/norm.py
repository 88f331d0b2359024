"""Softmax and normalisations. 16-bit floats are computed in float32."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from ansor.errors import ExpressionError
from ansor.frontend.operators.operator import Kind, Operator
from ansor.frontend.operators.reduction import working
from ansor.frontend.operators.window import root
from ansor.te import functions as f
from ansor.te import ops, reduction
from ansor.te.ops.elementwise import broadcast_shape, each, element
from ansor.te.ops.reduce import reduced
from ansor.te.ops.window import Layout
from ansor.te.tensor import Tensor, compute
from ansor.te.value import Scalar, Value


def _wide(x: Tensor) -> Tensor:
    if working(x.dtype) == x.dtype:
        return x
    return each(x, lambda v: f.cast(v, working(x.dtype)), "wide")


def _as(x: Tensor, dtype: str) -> Tensor:
    return x if x.dtype == dtype else each(x, lambda v: f.cast(v, dtype), "rounded")


def softmax(x: Tensor, axis: int) -> Tensor:
    """exp(x) over its sum along an axis."""
    return _as(ops.softmax(_wide(x), axis), x.dtype)


def log_softmax(x: Tensor, axis: int) -> Tensor:
    """The logarithm of softmax."""
    return _as(ops.log_softmax(_wide(x), axis), x.dtype)


def layer_norm(
    x: Tensor, scale: Tensor, bias: Tensor, axis: int, epsilon: float
) -> Tensor:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias over the axes from `axis`
    on; scale and bias broadcast to x."""
    wide, dtype = _wide(x), x.dtype
    count = x.ndim - axis
    gamma, beta = _wide(scale), _wide(bias)
    if gamma.shape == beta.shape == x.shape[axis:] and gamma.dtype == wide.dtype:
        return _as(ops.layer_norm(wide, gamma, beta, count, epsilon), dtype)
    plain = ops.layer_norm(wide, axes=count, epsilon=epsilon)
    return _affine(plain, gamma, beta, dtype, "layer_norm_affine")


def _affine(
    x: Tensor, scale: Tensor | None, bias: Tensor | None, dtype: str, name: str
) -> Tensor:
    """x * scale + bias with broadcasting, in `dtype`."""
    for other in (scale, bias):
        if other is not None and broadcast_shape(name, x.shape, other.shape) != x.shape:
            raise ExpressionError(
                name, f"{other.shape} does not broadcast to {x.shape}"
            )

    def body(*i: Value) -> Value:
        value = x[i]
        if scale is not None:
            value = value * element(scale, x.shape, i)
        if bias is not None:
            value = value + element(bias, x.shape, i)
        return f.cast(value, dtype)

    return compute(x.shape, body, name=name)


def rms_norm(x: Tensor, scale: Tensor, axis: int, epsilon: float) -> Tensor:
    """x / sqrt(mean of x² + epsilon) * scale over the axes from `axis` on."""
    wide, gamma = _wide(x), _wide(scale)
    squares = reduced(
        wide, range(axis, x.ndim), False, reduction.sum, "rms_norm_squares",
        lambda i, _: wide[i] * wide[i],
    )  # fmt: skip
    inverse = 1 / prod(x.shape[axis:])
    broadcast_shape("rms_norm", x.shape, gamma.shape)

    def body(*i: Value) -> Value:
        factor = f.rsqrt(squares[i[:axis]] * inverse + epsilon)
        return f.cast(wide[i] * factor * element(gamma, x.shape, i), x.dtype)

    return compute(x.shape, body, name="rms_norm")


def group_norm(
    x: Tensor,
    scale: Tensor,
    bias: Tensor,
    groups: int,
    epsilon: float,
    layout: str = "first",
) -> Tensor:
    """Groups of channels (axis 1, or the last one with layout "last") normalised
    together with everything but the batch; one scale and bias per channel."""
    order = Layout(layout == "last", x.ndim - 2)
    channels = order.channel(x.shape)
    if groups < 1 or channels % groups:
        raise ExpressionError(
            "group_norm", f"{groups} groups do not divide {channels} channels"
        )
    own = channels // groups
    wide = _wide(x)
    inverse = 1 / (own * prod(order.space(x.shape)))
    total = _grouped(wide, order, groups, lambda i, o: wide[i], "group_norm_sum")
    mean = each(total, lambda v: v * inverse, "group_norm_mean")

    def square(i: tuple[Scalar, ...], o: tuple[Value, ...]) -> Value:
        return (wide[i] - mean[o]) * (wide[i] - mean[o])

    squares = _grouped(wide, order, groups, square, "group_norm_squares")
    gamma, beta = _wide(scale), _wide(bias)

    def body(*i: Value) -> Value:
        c = order.channel(i)
        group = (i[0], c // own if own > 1 else c)
        factor = f.rsqrt(squares[group] * inverse + epsilon) * gamma[c]
        return f.cast((wide[i] - mean[group]) * factor + beta[c], x.dtype)

    return compute(x.shape, body, name="group_norm")


Source = Callable[[tuple[Scalar, ...], tuple[Value, ...]], Value]


def _grouped(
    x: Tensor, order: Layout, groups: int, source: Source, name: str
) -> Tensor:
    """The sum of `source(place in x, (n, group))` over every group of channels."""
    own = order.channel(x.shape) // groups
    space = order.space(x.shape)
    inner = [reduction.reduce_axis(n, f"k{d}") for d, n in enumerate(space)]
    c = reduction.reduce_axis(own, "c")
    mixed = own > 1 or not inner

    def body(n: Value, g: Value) -> Scalar:
        channel = g * own + c if mixed else g
        over = [*inner, c] if order.last else [c, *inner]
        place = order.join(n, channel, inner)
        return reduction.sum(source(place, (n, g)), axis=over if mixed else inner)

    return compute((x.shape[0], groups), body, name=name)


def instance_norm(
    x: Tensor, scale: Tensor, bias: Tensor, epsilon: float, layout: str = "first"
) -> Tensor:
    """Every channel of every image normalised by itself."""
    channels = x.shape[-1 if layout == "last" else 1]
    return group_norm(x, scale, bias, channels, epsilon, layout)


def lrn(
    x: Tensor,
    alpha: float,
    beta: float,
    bias: float,
    size: int,
    layout: str = "first",
) -> Tensor:
    """x / (bias + alpha / size * squares of `size` neighbouring channels) ** beta."""
    wide = _wide(x)
    before = (size - 1) // 2
    order = Layout(layout == "last", x.ndim - 2)
    none = (0, 0)
    widths = order.join(none, (before, size - 1 - before), [none] * order.rank)
    data = ops.pad(wide, widths, 0, "lrn_pad")
    k = reduction.reduce_axis(size, "k")

    def square(*i: Value) -> Scalar:
        v = data[order.join(i[0], order.channel(i) + k, order.space(i))]
        return reduction.sum(v * v, axis=k)

    total = compute(x.shape, square, name="lrn_squares")

    def body(*i: Value) -> Value:
        return f.cast(wide[i] / (total[i] * (alpha / size) + bias) ** beta, x.dtype)

    return compute(x.shape, body, name="lrn")


def lp_normalize(x: Tensor, axis: int, p: int) -> Tensor:
    """x over its p-norm along an axis; 0 where that is 0."""
    wide = _wide(x)

    def power(i: tuple[Value, ...], _: tuple[Value, ...]) -> Value:
        return abs(wide[i]) if p == 1 else wide[i] * wide[i]

    if p not in (1, 2):
        raise ExpressionError("lp_normalize", f"p = {p}", "use 1 or 2")
    total = reduced(wide, axis, False, reduction.sum, "lp_sum", power)
    norm = each(total, lambda v: root(v, p), "lp_norm")

    def body(*i: Value) -> Value:
        own = norm[(*i[:axis], *i[axis + 1 :])]
        return f.cast(f.select(own > 0, wide[i] / own, 0.0), x.dtype)

    return compute(x.shape, body, name="lp_normalize")


OPERATORS = (
    Operator("softmax", softmax, Kind.REDUCTION),
    Operator("log_softmax", log_softmax, Kind.REDUCTION),
    Operator("layer_norm", layer_norm, Kind.REDUCTION),
    Operator("rms_norm", rms_norm, Kind.REDUCTION),
    Operator("group_norm", group_norm, Kind.REDUCTION),
    Operator("instance_norm", instance_norm, Kind.REDUCTION),
    Operator("lrn", lrn, Kind.REDUCTION),
    Operator("lp_normalize", lp_normalize, Kind.REDUCTION),
)
