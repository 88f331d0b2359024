"""Calls of ATen with tensors to check them on: one row for every overload."""

import torch

aten = torch.ops.aten
CASES: dict[str, tuple[object, tuple[object, ...]]] = {}


def reals(
    *shape: int, dtype: torch.dtype = torch.float32, seed: int = 0
) -> torch.Tensor:
    made = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(shape, generator=made).to(dtype)


def positive(*shape: int) -> torch.Tensor:
    return reals(*shape).abs() + 0.1


def inside(*shape: int) -> torch.Tensor:
    """Between -1 and 1."""
    return torch.tanh(reals(*shape))


def whole(*shape: int, low: int = -5, high: int = 6, seed: int = 0) -> torch.Tensor:
    made = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randint(low, high, shape, generator=made)


def truths(*shape: int) -> torch.Tensor:
    return whole(*shape, low=0, high=2) > 0


def case(name: str, op: object, *arguments: object, **keywords: object) -> None:
    CASES[name] = (lambda *given: op(*given, **keywords), arguments)


# -- element-wise ----------------------------------------------------------------------

for _name in [
    "abs",
    "asinh",
    "atan",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "neg",
    "reciprocal",
    "relu",
    "round",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "tan",
    "tanh",
    "trunc",
    "mish",
    "isnan",
    "isinf",
    "logical_not",
    "gelu",
]:
    case(_name, getattr(aten, _name).default, reals(3, 5))
for _name in ["log", "log10", "log1p", "log2", "sqrt", "rsqrt"]:
    case(_name, getattr(aten, _name).default, positive(3, 5))
for _name in ["acos", "asin", "atanh"]:
    case(_name, getattr(aten, _name).default, inside(3, 5))
case("acosh", aten.acosh.default, positive(7) + 1)
for _name in [
    "exp",
    "sigmoid",
    "sqrt",
    "isnan",
    "isinf",
    "floor",
    "abs",
    "neg",
    "sign",
    "relu",
    "logical_not",
]:
    case(f"{_name}-int", getattr(aten, _name).default, whole(3, 5).abs())
case("exp-half", aten.exp.default, reals(4, dtype=torch.float16))
case("tanh-bfloat16", aten.tanh.default, reals(4, dtype=torch.bfloat16))
case("sin-double", aten.sin.default, reals(4, dtype=torch.float64))
case("bitwise_not", aten.bitwise_not.default, whole(5))
case("bitwise_not-bool", aten.bitwise_not.default, truths(5))
case(
    "isnan-values", aten.isnan.default, torch.tensor([1.0, float("nan"), float("inf")])
)
case(
    "isinf-values", aten.isinf.default, torch.tensor([-float("inf"), float("nan"), 0.0])
)
case("gelu-tanh", aten.gelu.default, reals(9), approximate="tanh")
case("elu", aten.elu.default, reals(9))
case("elu-scaled", aten.elu.default, reals(9), 1.5, 1.1, 0.7)
case("leaky_relu", aten.leaky_relu.default, reals(9), 0.2)
case("hardtanh", aten.hardtanh.default, reals(9), 0, 6)
case("prelu", aten._prelu_kernel.default, reals(2, 3, 4), reals(1, 3, 1))
case("round-decimals", aten.round.decimals, reals(9), decimals=2)
case("round-tens", aten.round.decimals, reals(9) * 100, decimals=-1)

for _name in ["add", "sub", "mul", "div"]:
    _op = getattr(aten, _name)
    case(f"{_name}-tensors", _op.Tensor, reals(3, 1, 5), reals(4, 1, seed=1))
    case(f"{_name}-number", _op.Tensor, reals(3, 5), 2.5)
    case(f"{_name}-scalar", _op.Scalar, reals(3, 5), 2)
    case(f"{_name}-int-float", _op.Tensor, whole(3, 5), reals(5))
    case(f"{_name}-ints", _op.Tensor, whole(3, 5), whole(5, low=1))
    case(f"{_name}-int-number", _op.Tensor, whole(3, 5), 0.5)
    case(f"{_name}-half", _op.Tensor, reals(5, dtype=torch.float16), reals())
    case(
        f"{_name}-narrow",
        _op.Tensor,
        whole(5).to(torch.int8),
        whole(5).to(torch.uint8) + 1,
    )
