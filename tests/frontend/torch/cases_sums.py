"""More calls: reductions, products, windows, normalisations."""

import torch

from frontend.torch.cases import (
    CASES,
    aten,
    case,
    inside,
    positive,
    reals,
    truths,
    whole,
)

__all__ = ["CASES"]

# -- reductions ------------------------------------------------------------------------

case("sum", aten.sum.dim_IntList, reals(3, 4, 5), [0, -1])
case("sum-keep", aten.sum.dim_IntList, reals(3, 4), [1], True)
case("sum-all", aten.sum.dim_IntList, reals(3, 4), None)
case("sum-int", aten.sum.default, whole(3, 4).to(torch.int8))
case("sum-bool", aten.sum.dim_IntList, truths(3, 4), [0])
case("sum-dtype", aten.sum.dim_IntList, reals(3, 4), [0], dtype=torch.float64)
case("mean", aten.mean.dim, reals(2, 3, 4), [-1, -2], True)
case("mean-all", aten.mean.default, reals(2, 3))
case("amax", aten.amax.default, reals(3, 4), [1])
case("amin", aten.amin.default, reals(3, 4), [], True)
case("any", aten.any.default, truths(3, 4))
case("any-dim", aten.any.dim, whole(3, 4, low=-1, high=2), 1, True)
case("any-dims", aten.any.dims, truths(2, 3, 4), [0, 2])
case("all", aten.all.dim, truths(3, 4), 1)
case("prod", aten.prod.default, reals(3, 4))
case("prod-dim", aten.prod.dim_int, whole(3, 4), 0)
case("argmax", aten.argmax.default, reals(3, 4), 1, True)
case("argmin", aten.argmin.default, reals(3, 4), -2)
case("argmax-all", aten.argmax.default, reals(3, 4))
case("max-dim", aten.max.dim, reals(3, 4), 1)
case("min-dim", aten.min.dim, reals(3, 4), 0, True)
case("var", aten.var.correction, reals(3, 4), [1])
case("var-all", aten.var.correction, reals(3, 4), None, correction=0)
case("var-dim", aten.var.dim, reals(3, 4), [0], False, True)
case("cumsum", aten.cumsum.default, reals(3, 4), -1)
case("cumsum-int", aten.cumsum.default, whole(3, 4).to(torch.int32), 0)
case("cumprod", aten.cumprod.default, reals(3, 4), 1)
case("topk", aten.topk.default, reals(3, 7), 3)
case("topk-least", aten.topk.default, reals(7, 3), 2, 0, False)
case("sort", aten.sort.default, reals(3, 7))
case("sort-down", aten.sort.default, reals(7, 3), 0, True)
for _p in (0.0, 1.0, 2.0, 3.0, float("inf")):
    case(
        f"cdist-{_p}",
        aten._cdist_forward.default,
        reals(2, 3, 4),
        reals(2, 5, 4),
        _p,
        None,
    )
    case(f"pdist-{_p}", aten._pdist_forward.default, reals(4, 3), _p)
    case(f"norm-{_p}", aten.linalg_vector_norm.default, reals(4, 3), _p, [1])
case("norm-all", aten.linalg_vector_norm.default, reals(4, 3))
case("norm-least", aten.linalg_vector_norm.default, reals(4, 3), -float("inf"), [0])
case(
    "norm-wide",
    aten.linalg_vector_norm.default,
    reals(2, 4, 3),
    2,
    [0, 2],
    True,
    dtype=torch.float64,
)

# -- products, convolutions, attention -------------------------------------------------

case("mm", aten.mm.default, reals(3, 4), reals(4, 5))
case("bmm", aten.bmm.default, reals(2, 3, 4), reals(2, 4, 5))
case("mm-int", aten.mm.default, whole(3, 4), whole(4, 5))
case("addmm", aten.addmm.default, reals(5), reals(3, 4), reals(4, 5))
case(
    "addmm-scaled",
    aten.addmm.default,
    reals(3, 5),
    reals(3, 4),
    reals(4, 5),
    beta=0.5,
    alpha=2,
)
case("baddbmm", aten.baddbmm.default, reals(2, 3, 5), reals(2, 3, 4), reals(2, 4, 5))
case("linear", aten.linear.default, reals(2, 3, 4), reals(5, 4), reals(5))


