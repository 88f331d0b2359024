"""Products: matrices, einsum, convolutions and their transposes.

Elements of 16 bits are added up in float32 and rounded once; int8 and uint8 give
int32; others keep their type.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from ansor.errors import ExpressionError
from ansor.frontend.operators.operator import Kind, Operator
from ansor.te import ops
from ansor.te.functions import cast, select
from ansor.te.ops.elementwise import broadcast_shape, each, repeated
from ansor.te.ops.matmul import check_rank, product
from ansor.te.ops.window import AXES, Layout, Window
from ansor.te.reduction import reduce_axis, sum
from ansor.te.tensor import Tensor, compute
from ansor.te.value import Scalar, Value

Pairs = Sequence[tuple[int, int]]

_WIDER = {
    "float16": "float32",
    "bfloat16": "float32",
    "int8": "int32",
    "uint8": "int32",
}


def wider(dtype: str) -> str:
    """The type to add up elements of `dtype` in."""
    return _WIDER.get(dtype, dtype)


def narrowed(x: Tensor, dtype: str) -> Tensor:
    """`x` rounded back to a float type that was added up in a wider one."""
    if x.dtype == dtype or dtype in ("int8", "uint8"):
        return x
    return each(x, lambda v: cast(v, dtype), f"{x.name}_rounded")


def _accumulator(what: str, *tensors: Tensor) -> str | None:
    """The type that products are added up in; None where it is the operands' own."""
    types = {x.dtype for x in tensors}
    wide = {wider(dtype) for dtype in types}
    if len(wide) > 1 or (len(types) > 1 and wide != {"int32"}):
        names = " and ".join(x.dtype for x in tensors)
        raise ExpressionError(what, f"operands are {names}", "cast one of them")
    (found,) = wide
    return None if types == wide else found


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """As numpy.matmul: leading axes broadcast, vectors lose their axis again.

    Axes of extent 1 and a matrix without leading axes leave a plain product behind,
    whose rows are the other operand's.
    """
    if not a.ndim or not b.ndim:
        raise ExpressionError("matmul", "an operand is a scalar", "use multiply")
    inner, other = a.shape[-1], b.shape[max(b.ndim - 2, 0)]
    if inner != other:
        raise ExpressionError(
            "matmul", f"inner extents {inner} of {a.shape} and {other} of {b.shape}"
            " differ"
        )  # fmt: skip
    dtype = _accumulator("matmul", a, b)
    batch = broadcast_shape("matmul", a.shape[:-2], b.shape[:-2])
    rows, columns = a.shape[-2:-1], b.shape[-1:] if b.ndim > 1 else ()
    k = reduce_axis(inner, "k")

    def body(*axes: Value) -> Scalar:
        lead, own = axes[: len(batch)], list(axes[len(batch) :])
        row = own[: len(rows)]
        left = a[(*_lead(a, batch, lead), *row, k)]
        right = b[(*_lead(b, batch, lead), k, *own[len(rows) :])]
        return sum(product(left, right, dtype), axis=k)

    names = [f"b{d}" for d in range(len(batch))] if len(batch) > 1 else ["b"]
    axes = [*names[: len(batch)], *"i"[: len(rows)], *"j"[: len(columns)]]
    found = compute((*batch, *rows, *columns), body, name="matmul", axes=axes)
    return narrowed(found, a.dtype)


def _lead(
    x: Tensor, batch: tuple[int, ...], axes: tuple[Value, ...]
) -> tuple[Scalar, ...]:
    """Indices of leading axes; those of extent 1 are plainly 0."""
    own = x.shape[:-2]
    places = repeated(own, batch, axes)
    return tuple(i if n > 1 else 0 for i, n in zip(places, own, strict=True))


def einsum(*tensors: Tensor, equation: str) -> Tensor:
    """As numpy.einsum, with ellipses; more than two operands are multiplied from left
    to right, a pair at a time, summing what no later operand needs."""
    terms, result = _spelled(equation, [x.ndim for x in tensors])
    dtype = tensors[0].dtype
    done, term = tensors[0], terms[0]
    if len(tensors) == 1:
        return narrowed(_contracted([term], result, [done]), dtype)
    for n, (other, x) in enumerate(zip(terms[1:], tensors[1:], strict=True), 2):
        later = set(chain(result, *terms[n:]))
        both = dict.fromkeys(term + other)
        kept = result if n == len(terms) else "".join(i for i in both if i in later)
        done, term = _contracted([term, other], kept, [done, x]), kept
    return narrowed(done, dtype)