case("add-alpha", aten.add.Tensor, reals(5), reals(5, seed=1), alpha=3)
case("sub-alpha", aten.sub.Tensor, whole(5), whole(5, seed=1), alpha=2)
case("rsub", aten.rsub.Scalar, reals(5), 2.0)
case("add-bool", aten.add.Tensor, truths(9), truths(9).flip(0))
case("mul-bool", aten.mul.Tensor, truths(9), truths(9).flip(0))
case("mul-bool-float", aten.mul.Tensor, truths(9), reals(9))
for _mode in ("floor", "trunc"):
    _floats, _ints = (reals(9) * 9, reals(9, seed=1)), (whole(9) * 7, whole(9, low=1))
    case(f"div-{_mode}", aten.div.Tensor_mode, *_floats, rounding_mode=_mode)
    case(f"div-{_mode}-ints", aten.div.Tensor_mode, *_ints, rounding_mode=_mode)
    case(
        f"div-{_mode}-number",
        aten.div.Scalar_mode,
        _floats[0],
        -2.0,
        rounding_mode=_mode,
    )
for _name in ["remainder", "fmod"]:
    _op = getattr(aten, _name)
    case(f"{_name}-floats", _op.Tensor, reals(9) * 5, reals(9, seed=1))
    case(f"{_name}-ints", _op.Tensor, whole(9) * 5, whole(9, low=-7, high=-1))
    case(f"{_name}-number", _op.Scalar, reals(9) * 5, -1.5)
for _name in ["maximum", "minimum", "atan2"]:
    case(f"{_name}", getattr(aten, _name).default, reals(3, 5), reals(5, seed=1))
case("maximum-mixed", aten.maximum.default, whole(5), reals(5))
case("atan2-ints", aten.atan2.default, whole(5), whole(5, low=1))
for _name in ["and", "or", "xor"]:
    _op, _not = getattr(aten, f"bitwise_{_name}"), getattr(aten, f"logical_{_name}")
    case(f"bitwise_{_name}", _op.Tensor, whole(9), whole(9, seed=1))
    case(f"bitwise_{_name}-bool", _op.Tensor, truths(9), truths(9).flip(0))
    case(f"bitwise_{_name}-scalar", _op.Scalar, whole(9), 3)
    case(f"logical_{_name}", _not.default, whole(9), reals(9))
case("shift-left", aten.bitwise_left_shift.Tensor, whole(9), whole(9, low=0))
case("shift-right", aten.bitwise_right_shift.Tensor, whole(9), whole(9, low=0))
for _name in ["eq", "ne", "lt", "le", "gt", "ge"]:
    _op = getattr(aten, _name)
    case(f"{_name}-tensors", _op.Tensor, whole(3, 5), whole(5))
    case(f"{_name}-scalar", _op.Scalar, whole(9), 0.5)
    case(f"{_name}-mixed", _op.Tensor, whole(9), reals(9))
    case(f"{_name}-bool", _op.Tensor, truths(9), truths(9).flip(0))
case("pow-2", aten.pow.Tensor_Scalar, reals(9), 2)
case("pow-3", aten.pow.Tensor_Scalar, reals(9), 3)
case("pow-half", aten.pow.Tensor_Scalar, positive(9), 0.5)
case("pow-real", aten.pow.Tensor_Scalar, positive(9), -1.7)
case("pow-int", aten.pow.Tensor_Scalar, whole(9), 2)
case("pow-int-real", aten.pow.Tensor_Scalar, whole(9).abs(), 1.5)
case("pow-tensors", aten.pow.Tensor_Tensor, positive(3, 5), reals(5))
case("pow-base", aten.pow.Scalar, 2.0, reals(9))
case("where", aten.where.self, truths(3, 5), reals(5), reals(3, 1))
case("where-mixed", aten.where.self, truths(5), whole(5), reals(5))
case("masked_fill", aten.masked_fill.Scalar, reals(3, 5), truths(5), -1.0)
case("clamp", aten.clamp.default, reals(9), -0.5, 0.5)
case("clamp-low", aten.clamp.default, reals(9), 0)
case("clamp-high", aten.clamp.default, reals(9), None, 0.25)
case("clamp-int", aten.clamp.default, whole(9), -2, 2)
case("clamp-tensors", aten.clamp.Tensor, reals(3, 5), reals(5) - 1, reals(5) + 1)
for _dtype in (torch.int64, torch.bool, torch.float16, torch.bfloat16, torch.int8):
    case(f"to-{_dtype}", aten._to_copy.default, reals(9) * 3, dtype=_dtype)
