"""RNN, GRU and LSTM, written out step by step.

The inputs' products of all steps are one product ahead of the steps. A step that lies
behind the end of a sequence leaves its state as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ansor.errors import ModelError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Value
from ansor.frontend.onnx.convert.pieces import (
    beside,
    literal,
    part,
    reshape,
)
from ansor.frontend.onnx.node import Converter, OnnxNode
from ansor.ir.dtypes import DTYPES

Activation = Callable[[Value], Value]

LONGEST = 1 << 11  # steps that are written out

# Defaults of alpha and beta; None: the function does not take it.
_FUNCTIONS: dict[str, tuple[float | None, float | None]] = {
    "relu": (None, None),
    "tanh": (None, None),
    "sigmoid": (None, None),
    "softsign": (None, None),
    "softplus": (None, None),
    "affine": (1.0, 0.0),
    "leakyrelu": (0.01, None),
    "thresholdedrelu": (1.0, None),
    "scaledtanh": (1.0, 1.0),
    "hardsigmoid": (0.2, 0.5),
    "elu": (1.0, None),
}


@dataclass(frozen=True)
class _Cell:
    """One direction of a network: weights (rows are gates), and what it applies."""

    node: OnnxNode
    build: Builder
    width: int
    weight: Value  # (inputs, gates * width)
    again: Value  # (width, gates * width)
    bias: Value | None
    again_bias: Value | None
    peephole: Value | None
    functions: tuple[Activation, ...]

    def add(self, op: str, *values: Value) -> Value:
        return self.build.add(op, *values)

    def gate(self, x: Value, n: int) -> Value:
        """Gate n of what stands side by side."""
        axis = len(x.shape) - 1
        return part(self.build, x, axis, n * self.width, (n + 1) * self.width)

    def peeped(self, x: Value, state: Value, n: int) -> Value:
        if self.peephole is None:
            return x
        return self.add(
            "add", x, self.add("multiply", self.gate(self.peephole, n), state)
        )

    def limited(self, x: Value) -> Value:
        limit = self.node.attribute("clip", 0.0)
        return self.build.add("clip", x, low=-limit, high=limit) if limit else x

    def apply(self, n: int, x: Value) -> Value:
        return self.functions[n](self.limited(x))

    def inputs(self, x: Value) -> Value:
        """What the inputs (steps, batch, width) contribute to every step's gates."""
        found = self.add("matmul", x, self.weight)
        return found if self.bias is None else self.add("add", found, self.bias)

    def states(self, h: Value, weight: Value | None = None) -> Value:
        return self.add("matmul", h, self.again if weight is None else weight)

    def blend(self, keep: Value, old: Value, new: Value) -> Value:
        """(1 - keep) * new + keep * old."""
        rest = self.add("subtract", literal(self.build, 1.0, keep.dtype), keep)
        return self.add(
            "add", self.add("multiply", rest, new), self.add("multiply", keep, old)
        )


def _rnn(cell: _Cell, x: Value, state: Sequence[Value]) -> tuple[Value, ...]:
    total = cell.add("add", x, cell.states(state[0]))
    if cell.again_bias is not None:
        total = cell.add("add", total, cell.again_bias)
    return (cell.apply(0, total),)


def _gru(cell: _Cell, x: Value, state: Sequence[Value]) -> tuple[Value, ...]:
    (h,) = state
    width, build = cell.width, cell.build
    both = part(build, cell.again, 1, 0, 2 * width)
    last = part(build, cell.again, 1, 2 * width, 3 * width)
    bias = cell.again_bias
    gates = cell.add("add", part(build, x, 1, 0, 2 * width), cell.states(h, both))
    if bias is not None:
        gates = cell.add("add", gates, part(build, bias, 0, 0, 2 * width))
    update = cell.apply(0, cell.gate(gates, 0))
    reset = cell.apply(0, cell.gate(gates, 1))
    before = cell.node.attribute("linear_before_reset", 0)
    hidden = cell.states(h if before else cell.add("multiply", reset, h), last)
    if bias is not None:
        hidden = cell.add("add", hidden, cell.gate(bias, 2))
    if before:
        hidden = cell.add("multiply", reset, hidden)
    new = cell.apply(1, cell.add("add", cell.gate(x, 2), hidden))
    return (cell.blend(update, h, new),)


