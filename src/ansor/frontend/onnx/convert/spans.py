"""How windows of convolutions and pools move: strides, dilations and padding."""

from __future__ import annotations

from dataclasses import dataclass

from ansor.errors import ModelError
from ansor.frontend.onnx.node import OnnxNode

Ints = tuple[int, ...]
Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Spans:
    """One number per spatial axis; `uncounted` of the padding at the end is only there
    to complete the last window."""

    extents: Ints
    sizes: Ints  # of the window, with its holes
    strides: Ints
    dilations: Ints
    padding: Pairs
    uncounted: Ints
    automatic: str


def spans(
    node: OnnxNode,
    extents: Ints,
    kernel: Ints,
    resolve: bool = True,
    ceil: bool = False,
    dilated: bool = True,
) -> Spans:
    """What the attributes of a node say. Without `resolve` auto_pad is left to the
    caller."""
    rank = len(extents)
    strides = node.attribute("strides", (1,) * rank)
    dilations = node.attribute("dilations", (1,) * rank) if dilated else (1,) * rank
    pads = node.attribute("pads", (0,) * (2 * rank))
    automatic = node.attribute("auto_pad", "NOTSET")
    _check(node, rank, kernel, strides, dilations, pads)
    sizes = tuple((k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True))
    padding = tuple((pads[d], pads[rank + d]) for d in range(rank))
    if automatic not in ("NOTSET", "", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise node.unsupported(f"attribute 'auto_pad' is {automatic!r}")
    if automatic == "VALID":
        padding = ((0, 0),) * rank
    plain = Spans(extents, sizes, strides, dilations, padding, (0,) * rank, automatic)
    if not resolve:
        return plain
    if automatic.startswith("SAME"):
        return _same(plain)
    return _completed(plain) if ceil and automatic != "VALID" else plain


def _check(node: OnnxNode, rank: int, kernel: Ints, *given: Ints) -> None:
    strides, dilations, pads = given
    lengths = (len(kernel), len(strides), len(dilations), len(pads))
    if lengths != (rank, rank, rank, 2 * rank):
        raise ModelError(
            str(node),
            f"kernel {kernel}, strides {strides}, dilations {dilations} and pads "
            f"{pads} are not for {rank} spatial axes",
        )
    if min((*kernel, *strides, *dilations), default=1) < 1 or min(pads, default=0) < 0:
        raise ModelError(
            str(node),
            f"kernel {kernel}, strides {strides}, dilations {dilations} or pads {pads} "
            "are too small",
        )


def _same(s: Spans) -> Spans:
    """Padding that gives ceil(extent / stride) places."""
    padding = []
    for n, size, step in zip(s.extents, s.sizes, s.strides, strict=True):
        places = -(-n // step)
        total = max(0, (places - 1) * step + size - n)
        half = total // 2
        upper = s.automatic == "SAME_UPPER"
        padding.append((half, total - half) if upper else (total - half, half))
    return Spans(s.extents, s.sizes, s.strides, s.dilations, tuple(padding),
                 s.uncounted, s.automatic)  # fmt: skip


def _completed(s: Spans) -> Spans:
    """Room for a last window that starts inside the image or the padding before it."""
    padding, extra = [], []
    for d, (before, after) in enumerate(s.padding):
        room = s.extents[d] + before + after - s.sizes[d]
        places = -(-room // s.strides[d]) + 1
        if (places - 1) * s.strides[d] >= s.extents[d] + before:
            places -= 1
        more = max(0, (places - 1) * s.strides[d] - room)
        padding.append((before, after + more))
        extra.append(more)
    return Spans(s.extents, s.sizes, s.strides, s.dilations, tuple(padding),
                 tuple(extra), s.automatic)  # fmt: skip
