"""The standard workloads in torch, in the forms that may be the fastest.

Every form computes the same function on the same memory layout: channels-last data is
torch's channels_last, whose tensors are views of ours. Constant weights are laid out
ahead of time as torch likes them; only what depends on the other inputs is timed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Arrays = dict[str, Tensor]  # by the names of the workload's inputs
Options = dict[str, Any]


def unchanged(y: Tensor) -> Tensor:
    return y


@dataclass(frozen=True)
class Form:
    """One way to compute a workload: `function(*inputs, *weights)`."""

    name: str
    function: Callable[..., Tensor]
    inputs: tuple[Tensor, ...]
    weights: tuple[Tensor, ...] = ()
    restore: Callable[[Tensor], Tensor] = unchanged  # to the workload's axes, a view
    is_eager: bool = False  # not to be compiled: it writes into memory of its own


Forms = Callable[[Arrays], Iterator[Form]]


# -- products --------------------------------------------------------------------------


def product(x: Arrays) -> Iterator[Form]:
    a, b = x["A"], x["B"]
    out = torch.empty(a.shape[0], b.shape[1])
    yield Form("mm", torch.mm, (a, b))
    yield Form("mm out", lambda a, b: torch.mm(a, b, out=out), (a, b), is_eager=True)
    if a.shape[0] == 1:
        yield Form("mv", lambda a, b: torch.mv(b.t(), a[0])[None], (a, b))


def batched_product(x: Arrays) -> Iterator[Form]:
    a, b = x["A"], x["B"]
    out = torch.empty(a.shape[0], a.shape[1], b.shape[2])
    yield Form("bmm", torch.bmm, (a, b))
    yield Form("bmm out", lambda a, b: torch.bmm(a, b, out=out), (a, b), is_eager=True)
    if a.shape[0] == 1:
        yield Form("mm", lambda a, b: torch.mm(a[0], b[0])[None], (a, b))


def transpose_product(x: Arrays) -> Iterator[Form]:
    def scores(query: Tensor, key: Tensor) -> Tensor:
        return torch.matmul(query.permute(0, 2, 1, 3), key.permute(0, 2, 3, 1))

    query, key = x["query"], x["key"]
    batch, words, heads, _ = query.shape
    out = torch.empty(batch, heads, words, words)

    def by_head(query: Tensor, key: Tensor) -> Tensor:
        for n in range(batch):
            for h in range(heads):
                torch.mm(query[n, :, h], key[n, :, h].t(), out=out[n, h])
        return out

    def copied(query: Tensor, key: Tensor) -> Tensor:
        left, right = query.permute(0, 2, 1, 3), key.permute(0, 2, 3, 1)
        return torch.matmul(left.contiguous(), right.contiguous())

    yield Form("matmul", scores, (query, key))
    yield Form("copies and matmul", copied, (query, key))
    yield Form("mm of each head", by_head, (query, key), is_eager=True)


def attention(x: Arrays) -> Iterator[Form]:
    qkv = (x["Q"], x["K"], x["V"])
    scale = qkv[0].shape[-1] ** -0.5

    def explicit(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return torch.bmm(torch.softmax(torch.bmm(q, k.mT) * scale, -1), v)

    def fused(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        batch = (q[None], k[None], v[None])
        return functional.scaled_dot_product_attention(*batch)[0]

    def copied(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = torch.bmm(q, k.mT.contiguous())
        return torch.bmm(torch.softmax(scores * scale, -1), v)

    yield Form("bmm softmax bmm", explicit, qkv)
    yield Form("copy bmm softmax bmm", copied, qkv)
    yield Form("scaled_dot_product_attention", fused, qkv)


# -- convolutions ----------------------------------------------------------------------

LAST = {4: torch.channels_last, 5: torch.channels_last_3d}
CONVOLUTIONS = {
    3: functional.conv1d,
    4: functional.conv2d,
    5: functional.conv3d,
}


def laid_out(weight: Tensor, last: bool) -> Tensor:
    """A weight of torch's axes in the memory that goes with the data."""
    if last and weight.ndim in LAST:
        return weight.contiguous(memory_format=LAST[weight.ndim])
    return weight.contiguous()


