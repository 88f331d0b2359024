"""Random valid ONNX graphs whose results are finite and do not jump.

A step takes values that are there and appends nodes. Values stay near one: what grows
is scaled, divisors are at least one. Operators that jump (rounding, comparisons, the
place of a maximum) are applied to inputs of the graph only, where all backends see the
same numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

FLOAT = TensorProto.FLOAT
MOST = 4096  # elements of a value


@dataclass
class Tensor:
    name: str
    shape: tuple[int, ...]
    is_input: bool = False


@dataclass
class Graph:
    """A graph that grows; all its values are float32."""

    rng: np.random.Generator
    nodes: list[NodeProto] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)
    constants: list[TensorProto] = field(default_factory=list)
    count: int = 0

    def name(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def input(self, *shape: int) -> Tensor:
        made = Tensor(self.name("x"), shape, True)
        self.inputs.append(made)
        self.values.append(made)
        return made

    def constant(self, array: np.ndarray) -> str:
        name = self.name("w")
        self.constants.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *shape: int, scale: float = 1.0) -> str:
        drawn = self.rng.standard_normal(shape) * scale
        return self.constant(drawn.astype(np.float32))

    def ints(self, *numbers: int) -> str:
        return self.constant(np.array(numbers, np.int64))

    def add(self, op: str, takes: list[str], shape: tuple[int, ...], **rest) -> Tensor:
        made = Tensor(self.name(), shape)
        self.nodes.append(helper.make_node(op, takes, [made.name], **rest))
        return made

    def keep(self, made: Tensor) -> None:
        self.values.append(made)

    def pick(self, rank: int | None = None, least: int = 1) -> Tensor | None:
        """A value of this rank, later ones more often."""
        fit = [
            x
            for x in self.values
            if (rank is None and len(x.shape) >= least) or len(x.shape) == rank
        ]
        if not fit:
            return None
        at = len(fit) - 1 - int(self.rng.exponential(2.0))
        return fit[max(at, 0)]

    def integer(self, low: int, high: int) -> int:
        return int(self.rng.integers(low, high + 1))

    def some(self, *choices):
        return choices[int(self.rng.integers(len(choices)))]


Step = Callable[[Graph], Tensor | None]

UNARY = (
    "Relu", "Tanh", "Sigmoid", "Neg", "Abs", "Erf", "Softplus", "Softsign", "Elu",
    "Selu", "Celu", "LeakyRelu", "HardSigmoid", "HardSwish", "Sin", "Cos", "Atan",
    "Identity", "Gelu", "Mish", "ThresholdedRelu",
)  # fmt: skip
BINARY = ("Add", "Sub", "Mul", "Max", "Min", "Mean", "Sum")
JUMPING = ("Floor", "Ceil", "Round", "Sign")


def unary(g: Graph) -> Tensor | None:
    x = g.pick()
    op = g.some(*UNARY)
    if op == "ThresholdedRelu":  # it jumps
        op = "Relu"
    return x and g.add(op, [x.name], x.shape)


def jumping(g: Graph) -> Tensor | None:
    x = g.some(*g.inputs)
    return g.add(g.some(*JUMPING), [x.name], x.shape)


def compare(g: Graph) -> Tensor | None:
    x = g.some(*g.inputs)
    bound = g.constant(np.array(g.rng.normal(), np.float32))
    mask = g.add(g.some("Greater", "Less", "GreaterOrEqual"), [x.name, bound], x.shape)
    if g.integer(0, 1):
        return g.add("Where", [mask.name, x.name, g.weight(1)], x.shape)
    other = g.add("Not", [mask.name], x.shape)
    return g.add("Cast", [other.name], x.shape, to=FLOAT)


def partner(g: Graph, x: Tensor) -> str:
    """Something that can be combined with x: a value or a weight, broadcast."""
    same = [y.name for y in g.values if y.shape == x.shape]
    if same and g.integer(0, 1):
        return g.some(*same)
    shape = [n if g.integer(0, 2) else 1 for n in x.shape]
    return g.weight(*shape[g.integer(0, len(shape) - 1) :])


def binary(g: Graph) -> Tensor | None:
    x = g.pick()
    if x is None:
        return None
    pair = [x.name, partner(g, x)]
    return g.add(g.some(*BINARY), pair[:: g.some(1, -1)], x.shape)


def divide(g: Graph) -> Tensor | None:
    x = g.pick()
    if x is None:
        return None
    size = g.add("Abs", [partner(g, x)], ())
    one = g.add("Add", [size.name, g.constant(np.ones(1, np.float32))], ())
    if g.integer(0, 1):
        return g.add("Div", [x.name, one.name], x.shape)
    part = g.add("Reciprocal", [one.name], ())
    return g.add("Mul", [part.name, x.name], x.shape)


def positive(g: Graph) -> Tensor | None:
    """Functions of what is not negative."""
    x = g.pick()
    if x is None:
        return None
    size = g.add("Abs", [x.name], x.shape)
    one = g.add("Add", [size.name, g.constant(np.ones((), np.float32))], x.shape)
    return g.add(g.some("Sqrt", "Log"), [one.name], x.shape)


def exponential(g: Graph) -> Tensor | None:
    x = g.pick()
    if x is None:
        return None
    small = g.add("Tanh", [x.name], x.shape)
    if g.integer(0, 1):
        return g.add("Exp", [small.name], x.shape)
    two = g.constant(np.array(g.some(2.0, 3.0), np.float32))
    return g.add("Pow", [small.name, two], x.shape)


def clip(g: Graph) -> Tensor | None:
    x = g.pick()
    low = g.constant(np.array(-0.5, np.float32))
    high = g.constant(np.array(1.5, np.float32))
    return x and g.add("Clip", [x.name, g.some(low, ""), high], x.shape)


def prelu(g: Graph) -> Tensor | None:
    x = g.pick()
    return x and g.add("PRelu", [x.name, g.weight(x.shape[-1])], x.shape)


def matmul(g: Graph) -> Tensor | None:
    x = g.pick(least=2)
    if x is None:
        return None
    inner, width = x.shape[-1], g.integer(1, 9)
    batch = x.shape[:-2] if g.integer(0, 1) else ()
    w = g.weight(*batch, inner, width, scale=inner**-0.5)
    return g.add("MatMul", [x.name, w], (*x.shape[:-1], width))


def product(g: Graph) -> Tensor | None:
    """Of a value with its own transpose, scaled."""
    x = g.pick(least=2)
    if x is None:
        return None
    rank = len(x.shape)
    order = [*range(rank - 2), rank - 1, rank - 2]
    turned = g.add("Transpose", [x.name], (), perm=order)
    both = g.add("MatMul", [x.name, turned.name], (*x.shape[:-1], x.shape[-2]))
    scale = g.constant(np.array(1 / x.shape[-1], np.float32))
    return g.add("Mul", [both.name, scale], both.shape)


def gemm(g: Graph) -> Tensor | None:
    x = g.pick(2)
    if x is None:
        return None
    flip, other, width = g.integer(0, 1), g.integer(0, 1), g.integer(1, 9)
    rows, inner = x.shape[::-1] if flip else x.shape
    shape = (width, inner) if other else (inner, width)
    w = g.weight(*shape, scale=inner**-0.5)
    return g.add(
        "Gemm", [x.name, w, g.weight(width)], (rows, width), transA=flip, transB=other,
        alpha=0.5, beta=g.some(1.0, 0.25),
    )  # fmt: skip


def einsum(g: Graph) -> Tensor | None:
    x = g.pick(3)
    if x is None:
        return None
    a, b, c = x.shape
    d = g.integer(1, 6)
    w = g.weight(b, c, d, scale=c**-0.5)
    return g.add("Einsum", [x.name, w], (b, a, d), equation="abc,bcd->bad")


def windows(
    g: Graph, x: Tensor, most: int = 3
) -> tuple[list[int], list[int], list[int], list[int], tuple[int, ...]]:
    """A kernel, strides, dilations, padding, and the lengths that come out."""
    lengths = x.shape[2:]
    kernel = [g.integer(1, min(most, n)) for n in lengths]
    strides = [g.integer(1, 2) for _ in lengths]
    dilations = [1 if k * 2 > n else g.integer(1, 2)
                 for k, n in zip(kernel, lengths, strict=True)]  # fmt: skip
    pads = [
        g.integer(0, (k - 1) * d // 2) for k, d in zip(kernel, dilations, strict=True)
    ]
    out = tuple(
        (n + 2 * p - (k - 1) * d - 1) // s + 1
        for n, k, s, d, p in zip(lengths, kernel, strides, dilations, pads, strict=True)
    )
    return kernel, strides, dilations, pads * 2, out


def image(g: Graph) -> Tensor | None:
    return g.pick(g.some(3, 4, 4, 4, 5))


def convolution(g: Graph) -> Tensor | None:
    x = image(g)
    if x is None:
        return None
    channels = x.shape[1]
    groups = g.some(*[n for n in (1, 2, channels) if channels % n == 0])
    out = groups * g.integer(1, 3)
    kernel, strides, dilations, pads, lengths = windows(g, x)
    inner = channels // groups
    scale = (inner * np.prod(kernel)) ** -0.5
    takes = [x.name, g.weight(out, inner, *kernel, scale=scale)]
    takes += [g.weight(out)] if g.integer(0, 1) else []
    return g.add(
        "Conv", takes, (x.shape[0], out, *lengths), group=groups, pads=pads,
        strides=strides, dilations=dilations, kernel_shape=kernel,
    )  # fmt: skip


def transposed(g: Graph) -> Tensor | None:
    x = image(g)
    if x is None or len(x.shape) == 5:
        return None
    out, rank = g.integer(1, 4), len(x.shape) - 2
    kernel, stride = [g.integer(1, 3) for _ in range(rank)], g.integer(1, 2)
    lengths = [(n - 1) * stride + k for n, k in zip(x.shape[2:], kernel, strict=True)]
    w = g.weight(x.shape[1], out, *kernel, scale=(x.shape[1] * 4) ** -0.5)
    return g.add(
        "ConvTranspose", [x.name, w], (x.shape[0], out, *lengths),
        strides=[stride] * rank,
    )  # fmt: skip


def pool(g: Graph) -> Tensor | None:
    x = image(g)
    if x is None:
        return None
    op = g.some("MaxPool", "AveragePool", "GlobalAveragePool", "GlobalMaxPool")
    if op.startswith("Global"):
        return g.add(op, [x.name], (*x.shape[:2], *[1] * (len(x.shape) - 2)))
    kernel, strides, _, pads, _ = windows(g, x)
    pads = [p if k > 1 else 0 for p, k in zip(pads, kernel * 2, strict=True)]
    half = len(kernel)
    pads = [min(p, k // 2) for p, k in zip(pads[:half], kernel, strict=True)] * 2
    out = tuple(
        (n + 2 * p - k) // s + 1
        for n, k, s, p in zip(x.shape[2:], kernel, strides, pads[:half], strict=True)
    )
    rest = {"count_include_pad": g.integer(0, 1)} if op == "AveragePool" else {}
    return g.add(
        op, [x.name], (*x.shape[:2], *out), kernel_shape=kernel, strides=strides,
        pads=pads, **rest,
    )  # fmt: skip


def normalised(g: Graph) -> Tensor | None:
    x = g.pick(least=2)
    if x is None:
        return None
    if g.integer(0, 1):
        axis = g.integer(1, len(x.shape) - 1)
        shape = x.shape[axis:]
        takes = [x.name, g.weight(*shape), g.weight(*shape)]
        return g.add("LayerNormalization", takes, x.shape, axis=axis, epsilon=1e-2)
    return g.add(g.some("Softmax", "LogSoftmax"), [x.name], x.shape,
                 axis=g.integer(-len(x.shape), len(x.shape) - 1))  # fmt: skip


def channel_norm(g: Graph) -> Tensor | None:
    x = image(g)
    if x is None or np.prod(x.shape[2:]) < 2:
        return None
    c = x.shape[1]
    op = g.some("BatchNormalization", "InstanceNormalization")
    takes = [x.name, g.weight(c), g.weight(c)]
    if op == "BatchNormalization":
        spread = g.rng.uniform(0.5, 2.0, c).astype(np.float32)
        takes += [g.weight(c), g.constant(spread)]
    return g.add(op, takes, x.shape, epsilon=1e-2)


def reduced(g: Graph) -> Tensor | None:
    x = g.pick(least=1)
    if x is None:
        return None
    rank = len(x.shape)
    axes = sorted(g.rng.choice(rank, g.integer(1, rank), replace=False).tolist())
    keep = g.integer(0, 1)
    op = g.some("ReduceMean", "ReduceMax", "ReduceMin", "ReduceL2", "ReduceLogSumExp",
                "ReduceL1", "ReduceSum")  # fmt: skip
    shape = tuple(
        1 if n in axes else x.shape[n] for n in range(rank) if keep or n not in axes
    )
    found = g.add(op, [x.name, g.ints(*axes)], shape, keepdims=keep)
    if op in ("ReduceSum", "ReduceL1"):
        scale = 1 / np.prod([x.shape[n] for n in axes])
        size = g.constant(np.array(scale, np.float32))
        return g.add("Mul", [found.name, size], shape)
    return found


def places(g: Graph) -> Tensor | None:
    """Where the largest are."""
    x = g.some(*g.inputs)
    axis = g.integer(0, len(x.shape) - 1)
    if g.integer(0, 1):
        shape = tuple(1 if n == axis else m for n, m in enumerate(x.shape))
        found = g.add(g.some("ArgMax", "ArgMin"), [x.name], shape, axis=axis)
        return g.add("Cast", [found.name], shape, to=FLOAT)
    count = g.integer(1, x.shape[axis])
    shape = tuple(count if n == axis else m for n, m in enumerate(x.shape))
    made, where = Tensor(g.name(), shape), g.name()
    g.nodes.append(
        helper.make_node(
            "TopK", [x.name, g.ints(count)], [made.name, where], axis=axis,
            largest=g.integer(0, 1),
        )
    )  # fmt: skip
    return made


def cumulated(g: Graph) -> Tensor | None:
    x = g.pick()
    if x is None:
        return None
    axis = g.constant(np.array(g.integer(0, len(x.shape) - 1), np.int64))
    found = g.add("CumSum", [x.name, axis], x.shape, reverse=g.integer(0, 1),
                  exclusive=g.integer(0, 1))  # fmt: skip
    scale = g.constant(np.array(1 / max(x.shape), np.float32))
    return g.add("Mul", [found.name, scale], x.shape)


def transpose(g: Graph) -> Tensor | None:
    x = g.pick(least=2)
    if x is None:
        return None
    order = g.rng.permutation(len(x.shape)).tolist()
    return g.add("Transpose", [x.name], tuple(x.shape[n] for n in order), perm=order)


def reshape(g: Graph) -> Tensor | None:
    x = g.pick()
    if x is None:
        return None
    size, shape = int(np.prod(x.shape)), []
    while size > 1 and len(shape) < 3:
        fit = [n for n in range(1, size + 1) if size % n == 0]
        shape.append(g.some(*fit))
        size //= shape[-1]
    shape.append(size)
    given = list(shape)
    if g.integer(0, 1):
        given[g.integer(0, len(shape) - 1)] = -1
    return g.add("Reshape", [x.name, g.ints(*given)], tuple(shape))


def computed_shape(g: Graph) -> Tensor | None:
    """A shape made from another's, as exporters write it."""
    x = g.pick(least=2)
    if x is None:
        return None
    whole = g.add("Shape", [x.name], ())
    first = g.add("Gather", [whole.name, g.ints(0)], ())
    shape = g.add("Concat", [first.name, g.ints(-1)], (), axis=0)
    rest = int(np.prod(x.shape[1:]))
    return g.add("Reshape", [x.name, shape.name], (x.shape[0], rest))


