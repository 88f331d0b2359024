"""Element-wise operators of ATen."""

from __future__ import annotations

from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.frontend.torch.call import (
    Call,
    Converter,
    Results,
    cast,
    expanded,
    filled,
    operand,
    promoted,
    reshaped,
    scalar,
)
from ansor.ir.dtypes import is_float

# ATen's name -> ours; computed in the type of the result.
UNARY = {
    **{
        name: name
        for name in (
            *("abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not"),
            *("ceil", "cos", "cosh", "erf", "exp", "exp2", "expm1", "floor", "log"),
            *("log10", "log1p", "log2", "mish", "reciprocal", "relu", "round", "rsqrt"),
            *("sigmoid", "sign", "silu", "sin", "sinh", "sqrt", "tan", "tanh", "trunc"),
        )
    },
    "neg": "negative",
}
PREDICATES = ("isnan", "isinf")
WHOLE = ("ceil", "floor", "round", "trunc")  # of integers: what is given
BINARY = {
    "maximum": "maximum",
    "minimum": "minimum",
    "atan2": "atan2",
    "remainder": "remainder",
    "fmod": "fmod",
    "bitwise_and": "bitwise_and",
    "bitwise_or": "bitwise_or",
    "bitwise_xor": "bitwise_xor",
}
COMPARE = {
    "eq": "equal",
    "ne": "not_equal",
    "lt": "less",
    "le": "less_equal",
    "gt": "greater",
    "ge": "greater_equal",
}
BOOLEAN = {"bitwise_and": "logical_and", "bitwise_or": "logical_or",
           "bitwise_xor": "logical_xor", "maximum": "logical_or",
           "minimum": "logical_and"}  # fmt: skip


def unary(op: str) -> Converter:
    def convert(call: Call, build: Builder) -> Results:
        x = cast(build, call.value("self"), call.dtype)
        if op in WHOLE and not is_float(x.dtype):
            return x
        if op == "bitwise_not" and x.dtype == "bool":
            return build.add("logical_not", x)
        return build.add(op, x)

    return convert


def predicate(op: str) -> Converter:
    def convert(call: Call, build: Builder) -> Results:
        x = call.value("self")
        given = x if is_float(x.dtype) else cast(build, x, "float32")
        both = {"positive": True, "negative": True} if op == "isinf" else {}
        return build.add(op, given, **both)

    return convert


def binary(op: str) -> Converter:
    def convert(call: Call, build: Builder) -> Results:
        a = operand(call, build, "self", call.dtype)
        b = operand(call, build, "other", call.dtype)
        return build.add(BOOLEAN.get(op, op) if call.dtype == "bool" else op, a, b)

    return convert


def compare(op: str) -> Converter:
    def convert(call: Call, build: Builder) -> Results:
        dtype = promoted([call.arguments["self"], call.arguments["other"]])
        if dtype == "bool" and op not in ("equal", "not_equal"):
            dtype = "int8"
        a = operand(call, build, "self", dtype)
        return build.add(op, a, operand(call, build, "other", dtype))

    return convert


def logical(op: str) -> Converter:
    def convert(call: Call, build: Builder) -> Results:
        names = ("self", "other") if "other" in call.arguments else ("self",)
        return build.add(op, *(cast(build, call.value(n), "bool") for n in names))

    return convert


def convert_sum(call: Call, build: Builder) -> Results:
    """add and sub: the second operand is multiplied by `alpha`."""
    a = operand(call, build, "self", call.dtype)
    b = operand(call, build, "other", call.dtype)
    alpha = call.arguments.get("alpha", 1)
    if alpha != 1:
        b = build.add("multiply", b, operand(call, build, "alpha", call.dtype))
    if call.dtype == "bool":
        return build.add("logical_or", a, b)
    return build.add("add" if ".add." in call.op else "subtract", a, b)