def data(x: Tensor, last: bool) -> Tensor:
    """Batch, channels, space: a view."""
    return x.movedim(-1, 1) if last else x


def weights(w: Tensor, last: bool) -> Tensor:
    """Output, input channels, space."""
    return laid_out(w.movedim((-1, -2), (0, 1)) if last else w, last)


def back(last: bool) -> Callable[[Tensor], Tensor]:
    return (lambda y: y.movedim(1, -1)) if last else unchanged


def convolution(last: bool, **options: Any) -> Forms:
    def forms(x: Arrays) -> Iterator[Form]:
        image, weight = data(x["X"], last), weights(x["W"], last)
        operator = CONVOLUTIONS[image.ndim]
        yield Form(
            operator.__name__,
            lambda x, w: operator(x, w, **options),
            (image,),
            (weight,),
            back(last),
        )
        if image.ndim == 3:
            yield flat(image, weight, last, options)

    return forms


def flat(image: Tensor, weight: Tensor, last: bool, options: Options) -> Form:
    """One spatial axis as two, of which one has extent 1: then there is a layout with
    the channels last."""
    stride, padding = (1, options["stride"]), (0, options["padding"])
    shape = laid_out(weight[:, :, None], last)

    def run(x: Tensor, w: Tensor) -> Tensor:
        y = functional.conv2d(x[:, :, None], w, stride=stride, padding=padding)
        return y[:, :, 0]

    return Form("conv2d of one row", run, (image,), (shape,), back(last))


def transposed(last: bool, **options: Any) -> Forms:
    def forms(x: Arrays) -> Iterator[Form]:
        w = x["W"].permute(2, 3, 0, 1) if last else x["W"]
        yield Form(
            "conv_transpose2d",
            lambda x, w: functional.conv_transpose2d(x, w, **options),
            (data(x["X"], last),),
            (laid_out(w, last),),
            back(last),
        )

    return forms