def _lstm(cell: _Cell, x: Value, state: Sequence[Value]) -> tuple[Value, ...]:
    h, c = state
    gates = cell.add("add", x, cell.states(h))
    if cell.again_bias is not None:
        gates = cell.add("add", gates, cell.again_bias)
    enter = cell.apply(0, cell.peeped(cell.gate(gates, 0), c, 0))
    if cell.node.attribute("input_forget", 0):
        one = literal(cell.build, 1.0, enter.dtype)
        forget = cell.add("subtract", one, enter)
    else:
        forget = cell.apply(0, cell.peeped(cell.gate(gates, 2), c, 2))
    new = cell.apply(1, cell.gate(gates, 3))
    kept = cell.add("multiply", forget, c)
    c = cell.add("add", kept, cell.add("multiply", enter, new))
    leave = cell.apply(0, cell.peeped(cell.gate(gates, 1), c, 1))
    return cell.add("multiply", leave, cell.functions[2](c)), c


@dataclass(frozen=True)
class _Kind:
    step: Callable[[_Cell, Value, Sequence[Value]], tuple[Value, ...]]
    gates: int
    states: int
    functions: tuple[str, ...]


_KINDS = {
    "RNN": _Kind(_rnn, 1, 1, ("tanh",)),
    "GRU": _Kind(_gru, 3, 1, ("sigmoid", "tanh")),
    "LSTM": _Kind(_lstm, 4, 2, ("sigmoid", "tanh", "tanh")),
}
_DIRECTIONS = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}


def convert_recurrent(node: OnnxNode, build: Builder) -> tuple[Value, ...]:
    kind = _KINDS[node.op]
    batch_first = bool(node.attribute("layout", 0)) if node.opset >= 14 else False
    if node.opset < 7:
        node.attribute("output_sequence", 0)
    node.attribute("clip", 0.0)
    if node.op == "GRU":
        node.attribute("linear_before_reset", 0)
    if node.op == "LSTM":
        node.attribute("input_forget", 0)
    x = _swapped(build, node.input(0), batch_first)
    if x.shape[0] > LONGEST:
        raise node.unsupported(f"{x.shape[0]:,} steps, more than {LONGEST:,}")
    way = node.attribute("direction", "forward")
    if way not in _DIRECTIONS:
        raise ModelError(str(node), f"attribute 'direction' is {way!r}")
    turned = _DIRECTIONS[way]
    functions = list(_functions(node, build, kind, len(turned)))
    each = [
        _direction(node, build, kind, x, n, back, functions[n], batch_first)
        for n, back in enumerate(turned)
    ]
    results = [_joined(build, [found[0] for found in each], 1)]
    for s in range(kind.states):
        results.append(_joined(build, [found[1 + s] for found in each], 0))
    if batch_first:
        results = [build.add("transpose", results[0], axes=(2, 0, 1, 3)),
                   *(_swapped(build, v, True) for v in results[1:])]  # fmt: skip
    return tuple(results)


def _joined(build: Builder, values: list[Value], axis: int) -> Value:
    return values[0] if len(values) == 1 else build.add("concat", *values, axis=axis)


def _swapped(build: Builder, x: Value, swap: bool) -> Value:
    return build.add("transpose", x, axes=(1, 0, 2)) if swap else x


def _direction(
    node: OnnxNode,
    build: Builder,
    kind: _Kind,
    x: Value,
    n: int,
    back: bool,
    functions: tuple[Activation, ...],
    batch_first: bool,
) -> tuple[Value, ...]:
    """All steps' results (steps, 1, batch, width), and the last states."""
    cell = _cell(node, build, kind, n, functions)
    steps, batch, _ = x.shape
    state = _initial(node, build, kind, n, (batch, cell.width), batch_first, x.dtype)
    gates = cell.inputs(x)
    lengths = node.maybe(4)
    outputs: list[Value] = [state[0]] * steps
    for t in reversed(range(steps)) if back else range(steps):
        own = part(build, gates, 0, t, t + 1)
        new = kind.step(cell, reshape(build, own, (batch, gates.shape[2])), state)
        outputs[t] = new[0]
        if lengths is not None:
            zero = literal(build, 0.0, x.dtype)
            runs = reshape(build, lengths, (batch, 1))
            runs = beside(build, "greater", runs, t)
            outputs[t] = build.add("where", runs, new[0], zero)
            new = tuple(
                build.add("where", runs, a, b) for a, b in zip(new, state, strict=True)
            )
        state = new
    whole = [reshape(build, v, (1, 1, batch, cell.width)) for v in outputs]
    last = [reshape(build, v, (1, batch, cell.width)) for v in state]
    return _joined(build, whole, 0), *last