case("to-from-bool", aten._to_copy.default, truths(9), dtype=torch.float32)
case("clone", aten.clone.default, reals(3, 5))
case("alias", aten.alias.default, reals(3, 5))
case("copy", aten.copy.default, reals(3, 5), whole(5))

# -- constants -------------------------------------------------------------------------

_like = {"dtype": torch.float32, "device": "cpu"}
case("full", lambda x: x + aten.full.default([3, 2], 1.5, **_like), reals(2))
case("full_like", lambda x: x + aten.full_like.default(x, 2), reals(3))
case("fill", lambda x: x + aten.fill.Scalar(x, 2), reals(3))
case("fill-tensor", lambda x: x + aten.fill.Tensor(x, x.sum()), reals(3))
case("scalar_tensor", lambda x: x + aten.scalar_tensor.default(2.5), reals(3))
case("arange", lambda x: x + aten.arange.start_step(1, 10, 3), reals(3))
case("arange-real", lambda x: x + aten.arange.start_step(0.0, 1.0, 0.25), reals(4))
case("arange-down", lambda x: x + aten.arange.start_step(5, 1, -2), whole(2))

# -- movement --------------------------------------------------------------------------

case("view", aten.view.default, reals(4, 6), [2, -1, 3])
case("unsqueeze", aten.unsqueeze.default, reals(4, 6), -2)
case("squeeze", aten.squeeze.dim, reals(4, 1, 6), 1)
case("squeeze-none", aten.squeeze.dim, reals(4, 1, 6), 0)
case("squeeze-dims", aten.squeeze.dims, reals(1, 4, 1), [0, -1])
case("permute", aten.permute.default, reals(2, 3, 4), [-1, 0, 1])
case("transpose", aten.transpose.int, reals(2, 3, 4), -1, 0)
case("t", aten.t.default, reals(2, 3))
case("expand", aten.expand.default, reals(3, 1), [2, -1, 4])
case("slice", aten.slice.Tensor, reals(7, 3), 0, 1, -2, 2)
case("slice-open", aten.slice.Tensor, reals(7, 3), 1, None, 9223372036854775807)
case("slice-past", aten.slice.Tensor, reals(7, 3), 0, -100, 4)
case("slice-empty", aten.slice.Tensor, reals(7, 3), 0, 5, 2)
case("select", aten.select.int, reals(4, 5, 2), 1, -2)
case("split", aten.split_with_sizes.default, reals(6, 2), [1, 3, 2])
case("unbind", aten.unbind.int, reals(2, 3), 1)
case(
    "cat",
    lambda a, b, c: aten.cat.default([a, b, c], 1),
    reals(2, 3),
    reals(2, 1),
    reals(2, 4),
)
case("cat-empty", lambda a, b: aten.cat.default([a, b], 1), reals(0), reals(2, 1))
case("cat-mixed", lambda a, b: aten.cat.default([a, b]), whole(3), reals(2))
case(
    "stack",
    lambda a, b: aten.stack.default([a, b], -1),
    reals(2, 3),
    reals(2, 3, seed=1),
)
case("repeat", aten.repeat.default, reals(2, 3), [2, 1, 3])
case("flip", aten.flip.default, reals(2, 3, 4), [0, -1])
case("roll", aten.roll.default, reals(4, 5), [1, -2], [0, 1])
case("roll-flat", aten.roll.default, reals(4, 5), [3])
case("pad", aten.constant_pad_nd.default, reals(2, 3, 4), [1, 2, 0, 1], 0.5)
case("pad-cut", aten.constant_pad_nd.default, reals(3, 4), [-1, 2])
case("reflection_pad1d", aten.reflection_pad1d.default, reals(2, 5), [2, 1])
case("reflection_pad2d", aten.reflection_pad2d.default, reals(1, 2, 4, 5), [2, 1, 0, 3])
case(
    "reflection_pad3d",
    aten.reflection_pad3d.default,
    reals(1, 1, 3, 4, 5),
    [1, 2, 1, 0, 1, 1],
)
case(
    "replication_pad2d", aten.replication_pad2d.default, reals(1, 2, 4, 5), [2, 1, 0, 3]
)
case(
    "replication_pad3d",
    aten.replication_pad3d.default,
    reals(1, 1, 2, 3, 4),
    [1, 2, 1, 0, 1, 1],
)
case("slice_scatter", aten.slice_scatter.default, reals(6, 3), reals(2, 3), 0, 1, 3)
case(
    "slice_scatter-step",
    aten.slice_scatter.default,
    reals(3, 7),
    reals(3, 3),
    1,
    0,
    6,
    2,
)
case("select_scatter", aten.select_scatter.default, reals(4, 3), reals(4), 1, -1)
case("as_strided", aten.as_strided.default, reals(20), [3, 4], [2, 3], 1)
case("diagonal", aten.diagonal.default, reals(3, 4, 5), 1, 0, 2)
case("diagonal-below", aten.diagonal.default, reals(4, 3), -2)
case("unfold", aten.unfold.default, reals(2, 9), 1, 4, 2)
case("tril", aten.tril.default, reals(4, 5), 1)
case("triu", aten.triu.default, reals(4, 5), -1)
case("pixel_shuffle", aten.pixel_shuffle.default, reals(2, 8, 3, 2), 2)

