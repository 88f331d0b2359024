"""Convolutions. Padding is a stage of its own, made only where there is some."""

from __future__ import annotations

from ansor.errors import ExpressionError
from ansor.te.functions import select
from ansor.te.ops.matmul import check_rank, product
from ansor.te.ops.shape import pad
from ansor.te.ops.window import (
    AXES,
    Layout,
    Padding,
    Sizes,
    Window,
    padded,
    sizes,
    window,
)
from ansor.te.reduction import ReduceAxis, reduce_axis, sum
from ansor.te.tensor import Tensor, compute
from ansor.te.value import Scalar, Value


def conv1d(
    x: Tensor,
    weight: Tensor,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    layout: str = "NCW",
    name: str = "conv1d",
    dtype: str | None = None,
) -> Tensor:
    """A convolution over one axis; see `conv2d`. Weights are OIW or, with "NWC", WIO.

    >>> import ansor
    >>> x, w = ansor.placeholder((1, 64, 256)), ansor.placeholder((128, 64, 3))
    >>> conv1d(x, w, stride=2, padding=1)
    <tensor conv1d: float32[1, 128, 128]>
    """
    return _conv(x, weight, stride, padding, dilation, groups,
                 Layout.of(name, layout, 1), name, dtype)  # fmt: skip


def conv2d(
    x: Tensor,
    weight: Tensor,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    layout: str = "NCHW",
    name: str = "conv2d",
    dtype: str | None = None,
) -> Tensor:
    """A convolution over images (without flipping the kernel, as in deep learning).

    Weights are OIHW with "NCHW", HWIO with "NHWC"; I is channels / groups. `padding`
    is one number, one per axis, or (before, after) per axis. `dtype` is the type to
    accumulate in.

    >>> import ansor
    >>> x, w = ansor.placeholder((1, 56, 56, 64)), ansor.placeholder((3, 3, 64, 128))
    >>> conv2d(x, w, padding=1, layout="NHWC")
    <tensor conv2d: float32[1, 56, 56, 128]>
    """
    return _conv(x, weight, stride, padding, dilation, groups,
                 Layout.of(name, layout, 2), name, dtype)  # fmt: skip


def conv3d(
    x: Tensor,
    weight: Tensor,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    layout: str = "NCDHW",
    name: str = "conv3d",
    dtype: str | None = None,
) -> Tensor:
    """A convolution over volumes; see `conv2d`. Weights are OIDHW or DHWIO.

    >>> import ansor
    >>> x, w = ansor.placeholder((1, 3, 8, 8, 8)), ansor.placeholder((4, 3, 3, 3, 3))
    >>> conv3d(x, w)
    <tensor conv3d: float32[1, 4, 6, 6, 6]>
    """
    return _conv(x, weight, stride, padding, dilation, groups,
                 Layout.of(name, layout, 3), name, dtype)  # fmt: skip


def group_conv2d(
    x: Tensor,
    weight: Tensor,
    groups: int,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    layout: str = "NCHW",
    name: str = "group_conv2d",
) -> Tensor:
    """A convolution whose channels form `groups` that do not mix.

    >>> import ansor
    >>> x, w = ansor.placeholder((1, 64, 56, 56)), ansor.placeholder((128, 16, 3, 3))
    >>> group_conv2d(x, w, groups=4, stride=2, padding=1)
    <tensor group_conv2d: float32[1, 128, 28, 28]>
    """
    return conv2d(x, weight, stride, padding, dilation, groups, layout, name)


def depthwise_conv2d(
    x: Tensor,
    weight: Tensor,
    stride: Sizes = 1,
    padding: Padding = 0,
    dilation: Sizes = 1,
    layout: str = "NCHW",
    name: str = "depthwise_conv2d",
) -> Tensor:
    """Every channel by itself; weights are (O, 1, H, W) or (H, W, 1, O).

    O is the number of channels or a multiple of it.

    >>> import ansor
    >>> x, w = ansor.placeholder((1, 32, 112, 112)), ansor.placeholder((32, 1, 3, 3))
    >>> depthwise_conv2d(x, w, padding=1)
    <tensor depthwise_conv2d: float32[1, 32, 112, 112]>
    """
    check_rank(name, x, 4)
    channels = Layout.of(name, layout, 2).channel(x.shape)
    return conv2d(x, weight, stride, padding, dilation, channels, layout, name)


