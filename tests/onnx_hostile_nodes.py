"""Nodes and functions of ONNX that make no sense, in its own notation."""

HUGE = 1 << 40

# Of nodes whose sizes, axes or attributes are nonsense: body, inputs, part of message.
NODES: dict[str, tuple[str, str, str]] = {
    "4 TiB": ("s = Constant<value_ints=[1099511627776]>() y = ConstantOfShape(s)", "",
              "bytes, the limit is"),
    "4 TiB of many": (
        "s = Constant<value_ints=[1048576,1048576]>() a = ConstantOfShape(s) "
        "y = Add(a, a)", "", "bytes, the limit is"),
    "negative constant of shape": (
        "s = Constant<value_ints=[-2]>() y = ConstantOfShape(s)", "", "-2"),
    "overflowing constant of shape": (
        "s = Constant<value_ints=[4611686018427387904,16]>() y = ConstantOfShape(s)",
        "", "ConstantOfShape"),
    "expand": (f"s = Constant<value_ints=[{HUGE},2,3]>() y = Expand(x, s)",
               "float[2,3] x", "bytes, the limit is"),
    "expand to negative": ("s = Constant<value_ints=[-1,2,3]>() y = Expand(x, s)",
                           "float[2,3] x", "Expand"),
    "tile": (f"s = Constant<value_ints=[{HUGE},1]>() y = Tile(x, s)", "float[2,3] x",
             "bytes, the limit is"),
    "tile by negative": ("s = Constant<value_ints=[-1,1]>() y = Tile(x, s)",
                         "float[2,3] x", "Tile"),
    "pad": (f"s = Constant<value_ints=[0,0,{HUGE},0]>() y = Pad(x, s)", "float[2,3] x",
            "bytes, the limit is"),
    "pad of the wrong length": ("s = Constant<value_ints=[0,0,1]>() y = Pad(x, s)",
                                "float[2,3] x", "Pad"),
    "range": (
        "a = Constant<value_int=0>() b = Constant<value_int=4611686018427387904>() "
        "c = Constant<value_int=1>() y = Range(a, b, c)", "", "Range"),
    "range by zero": ("a = Constant<value_int=0>() b = Constant<value_int=9>()"
                      " c = Constant<value_int=0>() y = Range(a, b, c)", "", "Range"),
    "one hot": (f"d = Constant<value_int={HUGE}>() v = Constant<value_floats=[0.,1.]>()"
                " y = OneHot(x, d, v)", "int64[9] x", "OneHot"),
    "reshape to -5": ("s = Constant<value_ints=[-5,3]>() y = Reshape(x, s)",
                      "float[2,3] x", "Reshape"),
    "reshape to two -1": ("s = Constant<value_ints=[-1,-1]>() y = Reshape(x, s)",
                          "float[2,3] x", "Reshape"),
    "reshape to another size": ("s = Constant<value_ints=[7]>() y = Reshape(x, s)",
                                "float[2,3] x", "Reshape"),
    "reshape of unknown": ("y = Reshape(x, s)", "float[2,3] x, int64[2] s",
                           "'shape' is not constant"),
    "concat": ("y = Concat<axis=0>(x, z)", "float[2,3] x, float[2,4] z", "Concat"),
    "concat on no axis": ("y = Concat<axis=7>(x, x)", "float[2,3] x", "Concat"),
    "matmul": ("y = MatMul(x, x)", "float[2,3] x", "MatMul"),
    "add": ("y = Add(x, z)", "float[2,3] x, float[4] z", "Add"),
    "add of types": ("y = Add(x, z)", "float[2,3] x, int64[3] z", "Add"),
    "convolution by zero steps": ("y = Conv<strides=[0,0]>(x, w)",
                                  "float[1,3,8,8] x, float[4,3,3,3] w", "Conv"),
    "convolution in zero groups": ("y = Conv<group=0>(x, w)",
                                   "float[1,3,8,8] x, float[4,3,3,3] w", "Conv"),
    "convolution in wrong groups": ("y = Conv<group=2>(x, w)",
                                    "float[1,3,8,8] x, float[4,3,3,3] w", "Conv"),
    "convolution of short strides": ("y = Conv<strides=[1]>(x, w)",
                                     "float[1,3,8,8] x, float[4,3,3,3] w", "Conv"),
    "convolution of another kernel": ("y = Conv<kernel_shape=[5,5]>(x, w)",
                                      "float[1,3,8,8] x, float[4,3,3,3] w", "Conv"),
    "convolution by a large kernel": ("y = Conv(x, w)",
                                      "float[1,3,8,8] x, float[4,3,9,9] w", "Conv"),
    "convolution with huge padding": (
        f"y = Conv<pads=[{HUGE},0,0,0]>(x, w)", "float[1,3,8,8] x, float[4,3,3,3] w",
        "Conv"),
    "convolution of no image": ("y = Conv(x, w)", "float[3] x, float[4,3,3,3] w",
                                "Conv"),
    "convolution with dilation 0": ("y = Conv<dilations=[0,0]>(x, w)",
                                    "float[1,3,8,8] x, float[4,3,3,3] w", "Conv"),
    "pool of nothing": ("y = MaxPool<kernel_shape=[0,0]>(x)", "float[1,3,8,8] x",
                        "MaxPool"),
    "pool without kernel": ("y = MaxPool(x)", "float[1,3,8,8] x", "'kernel_shape'"),
    "pool with negative padding": (
        "y = AveragePool<kernel_shape=[2,2], pads=[-4,-4,-4,-4]>(x)",
        "float[1,3,8,8] x", "AveragePool"),
    "transpose twice": ("y = Transpose<perm=[0,0]>(x)", "float[2,3] x", "Transpose"),
    "transpose of too few": ("y = Transpose<perm=[0]>(x)", "float[2,3] x", "Transpose"),
    "gather on no axis": ("y = Gather<axis=9>(x, i)", "float[2,3] x, int64[2] i",
                          "Gather"),
    "split": ("s = Constant<value_ints=[1,7]>() y, z = Split(x, s)", "float[2,3] x",
              "Split"),
    "squeeze": ("a = Constant<value_ints=[0]>() y = Squeeze(x, a)", "float[2,3] x",
                "Squeeze"),
    "unsqueeze twice": ("a = Constant<value_ints=[0,0]>() y = Unsqueeze(x, a)",
                        "float[2,3] x", "Unsqueeze"),
    "unsqueeze far away": ("a = Constant<value_ints=[99]>() y = Unsqueeze(x, a)",
                           "float[2,3] x", "Unsqueeze"),
    "largest of too few": ("k = Constant<value_ints=[99]>() y, i = TopK(x, k)",
                           "float[2,3] x", "TopK"),
    "softmax on no axis": ("y = Softmax<axis=99>(x)", "float[2,3] x", "Softmax"),
    "slice by zero": (
        "a = Constant<value_ints=[0]>() b = Constant<value_ints=[2]>() "
        "y = Slice(x, a, b, a, a)", "float[2,3] x", "Slice"),
    "slice on no axis": (
        "a = Constant<value_ints=[0]>() b = Constant<value_ints=[9]>() "
        "y = Slice(x, a, b, b)", "float[2,3] x", "Slice"),
    "reduce on no axis": ("a = Constant<value_ints=[5]>() y = ReduceSum(x, a)",
                          "float[2,3] x", "ReduceSum"),
    "blocks of zero": ("y = DepthToSpace<blocksize=0>(x)", "float[1,4,2,2] x",
                       "DepthToSpace"),
    "normalise in zero groups": ("y = GroupNormalization<num_groups=0>(x, s, s)",
                                 "float[1,4,2,2] x, float[4] s", "GroupNormalization"),
    "cast to nothing": ("y = Cast<to=99>(x)", "float[2,3] x", "'to'"),
    "cast to strings": ("y = Cast<to=8>(x)", "float[2,3] x", "'to' is string"),
    "einsum": ('y = Einsum<equation="ij,jk->iq">(x, x)', "float[2,3] x", "Einsum"),
    "einsum of noise": ('y = Einsum<equation="%%%->((">(x)', "float[2,3] x", "Einsum"),
    "attribute is missing": ("y = Concat(x, x)", "float[2,3] x", "'axis'"),
    "attribute is unknown": ("y = Relu<evil=1>(x)", "float[2,3] x", "'evil'"),
    "attribute of another type": ('y = Softmax<axis="one">(x)', "float[2,3] x",
                                  "Softmax"),
    "too many inputs": ("y = Relu(x, x)", "float[2,3] x", "inputs"),
    "too few inputs": ("y = Add(x)", "float[2,3] x", "inputs"),
    "too many outputs": ("y, z = Relu(x)", "float[2,3] x", "outputs"),
    "constant without value": ("y = Constant()", "", "one attribute"),
    "constant text": ('y = Constant<value_string="x">()', "", "value_string"),
    "unknown operator": ("y = Frobnicate(x)", "float[2,3] x", "'Frobnicate'"),
    "operator of another domain": ("y = f.Frobnicate(x)", "float[2,3] x", "domain 'f'"),
    "domain without version": ("y = other.Relu(x)", "float[2,3] x", "'other'"),
    "cycle": ("y = Add(x, z) z = Relu(y)", "float[2,3] x", "before it is made"),
    "itself": ("y = Add(x, y)", "float[2,3] x", "before it is made"),
    "order": ("y = Relu(z) z = Relu(x)", "float[2,3] x", "before it is made"),
    "made twice": ("y = Relu(x) y = Tanh(x)", "float[2,3] x", "made twice"),
    "input made again": ("x = Relu(x) y = Tanh(x)", "float[2,3] x", "made twice"),
    "output is not made": ("z = Relu(x)", "float[2,3] x", "before it is made"),
    "branch on data": (
        "y = If<then_branch=a() => (p) {p = Relu(x)}, "
        "else_branch=b() => (q) {q = Tanh(x)}>(c)", "float[2,3] x, bool c",
        "'cond' is not constant"),
    "endless loop": (
        "c = Constant<value_int=1>() t = Cast<to=9>(c) "
        "y = Loop<body=b(int64 i, bool g, float[2,3] u) => (h, v) "
        "{h = Identity(g) v = Relu(u)}>(, t, x)", "float[2,3] x", "times"),
    "long loop": (
        f"m = Constant<value_int={HUGE}>() c = Constant<value_int=1>() "
        "t = Cast<to=9>(c) y = Loop<body=b(int64 i, bool g, float[2,3] u) => (h, v) "
        "{h = Identity(g) v = Relu(u)}>(m, t, x)", "float[2,3] x", "Loop"),
    "loops in loops": (
        "m = Constant<value_int=1000>() c = Constant<value_int=1>() t = Cast<to=9>(c) "
        "y = Loop<body=b(int64 i, bool g, float[2,3] u) => (h, v) {h = Identity(g) "
        "v = Loop<body=d(int64 j, bool k, float[2,3] p) => (l, q) "
        "{l = Identity(k) q = Relu(p)}>(m, g, u)}>(m, t, x)", "float[2,3] x",
        "written out"),
    "loop on data": (
        "y = Loop<body=b(int64 i, bool g, float[2,3] u) => (h, v) "
        "{h = Identity(g) v = Relu(u)}>(m, , x)", "float[2,3] x, int64 m",
        "'M' is not constant"),
    "body of a loop with too few inputs": (
        "m = Constant<value_int=2>() y = Loop<body=b(int64 i) => (h) "
        "{h = Identity(i)}>(m, , x)", "float[2,3] x", "inputs"),
    "far in a sequence": (
        "s = SequenceConstruct(x, x) i = Constant<value_int=7>() y = SequenceAt(s, i)",
        "float[2,3] x", "position 7"),
    "a sequence as output": ("y = SequenceConstruct(x)", "float[2,3] x", "sequence"),
    "a sequence where a tensor is taken": ("s = SequenceConstruct(x) y = Relu(s)",
                                           "float[2,3] x", "sequence"),
    "no element": ("o = Optional() y = OptionalGetElement(o)", "float[2,3] x",
                   "element"),
    "open length": ("y = Relu(x)", "float[N,3] x", "'N'"),
    "unnamed length": ("y = Relu(x)", "float[?,3] x", "axis 0 is open"),
    "unknown rank": ("y = Relu(x)", "float[] x", "shape"),
    "strings": ("y = Identity(x)", "string[2] x", "string"),
    "a sequence as input": ("y = Identity(x)", "seq(float[2]) x", "not a tensor"),
    "an optional value as input": ("y = Identity(x)", "optional(float[2]) x",
                                   "not a tensor"),
}  # fmt: skip

