"""Operators of the library by name and sizes, as commands take them.

    matmul 512 512 512
    conv2d --n 1 --c 64 --h 56 --w 56 --o 64 --k 3 --pad 1

Sizes stand in the order of the table, or are named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ansor.cli.errors import CommandError
from ansor.te import ops
from ansor.te.tensor import Tensor, placeholder

Size: TypeAlias = int | str


@dataclass(frozen=True, eq=False)
class Operator:
    """One operator: `build` makes it from a dtype and its sizes.

    A size whose default is None has to be given; a default that is text is a choice of
    words, such as a layout.
    """

    name: str
    description: str
    build: Callable[..., Tensor]
    sizes: Mapping[str, Size | None]
    batch: str = ""  # the size that --batch means

    def __str__(self) -> str:
        texts = (x if d is None else f"{x}={d}" for x, d in self.sizes.items())
        return f"{self.name} {' '.join(texts)}"

    def make(
        self, words: Sequence[str], batch: int | None = None, dtype: str = "float32"
    ) -> Tensor:
        """The output for the sizes in `words`, which follow the operator's name."""
        given = self._parse(words)
        if batch is not None:
            if self.batch in ("", *given):
                raise CommandError(
                    f"--batch {batch}",
                    f"--{self.batch} says it, too" if self.batch else
                    f"{self.name} has no batch",
                    f"sizes are {self}",
                )  # fmt: skip
            given[self.batch] = batch
        sizes = {**self.sizes, **given}
        missing = [name for name, value in sizes.items() if value is None]
        if missing:
            raise CommandError(
                self.name, f"no size {', '.join(missing)} given", f"sizes are {self}"
            )
        return self.build(dtype, **sizes)

    def _parse(self, words: Sequence[str]) -> dict[str, Size]:
        given: dict[str, Size] = {}
        free, rest = iter(self.sizes), iter(words)
        for word in rest:
            if word.startswith("--"):
                name, equals, text = word[2:].partition("=")
                text = text if equals else next(rest, "")
            else:
                name, text = next(free, ""), word
            if name not in self.sizes or name in given:
                raise CommandError(
                    f"{self.name} … {word}",
                    "the size is given twice" if name in given else
                    "there is no such size",
                    f"sizes are {self}",
                )  # fmt: skip
            given[name] = self._value(name, text)
        return given

    def _value(self, name: str, text: str) -> Size:
        if isinstance(self.sizes[name], str):
            return text
        try:
            return int(text)
        except ValueError:
            raise CommandError(
                f"{self.name}: size {name}", f"{text!r} is not an integer"
            ) from None


def _matmul(dtype: str, m: int, n: int, k: int) -> Tensor:
    a, b = placeholder((m, k), dtype, "A"), placeholder((k, n), dtype, "B")
    return ops.matmul(a, b)


def _dense(dtype: str, m: int, n: int, k: int) -> Tensor:
    x = placeholder((m, k), dtype, "X")
    return ops.dense(x, placeholder((n, k), dtype, "W", constant=True))


def _batch_matmul(dtype: str, b: int, m: int, n: int, k: int) -> Tensor:
    left = placeholder((b, m, k), dtype, "A")
    return ops.batch_matmul(left, placeholder((b, k, n), dtype, "B"))


def _images(dtype: str, n: int, c: int, space: tuple[int, ...], layout: str) -> Tensor:
    last = layout.upper().endswith("C")
    return placeholder((n, *space, c) if last else (n, c, *space), dtype, "X")


def _weights(dtype: str, o: int, i: int, space: tuple[int, ...], layout: str) -> Tensor:
    last = layout.upper().endswith("C")
    shape = (*space, i, o) if last else (o, i, *space)
    return placeholder(shape, dtype, "W", constant=True)


