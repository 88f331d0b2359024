"""Operators on every element, with NumPy's broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from ansor.errors import ModelError
from ansor.frontend.graph import Value
from ansor.frontend.operators import special
from ansor.frontend.operators.operator import Operator, Type
from ansor.frontend.operators.special import over
from ansor.ir.dtypes import DTYPES, is_float
from ansor.ir.evaluate import Array
from ansor.ir.ops import BINARY
from ansor.te import functions as f
from ansor.te.limits import limits
from ansor.te.tensor import Tensor
from ansor.te.value import Scalar
from ansor.te.value import Value as Element

_FLOAT = ("float",)
_NUMBER = ("float", "int", "uint")
_INTEGER = ("int", "uint")
_BITS = ("int", "uint", "bool")
_BOOL = ("bool",)
_ANY = ("float", "int", "uint", "bool")

Numbers = Callable[..., Any]


@dataclass(frozen=True)
class _Rule:
    """How one operator treats elements: a formula and, if NumPy has it, a function.

    Operands are of one type, of the kinds in `takes`; `gives` is the result's type,
    that of the operands where it is empty.
    """

    name: str
    formula: Callable[..., Any]
    numpy: Numbers | None = None
    takes: tuple[str, ...] = _FLOAT
    gives: str = ""
    staged: bool = False  # the formula is of tensors

    def operator(self) -> Operator:
        run = None if self.numpy is None else self.evaluate
        return Operator(self.name, self.define, evaluate=run, infer=self.infer)

    def define(self, *tensors: Tensor, **attributes: object) -> Tensor:
        if self.staged:
            return self._in_stages(tensors, tensors[0].dtype)
        small = tensors[0].dtype in ("float16", "bfloat16")
        body = partial(self.formula, **attributes) if attributes else self.formula
        return over(self.name, _in_float32(body) if small else body, *tensors)

    def _in_stages(self, tensors: tuple[Tensor, ...], dtype: str) -> Tensor:
        if dtype not in ("float16", "bfloat16"):
            found: Tensor = self.formula(*tensors)
            return found
        wide = [over("widened", lambda v: f.cast(v, "float32"), x) for x in tensors]
        return over(self.name, lambda v: f.cast(v, dtype), self.formula(*wide))

    def infer(self, *inputs: Value, **attributes: object) -> list[Type]:
        dtype = inputs[0].dtype
        for value in inputs:
            if value.dtype != dtype:
                raise ModelError(
                    self.name, f"operands are {dtype} and {value.dtype}", "cast one"
                )
        if DTYPES[dtype].kind not in self.takes:
            raise ModelError(
                self.name, f"the operand is {dtype}, it takes {' or '.join(self.takes)}"
            )
        shape = common_shape(self.name, *(value.shape for value in inputs))
        return [(self.gives or dtype, shape)]

    def evaluate(self, *arrays: Array, **attributes: object) -> Array:
        assert self.numpy is not None
        dtype = DTYPES[self.gives].numpy if self.gives else arrays[0].dtype
        wide = [widened(array) for array in arrays]
        with np.errstate(all="ignore"):
            return np.asarray(self.numpy(*wide, **attributes)).astype(dtype)


def _in_float32(formula: Callable[..., Scalar]) -> Callable[..., Scalar]:
    """A formula of 16-bit floats whose numbers and steps are not rounded to them."""

    def body(*given: Element) -> Scalar:
        found = formula(*(f.cast(x, "float32") for x in given))
        boolean = isinstance(found, Element) and found.dtype == "bool"
        return found if boolean else f.cast(found, given[0].dtype)

    return body


def common_shape(name: str, *shapes: tuple[int, ...]) -> tuple[int, ...]:
    """What shapes broadcast to, also shapes without elements."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        text = " and ".join(map(str, shapes))
        raise ModelError(name, f"shapes {text} do not broadcast") from None


def widened(array: Array) -> Array:
    """16-bit floats as float32, others as they are."""
    small = is_float(str(array.dtype)) and array.dtype.itemsize == 2
    return array.astype(np.float32) if small else array


def _sign(x: Element) -> Element:
    one = f.cast(1, x.dtype)
    if x.dtype == "uint8":
        return f.select(x > 0, one, x)
    return f.select(x > 0, one, f.select(x < 0, f.cast(-1, x.dtype), x))


