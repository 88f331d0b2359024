"""Products: MatMul, Gemm, Einsum, Conv and ConvTranspose."""

from __future__ import annotations

from ansor.errors import ModelError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Attribute, Value
from ansor.frontend.onnx.convert.pieces import along, beside, cast
from ansor.frontend.onnx.convert.spans import Spans, spans
from ansor.frontend.onnx.node import Converter, OnnxNode
from ansor.ir.dtypes import is_float


def convert_matmul(node: OnnxNode, build: Builder) -> Value:
    return build.add("matmul", node.input(0), node.input(1))


def convert_einsum(node: OnnxNode, build: Builder) -> Value:
    inputs = [node.input(n) for n in range(len(node.inputs))]
    return build.add("einsum", *inputs, equation=node.attribute("equation", ""))


def convert_gemm(node: OnnxNode, build: Builder) -> Value:
    """alpha * A · B + beta * C, where A and B may be transposed."""
    a, b, c = node.input(0), node.input(1), node.maybe(2)
    alpha, beta = node.attribute("alpha", 1.0), node.attribute("beta", 1.0)
    if node.opset < 7:
        node.attribute("broadcast", 0)
    if node.attribute("transA", False):
        a = build.add("transpose", a, axes=(1, 0))
    if node.attribute("transB", False):
        b = build.add("transpose", b, axes=(1, 0))
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise ModelError(str(node), f"shapes {a.shape} and {b.shape} are no matrices")
    product = _scaled(node, build, build.add("matmul", a, b), alpha)
    if c is None or beta == 0.0:
        return product
    return build.add("add", product, _scaled(node, build, c, beta))


def _scaled(node: OnnxNode, build: Builder, x: Value, factor: float) -> Value:
    if factor == 1.0:
        return x
    if not is_float(x.dtype) and not factor.is_integer():
        raise node.unsupported(f"attribute 'alpha' or 'beta' is {factor} of {x.dtype}")
    return beside(build, "multiply", x, factor)


def convert_conv(node: OnnxNode, build: Builder) -> Value:
    x, weight = node.input(0), node.input(1)
    found = build.add("conv", x, weight, **convolution(node, x, weight))
    return biased(build, found, node.maybe(2))


def convolution(node: OnnxNode, x: Value, weight: Value) -> dict[str, Attribute]:
    """The attributes of the operator conv."""
    s = spans(node, x.shape[2:], _kernel(node, weight))
    return {
        "strides": s.strides,
        "padding": s.padding,
        "dilations": s.dilations,
        "groups": node.attribute("group", 1),
        "layout": "first",
    }


def _kernel(node: OnnxNode, weight: Value) -> tuple[int, ...]:
    kernel = node.attribute("kernel_shape", weight.shape[2:])
    if kernel != weight.shape[2:]:
        raise ModelError(
            str(node), f"kernel_shape is {kernel}, but the weight is {weight.shape}"
        )
    return weight.shape[2:]


def biased(build: Builder, x: Value, bias: Value | None) -> Value:
    """`x` plus a number per channel."""
    if bias is None:
        return x
    vector = along(build, cast(build, bias, x.dtype), 1, len(x.shape))
    return build.add("add", x, vector)


def convert_conv_transpose(node: OnnxNode, build: Builder) -> Value:
    x, weight = node.input(0), node.input(1)
    rank = len(x.shape) - 2
    s = spans(node, x.shape[2:], _kernel(node, weight), resolve=False)
    more = node.attribute("output_padding", (0,) * rank)
    wanted = node.attribute("output_shape", ())
    if wanted:
        wanted = wanted[-rank:]
    elif s.automatic.startswith("SAME"):
        wanted = tuple(n * k for n, k in zip(s.extents, s.strides, strict=True))
    padding = _shared(s, more, wanted) if wanted else s.padding
    found = build.add(
        "conv_transpose",
        x,
        weight,
        strides=s.strides,
        padding=padding,
        output_padding=more,
        dilations=s.dilations,
        groups=node.attribute("group", 1),
        layout="first",
    )
    return biased(build, found, node.maybe(2))


def _shared(
    s: Spans, more: tuple[int, ...], wanted: tuple[int, ...]
) -> tuple[tuple[int, int], ...]:
    """The padding that gives the wanted extents; the larger half comes first, unless
    SAME_UPPER is asked for."""
    padding = []
    for d, extent in enumerate(wanted):
        full = (s.extents[d] - 1) * s.strides[d] + s.sizes[d] + more[d]
        half = (full - extent) // 2
        rest = full - extent - half
        padding.append((half, rest) if s.automatic == "SAME_UPPER" else (rest, half))
    return tuple(padding)


CONVERTERS: dict[str, Converter] = {
    "MatMul": convert_matmul,
    "Gemm": convert_gemm,
    "Einsum": convert_einsum,
    "Conv": convert_conv,
    "ConvTranspose": convert_conv_transpose,
}