def _conv1d(
    dtype: str, n: int, c: int, w: int, o: int, k: int, stride: int, pad: int,
    dilation: int, groups: int, layout: str,
) -> Tensor:  # fmt: skip
    x = _images(dtype, n, c, (w,), layout)
    weight = _weights(dtype, o, c // max(groups, 1), (k,), layout)
    return ops.conv1d(x, weight, stride, pad, dilation, groups, layout.upper())


def _conv2d(
    dtype: str, n: int, c: int, h: int, w: int, o: int, k: int, stride: int, pad: int,
    dilation: int, groups: int, layout: str,
) -> Tensor:  # fmt: skip
    x = _images(dtype, n, c, (h, w), layout)
    weight = _weights(dtype, o, c // max(groups, 1), (k, k), layout)
    return ops.conv2d(x, weight, stride, pad, dilation, groups, layout.upper())


def _conv3d(
    dtype: str, n: int, c: int, d: int, h: int, w: int, o: int, k: int, stride: int,
    pad: int, dilation: int, groups: int, layout: str,
) -> Tensor:  # fmt: skip
    x = _images(dtype, n, c, (d, h, w), layout)
    weight = _weights(dtype, o, c // max(groups, 1), (k, k, k), layout)
    return ops.conv3d(x, weight, stride, pad, dilation, groups, layout.upper())


def _depthwise(
    dtype: str, n: int, c: int, h: int, w: int, k: int, stride: int, pad: int,
    dilation: int, layout: str,
) -> Tensor:  # fmt: skip
    x = _images(dtype, n, c, (h, w), layout)
    weight = _weights(dtype, c, 1, (k, k), layout)
    return ops.depthwise_conv2d(x, weight, stride, pad, dilation, layout.upper())


def _transposed(
    dtype: str, n: int, c: int, h: int, w: int, o: int, k: int, stride: int, pad: int,
    layout: str,
) -> Tensor:  # fmt: skip
    x = _images(dtype, n, c, (h, w), layout)
    last = layout.upper().endswith("C")
    shape = (k, k, c, o) if last else (c, o, k, k)
    weight = placeholder(shape, dtype, "W", constant=True)
    return ops.conv2d_transpose(x, weight, stride, pad, layout=layout.upper())


def _pool(
    dtype: str, n: int, c: int, h: int, w: int, k: int, stride: int, pad: int,
    kind: str, layout: str,
) -> Tensor:  # fmt: skip
    x = _images(dtype, n, c, (h, w), layout)
    return ops.pool(x, kind, k, stride or None, pad, layout=layout.upper())


def _attention(dtype: str, heads: int, seq: int, dim: int) -> Tensor:
    q, k, v = (placeholder((heads, seq, dim), dtype, x) for x in ("Q", "K", "V"))
    return ops.attention(q, k, v)


def _embedding(dtype: str, rows: int, width: int, count: int) -> Tensor:
    table = placeholder((rows, width), dtype, "table", constant=True)
    return ops.embedding(table, placeholder((count,), "int64", "ids"))


def _layer_norm(dtype: str, m: int, n: int) -> Tensor:
    gamma, beta = (
        placeholder((n,), dtype, name, constant=True) for name in ("gamma", "beta")
    )
    return ops.layer_norm(placeholder((m, n), dtype, "X"), gamma, beta)


def _matrix_norm(dtype: str, b: int, m: int, n: int) -> Tensor:
    return ops.matrix_norm(placeholder((b, m, n), dtype, "X"))


def _of_matrix(operator: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """An operator on one matrix of sizes m and n."""

    def build(dtype: str, m: int, n: int) -> Tensor:
        return operator(placeholder((m, n), dtype, "X"))

    return build


_MN: dict[str, Size | None] = {"m": None, "n": None}
_MNK = {**_MN, "k": None}
_IMAGE: dict[str, Size | None] = {"n": 1, "c": None, "h": None, "w": None}
_WINDOW: dict[str, Size | None] = {"k": None, "stride": 1, "pad": 0}
_CONV = {**_WINDOW, "dilation": 1, "groups": 1}

OPERATORS: dict[str, Operator] = {
    row.name: row
    for row in (
        Operator("matmul", "A (m, k) · B (k, n)", _matmul, _MNK),
        Operator("dense", "X (m, k) · Wᵀ, constant weights (n, k)", _dense, _MNK),
        Operator("batch_matmul", "b matrix products", _batch_matmul,
                 {"b": None, **_MNK}, "b"),
        Operator("conv1d", "convolution over w", _conv1d,
                 {"n": 1, "c": None, "w": None, "o": None, **_CONV, "layout": "NCW"},
                 "n"),
        Operator("conv2d", "convolution over h and w", _conv2d,
                 {**_IMAGE, "o": None, **_CONV, "layout": "NCHW"}, "n"),
        Operator("conv3d", "convolution over d, h and w", _conv3d,
                 {"n": 1, "c": None, "d": None, "h": None, "w": None, "o": None,
                  **_CONV, "layout": "NCDHW"}, "n"),
        Operator("depthwise_conv2d", "each channel by itself", _depthwise,
                 {**_IMAGE, **_WINDOW, "dilation": 1, "layout": "NCHW"}, "n"),
        Operator("conv2d_transpose", "enlarges images by the stride", _transposed,
                 {**_IMAGE, "o": None, **_WINDOW, "layout": "NCHW"}, "n"),
        Operator("pool", "max or avg of windows; stride 0 is the kernel's size", _pool,
                 {**_IMAGE, "k": None, "stride": 0, "pad": 0, "kind": "max",
                  "layout": "NCHW"}, "n"),
        Operator("softmax", "along n", _of_matrix(ops.softmax), _MN),
        Operator("log_softmax", "along n", _of_matrix(ops.log_softmax), _MN),
        Operator("layer_norm", "along n, scaled and shifted", _layer_norm, _MN),
        Operator("rms_norm", "along n", _of_matrix(ops.rms_norm), _MN),
        Operator("matrix_norm", "root of the sum of squares of b matrices",
                 _matrix_norm, {"b": 1, **_MN}, "b"),
        Operator("reduce_sum", "of everything", _of_matrix(ops.reduce_sum), _MN),
        Operator("attention", "softmax(Q·Kᵀ)·V of each head", _attention,
                 {"heads": None, "seq": None, "dim": None}),
        Operator("embedding", "count rows of a table (rows, width)", _embedding,
                 {"rows": None, "width": None, "count": None}),
        Operator("gelu", "of each element", _of_matrix(ops.gelu), _MN),
        Operator("relu", "of each element", _of_matrix(ops.relu), _MN),
        Operator("transpose", "of a matrix", _of_matrix(ops.transpose), _MN),
    )
}  # fmt: skip