def _conv(
    name: str, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None, **more: object
) -> None:
    n = x.dim() - 2
    given = {
        "stride": [1] * n,
        "padding": [0] * n,
        "dilation": [1] * n,
        "transposed": False,
        "output_padding": [0] * n,
        "groups": 1,
    } | more
    case(name, aten.convolution.default, x, w, b, *given.values())


_conv("conv1d", reals(2, 3, 9), reals(4, 3, 3), reals(4), stride=[2], padding=[1])
_conv(
    "conv2d",
    reals(1, 3, 8, 7),
    reals(4, 3, 3, 2),
    reals(4),
    stride=[2, 1],
    padding=[1, 0],
)
_conv("conv3d", reals(1, 2, 4, 5, 5), reals(3, 2, 2, 3, 3), None, padding=[0, 1, 1])
_conv("conv-groups", reals(1, 4, 6, 6), reals(6, 2, 3, 3), None, groups=2)
_conv(
    "conv-depthwise",
    reals(1, 4, 6, 6),
    reals(4, 1, 3, 3),
    reals(4),
    groups=4,
    padding=[1, 1],
)
_conv("conv-dilated", reals(1, 2, 9, 9), reals(3, 2, 3, 3), None, dilation=[2, 3])
_conv(
    "conv-transposed",
    reals(1, 4, 5, 5),
    reals(4, 3, 4, 4),
    reals(3),
    stride=[2, 2],
    padding=[1, 1],
    transposed=True,
)
_conv(
    "conv-transposed-more",
    reals(1, 4, 5, 4),
    reals(4, 2, 3, 3),
    None,
    stride=[2, 2],
    transposed=True,
    output_padding=[1, 0],
    groups=2,
)
_sdpa = aten.scaled_dot_product_attention.default
_q, _k, _v = reals(2, 4, 5, 8), reals(2, 4, 6, 8), reals(2, 4, 6, 8, seed=3)
case("attention", _sdpa, _q, _k, _v)
case("attention-mask", _sdpa, _q, _k, _v, truths(2, 1, 5, 6))
case("attention-nowhere", _sdpa, _q, _k, _v, torch.zeros(5, 6, dtype=torch.bool))
case("attention-bias", _sdpa, _q, _k, _v, reals(5, 6))
case("attention-causal", _sdpa, _q, _q, _q, is_causal=True, scale=0.3)
case("attention-shared", _sdpa, _q, _k[:, :2], _v[:, :2], enable_gqa=True)
case("attention-half", _sdpa, _q.half(), _k.half(), _v.half())
case(
    "flash",
    lambda *x: aten._scaled_dot_product_flash_attention_for_cpu.default(*x)[0],
    _q,
    _k,
    _v,
)

# -- windows ---------------------------------------------------------------------------


def _first(op: object) -> object:
    return lambda *given, **more: op(*given, **more)[0]