# -- indexing --------------------------------------------------------------------------

case("embedding", aten.embedding.default, reals(7, 3), whole(2, 4, low=0))
case("index_select", aten.index_select.default, reals(3, 6), 1, whole(4, low=0))
case("gather", aten.gather.default, reals(4, 6), 1, whole(3, 2, low=0))
case("gather-first", aten.gather.default, reals(6, 4), 0, whole(3, 4, low=0))
case("index", lambda x, i: aten.index.Tensor(x, [i]), reals(6, 3), whole(4, low=-6))
case(
    "index-last",
    lambda x, i: aten.index.Tensor(x, [None, i]),
    reals(3, 6),
    whole(2, 2, low=0),
)
case(
    "index-both",
    lambda x, i, j: aten.index.Tensor(x, [i, j]),
    reals(6, 7, 2),
    whole(4, low=0),
    whole(3, 1, low=0),
)
case(
    "index-middle",
    lambda x, i, j: aten.index.Tensor(x, [None, i, j]),
    reals(2, 6, 7),
    whole(4, low=0),
    whole(4, low=0, seed=1),
)
case(
    "index-apart",
    lambda x, i, j: aten.index.Tensor(x, [i, None, j]),
    reals(6, 2, 7),
    whole(4, low=0),
    whole(4, low=0, seed=1),
)
case(
    "index_put",
    lambda x, i, v: aten.index_put.default(x, [i], v),
    reals(6, 3),
    torch.tensor([1, 4]),
    reals(2, 3),
)
case(
    "index_put-add",
    lambda x, i, v: aten.index_put.default(x, [i], v, True),
    reals(6, 3),
    torch.tensor([1, 4, 1]),
    reals(3, 3),
)
case(
    "index_put-middle",
    lambda x, i, v: aten.index_put.default(x, [None, i], v),
    reals(3, 6, 2),
    torch.tensor([1, 4]),
    reals(3, 2, 2),
)
case(
    "index_put-mask",
    lambda x, m, v: aten.index_put.default(x, [m], v),
    reals(3, 4),
    truths(3, 4),
    reals(),
)
case(
    "scatter",
    aten.scatter.src,
    reals(4, 5),
    1,
    torch.tensor([[0, 2], [1, 4]]),
    reals(3, 3),
)
case(
    "scatter-value", aten.scatter.value, reals(4, 5), 0, torch.tensor([[0, 2, 1]]), 9.0
)
case(
    "scatter_add",
    aten.scatter_add.default,
    reals(4, 5),
    0,
    whole(3, 5, low=0, high=4),
    reals(3, 5),
)
for _how in ("sum", "prod", "amax", "amin"):
    case(
        f"scatter_reduce-{_how}",
        aten.scatter_reduce.two,
        reals(4, 5),
        0,
        whole(3, 5, low=0, high=4),
        reals(3, 5),
        _how,
    )
case(
    "masked_scatter", aten.masked_scatter.default, reals(3, 4), truths(3, 4), reals(12)
)