def axes(g: Graph) -> Tensor | None:
    x = g.pick()
    if x is None or len(x.shape) > 4:
        return None
    ones = [n for n, length in enumerate(x.shape) if length == 1]
    if ones and len(x.shape) > 1 and g.integer(0, 1):
        gone = g.some(*ones)
        shape = x.shape[:gone] + x.shape[gone + 1 :]
        return g.add("Squeeze", [x.name, g.ints(gone)], shape)
    at = g.integer(0, len(x.shape))
    shape = (*x.shape[:at], 1, *x.shape[at:])
    return g.add("Unsqueeze", [x.name, g.ints(at)], shape)


def flatten(g: Graph) -> Tensor | None:
    x = g.pick()
    if x is None:
        return None
    axis = g.integer(0, len(x.shape))
    shape = (int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis:])))
    return g.add("Flatten", [x.name], shape, axis=axis)


def concat(g: Graph) -> Tensor | None:
    x = g.pick()
    if x is None:
        return None
    axis = g.integer(0, len(x.shape) - 1)
    others = [
        y
        for y in g.values
        if len(y.shape) == len(x.shape)
        and all(a == b or n == axis for n, (a, b) in
                enumerate(zip(x.shape, y.shape, strict=True)))
    ]  # fmt: skip
    y = g.some(*others)
    shape = tuple(m + y.shape[axis] if n == axis else m for n, m in enumerate(x.shape))
    return g.add("Concat", [x.name, y.name], shape, axis=axis - len(shape))