_pool = aten.max_pool2d_with_indices.default
case("max_pool", _first(_pool), reals(1, 2, 7, 8), [3, 2], [2, 2], [1, 0])
case(
    "max_pool-ceil",
    _first(_pool),
    reals(1, 2, 7, 8),
    [3, 3],
    [2, 2],
    [1, 1],
    [1, 1],
    True,
)
case("max_pool-dilated", _first(_pool), reals(2, 9, 9), [3, 3], [1, 1], [0, 0], [2, 2])
case(
    "max_pool3d",
    _first(aten.max_pool3d_with_indices.default),
    reals(1, 2, 4, 5, 6),
    [2, 2, 2],
)
case("avg_pool", aten.avg_pool2d.default, reals(1, 2, 7, 8), [3, 2], [2, 2], [1, 1])
case(
    "avg_pool-ceil",
    aten.avg_pool2d.default,
    reals(1, 2, 8, 8),
    [3, 3],
    [2, 2],
    [1, 1],
    True,
)
case(
    "avg_pool-ceil-out",
    aten.avg_pool2d.default,
    reals(1, 2, 8, 8),
    [3, 3],
    [2, 2],
    [1, 1],
    True,
    False,
)
case(
    "avg_pool-out",
    aten.avg_pool2d.default,
    reals(1, 2, 7, 8),
    [3, 3],
    [2, 2],
    [1, 1],
    False,
    False,
)
case(
    "avg_pool-divisor",
    aten.avg_pool2d.default,
    reals(2, 7, 8),
    [3, 3],
    [2, 2],
    [1, 1],
    False,
    True,
    5,
)
case("avg_pool3d", aten.avg_pool3d.default, reals(1, 2, 4, 5, 6), [2, 3, 2])
case("adaptive-one", aten._adaptive_avg_pool2d.default, reals(1, 3, 6, 6), [1, 1])
case("adaptive-even", aten._adaptive_avg_pool2d.default, reals(1, 3, 6, 8), [3, 2])
case("adaptive-uneven", aten._adaptive_avg_pool2d.default, reals(1, 3, 7, 5), [3, 2])
case("adaptive3d", aten._adaptive_avg_pool3d.default, reals(1, 2, 4, 5, 6), [2, 2, 3])
case(
    "col2im",
    aten.col2im.default,
    reals(2, 12, 9),
    [4, 4],
    [2, 2],
    [1, 1],
    [0, 0],
    [1, 1],
)
case(
    "col2im-strided",
    aten.col2im.default,
    reals(1, 9, 6),
    [6, 7],
    [3, 3],
    [1, 1],
    [1, 0],
    [3, 2],
)
case("im2col", aten.im2col.default, reals(1, 3, 5, 6), [2, 3], [1, 1], [1, 0], [2, 1])
case("nearest", aten.upsample_nearest2d.vec, reals(1, 2, 4, 5), None, [2.0, 1.5])
case("nearest-size", aten.upsample_nearest2d.vec, reals(1, 2, 4, 5), [7, 3], None)
case(
    "bilinear", aten.upsample_bilinear2d.vec, reals(1, 2, 4, 5), None, False, [2.0, 1.5]
)
case(
    "bilinear-corners",
    aten.upsample_bilinear2d.vec,
    reals(1, 2, 4, 5),
    [7, 9],
    True,
    None,
)
case(
    "bilinear-size",
    aten.upsample_bilinear2d.vec,
    reals(1, 2, 4, 5),
    [7, 3],
    False,
    None,
)

# -- normalisation ---------------------------------------------------------------------

case("softmax", aten._softmax.default, reals(3, 5), -1, False)
case("log_softmax", aten._log_softmax.default, reals(3, 5), 0, False)
case(
    "layer_norm",
    _first(aten.native_layer_norm.default),
    reals(2, 3, 4),
    [4],
    reals(4),
    reals(4, seed=1),
    1e-5,
)
case(
    "layer_norm-plain",
    _first(aten.native_layer_norm.default),
    reals(2, 3, 4),
    [3, 4],
    None,
    None,
    1e-3,
)
case(
    "group_norm",
    _first(aten.native_group_norm.default),
    reals(2, 6, 5),
    reals(6),
    reals(6, seed=1),
    2,
    6,
    5,
    3,
    1e-5,
)
case(
    "group_norm-plain",
    _first(aten.native_group_norm.default),
    reals(2, 6, 5),
    None,
    None,
    2,
    6,
    5,
    2,
    1e-5,
)
_bn = (reals(4), reals(4, seed=1), reals(4, seed=2), positive(4))
case(
    "batch_norm",
    _first(aten._native_batch_norm_legit_no_training.default),
    reals(2, 4, 3, 3),
    *_bn,
    0.1,
    1e-5,
)
case(
    "batch_norm-plain",
    _first(aten._native_batch_norm_legit_no_training.default),
    reals(2, 4),
    None,
    None,
    *_bn[2:],
    0.1,
    1e-5,
)
case(
    "batch_norm-now",
    _first(aten._native_batch_norm_legit.no_stats),
    reals(2, 4, 3),
    *_bn[:2],
    True,
    0.1,
    1e-5,
)

# -- what torch takes apart, unless it is asked for by itself --------------------------

_grid = inside(2, 3, 4, 2) * 1.2
for _mode, _padding in ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (2, 0), (2, 2)):
    case(
        f"grid_sampler-{_mode}-{_padding}",
        aten.grid_sampler_2d.default,
        reals(2, 2, 5, 6),
        _grid,
        _mode,
        _padding,
        _padding == 1,
    )
case("dropout", _first(aten.native_dropout.default), reals(5), 0.5, False)
