"""Reductions, sorting and distances of ATen."""

from __future__ import annotations

from math import inf, prod

import numpy as np

from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.frontend.torch.call import (
    Call,
    Converter,
    Results,
    cast,
    reshaped,
    scalar,
)


def _reduced(
    build: Builder, x: Value, kind: str, axes: tuple[int, ...], keepdims: bool
) -> Value:
    if not axes:  # of a number
        return x
    return build.add("reduce", x, kind=kind, axes=axes, keepdims=keepdims)


def reduce(kind: str) -> Converter:
    def convert(call: Call, build: Builder) -> Results:
        x = cast(build, call.value("self"), call.dtype)
        axes = call.axes("dim", len(x.shape))
        return _reduced(build, x, kind, axes, call.flag("keepdim"))

    return convert


def convert_extreme(call: Call, build: Builder) -> Results:
    """max.dim and min.dim: values and where they are."""
    x = call.value("self")
    kind = "max" if call.op.startswith("aten.max") else "min"
    if not x.shape:
        return x, scalar(build, 0, "int64")
    axis, keep = call.axis("dim", len(x.shape)), call.flag("keepdim")
    values = _reduced(build, x, kind, (axis,), keep)
    return values, build.add(f"arg{kind}", x, axis=axis, keepdims=keep, last=False)


def locate(op: str) -> Converter:
    def convert(call: Call, build: Builder) -> Results:
        x = call.value("self")
        if call.has("dim") and x.shape:
            axis, keep = call.axis("dim", len(x.shape)), call.flag("keepdim")
            return build.add(op, x, axis=axis, keepdims=keep, last=False)
        flat = reshaped(build, x, (x.size,))
        found = build.add(op, flat, axis=0, keepdims=False, last=False)
        return reshaped(build, found, call.shape)

    return convert


def convert_var(call: Call, build: Builder) -> Results:
    x = call.value("self")
    axes = call.axes("dim", len(x.shape))
    mean = _reduced(build, x, "mean", axes, True)
    apart = build.add("subtract", x, mean)
    squares = build.add("multiply", apart, apart)
    total = _reduced(build, squares, "sum", axes, call.flag("keepdim"))
    count = prod(x.shape[d] for d in axes) - _correction(call)
    with np.errstate(divide="ignore"):
        inverse = float(np.float64(1) / np.float64(max(count, 0)))
    return build.add("multiply", total, scalar(build, inverse, x.dtype))


def _correction(call: Call) -> float:
    if call.has("correction"):
        return float(call.number("correction"))
    return 1.0 if call.arguments.get("unbiased", True) else 0.0


def running(op: str) -> Converter:
    def convert(call: Call, build: Builder) -> Results:
        x = cast(build, call.value("self"), call.dtype)
        if not x.shape:
            return x
        axis = call.axis("dim", len(x.shape))
        return build.add(op, x, axis=axis, exclusive=False, reverse=False)

    return convert


def convert_topk(call: Call, build: Builder) -> Results:
    x = call.value("self")
    if not x.shape:
        return x, scalar(build, 0, "int64")
    axis = call.axis("dim", len(x.shape))
    if "k" in call.arguments:
        k, largest = call.whole("k"), call.flag("largest")
    else:
        k, largest = x.shape[axis], call.flag("descending")
    return build.add_all("topk", x, k=k, axis=axis, largest=largest, sorted=True)


# -- distances -------------------------------------------------------------------------


def convert_cdist(call: Call, build: Builder) -> Results:
    """Of every row of one matrix to every row of another."""
    a, b = call.value("x1"), call.value("x2")
    left = reshaped(build, a, (*a.shape[:-1], 1, a.shape[-1]))
    right = reshaped(build, b, (*b.shape[:-2], 1, *b.shape[-2:]))
    return _distance(build, left, right, float(call.number("p")))


def convert_pdist(call: Call, build: Builder) -> Results:
    """Of every pair of rows."""
    x = call.value("self")
    first, second = np.triu_indices(x.shape[0], 1)
    left = build.add("gather", x, build.constant(first.astype(np.int64)), axis=0)
    right = build.add("gather", x, build.constant(second.astype(np.int64)), axis=0)
    return _distance(build, left, right, float(call.number("p")))


def _distance(build: Builder, a: Value, b: Value, p: float) -> Value:
    apart = build.add("subtract", a, b)
    return _norm(build, apart, p, (len(apart.shape) - 1,), False)


def convert_norm(call: Call, build: Builder) -> Results:
    x = cast(build, call.value("self"), call.dtype)
    axes = call.axes("dim", len(x.shape))
    return _norm(build, x, float(call.number("ord")), axes, call.flag("keepdim"))


def _norm(
    build: Builder, x: Value, p: float, axes: tuple[int, ...], keepdims: bool
) -> Value:
    size = build.add("abs", x)
    if p in (inf, -inf):
        return _reduced(build, size, "max" if p > 0 else "min", axes, keepdims)
    if p == 0:
        some = build.add("not_equal", size, scalar(build, 0, size.dtype))
        return _reduced(build, cast(build, some, size.dtype), "sum", axes, keepdims)
    if p in (1, 2):
        return _reduced(build, size, f"l{int(p)}", axes, keepdims)
    powers = build.add("power", size, scalar(build, p, size.dtype))
    total = _reduced(build, powers, "sum", axes, keepdims)
    return build.add("power", total, scalar(build, 1 / p, size.dtype))


CONVERTERS: dict[str, Converter] = {
    "aten.sum.default": reduce("sum"),
    "aten.sum.dim_IntList": reduce("sum"),
    "aten.mean.default": reduce("mean"),
    "aten.mean.dim": reduce("mean"),
    "aten.amax.default": reduce("max"),
    "aten.amin.default": reduce("min"),
    "aten.max.default": reduce("max"),
    "aten.min.default": reduce("min"),
    "aten.prod.default": reduce("prod"),
    "aten.prod.dim_int": reduce("prod"),
    **{f"aten.any.{x}": reduce("any") for x in ("default", "dim", "dims")},
    **{f"aten.all.{x}": reduce("all") for x in ("default", "dim", "dims")},
    "aten.max.dim": convert_extreme,
    "aten.min.dim": convert_extreme,
    "aten.argmax.default": locate("argmax"),
    "aten.argmin.default": locate("argmin"),
    "aten.var.correction": convert_var,
    "aten.var.dim": convert_var,
    "aten.cumsum.default": running("cumsum"),
    "aten.cumprod.default": running("cumprod"),
    "aten.topk.default": convert_topk,
    "aten.sort.default": convert_topk,
    "aten.sort.stable": convert_topk,
    "aten.linalg_vector_norm.default": convert_norm,
    "aten._cdist_forward.default": convert_cdist,
    "aten._pdist_forward.default": convert_pdist,
}
