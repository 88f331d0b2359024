"""Small valid ONNX models, and what becomes of them when bytes change."""

from collections.abc import Iterator

import numpy as np
from onnx import (
    AttributeProto,
    ModelProto,
    TensorProto,
    defs,
    helper,
    numpy_helper,
    parser,
)

KINDS = ("flip", "flips", "byte", "cut", "drop", "double", "splice", *["meaning"] * 5)
OPERATORS = sorted({x.name for x in defs.get_all_schemas()})
NUMBERS = (0, 1, -1, 2, 3, 7, -8, 100, 1 << 31, 1 << 40, (1 << 63) - 1, -(1 << 63))

TEXTS = {
    "convolution": """<ir_version: 10, opset_import: ["": 21]>
        g (float[1,2,6,6] x) => (float[1,3] y)
        <float[3,2,3,3] w, float[3] b> {
          c = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w, b)
          r = Relu(c)
          p = MaxPool<kernel_shape=[2,2]>(r)
          q = GlobalAveragePool(p)
          y = Flatten(q)
        }""",
    "attention": """<ir_version: 9, opset_import: ["": 17]>
        g (float[2,4,8] x) => (float[2,4,8] y) <float[8,8] w, float[8] s> {
          k = MatMul(x, w)
          t = Transpose<perm=[0,2,1]>(k)
          a = MatMul(x, t)
          p = Softmax<axis=-1>(a)
          o = MatMul(p, x)
          z = Add(o, x)
          y = LayerNormalization<axis=-1>(z, s, s)
        }""",
    "shapes": """<ir_version: 10, opset_import: ["": 21]>
        g (float[2,3,4] x) => (float[4,6] y) {
          a = Shape(x)
          i = Constant<value_ints=[2]>()
          n = Gather(a, i)
          m = Constant<value_ints=[-1]>()
          s = Concat<axis=0>(n, m)
          r = Reshape(x, s)
          b, c = Split<axis=1, num_outputs=2>(r)
          d = Concat<axis=1>(c, b)
          e = Constant<value_floats=[0.5, 2.0, 1.0, 3.0, 4.0, 5.0]>()
          y = Mul(d, e)
        }""",
    "branches": """<ir_version: 10, opset_import: ["": 21, "f": 1]>
        g (float[2,3] x) => (float[2,3] y) {
          one = Constant<value_int=1>()
          c = Cast<to=9>(one)
          z = If<then_branch=a() => (p) {p = Relu(x)},
                 else_branch=b() => (q) {q = Tanh(x)}>(c)
          m = Constant<value_int=3>()
          v = Loop<body=l(int64 i, bool g, float[2,3] u) => (h, w)
            {h = Identity(g) w = Sigmoid(u)}>(m, c, z)
          y = f.scale<alpha=0.5>(v)
        }
        <domain: "f", opset_import: ["": 21]>
        scale <alpha> (a) => (b) {
          k = Constant<value_float: float = @alpha>()
          b = Mul(a, k)
        }""",
    "integers": """<ir_version: 10, opset_import: ["": 21]>
        g (int64[3] i, float[5,4] x) => (float[3,4] y) {
          r = Gather<axis=0>(x, i)
          k = Constant<value_ints=[1]>()
          s = ReduceMax<keepdims=1>(r, k)
          d = Sub(r, s)
          e = Exp(d)
          y = Clip(e)
        }""",
}


def models() -> dict[str, bytes]:
    """Every one converts as it is."""
    rng = np.random.default_rng(0)
    found = {}
    for name, text in TEXTS.items():
        made = parser.parse_model(text)
        weights = [x for x in made.graph.value_info if x.type.HasField("tensor_type")]
        for value in weights:
            shape = [x.dim_value for x in value.type.tensor_type.shape.dim]
            array = rng.standard_normal(shape).astype(np.float32)
            made.graph.initializer.append(numpy_helper.from_array(array, value.name))
        del made.graph.value_info[:]
        found[name] = made.SerializeToString()
    found["typed"] = typed()
    return found


