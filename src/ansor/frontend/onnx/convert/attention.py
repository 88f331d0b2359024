"""Attention, rotary embeddings and caches, spelled with products and softmax."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, sqrt

import numpy as np

from ansor.errors import ModelError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.frontend.onnx.convert.pieces import (
    as_axis,
    beside,
    cast,
    literal,
    part,
    reduced,
    reshape,
    softmax,
)
from ansor.frontend.onnx.node import Converter, OnnxNode
from ansor.ir.dtypes import DTYPES


def convert_attention(node: OnnxNode, build: Builder) -> tuple[Value, ...]:
    q, k, v = _heads(node, build)
    past = [node.maybe(4), node.maybe(5)]
    if (past[0] is None) != (past[1] is None):
        raise ModelError(str(node), "past_key and past_value must come together")
    before = 0
    if past[0] is not None and past[1] is not None:
        before = past[0].shape[2]
        k = build.add("concat", past[0], k, axis=2)
        v = build.add("concat", past[1], v, axis=2)
    scores = _scores(node, build, q, _shared(node, build, k, q.shape[1]))
    mode = node.attribute("qk_matmul_output_mode", 0)
    shown = {0: scores}
    shown[1] = scores = _capped(node, build, scores)
    bias = _Bias(node, build, scores, before).value()
    scores = scores if bias is None else build.add("add", scores, bias)
    shown[2] = scores
    weights = _weights(node, build, scores, bias)
    shown[3] = weights
    found = build.add("matmul", weights, _shared(node, build, v, q.shape[1]))
    if len(node.input(0).shape) == 3:
        found = build.add("transpose", found, axes=(0, 2, 1, 3))
        wide = found.shape[2] * found.shape[3]
        found = reshape(build, found, (*found.shape[:2], wide))
    if mode not in shown:
        raise node.unsupported(f"attribute 'qk_matmul_output_mode' is {mode}")
    return found, k, v, cast(build, shown[mode], q.dtype)


def _heads(node: OnnxNode, build: Builder) -> tuple[Value, Value, Value]:
    """Query, key and value as (batch, heads, length, width)."""
    inputs = [node.input(n) for n in range(3)]
    ranks = {len(x.shape) for x in inputs}
    counts = (node.attribute("q_num_heads", 0), node.attribute("kv_num_heads", 0))
    if ranks == {4}:
        q, k, v = inputs
        return q, k, v
    if ranks != {3} or min(counts) < 1:
        raise ModelError(str(node), f"inputs have {ranks} axes and {counts} heads")
    q, k, v = (
        _split(node, build, x, n)
        for x, n in zip(inputs, (counts[0], counts[1], counts[1]), strict=True)
    )
    return q, k, v


def _split(node: OnnxNode, build: Builder, x: Value, heads: int) -> Value:
    batch, length, width = x.shape
    if width % heads:
        raise ModelError(str(node), f"{heads} heads do not divide {width}")
    apart = reshape(build, x, (batch, length, heads, width // heads))
    return build.add("transpose", apart, axes=(0, 2, 1, 3))


def _shared(node: OnnxNode, build: Builder, x: Value, heads: int) -> Value:
    """Keys or values repeated for groups of queries' heads."""
    own = x.shape[1]
    if own == heads:
        return x
    if heads % own:
        raise ModelError(str(node), f"{heads} heads of queries, {own} of keys")
    return build.add("repeat", x, repeats=heads // own, axis=1)


def _scores(node: OnnxNode, build: Builder, q: Value, k: Value) -> Value:
    """q · kᵀ * scale. In 16 bits both sides take half of the scale, so that products
    do not overflow."""
    scale = node.attribute("scale", None)
    factor = 1 / sqrt(q.shape[3]) if scale is None else float(scale)
    turned = build.add("transpose", k, axes=(0, 1, 3, 2))
    if DTYPES[q.dtype].bits > 16 or factor < 0:
        return build.add("matmul", beside(build, "multiply", q, factor), turned)
    root = sqrt(factor)
    left, right = (beside(build, "multiply", x, root) for x in (q, turned))
    return build.add("matmul", left, right)


def _capped(node: OnnxNode, build: Builder, scores: Value) -> Value:
    cap = node.attribute("softcap", 0.0)
    if cap <= 0:
        return scores
    bent = build.add("tanh", beside(build, "divide", scores, cap))
    return beside(build, "multiply", bent, cap)


@dataclass(frozen=True)
class _Bias:
    """What is added to the scores: 0 where a query sees a key, else minus infinity."""

    node: OnnxNode
    build: Builder
    scores: Value
    before: int  # keys of the cache

    def value(self) -> Value | None:
        parts = [self._mask(), self._causal(), self._window(), self._length()]
        total: Value | None = None
        for one in parts:
            if one is not None:
                total = one if total is None else self.build.add("add", total, one)
        return total

    @property
    def dtype(self) -> str:
        return self.scores.dtype

    def _mask(self) -> Value | None:
        mask = self.node.maybe(3)
        if mask is None:
            return None
        if mask.dtype == "bool":
            mask = self._barred(mask)
        missing = self.scores.shape[-1] - mask.shape[-1]
        if missing > 0:
            none = (0,) * (len(mask.shape) - 1)
            mask = self.build.add(
                "pad", mask, before=(*none, 0), after=(*none, missing),
                mode="constant", value=-inf,
            )  # fmt: skip
        return cast(self.build, mask, self.dtype)

    def _barred(self, seen: Value) -> Value:
        """0 where `seen`, else minus infinity."""
        zero, low = (literal(self.build, n, self.dtype) for n in (0.0, -inf))
        return self.build.add("where", seen, zero, low)

    def _distance(self) -> Value:
        """How far a key stands behind its query: (batch or nothing, queries, keys)."""
        queries, keys = self.scores.shape[-2:]
        lag = np.arange(queries)[:, None] - np.arange(keys)[None, :]
        lengths = self._lengths()
        if lengths is None:
            return self.build.constant(lag.astype(np.int64) + self.before, "lag")
        shift = beside(self.build, "subtract", lengths, queries)
        shift = reshape(self.build, shift, (shift.size, 1, 1, 1))
        return self.build.add("add", self.build.constant(lag, "lag"), shift)

    def _lengths(self) -> Value | None:
        lengths = self.node.maybe(6)
        if lengths is not None and self.node.maybe(4) is not None:
            raise ModelError(str(self.node), "nonpad_kv_seqlen beside past_key")
        return lengths

    def _causal(self) -> Value | None:
        if not self.node.attribute("is_causal", False):
            return None
        seen = beside(self.build, "greater_equal", self._distance(), 0)
        return self._barred(seen)

    def _window(self) -> Value | None:
        left = self.node.attribute("left_window_size", -1)
        right = self.node.attribute("right_window_size", -1)
        seen: Value | None = None
        if left >= 0:
            seen = beside(self.build, "less_equal", self._distance(), left)
        if right >= 0:
            near = beside(self.build, "greater_equal", self._distance(), -right)
            seen = near if seen is None else self.build.add("logical_and", seen, near)
        return None if seen is None else self._barred(seen)

    def _length(self) -> Value | None:
        lengths = self._lengths()
        if lengths is None:
            return None
        keys = self.build.constant(np.arange(self.scores.shape[-1]), "keys")
        ends = reshape(self.build, lengths, (lengths.size, 1, 1, 1))
        return self._barred(self.build.add("less", keys, ends))


def _weights(
    node: OnnxNode, build: Builder, scores: Value, bias: Value | None
) -> Value:
    """The softmax of the scores; 0 for queries that see no key."""
    dtype = scores.dtype
    precise = node.attribute("softmax_precision", None)
    if precise is not None:
        scores = cast(build, scores, node.dtype("softmax_precision"))
    weights = softmax(build, scores, 3)
    if bias is None:
        return cast(build, weights, dtype)
    top = reduced(build, bias, "max", (len(bias.shape) - 1,))
    blind = beside(build, "equal", top, -inf)
    known = build.known(blind)
    if known is None or known.any():
        zero = literal(build, 0.0, weights.dtype)
        weights = build.add("where", blind, zero, weights)
    return cast(build, weights, dtype)


def convert_rotary(node: OnnxNode, build: Builder) -> Value:
    """Pairs of elements turned by angles whose cosines and sines are given."""
    x, cos, sin = node.input(0), node.input(1), node.input(2)
    heads = node.attribute("num_heads", 0)
    width = node.attribute("rotary_embedding_dim", 0)
    interleaved = node.attribute("interleaved", False)
    whole, flat = x, len(x.shape) == 3
    if flat:
        if heads < 1 or x.shape[2] % heads:
            raise ModelError(str(node), f"num_heads is {heads} for shape {x.shape}")
        whole = reshape(build, x, (*x.shape[:2], heads, x.shape[2] // heads))
    places = node.maybe(3)
    if places is not None:
        cos, sin = (build.add("gather", v, places, axis=0) for v in (cos, sin))
    axis = 2 if flat else 1  # of heads
    cos, sin = (
        reshape(build, v, (*v.shape[:axis], 1, *v.shape[axis:])) for v in (cos, sin)
    )
    size = whole.shape[3]
    turned = _turn(
        build, part(build, whole, 3, 0, width or size), cos, sin, interleaved
    )
    if width and width < size:
        rest = part(build, whole, 3, width, size)
        turned = build.add("concat", turned, rest, axis=3)
    return reshape(build, turned, x.shape)


def _turn(build: Builder, x: Value, cos: Value, sin: Value, interleaved: bool) -> Value:
    *lead, size = x.shape
    half = size // 2
    pairs = (half, 2) if interleaved else (2, half)
    apart = reshape(build, x, (*lead, *pairs))
    axis = 4 if interleaved else 3
    a, b = (
        reshape(build, part(build, apart, axis, n, n + 1), (*lead, half))
        for n in (0, 1)
    )

    def times(u: Value, v: Value) -> Value:
        return build.add("multiply", u, v)

    real = build.add("subtract", times(a, cos), times(b, sin))
    imaginary = build.add("add", times(a, sin), times(b, cos))
    shape = (*lead, half, 1) if interleaved else (*lead, 1, half)
    both = [reshape(build, v, shape) for v in (real, imaginary)]
    return reshape(build, build.add("concat", *both, axis=axis), x.shape)


def convert_tensor_scatter(node: OnnxNode, build: Builder) -> Value:
    """A cache with rows replaced from a place on that differs from batch to batch."""
    cache, update, starts = node.input(0), node.input(1), node.maybe(2)
    axis = as_axis(node, node.attribute("axis", -2), len(cache.shape))
    mode = node.attribute("mode", "linear")
    rows, count = cache.shape[axis], update.shape[axis]
    shape = tuple(rows if d == axis else 1 for d in range(len(cache.shape)))
    place = build.constant(np.arange(rows).reshape(shape), "rows")
    if starts is not None:
        lead = reshape(build, starts, (starts.size, *(1,) * (len(shape) - 1)))
        place = build.add("subtract", place, lead)
    if mode == "circular":
        place = beside(build, "remainder", place, rows)
    elif mode != "linear":
        raise node.unsupported(f"attribute 'mode' is {mode!r}")
    new = build.add(
        "logical_and",
        beside(build, "greater_equal", place, 0),
        beside(build, "less", place, count),
    )
    inside = build.add("clip", place, low=0, high=count - 1)
    inside = build.add("expand", inside, shape=cache.shape)
    moved = build.add("gather_elements", update, inside, axis=axis)
    return build.add("where", new, moved, cache)


CONVERTERS: dict[str, Converter] = {
    "Attention": convert_attention,
    "RotaryEmbedding": convert_rotary,
    "TensorScatter": convert_tensor_scatter,
}