def _rounding(function: Callable[[Element], Element]) -> Callable[[Element], Element]:
    """Integers are round already."""
    return lambda x: function(x) if is_float(x.dtype) else x


def _isnan(x: Element) -> Scalar:
    return f.isnan(x) if is_float(x.dtype) else x != x


def _isinf(x: Element, positive: bool = True, negative: bool = True) -> Scalar:
    if not is_float(x.dtype) or not (positive or negative):
        return x != x if not is_float(x.dtype) else f.isnan(x) & (x == x)
    if positive and negative:
        return abs(x) == math.inf
    return x == (math.inf if positive else -math.inf)


def _isfinite(x: Element) -> Scalar:
    return abs(x) < math.inf if is_float(x.dtype) else x == x


def _np_isinf(x: Array, positive: bool = True, negative: bool = True) -> Array:
    sides = ((x > 0) & positive) | ((x < 0) & negative)
    return np.asarray(np.isinf(x) & sides)


def _gelu(x: Element, approximate: str = "none") -> Scalar:
    if approximate == "tanh":
        # (1 + tanh(u)) / 2 is sigmoid(2u), which keeps its digits where tanh nears -1
        return x * f.sigmoid(math.sqrt(8 / math.pi) * (x + 0.044715 * x * x * x))
    if approximate != "none":
        raise ModelError("gelu", f"approximate is {approximate!r}, not none or tanh")
    return 0.5 * x * (f.erf(x * math.sqrt(0.5)) + 1.0)


def _hard_sigmoid(x: Element, alpha: float = 0.2, beta: float = 0.5) -> Scalar:
    return f.clip(x * alpha + beta, 0, 1)


def _elu(x: Element, alpha: float = 1.0) -> Scalar:
    return f.select(x < 0, special.expm1_below(x) * alpha, x)


def _selu(x: Element, alpha: float, gamma: float) -> Scalar:
    return f.select(x <= 0, special.expm1_below(x) * (alpha * gamma), x * gamma)


def _celu(x: Element, alpha: float = 1.0) -> Scalar:
    return f.select(x < 0, special.expm1_below(x / alpha) * alpha, x)


def _clip(x: Element, low: float | None = None, high: float | None = None) -> Scalar:
    if low is not None:
        x = f.maximum(x, _bound(low, x.dtype, math.ceil))
    return x if high is None else f.minimum(x, _bound(high, x.dtype, math.floor))


def _bound(limit: float, dtype: str, rounded: Callable[[float], int]) -> Scalar:
    """A limit in the type of what it limits: the nearest number that the type has."""
    if is_float(dtype):
        inside = abs(limit) <= limits(dtype).largest
        return limit if inside else math.copysign(math.inf, limit)
    info = np.iinfo(DTYPES[dtype].numpy)
    return rounded(max(info.min, min(info.max, limit)))


def _shrink(x: Element, bias: float = 0.0, lambd: float = 0.5) -> Scalar:
    wide = x if is_float(x.dtype) else f.cast(x, "float64")
    middle = f.select(wide > lambd, wide - bias, f.cast(0, wide.dtype))
    return f.cast(f.select(wide < -lambd, wide + bias, middle), x.dtype)


def _divide(a: Element, b: Element) -> Scalar:
    return a / b if is_float(a.dtype) else special.truncated_divide(a, b)


def _np_divide(a: Array, b: Array) -> Array:
    if a.dtype.kind == "f":
        return np.asarray(a / b)
    quotient = np.floor_divide(a, b)
    inexact = (quotient * b != a) & ((a < 0) != (b < 0)) & (b != 0)
    return np.asarray(quotient + inexact.astype(a.dtype))


def _extreme(function: Callable[..., Element], either: bool) -> Callable[..., Scalar]:
    """maximum or minimum; of bool it is or, or and."""

    def formula(a: Element, b: Element) -> Scalar:
        if a.dtype != "bool":
            return function(a, b)
        return a | b if either else a & b

    return formula


def _shift(left: bool) -> Callable[..., Scalar]:
    return lambda a, b: a << b if left else a >> b