def _conv(
    x: Tensor,
    weight: Tensor,
    stride: Sizes,
    padding: Padding,
    dilation: Sizes,
    groups: int,
    layout: Layout,
    name: str,
    dtype: str | None,
) -> Tensor:
    check_rank(name, x, layout.rank + 2)
    check_rank(name, weight, layout.rank + 2)
    outputs, inputs, kernel = layout.split_weight(weight.shape)
    _check_channels(name, layout.channel(x.shape), outputs, inputs, groups)
    w = window(name, kernel, stride, padding, dilation)
    data = padded(x, layout, w, 0, name)
    c, inside = _reduce_axes(inputs, kernel)

    def body(*axes: Value) -> Scalar:
        n, o, place = axes[0], layout.channel(axes), layout.space(axes)
        channel: Scalar = c if inputs > 1 else 0
        if groups > 1:
            channel = o // (outputs // groups) * inputs + channel
        source = data[layout.join(n, channel, w.at(place, inside))]
        factor = weight[layout.weight(o, c if inputs > 1 else 0, inside)]
        over = [c, *inside] if inputs > 1 else list(inside)
        return sum(product(source, factor, dtype), axis=over)

    space = w.outputs(name, layout.space(x.shape))
    shape = layout.join(x.shape[0], outputs, space)
    names = layout.join("n", "o", AXES[3 - layout.rank :])
    return compute(shape, body, name=name, axes=names)


def _check_channels(
    name: str, channels: int, outputs: int, inputs: int, groups: int
) -> None:
    if groups < 1 or channels % groups or outputs % groups:
        raise ExpressionError(
            name, f"{groups} groups do not divide {channels} inputs, {outputs} outputs"
        )
    if inputs * groups != channels:
        raise ExpressionError(
            name,
            f"the weight takes {inputs} channels in each of {groups} groups, but the "
            f"input has {channels}",
        )


def _reduce_axes(
    channels: int, kernel: tuple[int, ...]
) -> tuple[ReduceAxis, list[ReduceAxis]]:
    names = AXES[3 - len(kernel) :]
    inside = [reduce_axis(k, f"r{x}") for k, x in zip(kernel, names, strict=True)]
    return reduce_axis(channels, "c"), inside


def conv2d_transpose(
    x: Tensor,
    weight: Tensor,
    stride: Sizes = 1,
    padding: Padding = 0,
    output_padding: int = 0,
    layout: str = "NCHW",
    name: str = "conv2d_transpose",
) -> Tensor:
    """The transpose of a convolution: it enlarges images by `stride`.

    Weights are IOHW with "NCHW", HWIO with "NHWC", where I are the channels of `x`.

    >>> import ansor
    >>> x, w = ansor.placeholder((1, 512, 4, 4)), ansor.placeholder((512, 256, 4, 4))
    >>> conv2d_transpose(x, w, stride=2, padding=1)
    <tensor conv2d_transpose: float32[1, 256, 8, 8]>
    """
    order = Layout.of(name, layout, 2)
    check_rank(name, x, 4)
    check_rank(name, weight, 4)
    last, first, kernel = order.split_weight(weight.shape)
    outputs, inputs = (last, first) if order.last else (first, last)
    _check_channels(name, order.channel(x.shape), outputs, inputs, 1)
    w = window(name, kernel, 1, padding, 1)
    steps = sizes(f"{name}: stride", stride, 2)
    space = tuple(
        (n - 1) * s + k - before - after + output_padding
        for n, s, k, (before, after) in zip(
            order.space(x.shape), steps, kernel, w.padding, strict=True
        )
    )
    data = _spread_out(x, order, w, steps, space, name)
    c, inside = _reduce_axes(inputs, kernel)

    def body(*axes: Value) -> Scalar:
        n, o, place = axes[0], order.channel(axes), order.space(axes)
        flipped = [k - 1 - r for k, r in zip(kernel, inside, strict=True)]
        factor = weight[(*flipped, c, o) if order.last else (c, o, *flipped)]
        source = data[order.join(n, c, w.at(place, inside))]
        return sum(source * factor, axis=[c, *inside])

    shape = order.join(x.shape[0], outputs, space)
    return compute(shape, body, name=name, axes=order.join("n", "o", AXES[1:]))