def _contracted(terms: Sequence[str], kept: str, tensors: Sequence[Tensor]) -> Tensor:
    """The sum of products over the letters that are not kept; extents of 1 repeat."""
    what = f"einsum {','.join(terms)}->{kept}"
    dtype = tensors[0].dtype if len(tensors) == 1 else None
    dtype = (wider(dtype) if dtype else None) or _accumulator(what, *tensors)
    extents: dict[str, int] = {}
    for letter, n in _letters(terms, tensors):
        if min(extents.get(letter, n), n) != 1 and extents.get(letter, n) != n:
            raise ExpressionError(
                what, f"axis {letter!r} is both {extents[letter]} and {n} long"
            )
        extents[letter] = max(n, extents.get(letter, 1))
    summed = {x: reduce_axis(n, x) for x, n in extents.items() if x not in kept}

    def body(*axes: Value) -> Scalar:
        place: dict[str, Value] = {**dict(zip(kept, axes, strict=True)), **summed}
        found = [
            x[tuple(place[i] if n > 1 else 0 for i, n in zip(t, x.shape, strict=True))]
            for t, x in zip(terms, tensors, strict=True)
        ]
        wide = [cast(v, dtype) if dtype else v for v in found]
        total = wide[0] * wide[1] if len(wide) > 1 else wide[0]
        return sum(total, axis=list(summed.values())) if summed else total

    shape = tuple(extents[x] for x in kept)
    return compute(shape, body, name="einsum", axes=tuple(kept))


def _letters(terms: Sequence[str], tensors: Sequence[Tensor]) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    for term, x in zip(terms, tensors, strict=True):
        check_rank(f"einsum operand {term!r}", x, len(term))
        found += zip(term, x.shape, strict=True)
    return found