def _cell(
    node: OnnxNode,
    build: Builder,
    kind: _Kind,
    n: int,
    functions: tuple[Activation, ...],
) -> _Cell:
    weight, again = (_own(build, node.input(i), n) for i in (1, 2))
    width = again.shape[1]
    if node.attribute("hidden_size", width) != width:
        raise ModelError(str(node), f"hidden_size is not {width}, as the weights say")
    bias, size = node.maybe(3), kind.gates * width
    first = second = None
    if bias is not None:
        both = _own(build, bias, n)
        first, second = (
            part(build, both, 0, start, start + size) for start in (0, size)
        )
    peephole = node.maybe(7) if kind.states == 2 else None
    return _Cell(
        node,
        build,
        width,
        build.add("transpose", weight, axes=(1, 0)),
        build.add("transpose", again, axes=(1, 0)),
        first,
        second,
        None if peephole is None else _own(build, peephole, n),
        functions,
    )


def _own(build: Builder, x: Value, n: int) -> Value:
    """What belongs to direction n."""
    return reshape(build, part(build, x, 0, n, n + 1), x.shape[1:])


def _initial(
    node: OnnxNode,
    build: Builder,
    kind: _Kind,
    n: int,
    shape: tuple[int, int],
    batch_first: bool,
    dtype: str,
) -> tuple[Value, ...]:
    found = []
    for s in range(kind.states):
        given = node.maybe(5 + s)
        if given is None:
            zeros = np.zeros(shape, DTYPES[dtype].numpy)
            found.append(build.constant(zeros, "state"))
        else:
            found.append(_own(build, _swapped(build, given, batch_first), n))
    return tuple(found)


def _functions(
    node: OnnxNode, build: Builder, kind: _Kind, directions: int
) -> Iterator[tuple[Activation, ...]]:
    """The activations of each direction; alpha and beta are dealt out in order."""
    count = len(kind.functions)
    names = node.attribute("activations", kind.functions * directions)
    alphas = iter(node.attribute("activation_alpha", ()))
    betas = iter(node.attribute("activation_beta", ()))
    if len(names) != count * directions:
        raise ModelError(str(node), f"{len(names)} activations, not {count} each way")
    found = []
    for name in names:
        key = name.lower()
        if key not in _FUNCTIONS:
            raise node.unsupported(f"attribute 'activations' has {name!r}")
        alpha, beta = _FUNCTIONS[key]
        if alpha is not None:
            alpha = next(alphas, alpha)
        if beta is not None:
            beta = next(betas, beta)
        found.append(_activation(build, key, alpha or 0.0, beta or 0.0))
    for d in range(directions):
        yield tuple(found[d * count : (d + 1) * count])


def _activation(build: Builder, name: str, alpha: float, beta: float) -> Activation:
    def scaled_tanh(x: Value) -> Value:
        inner = build.add("tanh", beside(build, "multiply", x, beta))
        return beside(build, "multiply", inner, alpha)

    def affine(x: Value) -> Value:
        return beside(build, "add", beside(build, "multiply", x, alpha), beta)

    special: dict[str, Activation] = {
        "affine": affine,
        "scaledtanh": scaled_tanh,
        "leakyrelu": lambda x: build.add("leaky_relu", x, alpha=alpha),
        "thresholdedrelu": lambda x: build.add("thresholded_relu", x, alpha=alpha),
        "hardsigmoid": lambda x: build.add("hard_sigmoid", x, alpha=alpha, beta=beta),
        "elu": lambda x: build.add("elu", x, alpha=alpha),
    }
    return special.get(name) or (lambda x: build.add(name, x))


CONVERTERS: dict[str, Converter] = dict.fromkeys(_KINDS, convert_recurrent)