def convert_reversed(call: Call, build: Builder) -> Results:
    """rsub: the second operand less the first."""
    a = operand(call, build, "self", call.dtype)
    if call.arguments.get("alpha", 1) != 1:
        a = build.add("multiply", a, operand(call, build, "alpha", call.dtype))
    return build.add("subtract", operand(call, build, "other", call.dtype), a)


def convert_mul(call: Call, build: Builder) -> Results:
    a = operand(call, build, "self", call.dtype)
    b = operand(call, build, "other", call.dtype)
    return build.add("logical_and" if call.dtype == "bool" else "multiply", a, b)


def convert_div(call: Call, build: Builder) -> Results:
    a = operand(call, build, "self", call.dtype)
    b = operand(call, build, "other", call.dtype)
    mode = call.text("rounding_mode")
    if mode == "floor" or "floor_divide" in call.op:
        return build.add("floor_divide", a, b)
    quotient = build.add("divide", a, b)  # of integers: truncated already
    is_cut = mode == "trunc" and is_float(call.dtype)
    return build.add("trunc", quotient) if is_cut else quotient


def convert_pow(call: Call, build: Builder) -> Results:
    a = operand(call, build, "self", call.dtype)
    exponent = call.arguments["exponent"]
    if exponent == 1:
        return a
    if exponent == 2:
        return build.add("multiply", a, a)
    if exponent == 3:
        return build.add("multiply", build.add("multiply", a, a), a)
    if exponent == 0.5 and is_float(call.dtype):
        return build.add("sqrt", a)
    return build.add("power", a, operand(call, build, "exponent", call.dtype))


def convert_where(call: Call, build: Builder) -> Results:
    condition = cast(build, call.value("condition"), "bool")
    a = operand(call, build, "self", call.dtype)
    return build.add("where", condition, a, operand(call, build, "other", call.dtype))


def convert_masked_fill(call: Call, build: Builder) -> Results:
    mask = cast(build, call.value("mask"), "bool")
    value = operand(call, build, "value", call.dtype)
    return build.add("where", mask, value, call.value("self"))


def convert_clamp(call: Call, build: Builder) -> Results:
    x = cast(build, call.value("self"), call.dtype)
    low, high = call.arguments.get("min"), call.arguments.get("max")
    if isinstance(low, Value) or isinstance(high, Value):
        if low is not None:
            x = build.add("maximum", x, operand(call, build, "min", call.dtype))
        if high is not None:
            x = build.add("minimum", x, operand(call, build, "max", call.dtype))
        return x
    return _clipped(build, x, call, low is None, high is None)


def _clipped(
    build: Builder, x: Value, call: Call, is_open_low: bool, is_open_high: bool
) -> Value:
    low = None if is_open_low else call.number("min")
    high = None if is_open_high else call.number("max")
    return build.add("clip", x, low=low, high=high)


def convert_hardtanh(call: Call, build: Builder) -> Results:
    x = cast(build, call.value("self"), call.dtype)
    return build.add("clip", x, low=call.number("min_val"), high=call.number("max_val"))


def convert_gelu(call: Call, build: Builder) -> Results:
    how = call.text("approximate") or "none"
    return build.add("gelu", call.value("self"), approximate=how)


def convert_elu(call: Call, build: Builder) -> Results:
    x, dtype = call.value("self"), call.dtype
    alpha, scale = float(call.number("alpha")), float(call.number("scale"))
    steep = float(call.number("input_scale"))
    if scale == steep == 1.0:
        return build.add("elu", x, alpha=alpha)
    bent = build.add("expm1", build.add("multiply", x, scalar(build, steep, dtype)))
    below = build.add("multiply", bent, scalar(build, alpha * scale, dtype))
    above = build.add("multiply", x, scalar(build, scale, dtype))
    is_above = build.add("greater", x, scalar(build, 0, dtype))
    return build.add("where", is_above, above, below)


def convert_leaky_relu(call: Call, build: Builder) -> Results:
    alpha = float(call.number("negative_slope"))
    return build.add("leaky_relu", call.value("self"), alpha=alpha)