def _spelled(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The letters of the operands and of the result, ellipses written out."""
    what = f"einsum {equation!r}"
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    letters = set(equation) - set("., ->")
    if len(terms) != len(ranks) or not all(
        x.isascii() and x.isalpha() for x in letters
    ):
        raise ExpressionError(what, f"does not name the axes of {len(ranks)} operands")
    free = [x for x in "zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJIHGFEDCBA"
            if x not in letters]  # fmt: skip
    spare = [
        rank - len(t.replace("...", "")) for t, rank in zip(terms, ranks, strict=True)
    ]
    if any(n < 0 or (n and "..." not in t) for n, t in zip(spare, terms, strict=True)):
        raise ExpressionError(what, f"operands have {list(ranks)} axes")
    most = max(spare)
    dots = "".join(free[:most])
    full = [
        t.replace("...", dots[most - n :]) for n, t in zip(spare, terms, strict=True)
    ]
    if not arrow:
        once = sorted(x for x in letters if left.count(x) == 1)
        return full, dots + "".join(once)
    result = right.replace("...", dots)
    if len(set(result)) < len(result) or not set(result) <= set("".join(full)):
        raise ExpressionError(what, f"the result {right!r} repeats or invents an axis")
    return full, result


def conv(
    x: Tensor,
    weight: Tensor,
    strides: Sequence[int],
    padding: Pairs,
    dilations: Sequence[int],
    groups: int,
    layout: str = "first",
) -> Tensor:
    """A convolution without flipping; weights are OI… with "first", …IO with "last"."""
    order = layout_of("conv", x, layout)
    function = (ops.conv1d, ops.conv2d, ops.conv3d)[order.rank - 1]
    found = function(
        x,
        weight,
        tuple(strides),
        tuple(padding),
        tuple(dilations),
        groups,
        layout=_named(order),
        name="conv",
        dtype=_accumulator("conv", x, weight),
    )
    return narrowed(found, x.dtype)


def layout_of(what: str, x: Tensor, layout: str) -> Layout:
    """Where channels are: "first", after the batch, or "last"."""
    rank = x.ndim - 2
    if rank not in (1, 2, 3) or layout not in ("first", "last"):
        raise ExpressionError(
            what, f"{rank} spatial axes in layout {layout!r}",
            'up to 3 axes, "first" or "last"',
        )  # fmt: skip
    return Layout(layout == "last", rank)


def _named(order: Layout) -> str:
    space = "DHW"[3 - order.rank :]
    return f"N{space}C" if order.last else f"NC{space}"


def conv_transpose(
    x: Tensor,
    weight: Tensor,
    strides: Sequence[int],
    padding: Pairs,
    output_padding: Sequence[int],
    dilations: Sequence[int],
    groups: int,
    layout: str = "first",
) -> Tensor:
    """The transpose of `conv`; weights are (C, O / groups, …) with "first" and
    (…, C, O / groups) with "last", where C are the channels of `x`.

    `output_padding` adds places at the end, which only padding would have cut off.
    """
    what = "conv_transpose"
    order = layout_of(what, x, layout)
    check_rank(what, weight, x.ndim)
    kernel = weight.shape[:-2] if order.last else weight.shape[2:]
    inputs = weight.shape[-2] if order.last else weight.shape[0]
    if inputs != order.channel(x.shape) or groups < 1 or inputs % groups:
        raise ExpressionError(
            what,
            f"weights take {inputs} channels in {groups} groups, but the input has "
            f"{order.channel(x.shape)}",
        )
    ones = (1,) * order.rank
    w = Window(kernel, ones, tuple(map(_pair, padding)), tuple(dilations))
    space = tuple(
        (n - 1) * s + span + 1 - before - after + more
        for n, s, span, (before, after), more in zip(
            order.space(x.shape), strides, w.spans, w.padding, output_padding,
            strict=True,
        )
    )  # fmt: skip
    data = _spread_out(x, order, w, strides, space)
    dtype = _accumulator(what, x, weight)
    found = _flipped(data, weight, order, w, groups, space, dtype)
    return narrowed(found, x.dtype)


def _pair(given: Sequence[int]) -> tuple[int, int]:
    before, after = given
    return before, after


def _flipped(
    data: Tensor,
    weight: Tensor,
    order: Layout,
    w: Window,
    groups: int,
    space: tuple[int, ...],
    dtype: str | None,
) -> Tensor:
    """The convolution of spread out data with the flipped kernel."""
    outputs = weight.shape[-1] if order.last else weight.shape[1]
    inputs = order.channel(data.shape) // groups
    names = AXES[3 - order.rank :]
    c = reduce_axis(inputs, "c")
    inside = [reduce_axis(k, f"r{n}") for k, n in zip(w.kernel, names, strict=True)]

    def body(*axes: Value) -> Scalar:
        n, o, place = axes[0], order.channel(axes), order.space(axes)
        turned = [k - 1 - r for k, r in zip(w.kernel, inside, strict=True)]
        group = o // outputs if groups > 1 else 0
        channel: Scalar = group * inputs + c
        own = o % outputs if groups > 1 else o
        factor = weight[
            (*turned, channel, own) if order.last else (channel, own, *turned)
        ]
        source = data[order.join(n, channel, w.at(place, inside))]
        return sum(product(source, factor, dtype), axis=[c, *inside])

    shape = order.join(data.shape[0], outputs * groups, space)
    return compute(shape, body, name="conv_transpose", axes=order.join("n", "o", names))


def _spread_out(
    x: Tensor,
    order: Layout,
    w: Window,
    steps: Sequence[int],
    outputs: tuple[int, ...],
) -> Tensor:
    """`x` with step-1 zeros between neighbours, and zeros around."""
    extents = order.space(x.shape)
    shape = [n + span for n, span in zip(outputs, w.spans, strict=True)]

    def body(*axes: Value) -> Scalar:
        source, inside = [], None
        for d, place in enumerate(order.space(axes)):
            at = place - (w.spans[d] - w.padding[d][0])
            source.append(at // steps[d])
            tests = [at >= 0, at < (extents[d] - 1) * steps[d] + 1]
            if steps[d] > 1:
                tests.append(at % steps[d] == 0)
            for test in tests:
                inside = test if inside is None else inside & test
        assert inside is not None
        element = x[order.join(axes[0], order.channel(axes), source)]
        return select(inside, element, 0)

    whole = order.join(x.shape[0], order.channel(x.shape), shape)
    names = order.join("n", "c", AXES[3 - order.rank :])
    return compute(whole, body, name="conv_transpose_pad", axes=names)


def conv_phases(
    x: Tensor, weight: Tensor, padding: Pairs, shifts: Sequence[int]
) -> Tensor:
    """Several convolutions of one image, with channels last, whose results interleave:
    (N, *space, C) with weights (*phases, *kernel, C, O) gives

        y[n, y, py, x, px, o]   for two axes, of extents (N, Y, PY, X, PX, O),

    so that, along an axis, phase p sees the image `shift * p` places further on.
    """
    what, rank = "conv_phases", x.ndim - 2
    check_rank(what, weight, 2 * rank + 2)
    phases, kernel = weight.shape[:rank], weight.shape[rank : 2 * rank]
    image = ops.pad(x, [(0, 0), *map(_pair, padding), (0, 0)], name=f"{what}_pad")
    counts = [
        n - (k - 1) - shift * (p - 1)
        for n, k, shift, p in zip(
            image.shape[1:-1], kernel, shifts, phases, strict=True
        )
    ]
    names = AXES[3 - rank :]
    c = reduce_axis(x.shape[-1], "c")
    taps = [reduce_axis(k, f"r{n}") for k, n in zip(kernel, names, strict=True)]
    dtype = _accumulator(what, x, weight)

    def body(*axes: Value) -> Scalar:
        places, own = axes[1:-1:2], axes[2:-1:2]
        at = [
            place + shift * phase + tap
            for place, shift, phase, tap in zip(places, shifts, own, taps, strict=True)
        ]
        factor = weight[(*own, *taps, c, axes[-1])]
        return sum(product(image[(axes[0], *at, c)], factor, dtype), axis=[c, *taps])

    pairs = chain.from_iterable(zip(counts, phases, strict=True))
    shape = (x.shape[0], *pairs, weight.shape[-1])
    both = chain.from_iterable((n, f"p{n}") for n in names)
    found = compute(shape, body, name=what, axes=("n", *both, "o"))
    return narrowed(found, x.dtype)


OPERATORS = (
    Operator("matmul", matmul, Kind.ANCHOR),
    Operator("einsum", einsum, Kind.ANCHOR),
    Operator("conv", conv, Kind.ANCHOR),
    Operator("conv_transpose", conv_transpose, Kind.ANCHOR),
    Operator("conv_phases", conv_phases, Kind.ANCHOR),
)