def _spread_out(
    x: Tensor,
    layout: Layout,
    w: Window,
    steps: tuple[int, ...],
    outputs: tuple[int, ...],
    name: str,
) -> Tensor:
    """`x` with step-1 zeros between neighbours, and zeros around."""
    extents = layout.space(x.shape)
    shape = [n + span for n, span in zip(outputs, w.spans, strict=True)]

    def body(*axes: Value) -> Scalar:
        source, inside = [], None
        for d, place in enumerate(layout.space(axes)):
            at = place - (w.spans[d] - w.padding[d][0])
            source.append(at // steps[d])
            tests = [at >= 0, at < (extents[d] - 1) * steps[d] + 1]
            if steps[d] > 1:
                tests.append(at % steps[d] == 0)
            for test in tests:
                inside = test if inside is None else inside & test
        assert inside is not None
        element = x[layout.join(axes[0], layout.channel(axes), source)]
        return select(inside, element, 0)

    whole = layout.join(x.shape[0], layout.channel(x.shape), shape)
    names = layout.join("n", "c", AXES[1:])
    return compute(whole, body, name=f"{name}_pad", axes=names)


def capsule_conv2d(
    x: Tensor,
    weight: Tensor,
    stride: Sizes = 1,
    padding: Padding = 0,
    name: str = "capsule_conv2d",
) -> Tensor:
    """A convolution whose elements are small matrices (capsules).

    `x` is (N, H, W, I, a, b), the weight (KH, KW, I, O, b, c), the result
    (N, H, W, O, a, c).

    >>> import ansor
    >>> x = ansor.placeholder((1, 16, 16, 32, 4, 4))
    >>> w = ansor.placeholder((3, 3, 32, 32, 4, 4))
    >>> capsule_conv2d(x, w, stride=2, padding=1)
    <tensor capsule_conv2d: float32[1, 8, 8, 32, 4, 4]>
    """
    check_rank(name, x, 6)
    check_rank(name, weight, 6)
    if x.shape[3] != weight.shape[2] or x.shape[5] != weight.shape[4]:
        raise ExpressionError(
            name, f"shapes {x.shape} and {weight.shape} differ in channels or capsules"
        )
    w = window(name, weight.shape[:2], stride, padding, 1)
    data = _pad_capsules(x, w, name)
    c, inside = _reduce_axes(x.shape[3], w.kernel)
    k = reduce_axis(x.shape[5], "k")

    def body(n: Value, y: Value, x: Value, o: Value, i: Value, j: Value) -> Scalar:
        source = data[(n, *w.at((y, x), inside), c, i, k)]
        return sum(source * weight[(*inside, c, o, k, j)], axis=[*inside, c, k])

    space = w.outputs(name, x.shape[1:3])
    shape = (x.shape[0], *space, weight.shape[3], x.shape[4], weight.shape[5])
    return compute(shape, body, name=name)


def _pad_capsules(x: Tensor, w: Window, name: str) -> Tensor:
    if not any(n for pair in w.padding for n in pair):
        return x
    none = (0, 0)
    widths = (none, *w.padding, none, none, none)
    return pad(x, widths, 0, f"{name}_pad", ("n", "y", "x", "c", "i", "j"))
