"""Runs one case in every way there is, and compares."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ansor.codegen import runtime
from ansor.ir.dtypes import DTYPES, is_float
from ansor.ir.expr import Buffer
from ansor.ir.interp import run
from ansor.ir.stmt import Function
from ansor.ir.verify import verify
from ansor.search.build import build
from ansor.te.dag import DAG
from ansor.te.reference import agrees, reference, tolerance
from strategies import Case

MARGIN = 32  # bytes before and after an output that must stay as they are
PATTERN = 0xA5


class Answer(NamedTuple):
    """What a computation gives, and how far results may be from it."""

    expected: tuple[np.ndarray, ...]
    allowed: tuple[np.ndarray, ...]


def answer(dag: DAG, inputs: Sequence[np.ndarray]) -> Answer:
    expected = reference(dag, inputs)
    return Answer(expected, tuple(tolerance(dag, inputs, expected)))


def check(case: Case, note: str = "") -> None:
    """Run one case in every way and compare."""
    dag = case.task.dag
    right = answer(dag, case.inputs)
    kept = [array.tobytes() for array in case.inputs]
    nests: dict[str, Function] = {}

    def dump(name: str, function: Function) -> None:
        if name == "nest":
            nests[function.name] = function

    name = dag.outputs[0].name
    lowered = case.program.lower(name, dump)
    for function in (lowered.main, *lowered.prepare):
        verify(function, "final")
    ways = {
        "nest": interpret(case, nests.pop(name), tuple(nests.values())),
        "interpreter": interpret(case, lowered.main, lowered.prepare),
        "kernel": execute(case),
    }
    for way, results in ways.items():
        compare(case, f"{way} {note}", results, right)
    assert [array.tobytes() for array in case.inputs] == kept, f"inputs written\n{case}"


def compare(case: Case, way: str, results: Sequence[np.ndarray], right: Answer) -> None:
    outputs = zip(case.task.dag.outputs, results, *right, strict=True)
    for buffer, x, y, e in outputs:
        assert agrees(x, y, e).all(), report(case, way, buffer, x, y, e)


def interpret(
    case: Case, main: Function, prepare: tuple[Function, ...]
) -> list[np.ndarray]:
    """The outputs of a loop program, constant inputs laid out first."""
    dag = case.task.dag
    given = {b.name: x for b, x in zip(dag.inputs, case.inputs, strict=True)}
    for function in prepare:
        source, block = function.parameters
        packed = poison(block)
        run(function, [given[source.name], packed])
        given[block.name] = packed
    outputs = [poison(buffer) for buffer in dag.outputs]
    inputs = main.parameters[: len(main.parameters) - len(outputs)]
    run(main, [*(given[buffer.name] for buffer in inputs), *outputs])
    return outputs


def execute(case: Case) -> list[np.ndarray]:
    """The outputs of the machine code, which must not write around them."""
    kernel = build(case.task, program=case.program)
    runtime.set_threads(case.threads)
    blocks = [guarded(buffer) for buffer in case.task.dag.outputs]
    kernel(*case.inputs, out=tuple(array for _, array in blocks))
    for block, _ in blocks:
        assert (block[:MARGIN] == PATTERN).all(), f"written before an output\n{case}"
        assert (block[-MARGIN:] == PATTERN).all(), f"written after an output\n{case}"
    return [array for _, array in blocks]


def guarded(buffer: Buffer) -> tuple[np.ndarray, np.ndarray]:
    """Bytes with an output in their middle, aligned to its element only."""
    block = np.full(buffer.bytes + 2 * MARGIN, PATTERN, np.uint8)
    inner = block[MARGIN:-MARGIN].view(DTYPES[buffer.dtype].numpy)
    inner[...] = poison(buffer).reshape(-1)
    return block, inner.reshape(buffer.shape)


def poison(buffer: Buffer) -> np.ndarray:
    """Values that no computation gives by chance."""
    dtype = DTYPES[buffer.dtype].numpy
    if is_float(buffer.dtype):
        return np.full(buffer.shape, np.nan, dtype)
    if buffer.dtype == "bool":
        return np.ones(buffer.shape, dtype)
    raw = np.full(buffer.bytes, PATTERN, np.uint8)
    return raw.view(dtype).reshape(buffer.shape).copy()


def report(
    case: Case,
    way: str,
    buffer: Buffer,
    actual: np.ndarray,
    expected: np.ndarray,
    allowed: np.ndarray,
) -> str:
    wrong = np.argwhere(~agrees(actual, expected, allowed))
    at = tuple(wrong[0])
    error = np.broadcast_to(allowed, expected.shape)[at]
    return (
        f"{way}: {len(wrong)} of {expected.size} elements of {buffer.name} are "
        f"wrong; at {at} {actual[at]}, not {expected[at]} ± {error:.3g}\n{case}"
    )
