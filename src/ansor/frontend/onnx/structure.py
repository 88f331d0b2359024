"""Constants, branches, loops, sequences and optional values: what is no array
operator. Conditions, lengths and positions must be constant; loops are written out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ansor.errors import ModelError, UnsupportedError
from ansor.frontend.graph import Array, Value
from ansor.frontend.onnx.attributes import Subgraph
from ansor.frontend.onnx.node import Plain
from ansor.frontend.onnx.scope import Entry, Items

if TYPE_CHECKING:
    from ansor.frontend.onnx.walk import Walker

MOST_TRIPS = 1024  # of a loop that is written out


@dataclass(frozen=True)
class Call:
    """A node with inputs of any kind."""

    op: str
    name: str
    domain: str
    opset: int
    inputs: tuple[Entry, ...]
    outputs: tuple[str, ...]  # "": not wanted
    attributes: Mapping[str, Plain]
    what: str

    def entry(self, index: int) -> Entry:
        return self.inputs[index] if index < len(self.inputs) else None

    def value(self, index: int) -> Value:
        found = self.entry(index)
        if not isinstance(found, Value):
            raise ModelError(self.what, f"input {index} is not a tensor")
        return found

    def items(self, index: int) -> tuple[Value, ...]:
        found = self.entry(index)
        if not isinstance(found, Items):
            raise ModelError(self.what, f"input {index} is not a sequence")
        return found.values

    def graph(self, name: str) -> Subgraph:
        found = self.attributes.get(name)
        if not isinstance(found, Subgraph):
            raise ModelError(self.what, f"attribute {name!r} is no graph")
        return found

    def ints(self, name: str, default: Sequence[int]) -> tuple[int, ...]:
        found = self.attributes.get(name, tuple(default))
        whole = isinstance(found, tuple) and all(isinstance(x, int) for x in found)
        if not whole or len(found) != len(default):
            raise ModelError(
                self.what, f"attribute {name!r} is not {len(default)} integers"
            )
        return tuple(found)

    def int(self, name: str, default: int) -> int:
        found = self.attributes.get(name, default)
        if not isinstance(found, int):
            raise ModelError(self.what, f"attribute {name!r} is not an integer")
        return found

    def only(self, *names: str) -> None:
        """No other attributes are there."""
        for name in sorted(set(self.attributes) - set(names)):
            raise self.unsupported(f"attribute {name!r} is not supported")

    def unsupported(self, reason: str) -> UnsupportedError:
        return UnsupportedError(self.what, f"{reason} (opset {self.opset})")


Structure = Callable[["Walker", Call], tuple[Entry, ...]]


def constant(walk: Walker, call: Call) -> tuple[Entry, ...]:
    """Constant: one of several attributes has it."""
    if len(call.attributes) != 1 or call.inputs:
        raise ModelError(call.what, "it must have one attribute and no input")
    ((name, found),) = call.attributes.items()
    kinds = {"value_int": np.int64, "value_ints": np.int64, "value_float": np.float32,
             "value_floats": np.float32}  # fmt: skip
    if name in kinds:
        found = np.array(found, kinds[name])
    elif name not in ("value", "sparse_value") or not isinstance(found, np.ndarray):
        raise call.unsupported(f"attribute {name!r} is not supported")
    return (walk.build.constant(found, "constant"),)


def branch(walk: Walker, call: Call) -> tuple[Entry, ...]:
    """If, of which one side is taken now."""
    call.only("then_branch", "else_branch")
    known = _known(walk, call.value(0))
    if known is None or known.size != 1:
        raise call.unsupported("input 'cond' is not constant")
    side = "then_branch" if known.reshape(-1)[0] else "else_branch"
    return walk.subgraph(call.graph(side), ())


def loop(walk: Walker, call: Call) -> tuple[Entry, ...]:
    """Loop, written out."""
    call.only("body")
    trips = _trips(walk, call)
    goes: Entry = call.entry(1)
    state = list(call.inputs[2:])
    if goes is None:
        goes = walk.build.constant(np.array(True))
    rows: list[tuple[Entry, ...]] = []
    while len(rows) < trips and _goes(walk, call, goes):
        if len(rows) == MOST_TRIPS:
            raise call.unsupported(f"it runs more than {MOST_TRIPS} times")
        index = walk.build.constant(np.array(len(rows), np.int64))
        goes, *rest = walk.subgraph(call.graph("body"), [index, goes, *state])
        state, row = rest[: len(state)], rest[len(state) :]
        rows.append(tuple(row))
    scans = max(0, len(call.outputs) - len(state))
    return (*state, *_stacked(walk, call, rows, (0,) * scans))


def scan(walk: Walker, call: Call) -> tuple[Entry, ...]:
    """Scan, written out."""
    if call.opset < 9:
        raise call.unsupported("a Scan with a batch axis")
    count = call.int("num_scan_inputs", 0)
    states = len(call.inputs) - count
    if not 0 < count <= len(call.inputs):
        raise ModelError(call.what, f"'num_scan_inputs' is {count}")
    scans = max(0, len(call.outputs) - states)
    call.only("body", "num_scan_inputs", "scan_input_axes", "scan_output_axes",
              "scan_input_directions", "scan_output_directions")  # fmt: skip
    axes = call.ints("scan_input_axes", (0,) * count)
    turned = call.ints("scan_input_directions", (0,) * count)
    places = call.ints("scan_output_axes", (0,) * scans)
    state = list(call.inputs[:states])
    sources = [call.value(states + n) for n in range(count)]
    rows: list[tuple[Entry, ...]] = []
    for trip in range(_length(call, sources, axes)):
        taken = [
            _taken(walk, x, axis, trip, bool(back))
            for x, axis, back in zip(sources, axes, turned, strict=True)
        ]
        results = walk.subgraph(call.graph("body"), [*state, *taken])
        state = list(results[:states])
        rows.append(results[states:])
    back = call.ints("scan_output_directions", (0,) * scans)
    return (*state, *_stacked(walk, call, rows, places, back))


def _trips(walk: Walker, call: Call) -> int:
    """How often at most; without a number one more than is allowed."""
    if call.entry(0) is None:
        return MOST_TRIPS + 1
    known = _known(walk, call.value(0))
    if known is None or known.size != 1:
        raise call.unsupported("input 'M' is not constant")
    return int(known.reshape(-1)[0])


def _goes(walk: Walker, call: Call, condition: Entry) -> bool:
    known = _known(walk, condition)
    if known is None or known.size != 1:
        raise call.unsupported("input 'cond' is not constant, or its body changes it")
    return bool(known.reshape(-1)[0])


def _length(call: Call, sources: Sequence[Value], axes: Sequence[int]) -> int:
    """What all scanned inputs are long."""
    for x, axis in zip(sources, axes, strict=True):
        if not -len(x.shape) <= axis < len(x.shape):
            raise ModelError(call.what, f"{x} has no axis {axis}")
    (length, *others) = {x.shape[n] for x, n in zip(sources, axes, strict=True)}
    if others or length > MOST_TRIPS:
        raise call.unsupported(f"scans of lengths {[length, *others]}")
    return length


def _taken(walk: Walker, x: Value, axis: int, trip: int, back: bool) -> Value:
    """One element along an axis."""
    axis %= len(x.shape)
    at = x.shape[axis] - 1 - trip if back else trip
    rank = range(len(x.shape))
    piece = walk.build.add(
        "slice",
        x,
        starts=tuple(at if n == axis else 0 for n in rank),
        stops=tuple(at + 1 if n == axis else x.shape[n] for n in rank),
        steps=(1,) * len(rank),
    )
    shape = tuple(x.shape[n] for n in rank if n != axis)
    return walk.build.add("reshape", piece, shape=shape)


def _stacked(
    walk: Walker,
    call: Call,
    rows: Sequence[tuple[Entry, ...]],
    axes: Sequence[int],
    back: Sequence[int] = (),
) -> list[Entry]:
    """The results of all iterations, along a new axis each."""
    if axes and not rows:
        raise call.unsupported("it never runs, so that a result's shape is unknown")
    found: list[Entry] = []
    for column, axis in enumerate(axes):
        values = [_tensor(call, row, column) for row in rows]
        turned = column < len(back) and back[column] == 1
        found.append(stack(walk, call, values[::-1] if turned else values, axis))
    return found


def _tensor(call: Call, row: tuple[Entry, ...], column: int) -> Value:
    found = row[column] if column < len(row) else None
    if not isinstance(found, Value):
        raise ModelError(call.what, f"result {column} of its body is not a tensor")
    return found


def stack(walk: Walker, call: Call, values: Sequence[Value], axis: int) -> Value:
    """Along a new axis."""
    shape = values[0].shape
    if not -len(shape) - 1 <= axis <= len(shape):
        raise ModelError(call.what, f"axis {axis} of {len(shape) + 1}")
    axis %= len(shape) + 1
    if any(x.shape != shape for x in values):
        raise call.unsupported("its results are not of one shape")
    longer = (*shape[:axis], 1, *shape[axis:])
    rows = [walk.build.add("reshape", x, shape=longer) for x in values]
    return concat(walk, rows, axis)


def concat(walk: Walker, values: Sequence[Value], axis: int) -> Value:
    return (
        values[0] if len(values) == 1 else walk.build.add("concat", *values, axis=axis)
    )


def _known(walk: Walker, entry: Entry) -> Array | None:
    return walk.build.known(entry) if isinstance(entry, Value) else None


STRUCTURES: Mapping[str, Structure] = {
    "Constant": constant,
    "If": branch,
    "Loop": loop,
    "Scan": scan,
}