def split(g: Graph) -> Tensor | None:
    x = g.pick()
    if x is None:
        return None
    axis = int(np.argmax(x.shape))
    if x.shape[axis] < 2:
        return None
    first = g.integer(1, x.shape[axis] - 1)
    sizes = [first, x.shape[axis] - first]
    parts = [
        Tensor(g.name(), tuple(k if n == axis else m for n, m in enumerate(x.shape)))
        for k in sizes
    ]
    g.nodes.append(
        helper.make_node(
            "Split", [x.name, g.ints(*sizes)], [y.name for y in parts], axis=axis
        )
    )
    g.keep(parts[0])
    return parts[1]


def slice_(g: Graph) -> Tensor | None:
    x = g.pick()
    if x is None:
        return None
    axis = g.integer(0, len(x.shape) - 1)
    start, step = g.integer(0, x.shape[axis] - 1), g.some(1, 1, 2, -1)
    stop = -(1 << 40) if step < 0 else 1 << 40
    length = len(range(x.shape[axis])[slice(start, None, step)])
    shape = tuple(length if n == axis else m for n, m in enumerate(x.shape))
    takes = [x.name, g.ints(start), g.ints(stop), g.ints(axis), g.ints(step)]
    return g.add("Slice", takes, shape)


def pad(g: Graph) -> Tensor | None:
    x = g.pick()
    if x is None:
        return None
    mode = g.some("constant", "constant", "edge", "reflect")
    least = [g.integer(0, min(2, n - 1)) for n in x.shape]
    most = [g.integer(0, min(2, n - 1)) for n in x.shape]
    shape = tuple(a + n + b for a, n, b in zip(least, x.shape, most, strict=True))
    takes = [x.name, g.ints(*least, *most)]
    if mode == "constant":
        takes.append(g.constant(np.array(0.5, np.float32)))
    return g.add("Pad", takes, shape, mode=mode)