# Functions that call themselves, each other, or too many.
FUNCTIONS: dict[str, tuple[str, str]] = {
    "recursion": (
        '<domain: "f", opset_import: ["": 21, "f": 1]> a (x) => (y) { y = f.a(x) }',
        "deeper than"),
    "recursion of two": (
        '<domain: "f", opset_import: ["": 21, "f": 1]> a (x) => (y) { y = f.b(x) } '
        '<domain: "f", opset_import: ["": 21, "f": 1]> b (x) => (y) { y = f.a(x) }',
        "deeper than"),
    "explosion": (
        " ".join(
            f'<domain: "f", opset_import: ["": 21, "f": 1]> {name} (x) => (y) '
            f"{{ {' '.join(f'x{n} = f.{inner}(x)' for n in range(10))} "
            f"y = Sum({', '.join(f'x{n}' for n in range(10))}) }}"
            for name, inner in zip("abcdefghij", "bcdefghijk", strict=True)
        ) + ' <domain: "f", opset_import: ["": 21]> k (x) => (y) { y = Relu(x) }',
        "written out"),
    "two of one name": (
        '<domain: "f", opset_import: ["": 21]> a (x) => (y) { y = Relu(x) } '
        '<domain: "f", opset_import: ["": 21]> a (x) => (y) { y = Tanh(x) }',
        "two functions"),
    "too many inputs": (
        '<domain: "f", opset_import: ["": 21]> a () => (y) { y = Constant<value_int=1>'
        "() }", "inputs"),
    "names of the caller": (
        '<domain: "f", opset_import: ["": 21]> a (z) => (y) { y = Relu(x) }',
        "before it is made"),
    "an old opset": (
        '<domain: "f", opset_import: ["": 0]> a (x) => (y) { y = Relu(x) }', "opset 0"),
}  # fmt: skip