def convert_prelu(call: Call, build: Builder) -> Results:
    x, slope = call.value("self"), call.value("weight")
    if slope.size > 1 and len(slope.shape) == 1 and len(x.shape) > 1:
        shape = [slope.size if n == 1 else 1 for n in range(len(x.shape))]
        slope = reshaped(build, slope, shape)
    return build.add("prelu", x, slope)


def convert_round(call: Call, build: Builder) -> Results:
    """To so many decimal digits."""
    x, digits = call.value("self"), call.whole("decimals")
    factor = scalar(build, 10.0 ** abs(digits), call.dtype)
    there, back = ("multiply", "divide") if digits > 0 else ("divide", "multiply")
    return build.add(back, build.add("round", build.add(there, x, factor)), factor)


def convert_same(call: Call, build: Builder) -> Results:
    """Copies, and conversions of the type."""
    name = "self" if "self" in call.arguments else next(iter(call.arguments))
    return cast(build, call.value(name), call.dtype)


def convert_dropout(call: Call, build: Builder) -> Results:
    if call.arguments.get("train") is not False:
        raise call.unsupported("argument 'train' is set: results are random")
    return call.value("input"), filled(build, True, "bool", call.shape)


def convert_copy(call: Call, build: Builder) -> Results:
    source = cast(build, call.value("src"), call.dtype)
    return expanded(build, source, call.shape)


def _unary() -> dict[str, Converter]:
    found = {f"aten.{name}.default": unary(op) for name, op in UNARY.items()}
    return found | {f"aten.{name}.default": predicate(name) for name in PREDICATES}


def _binary() -> dict[str, Converter]:
    alone = ("maximum", "minimum", "atan2")
    found: dict[str, Converter] = {}
    for name, op in BINARY.items():
        overloads = ("default",) if name in alone else ("Tensor", "Scalar")
        found |= {f"aten.{name}.{which}": binary(op) for which in overloads}
    found["aten.bitwise_left_shift.Tensor"] = binary("shift_left")
    found["aten.bitwise_right_shift.Tensor"] = binary("shift_right")
    for name, op in COMPARE.items():
        found |= {f"aten.{name}.{x}": compare(op) for x in ("Tensor", "Scalar")}
    for name in ("and", "or", "xor", "not"):
        found[f"aten.logical_{name}.default"] = logical(f"logical_{name}")
    return found


def _arithmetic() -> dict[str, Converter]:
    by_name = {
        "add": convert_sum,
        "sub": convert_sum,
        "rsub": convert_reversed,
        "mul": convert_mul,
        "div": convert_div,
    }
    both = ("Tensor", "Scalar")
    return {f"aten.{name}.{w}": make for name, make in by_name.items() for w in both}


CONVERTERS: dict[str, Converter] = {
    **_unary(),
    **_binary(),
    **_arithmetic(),
    "aten.div.Tensor_mode": convert_div,
    "aten.div.Scalar_mode": convert_div,
    "aten.floor_divide.default": convert_div,
    "aten.pow.Scalar": convert_pow,
    "aten.pow.Tensor_Scalar": convert_pow,
    "aten.pow.Tensor_Tensor": convert_pow,
    "aten.where.self": convert_where,
    "aten.masked_fill.Scalar": convert_masked_fill,
    "aten.masked_fill.Tensor": convert_masked_fill,
    "aten.clamp.default": convert_clamp,
    "aten.clamp.Tensor": convert_clamp,
    "aten.hardtanh.default": convert_hardtanh,
    "aten.gelu.default": convert_gelu,
    "aten.elu.default": convert_elu,
    "aten.leaky_relu.default": convert_leaky_relu,
    "aten._prelu_kernel.default": convert_prelu,
    "aten.round.decimals": convert_round,
    "aten._to_copy.default": convert_same,
    "aten.clone.default": convert_same,
    "aten.alias.default": convert_same,
    "aten.detach.default": convert_same,
    "aten.lift_fresh_copy.default": convert_same,
    "aten.copy.default": convert_copy,
    "aten.native_dropout.default": convert_dropout,
}