def repeated(g: Graph) -> Tensor | None:
    x = g.pick()
    if x is None:
        return None
    if g.integer(0, 1):
        times = [g.integer(1, 2) for _ in x.shape]
        shape = tuple(n * k for n, k in zip(x.shape, times, strict=True))
        return g.add("Tile", [x.name, g.ints(*times)], shape)
    shape = tuple(g.integer(2, 3) if n == 1 else n for n in x.shape)
    return g.add("Expand", [x.name, g.ints(*shape)], shape)


def gather(g: Graph) -> Tensor | None:
    x = g.pick()
    if x is None:
        return None
    axis = g.integer(0, len(x.shape) - 1)
    length, count = x.shape[axis], g.integer(1, 4)
    drawn = g.rng.integers(-length, length, count)
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return g.add("Gather", [x.name, g.ints(*drawn.tolist())], shape, axis=axis)


def gather_elements(g: Graph) -> Tensor | None:
    x = g.pick()
    if x is None:
        return None
    axis = g.integer(0, len(x.shape) - 1)
    drawn = g.rng.integers(0, x.shape[axis], x.shape)
    indices = g.constant(drawn.astype(np.int64))
    if g.integer(0, 1):
        return g.add("GatherElements", [x.name, indices], x.shape, axis=axis)
    takes = [x.name, indices, partner_of_shape(g, x)]
    scattered = g.add("ScatterElements", takes, x.shape, axis=axis, reduction="add")
    scale = g.constant(np.array(1 / x.shape[axis], np.float32))
    return g.add("Mul", [scattered.name, scale], x.shape)


