"""Pooling: reductions over windows that move along the spatial axes.

Padding is explicit, (before, after) per axis; windows that leave it do not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ansor.frontend.operators.contraction import Pairs, layout_of
from ansor.frontend.operators.operator import Kind, Operator
from ansor.frontend.operators.reduction import working
from ansor.te import functions as f
from ansor.te import reduction
from ansor.te.ops.elementwise import each
from ansor.te.ops.reduce import Reduce
from ansor.te.ops.window import AXES, Layout, Window, padded, window
from ansor.te.tensor import Tensor, compute
from ansor.te.value import Scalar, Value

Element = Callable[[Value], Value]


def max_pool(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Pairs,
    dilations: Sequence[int],
    layout: str = "first",
) -> Tensor:
    """The greatest element of every window."""
    order = layout_of("max_pool", x, layout)
    w = window("max_pool", tuple(kernel), tuple(strides), tuple(padding), dilations)
    outside = f.min_value(x.dtype)
    return _windows(x, order, w, outside, reduction.max, _same, "max_pool")


def max_pool_indices(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Pairs,
    dilations: Sequence[int],
    layout: str = "first",
) -> Tensor:
    """Where the greatest element of every window is: its row-major position within
    its channel's image."""
    order = layout_of("max_pool_indices", x, layout)
    w = window("max_pool", tuple(kernel), tuple(strides), tuple(padding), dilations)
    outside = f.min_value(x.dtype)
    found = _windows(x, order, w, outside, reduction.argmax, _same, "max_pool_at")
    extents = order.space(x.shape)

    def body(*axes: Value) -> Scalar:
        rest, steps = found[axes], []
        for k in reversed(w.kernel):
            steps.append(rest % k)
            rest = rest // k
        flat = f.cast(0, "int64")
        for d, place in enumerate(order.space(axes)):
            inside = steps[order.rank - 1 - d] * w.dilation[d]
            at = place * w.stride[d] + inside - w.padding[d][0]
            flat = at + flat * extents[d]
        return flat

    return compute(found.shape, body, name="max_pool_indices")


def avg_pool(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Pairs,
    dilations: Sequence[int],
    layout: str = "first",
    count_include_pad: bool = False,
    uncounted: Sequence[int] = (),
) -> Tensor:
    """The mean of every window, over the elements of the image inside it or, with
    `count_include_pad`, of the padding too. Of the padding at the end, `uncounted`
    elements per axis never count: those that make the last window complete."""
    order = layout_of("avg_pool", x, layout)
    w = window("avg_pool", tuple(kernel), tuple(strides), tuple(padding), dilations)
    wide = working(x.dtype)
    total = _windows(x, order, w, 0, reduction.sum, _cast(wide), "avg_pool_sum")
    more = tuple(uncounted) or (0,) * order.rank
    extents = order.space(x.shape)

    def body(*axes: Value) -> Scalar:
        number: Scalar = 1
        for d, place in enumerate(order.space(axes)):
            before, after = w.padding[d] if count_include_pad else (0, more[d])
            counted = range(-before, extents[d] + after - more[d])
            places = order.space(total.shape)[d]
            number = _count(w, d, place, places, counted) * number  # type: ignore[operator]
        if isinstance(number, int):
            return f.cast(total[axes] * (1.0 / number), x.dtype)
        return f.cast(total[axes] / f.cast(number, total.dtype), x.dtype)

    names = order.join("n", "c", AXES[3 - order.rank :])
    return compute(total.shape, body, name="avg_pool", axes=names)


def _count(w: Window, d: int, place: Value, places: int, counted: range) -> Scalar:
    """How many elements of the window at `place` are counted along axis d."""
    before, step, stride = w.padding[d][0], w.dilation[d], w.stride[d]
    end = (places - 1) * stride - before + w.spans[d]
    if counted.start <= -before and end < counted.stop:
        return w.kernel[d]
    start = place * stride - before
    first = f.maximum((counted.start + step - 1 - start) // step, 0)
    last = f.minimum((counted.stop + step - 1 - start) // step, w.kernel[d])
    return last - first


def lp_pool(
    x: Tensor,
    kernel: Sequence[int],
    strides: Sequence[int],
    padding: Pairs,
    dilations: Sequence[int],
    p: float,
    layout: str = "first",
) -> Tensor:
    """The p-norm of every window."""
    order = layout_of("lp_pool", x, layout)
    w = window("lp_pool", tuple(kernel), tuple(strides), tuple(padding), dilations)
    wide = working(x.dtype)

    def power(v: Value) -> Value:
        return _power(f.cast(v, wide), p)

    total = _windows(x, order, w, 0, reduction.sum, power, "lp_pool_sum")
    return each(total, lambda v: f.cast(root(v, p), x.dtype), "lp_pool")


def _power(x: Value, p: float) -> Value:
    if p == 1:
        return abs(x)
    return x * x if p == 2 else abs(x) ** p


def root(x: Value, p: float) -> Value:
    """The p-th root."""
    if p == 1:
        return x
    return f.sqrt(x) if p == 2 else x ** (1 / p)


def _same(x: Value) -> Value:
    return x


def _cast(dtype: str) -> Element:
    return lambda v: f.cast(v, dtype)


def _windows(
    x: Tensor,
    order: Layout,
    w: Window,
    outside: Scalar,
    combine: Reduce,
    before: Element,
    name: str,
) -> Tensor:
    """The elements of every window combined; `outside` is what the padding holds."""
    data = padded(x, order, w, outside, name)
    names = AXES[3 - order.rank :]
    inside = [
        reduction.reduce_axis(k, f"r{axis}")
        for k, axis in zip(w.kernel, names, strict=True)
    ]

    def body(*axes: Value) -> Scalar:
        place = w.at(order.space(axes), inside)
        source = data[order.join(axes[0], order.channel(axes), place)]
        return combine(before(source), inside)

    space = w.outputs(name, order.space(x.shape))
    shape = order.join(x.shape[0], order.channel(x.shape), space)
    return compute(shape, body, name=name, axes=order.join("n", "c", names))


OPERATORS = (
    Operator("max_pool", max_pool, Kind.REDUCTION),
    Operator("max_pool_indices", max_pool_indices, Kind.REDUCTION),
    Operator("avg_pool", avg_pool, Kind.REDUCTION),
    Operator("lp_pool", lp_pool, Kind.REDUCTION),
)