def convolution_norm_relu(last: bool, **options: Any) -> Forms:
    def forms(x: Arrays) -> Iterator[Form]:
        image, weight = data(x["X"], last), weights(x["W"], last)
        mean, variance, gamma, beta = (x[n] for n in NORM)

        def steps(x: Tensor, w: Tensor, *norm: Tensor) -> Tensor:
            y = functional.conv2d(x, w, **options)
            m, v, g, b = norm
            y = functional.batch_norm(y, m, v, g, b, training=False, eps=1e-5)
            return functional.relu(y, inplace=True)

        def folded(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
            return functional.relu(functional.conv2d(x, w, b, **options), inplace=True)

        norm = (mean, variance, gamma, beta)
        yield Form("three calls", steps, (image,), (weight, *norm), back(last))
        scale = gamma * torch.rsqrt(variance + 1e-5)
        whole = laid_out(weight * scale[:, None, None, None], last)
        shift = beta - mean * scale
        yield Form("norm folded", folded, (image,), (whole, shift), back(last))

    return forms


NORM = ("mean", "variance", "gamma", "beta")


def capsules(x: Arrays) -> Iterator[Form]:
    """Rows of capsules are a batch, and the rest of them channels: a convolution."""
    image, w = x["X"], x["W"]
    n, height, width, c, rows, k = image.shape
    size, _, _, o, _, columns = w.shape
    weight = w.permute(3, 5, 2, 4, 0, 1).reshape(o * columns, c * k, size, size)

    def whole(y: Tensor) -> Tensor:  # batch and rows, outputs and columns, space
        y = y.view(n, rows, o, columns, *y.shape[2:])
        return y.permute(0, 4, 5, 2, 1, 3).contiguous()

    def first(x: Tensor, w: Tensor) -> Tensor:
        x = x.permute(0, 4, 3, 5, 1, 2).reshape(n * rows, c * k, height, width)
        return whole(functional.conv2d(x, w, stride=2, padding=1))

    def channels_last(x: Tensor, w: Tensor) -> Tensor:
        x = x.permute(0, 4, 1, 2, 3, 5).reshape(n * rows, height, width, c * k)
        y = functional.conv2d(x.permute(0, 3, 1, 2), w, stride=2, padding=1)
        y = y.permute(0, 2, 3, 1).reshape(n, rows, *y.shape[2:], o, columns)
        return y.permute(0, 2, 3, 4, 1, 5).contiguous()

    def unfolded(x: Tensor, w: Tensor) -> Tensor:
        x = functional.pad(x, (0,) * 6 + (1,) * 4)
        x = x.unfold(1, size, 2).unfold(2, size, 2)  # n y x c i k r s
        matrix = x.permute(0, 1, 2, 4, 6, 7, 3, 5).reshape(-1, size * size * c * k)
        y: Tensor = torch.mm(matrix, w).view(n, *x.shape[1:3], rows, o, columns)
        return y.permute(0, 1, 2, 4, 3, 5).contiguous()

    yield Form("conv2d", first, (image,), (laid_out(weight, False),))
    yield Form(
        "conv2d channels last", channels_last, (image,), (laid_out(weight, True),)
    )
    flattened = w.permute(0, 1, 2, 4, 3, 5).reshape(-1, o * columns).contiguous()
    yield Form("unfold and mm", unfolded, (image,), (flattened,))


# -- rows ------------------------------------------------------------------------------


def norm(x: Arrays) -> Iterator[Form]:
    def vector(x: Tensor) -> Tensor:
        y: Tensor = torch.linalg.vector_norm(x, dim=(1, 2))
        return y

    def dot(x: Tensor) -> Tensor:
        flat = x.view(x.shape[0], 1, -1)
        return torch.sqrt(torch.bmm(flat, flat.mT))[:, 0, 0]

    yield Form("matrix_norm", torch.linalg.matrix_norm, (x["X"],))
    yield Form("vector_norm", vector, (x["X"],))
    yield Form("bmm with itself", dot, (x["X"],))


def softmax(x: Arrays) -> Iterator[Form]:
    out = torch.empty_like(x["X"])
    yield Form("softmax", lambda x: torch.softmax(x, -1), (x["X"],))
    yield Form(
        "softmax out", lambda x: torch.softmax(x, -1, out=out), (x["X"],), is_eager=True
    )


def layer_norm_gelu(x: Arrays) -> Iterator[Form]:
    def run(x: Tensor, gamma: Tensor, beta: Tensor) -> Tensor:
        return functional.gelu(functional.layer_norm(x, x.shape[1:], gamma, beta))

    yield Form("two calls", run, (x["X"],), (x["gamma"], x["beta"]))


# -- the table -------------------------------------------------------------------------

STEM = {"stride": 2, "padding": 3}
LAYOUTS: dict[str, Callable[..., Forms]] = {
    "C1D": lambda last: convolution(last, stride=2, padding=1),
    "C2D": lambda last: convolution(last, **STEM),
    "C3D": lambda last: convolution(last, **STEM),
    "DEP": lambda last: convolution(last, padding=1, groups=32),
    "DIL": lambda last: convolution(last, **STEM, dilation=2),
    "GRP": lambda last: convolution(last, stride=2, padding=1, groups=4),
    "T2D": lambda last: transposed(last, stride=2, padding=1),
    "R50a": lambda last: convolution(last, padding=1),
    "R50b": lambda last: convolution(last, padding=1),
    "R50c": lambda last: convolution(last),
    "CBR": lambda last: convolution_norm_relu(last, **STEM),
}
OTHERS: dict[str, Forms] = {
    "GMM128": batched_product,
    "CAP": capsules,
    "TBG": transpose_product,
    "NRM": norm,
    "SFM": softmax,
    "LNG": layer_norm_gelu,
    "ATT": attention,
}


def forms(workload: str, arrays: Arrays) -> list[Form]:
    """All forms of a workload; every product of matrices has those of `product`."""
    name, _, layout = workload.partition("-")
    if name in LAYOUTS:
        return list(LAYOUTS[name](layout == "nhwc")(arrays))
    if workload in OTHERS:
        return list(OTHERS[workload](arrays))
    assert name.startswith("GMM"), f"no torch form of workload {workload!r}"
    return list(product(arrays))