def partner_of_shape(g: Graph, x: Tensor) -> str:
    same = [y.name for y in g.values if y.shape == x.shape]
    return g.some(*same)


def blocks(g: Graph) -> Tensor | None:
    x = g.pick(4)
    if x is None:
        return None
    n, c, h, w = x.shape
    if c % 4 == 0:
        mode = g.some("DCR", "CRD")
        shape = (n, c // 4, h * 2, w * 2)
        return g.add("DepthToSpace", [x.name], shape, blocksize=2, mode=mode)
    if h % 2 or w % 2:
        return None
    return g.add("SpaceToDepth", [x.name], (n, c * 4, h // 2, w // 2), blocksize=2)


def resize(g: Graph) -> Tensor | None:
    x = g.pick(4)
    if x is None:
        return None
    n, c, h, w = x.shape
    mode = g.some("nearest", "linear")
    way = "asymmetric" if mode == "nearest" else g.some("half_pixel", "align_corners")
    rest = {"nearest_mode": "floor"} if mode == "nearest" else {}
    sizes = g.ints(n, c, h * 2, w * 2)
    return g.add("Resize", [x.name, "", "", sizes], (n, c, h * 2, w * 2), mode=mode,
                 coordinate_transformation_mode=way, **rest)  # fmt: skip


def triangle(g: Graph) -> Tensor | None:
    x = g.pick(least=2)
    if x is None:
        return None
    k = g.constant(np.array(g.integer(-1, 1), np.int64))
    return g.add("Trilu", [x.name, k], x.shape, upper=g.integer(0, 1))


STEPS: tuple[Step, ...] = (
    unary, unary, unary, binary, binary, binary, jumping, compare, divide, positive,
    exponential, clip, prelu, matmul, matmul, product, gemm, einsum, convolution,
    convolution, convolution, transposed, pool, pool, normalised, normalised,
    channel_norm, reduced, reduced, places, cumulated, transpose, reshape,
    computed_shape, axes, flatten, concat, split, slice_, pad, repeated, gather,
    gather_elements, blocks, resize, triangle,
)  # fmt: skip


def random_model(seed: int) -> tuple[ModelProto, dict[str, np.ndarray]]:
    """A model of 5 to 20 steps, and inputs for it."""
    g = Graph(np.random.default_rng(seed))
    for _ in range(g.integer(1, 3)):
        g.input(*SHAPES[g.integer(0, len(SHAPES) - 1)])
    wanted, tries = g.integer(5, 20), 0
    while len(g.nodes) < wanted and tries < 200:
        tries += 1
        made = g.some(*STEPS)(g)
        if made is not None and np.prod(made.shape) <= MOST:
            g.keep(made)
    return finished(g), {
        x.name: g.rng.standard_normal(x.shape).astype(np.float32) for x in g.inputs
    }


SHAPES = (
    (1, 4, 6, 6),
    (2, 3, 5, 7),
    (1, 8, 9),
    (3, 5),
    (2, 4, 8),
    (7,),
    (1, 2, 4, 4, 4),
)


def finished(g: Graph) -> ModelProto:
    """Values that nobody reads are the outputs."""
    read = {name for node in g.nodes for name in node.input}
    last = [x for x in g.values if x.name not in read and not x.is_input]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        g.nodes,
        "random",
        [info(x.name, FLOAT, x.shape) for x in g.inputs],
        [info(x.name, FLOAT, x.shape) for x in last or g.values[-1:]],
        g.constants,
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9
    )
