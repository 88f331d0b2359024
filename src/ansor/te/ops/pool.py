"""Pooling over windows and over whole images."""

from __future__ import annotations

from ansor.errors import ExpressionError
from ansor.te import functions, reduction
from ansor.te.ops.matmul import check_rank
from ansor.te.ops.reduce import reduce_max, reduce_mean
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
from ansor.te.tensor import Tensor, compute
from ansor.te.value import Scalar, Value


def pool(
    x: Tensor,
    kind: str,
    kernel: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    dilation: Sizes = 1,
    count_padding: bool = False,
    layout: str = "NCHW",
    name: str = "pool",
) -> Tensor:
    """The "max" or "avg" of windows; the stride is the kernel unless given.

    Layouts of one, two and three spatial axes work. Averages divide by the elements
    of the image inside the window, or with `count_padding` by the kernel's size.

    >>> import ansor
    >>> pool(ansor.placeholder((1, 64, 112, 112)), "max", 3, stride=2, padding=1)
    <tensor pool: float32[1, 64, 56, 56]>
    """
    rank = len(layout) - 2
    if kind not in ("max", "avg") or rank not in (1, 2, 3):
        raise ExpressionError(
            f"{name} {kind!r} in layout {layout!r}", 'pools are "max" or "avg"'
        )
    order = Layout.of(name, layout, rank)
    size = sizes(f"{name}: kernel", kernel, rank)
    w = window(name, size, size if stride is None else stride, padding, dilation)
    if kind == "max":
        return _windows(x, order, w, "max", name)
    total = _windows(x, order, w, "sum", f"{name}_sum")
    return _average(total, order, w, order.space(x.shape), count_padding, name)


def _windows(x: Tensor, layout: Layout, w: Window, kind: str, name: str) -> Tensor:
    outside = functions.min_value(x.dtype) if kind == "max" else 0
    data = padded(x, layout, w, outside, name)
    names = AXES[3 - layout.rank :]
    both = zip(w.kernel, names, strict=True)
    inside = [reduction.reduce_axis(k, f"r{axis}") for k, axis in both]
    combine = reduction.max if kind == "max" else reduction.sum

    def body(*axes: Value) -> Scalar:
        place = w.at(layout.space(axes), inside)
        source = data[layout.join(axes[0], layout.channel(axes), place)]
        return combine(source, axis=inside)

    space = w.outputs(name, layout.space(x.shape))
    shape = layout.join(x.shape[0], layout.channel(x.shape), space)
    return compute(shape, body, name=name, axes=layout.join("n", "c", names))


def _average(
    total: Tensor,
    layout: Layout,
    w: Window,
    extents: tuple[int, ...],
    count_padding: bool,
    name: str,
) -> Tensor:
    def count(d: int, place: Value) -> Scalar:
        before, after = w.padding[d]
        if count_padding or not (before or after):
            return w.kernel[d]
        if w.dilation[d] != 1:
            raise ExpressionError(
                name, "dilated averages with padding", "use count_padding=True"
            )
        start = place * w.stride[d] - before
        stop = functions.minimum(start + w.kernel[d], extents[d])
        return stop - functions.maximum(start, 0)

    def body(*axes: Value) -> Scalar:
        number: Scalar = 1
        for d, place in enumerate(layout.space(axes)):
            number = count(d, place) * number  # type: ignore[operator]
        return total[axes] / functions.cast(number, total.dtype)

    names = layout.join("n", "c", AXES[3 - layout.rank :])
    return compute(total.shape, body, name=name, axes=names)


def max_pool(
    x: Tensor,
    kernel: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    layout: str = "NCHW",
    name: str = "max_pool",
) -> Tensor:
    """The greatest element of every window.

    >>> import ansor
    >>> max_pool(ansor.placeholder((1, 64, 8, 8)), 2)
    <tensor max_pool: float32[1, 64, 4, 4]>
    """
    return pool(x, "max", kernel, stride, padding, layout=layout, name=name)


def avg_pool(
    x: Tensor,
    kernel: Sizes,
    stride: Sizes | None = None,
    padding: Padding = 0,
    count_padding: bool = False,
    layout: str = "NCHW",
    name: str = "avg_pool",
) -> Tensor:
    """The mean of every window; see `pool`.

    >>> import ansor
    >>> avg_pool(ansor.placeholder((1, 64, 8, 8)), 2)
    <tensor avg_pool: float32[1, 64, 4, 4]>
    """
    return pool(x, "avg", kernel, stride, padding, 1, count_padding, layout, name)


def _space(x: Tensor, layout: str, name: str) -> tuple[int, ...]:
    order = Layout.of(name, layout, len(layout) - 2)
    check_rank(name, x, len(layout))
    return order.space(range(x.ndim))


def global_avg_pool(
    x: Tensor, layout: str = "NCHW", name: str = "global_avg_pool"
) -> Tensor:
    """The mean of every channel, (N, C).

    >>> import ansor
    >>> global_avg_pool(ansor.placeholder((1, 64, 8, 8)))
    <tensor global_avg_pool: float32[1, 64]>
    """
    return reduce_mean(x, _space(x, layout, name), name=name)


def global_max_pool(
    x: Tensor, layout: str = "NCHW", name: str = "global_max_pool"
) -> Tensor:
    """The greatest element of every channel, (N, C).

    >>> import ansor
    >>> global_max_pool(ansor.placeholder((1, 64, 8, 8)))
    <tensor global_max_pool: float32[1, 64]>
    """
    return reduce_max(x, _space(x, layout, name), name=name)
