"""Random small graphs."""

from math import prod

import numpy as np
from hypothesis import strategies as st

from ansor.errors import ModelError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Graph, Value

UNARY = ("relu", "negative", "abs", "sigmoid", "tanh", "gelu", "floor", "identity")
BINARY = ("add", "subtract", "multiply", "maximum", "minimum")
MOST = 2000  # elements of a value
SHAPES = ((1, 2, 4, 4), (2, 3, 5, 4), (1, 4, 6), (3, 4), (4, 4), (5,), (1, 3, 2, 3, 3))


class _Drawn:
    """A graph in the making; `draw` decides."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw
        self.build = Builder()
        self.rng = np.random.default_rng(draw(st.integers(0, 1000)))
        self.values = [
            self.build.input(f"x{n}", "float32", self.pick(SHAPES))
            for n in range(draw(st.integers(1, 2)))
        ]

    def pick(self, options):
        return self.draw(st.sampled_from(tuple(options)))

    def value(self) -> Value:
        return self.values[-1] if self.draw(st.booleans()) else self.pick(self.values)

    def constant(self, *shape: int) -> Value:
        if self.draw(st.integers(0, 5)) == 0:
            return self.build.constant(np.full(shape, self.pick((0, 1, 2)), np.float32))
        return self.build.constant(self.rng.standard_normal(shape).astype(np.float32))

    def spatial(self) -> Value | None:
        found = [x for x in self.values if len(x.shape) in (3, 4, 5)]
        return self.pick(found) if found else None

    def unary(self) -> Value:
        return self.build.add(self.pick(UNARY), self.value())

    def binary(self) -> Value:
        return self.build.add(self.pick(BINARY), self.value(), self.value())

    def with_constant(self) -> Value:
        x = self.value()
        kept = self.draw(st.integers(0, len(x.shape)))
        shape = tuple(n if self.draw(st.booleans()) else 1 for n in x.shape)[kept:]
        pair = [x, self.constant(*shape)]
        if self.draw(st.booleans()):
            pair.reverse()
        return self.build.add(self.pick((*BINARY, "divide")), *pair)

    def scaled(self) -> Value | None:
        """A norm of channels."""
        x = self.spatial()
        if x is None:
            return None
        shape = (x.shape[1], *(1,) * (len(x.shape) - 2))
        y = self.build.add("multiply", x, self.constant(*shape))
        return self.build.add("add", y, self.constant(*shape))

    def transpose(self) -> Value:
        x = self.value()
        axes = self.draw(st.permutations(range(len(x.shape))))
        return self.build.add("transpose", x, axes=tuple(axes))

    def reshape(self) -> Value:
        x = self.value()
        options = [(x.size,), (1, *x.shape), (*x.shape, 1)]
        if len(x.shape) > 1:
            options.append((prod(x.shape[:-1]), x.shape[-1]))
            options.append((x.shape[0], prod(x.shape[1:])))
        if x.shape and x.shape[-1] % 2 == 0:
            options.append((*x.shape[:-1], 2, x.shape[-1] // 2))
        options += [y.shape for y in self.values if y.size == x.size]
        return self.build.add("reshape", x, shape=self.pick(options))

    def slice(self) -> Value:
        x = self.value()
        starts = tuple(self.draw(st.integers(0, n - 1)) for n in x.shape)
        steps = tuple(self.pick((1, 1, 2)) for _ in x.shape)
        return self.build.add("slice", x, starts=starts, stops=x.shape, steps=steps)

    def pad(self) -> Value:
        x = self.value()
        before, after = (tuple(self.pick((0, 0, 1)) for _ in x.shape) for _ in range(2))
        return self.build.add("pad", x, before=before, after=after)

    def concat(self) -> Value:
        x = self.value()
        axis = self.draw(st.integers(0, max(0, len(x.shape) - 1)))
        return self.build.add("concat", x, self.value(), axis=axis)

    def expand(self) -> Value:
        x = self.value()
        shape = tuple(self.pick((2, 3)) if n == 1 else n for n in x.shape)
        return self.build.add("expand", x, shape=shape)

    def reduce(self) -> Value:
        x = self.value()
        axes = tuple(d for d in range(len(x.shape)) if self.draw(st.booleans()))
        kind = self.pick(("sum", "mean", "max"))
        keep = self.draw(st.booleans())
        return self.build.add("reduce", x, kind=kind, axes=axes, keepdims=keep)

    def softmax(self) -> Value:
        x = self.value()
        axis = self.draw(st.integers(0, max(0, len(x.shape) - 1)))
        return self.build.add("softmax", x, axis=axis)

    def layer_norm(self) -> Value:
        x = self.value()
        scale, bias = self.constant(x.shape[-1]), self.constant(x.shape[-1])
        axis = len(x.shape) - 1
        return self.build.add("layer_norm", x, scale, bias, axis=axis, epsilon=1e-3)

    def matmul(self) -> Value:
        x = self.value()
        if self.draw(st.booleans()):
            return self.build.add("matmul", x, self.constant(x.shape[-1], 4))
        return self.build.add("matmul", x, self.value())

    def conv(self) -> Value | None:
        x = self.spatial()
        if x is None:
            return None
        rank, kernel = len(x.shape) - 2, self.pick((1, 2, 3))
        groups = self.pick((1, 1, x.shape[1]))
        weight = self.constant(2 * groups, x.shape[1] // groups, *(kernel,) * rank)
        return self.build.add(
            "conv", x, weight, strides=(self.pick((1, 2)),) * rank,
            padding=((self.pick((0, 1)), 1),) * rank, dilations=(1,) * rank,
            groups=groups, layout="first",
        )  # fmt: skip

    def pool(self) -> Value | None:
        x = self.spatial()
        if x is None:
            return None
        rank = len(x.shape) - 2
        return self.build.add(
            self.pick(("max_pool", "avg_pool")), x, kernel=(2,) * rank,
            strides=(1,) * rank, padding=((self.pick((0, 1)), 0),) * rank,
            dilations=(1,) * rank, layout="first",
        )  # fmt: skip


_KINDS = (
    "unary", "binary", "with_constant", "scaled", "transpose", "transpose", "reshape",
    "slice", "pad", "concat", "expand", "reduce", "softmax", "layer_norm", "matmul",
    "conv", "conv", "pool",
)  # fmt: skip


@st.composite
def graphs(draw: st.DrawFn, most: int = 10) -> Graph:
    """A graph of up to `most` nodes; some of what it makes are outputs."""
    drawn = _Drawn(draw)
    for _ in range(draw(st.integers(1, most))):
        try:
            made = getattr(drawn, draw(st.sampled_from(_KINDS)))()
        except (ModelError, IndexError):
            continue
        if made is not None and 0 < made.size <= MOST and len(made.shape) <= 5:
            drawn.values.append(made)
    outputs = [x for x in drawn.values if draw(st.integers(0, 3)) == 0]
    return drawn.build.finish([*outputs, drawn.values[-1]])