_UNARY = (
    _Rule("negative", lambda x: -x, np.negative, _NUMBER),
    _Rule("abs", lambda x: x if x.dtype == "uint8" else abs(x), np.abs, _NUMBER),
    _Rule("sign", _sign, np.sign, _NUMBER),
    _Rule("floor", _rounding(f.floor), np.floor, _NUMBER),
    _Rule("ceil", _rounding(f.ceil), np.ceil, _NUMBER),
    _Rule("round", _rounding(f.round), np.rint, _NUMBER),
    _Rule("trunc", _rounding(special.trunc), np.trunc, _NUMBER),
    _Rule("sqrt", f.sqrt, np.sqrt),
    _Rule("rsqrt", f.rsqrt, lambda x: 1 / np.sqrt(x)),
    _Rule("reciprocal", lambda x: 1.0 / x, lambda x: 1 / x),
    _Rule("exp", f.exp, np.exp),
    _Rule("exp2", lambda x: f.pow(2.0, x), np.exp2),
    _Rule("expm1", special.expm1, np.expm1),
    _Rule("log", f.log, np.log),
    _Rule("log2", f.log2, np.log2),
    _Rule("log10", lambda x: f.log(x) * (1 / math.log(10)), np.log10),
    _Rule("log1p", special.log1p, np.log1p),
    _Rule("sin", f.sin, np.sin),
    _Rule("cos", f.cos, np.cos),
    _Rule("tan", special.tan, np.tan),
    _Rule("asin", special.asin, np.arcsin, staged=True),
    _Rule("acos", special.acos, np.arccos, staged=True),
    _Rule("atan", special.atan, np.arctan, staged=True),
    _Rule("sinh", special.sinh, np.sinh),
    _Rule("cosh", special.cosh, np.cosh),
    _Rule("tanh", f.tanh, np.tanh),
    _Rule("asinh", special.asinh, np.arcsinh, staged=True),
    _Rule("acosh", special.acosh, np.arccosh, staged=True),
    _Rule("atanh", special.atanh, np.arctanh, staged=True),
    _Rule("erf", f.erf),
    _Rule("sigmoid", f.sigmoid),
    _Rule("log_sigmoid", special.log_sigmoid, staged=True),
    _Rule("relu", lambda x: f.maximum(x, 0), lambda x: np.maximum(x, 0), _NUMBER),
    _Rule("softplus", special.softplus, staged=True),
    _Rule("softsign", lambda x: x / (abs(x) + 1.0), lambda x: x / (1 + np.abs(x))),
    _Rule("mish", special.mish),
    _Rule("silu", lambda x: x * f.sigmoid(x)),
    _Rule("isnan", _isnan, np.isnan, _NUMBER, "bool"),
    _Rule("isinf", _isinf, _np_isinf, _NUMBER, "bool"),
    _Rule("isfinite", _isfinite, np.isfinite, _NUMBER, "bool"),
    _Rule("logical_not", lambda x: ~x, np.logical_not, _BOOL),
    _Rule("bitwise_not", lambda x: ~x, np.invert, _BITS),
    _Rule("gelu", _gelu),
    _Rule("hard_sigmoid", _hard_sigmoid),
    _Rule("hard_swish", lambda x: x * f.clip(x * (1 / 6) + 0.5, 0, 1)),
    _Rule("elu", _elu),
    _Rule("selu", _selu),
    _Rule("celu", _celu),
    _Rule(
        "leaky_relu", lambda x, alpha=0.01: f.select(x < 0, x * alpha, x)
    ),
    _Rule(
        "thresholded_relu",
        lambda x, alpha=1.0: f.select(x > alpha, x, f.cast(0, x.dtype)),
    ),
    _Rule("clip", _clip, None, _NUMBER),
    _Rule("shrink", _shrink, None, _NUMBER),
)  # fmt: skip