def typed() -> bytes:
    """Tensors in the fields of their types instead of raw bytes."""
    parts = [
        helper.make_tensor("a", TensorProto.FLOAT, [2], [1.0, 2.0]),
        helper.make_tensor("b", TensorProto.FLOAT16, [2], [1.0, 2.0]),
        helper.make_tensor("c", TensorProto.INT64, [2], [1, -2]),
        helper.make_tensor("d", TensorProto.UINT8, [2], [1, 255]),
        helper.make_tensor("e", TensorProto.DOUBLE, [2], [1.0, -1.0]),
    ]
    nodes = [
        helper.make_node("Cast", [name], [f"{name}1"], to=TensorProto.FLOAT)
        for name in "abcde"
    ]
    nodes.append(helper.make_node("Sum", ["x", *[f"{n}1" for n in "abcde"]], ["y"]))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, [2])],
        [value("y", TensorProto.FLOAT, [2])],
        parts,
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10
    ).SerializeToString()


def mutants(count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Bit flips, other bytes, cuts, pieces doubled, removed or of another model."""
    rng = np.random.default_rng(seed)
    sources = list(models().values())
    for number in range(count):
        data = bytearray(sources[rng.integers(len(sources))])
        other = sources[rng.integers(len(sources))]
        kind = KINDS[number % len(KINDS)]
        if kind == "meaning":
            yield f"{kind} {number}", rewritten(bytes(data), rng)
        else:
            yield f"{kind} {number}", bytes(mutate(kind, data, other, rng))


def rewritten(data: bytes, rng: np.random.Generator) -> bytes:
    """A well-formed file that means something else: other numbers, names, operators."""
    model = ModelProto.FromString(data)
    nodes = list(model.graph.node)
    names = [name for node in nodes for name in (*node.input, *node.output)]
    for _ in range(int(rng.integers(1, 4))):
        node = nodes[rng.integers(len(nodes))]
        match int(rng.integers(6)):
            case 0:
                node.op_type = str(rng.choice(OPERATORS))
            case 1 if node.input:
                node.input[int(rng.integers(len(node.input)))] = str(rng.choice(names))
            case 2 if node.attribute:
                _change(node.attribute[int(rng.integers(len(node.attribute)))], rng)
            case 3 if model.graph.initializer:
                tensor = model.graph.initializer[0]
                tensor.dims[0] = int(rng.choice(NUMBERS[:8]))
            case 4:
                shape = model.graph.input[0].type.tensor_type.shape
                axis = int(rng.integers(len(shape.dim)))
                shape.dim[axis].dim_value = int(rng.choice(NUMBERS))
            case _:
                model.opset_import[0].version = int(rng.integers(1, 29))
    return model.SerializeToString()


def _change(attribute: AttributeProto, rng: np.random.Generator) -> None:
    number = int(rng.choice(NUMBERS))
    match attribute.type:
        case AttributeProto.INT:
            attribute.i = number
        case AttributeProto.INTS if attribute.ints:
            attribute.ints[int(rng.integers(len(attribute.ints)))] = number
        case AttributeProto.FLOAT:
            attribute.f = float(number)
        case _:
            attribute.name = "other"


def mutate(kind: str, data: bytearray, other: bytes, rng: np.random.Generator) -> bytes:
    at = int(rng.integers(len(data)))
    end = min(len(data), at + int(rng.integers(1, 40)))
    match kind:
        case "flip" | "flips":
            for _ in range(1 if kind == "flip" else int(rng.integers(2, 12))):
                data[int(rng.integers(len(data)))] ^= 1 << int(rng.integers(8))
        case "byte":
            data[at] = int(rng.integers(256))
        case "cut":
            del data[at:]
        case "drop":
            del data[at:end]
        case "double":
            data[at:at] = data[at:end]
        case "splice":
            start = int(rng.integers(len(other)))
            data[at:end] = other[start : start + int(rng.integers(1, 60))]
    return bytes(data)