_BINARY = (
    _Rule("add", lambda a, b: a + b, np.add, _NUMBER),
    _Rule("subtract", lambda a, b: a - b, np.subtract, _NUMBER),
    _Rule("multiply", lambda a, b: a * b, np.multiply, _NUMBER),
    _Rule("divide", _divide, _np_divide, _NUMBER),
    _Rule("floor_divide", lambda a, b: a // b, BINARY["floordiv"].numpy, _NUMBER),
    _Rule("remainder", lambda a, b: a % b, np.mod, _NUMBER),
    _Rule("fmod", special.fmod, np.fmod, _NUMBER),
    _Rule("atan2", special.atan2, np.arctan2, staged=True),
    _Rule("maximum", _extreme(f.maximum, True), np.maximum, _ANY),
    _Rule("minimum", _extreme(f.minimum, False), np.minimum, _ANY),
    _Rule("equal", lambda a, b: a == b, np.equal, _ANY, "bool"),
    _Rule("not_equal", lambda a, b: a != b, np.not_equal, _ANY, "bool"),
    _Rule("less", lambda a, b: a < b, np.less, _ANY, "bool"),
    _Rule("less_equal", lambda a, b: a <= b, np.less_equal, _ANY, "bool"),
    _Rule("greater", lambda a, b: a > b, np.greater, _ANY, "bool"),
    _Rule("greater_equal", lambda a, b: a >= b, np.greater_equal, _ANY, "bool"),
    _Rule("logical_and", lambda a, b: a & b, np.logical_and, _BOOL),
    _Rule("logical_or", lambda a, b: a | b, np.logical_or, _BOOL),
    _Rule("logical_xor", lambda a, b: a ^ b, np.logical_xor, _BOOL),
    _Rule("bitwise_and", lambda a, b: a & b, np.bitwise_and, _BITS),
    _Rule("bitwise_or", lambda a, b: a | b, np.bitwise_or, _BITS),
    _Rule("bitwise_xor", lambda a, b: a ^ b, np.bitwise_xor, _BITS),
    _Rule("shift_left", _shift(True), np.left_shift, _INTEGER),
    _Rule("shift_right", _shift(False), np.right_shift, _INTEGER),
    _Rule(
        "prelu",
        lambda x, slope: f.select(x < 0, x * slope, x),
        lambda x, slope: np.where(x < 0, x * slope, x),
        _NUMBER,
    ),
)


def _define_where(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return over("where", f.select, condition, a, b)


def _infer_where(condition: Value, a: Value, b: Value) -> list[Type]:
    if condition.dtype != "bool" or a.dtype != b.dtype:
        raise ModelError(
            "where",
            f"operands are {condition.dtype}, {a.dtype} and {b.dtype}",
            "it takes bool and two of one type",
        )
    return [(a.dtype, common_shape("where", condition.shape, a.shape, b.shape))]


def _power(base: Element, exponent: Element) -> Scalar:
    if is_float(base.dtype):
        return f.pow(base, f.cast(exponent, base.dtype))
    if is_float(exponent.dtype):
        wide = f.pow(f.cast(base, "float64"), f.cast(exponent, "float64"))
        return f.cast(wide, base.dtype)
    return special.integer_power(base, exponent)


def _infer_power(base: Value, exponent: Value) -> list[Type]:
    if "bool" in (base.dtype, exponent.dtype):
        raise ModelError("power", "an operand is bool", "cast it")
    return [(base.dtype, common_shape("power", base.shape, exponent.shape))]


def _define_cast(x: Tensor, dtype: str) -> Tensor:
    def formula(v: Element) -> Scalar:
        if dtype == "bool" and v.dtype != "bool":
            return v != 0
        if is_float(v.dtype) and dtype in ("int8", "int16", "uint8"):
            v = f.cast(v, "int32")  # what a narrow type cannot hold wraps around
        return f.cast(v, dtype)

    return over("cast", formula, x)


def _evaluate_cast(x: Array, dtype: str) -> Array:
    with np.errstate(all="ignore"):
        if dtype == "bool":
            return np.asarray(x != 0)
        if is_float(str(x.dtype)) and dtype in ("int8", "int16", "uint8"):
            x = widened(x).astype(np.int32)
        return x.astype(DTYPES[dtype].numpy)


def _infer_cast(x: Value, dtype: str) -> list[Type]:
    if dtype not in DTYPES:
        raise ModelError("cast", f"dtype {dtype!r}", f"use one of {', '.join(DTYPES)}")
    return [(dtype, x.shape)]


OPERATORS: tuple[Operator, ...] = (
    *(rule.operator() for rule in (*_UNARY, *_BINARY)),
    Operator("where", _define_where, evaluate=np.where, infer=_infer_where),
    Operator(
        "power", lambda *x: over("power", _power, *x), infer=_infer_power
    ),
    Operator("cast", _define_cast, evaluate=_evaluate_cast, infer=_infer_cast),
)  # fmt: skip
