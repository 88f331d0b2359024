"""Does a kernel compute what it should, and touch nothing else?

It runs once on memory between guards: inputs cannot be written, outputs hold garbage
before, and every access outside of an array is a fault that ends the process, or is
found afterwards. The process that waits for this one names the fault.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ansor.codegen import engine, runtime
from ansor.codegen.kernel import Prepared
from ansor.ir.dtypes import DTYPES, is_float
from ansor.ir.expr import Buffer
from ansor.measure.memory import PAGE, SLACK, Guarded
from ansor.measure.problem import Array, Problem, ordered, readable
from ansor.measure.process import EXIT_MEMORY
from ansor.target.target import Target

Places: TypeAlias = npt.NDArray[np.intp]

ALIGNMENT = 64  # of inputs in a layout of their own, as kernels expect it

_CHUNK = 1 << 15  # elements compared at a time: they fit the nearest caches
_SAMPLE = 1 << 13  # elements of an output whose error is worked out
_GUARD = 1 << 16  # bytes, of scratch blocks
_STACK = 1 << 17  # bytes that a kernel may use of it
_WATCHED = 1 << 28  # bytes of outputs that are looked at for races
_PIECES = 8  # of work, so that every thread of the pool gets some
_ENTRIES = {
    "ansor_scratch_acquire": "checked_acquire",
    "ansor_scratch_release": "checked_release",
    "ansor_parallel_for": "checked_parallel",
    "malloc": "checked_malloc",
}


@dataclass(frozen=True)
class Verdict:
    """Whether results are right, and why not.

    `worst` is the largest error, 1.0 being all that is allowed; 0.0 where results are
    exact, infinite where they are wrong. Of a large output it is that of a sample.
    """

    ok: bool
    message: str = ""
    worst: float = 0.0


def check(
    problem: Problem,
    call: Callable[[Sequence[int]], None],
    prepared: Sequence[Prepared],
    pack: Callable[[str, int, int], None],
    poison: int = 0,
    at: str = "end",
) -> Verdict:
    """Run a kernel once and compare.

    `call` runs it with these addresses, inputs then outputs. `pack` runs the function
    of this name, which lays out an input (second argument) in a block (third). What
    outputs hold before depends on `poison`, 0 or 1; with 1, parallel loops run on one
    thread, and no two iterations may change one element. `at` says at which of their
    ends arrays touch a guard. The code must be loaded with `checked_imports`.
    """
    code = _checked()
    drain = _function(code, "checked_drain", ctypes.c_int64)
    drain()  # what others have done
    _function(code, "checked_place", None, ctypes.c_int32)(int(at == "start"))
    with ExitStack() as stack:
        inputs = problem.input_addresses(at)
        for row in prepared:
            room = Guarded(row.packed.bytes, at, alignment=ALIGNMENT)
            block = stack.enter_context(room)
            block.fill(pattern(row.packed.dtype, poison))
            place = _position(problem, row.name)
            _dirty_stacks(code)
            pack(row.entry, inputs[place], block.address)
            if wrong := _stray(block, f"the layout of input {row.name!r}"):
                return Verdict(False, wrong, float("inf"))
            block.seal()
            inputs[place] = block.address
        regions = problem.output_regions(at)
        for region, buffer in zip(regions, problem.dag.outputs, strict=True):
            region.fill(pattern(buffer.dtype, poison))
        races = _Races(regions)
        with races.watched(code) if poison else nullcontext():
            _dirty_stacks(code)
            call([*inputs, *(region.address for region in regions)])
    if damage := int(drain()):
        where = "memory before or behind a scratch block"
        message = f"{where} was written: {8 * damage} bytes"
        return Verdict(False, message, float("inf"))
    if races.found:
        message = f"two iterations of a parallel loop change {races.found} bytes"
        return Verdict(False, message, float("inf"))
    return _verdict(problem, regions, poison)


def recheck(problem: Problem, outputs: Sequence[Array]) -> Verdict:
    """Compare outputs that a kernel has left behind."""
    return _compare_all(problem, outputs, None)


@cache
def checked_imports() -> Mapping[str, int]:
    """Addresses of functions to load code with that is going to be checked.

    They stand in for those of the runtime. Where there is no memory left, they end the
    process with status EXIT_MEMORY.
    """
    code = _checked()
    return {name: code.address(own) for name, own in _ENTRIES.items()}


def pattern(dtype: str, poison: int) -> bytes:
    """What memory of this type holds before it is written.

    NaN, a very large and a very small number in turn: a missing initialisation shows in
    sums, in products, in maxima and in minima.
    """
    row = DTYPES[dtype]
    if not is_float(dtype):
        return bytes((0xA5,) * row.bytes + (0x5A,) * row.bytes)[:: 1 - 2 * poison]
    huge = {64: 1e300, 32: 1e30, 16: 6e4}[row.bits]
    values = [np.nan, huge, -huge] if not poison else [-huge, np.nan, huge / 2]
    return np.array(values, np.float64).astype(row.numpy).tobytes()


def _verdict(problem: Problem, regions: Sequence[Guarded], poison: int) -> Verdict:
    for region, buffer in zip(regions, problem.dag.outputs, strict=True):
        if wrong := _stray(region, f"output {buffer.name!r}"):
            return Verdict(False, wrong, float("inf"))
    both = zip(regions, problem.dag.outputs, strict=True)
    outputs = [r.array(b.shape, DTYPES[b.dtype].numpy) for r, b in both]
    return _compare_all(problem, outputs, poison)


def _stray(region: Guarded, what: str) -> str:
    """What was written beside an array, or nothing."""
    before, behind = region.damage()
    if not before and not behind:
        return ""
    side, count = ("before", before) if before else ("behind", behind)
    return f"memory {side} {what} was written: {count} bytes"


def _position(problem: Problem, name: str) -> int:
    names = [buffer.name for buffer in problem.dag.inputs]
    return names.index(name)


# -- comparing -------------------------------------------------------------------------


def _compare_all(
    problem: Problem, outputs: Sequence[Array], poison: int | None
) -> Verdict:
    worst = 0.0
    rows = zip(problem.dag.outputs, outputs, problem.right, strict=True)
    for buffer, output, (low, high) in rows:
        values = ordered(np.ascontiguousarray(output), buffer.dtype)
        found = _compare(buffer.dtype, values, low, high)
        if isinstance(found, float):
            worst = max(worst, found)
            continue
        message = _message(buffer, (values, low, high), found, poison)
        return Verdict(False, message, float("inf"))
    return Verdict(True, "", worst)


def _compare(dtype: str, values: Array, low: Array, high: Array) -> float | Places:
    """The largest error relative to the allowed one, or the places that are wrong."""
    suspects = [
        start + np.flatnonzero(~inside)
        for start, inside in _inside(values, low, high)
        if not inside.all()
    ]
    if suspects:
        places = np.concatenate(suspects)
        wrong = places[~_excused(dtype, values[places], low[places], high[places])]
        if wrong.size:
            return wrong
    return 0.0 if low is high else _worst(dtype, values, low, high)


def _inside(
    values: Array, low: Array, high: Array
) -> Iterator[tuple[int, npt.NDArray[np.bool_]]]:
    """Which elements lie between the others, some at a time, in memory used again."""
    flags, more = np.empty(_CHUNK, np.bool_), np.empty(_CHUNK, np.bool_)
    for start in range(0, values.size, _CHUNK):
        at = slice(start, start + _CHUNK)
        part = values[at]
        inside, other = flags[: part.size], more[: part.size]
        np.greater_equal(part, low[at], out=inside)
        np.less_equal(part, high[at], out=other)
        np.logical_and(inside, other, out=inside)
        yield start, inside


def _excused(
    dtype: str, values: Array, low: Array, high: Array
) -> npt.NDArray[np.bool_]:
    """Elements that are right though they cannot be compared."""
    if not is_float(dtype):
        return np.zeros(values.shape, np.bool_)
    x, least, most = (readable(part, dtype) for part in (values, low, high))
    unknown = np.isneginf(least) & np.isposinf(most)
    return unknown | (np.isnan(x) & np.isnan(least))


def _worst(dtype: str, values: Array, low: Array, high: Array) -> float:
    """The largest error of an element, relative to the allowed one; of a sample."""
    step = values.size // _SAMPLE | 1  # odd, so that it meets every lane of a vector
    x, least, most = (readable(part[::step], dtype) for part in (values, low, high))
    with np.errstate(all="ignore"):
        error = np.abs(x - (least + most) / 2) / ((most - least) / 2)
    finite = error[np.isfinite(error)]
    return float(min(1.0, finite.max())) if finite.size else 0.0


# -- messages --------------------------------------------------------------------------


def _message(
    buffer: Buffer,
    arrays: tuple[Array, Array, Array],
    wrong: Places,
    poison: int | None,
) -> str:
    first = int(wrong[0])
    value, low, high = (
        float(readable(array[first : first + 1], buffer.dtype)[0]) for array in arrays
    )
    place = ", ".join(map(str, np.unravel_index(first, buffer.shape)))
    where = f"[{place}]" if buffer.shape else "its only element"
    text = (
        f"output {buffer.name!r}: {wrong.size} of {arrays[0].size} elements differ; "
        f"first at {where}: {value:.9g} instead of {_middle(low, high):.9g}"
    )
    if high > low:
        text += f" (allowed {(high - low) / 2:.3g})"
    unwritten = 0 if poison is None else _unwritten(buffer, arrays[0], wrong, poison)
    return text + (f"; {unwritten} were never written" if unwritten else "")


def _middle(low: float, high: float) -> float:
    return low if low == high else low / 2 + high / 2


def _unwritten(buffer: Buffer, values: Array, wrong: Places, poison: int) -> int:
    """How many of these elements still hold what they held before."""
    row = DTYPES[buffer.dtype]
    before = np.frombuffer(pattern(buffer.dtype, poison), row.numpy)
    period = ordered(before, buffer.dtype).view(f"u{row.bytes}")
    return int(
        (values[wrong].view(f"u{row.bytes}") == period[wrong % len(period)]).sum()
    )


# -- parallel loops --------------------------------------------------------------------

_BODY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_LOOP = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)


class _Races:
    """Runs the even iterations of parallel loops, then the odd ones.

    An element that both change is one whose value depends on which comes first. So a
    sum in parallel is found whatever the threads of this machine happen to do.
    """

    def __init__(self, regions: Sequence[Guarded]) -> None:
        self.found = 0  # bytes that were changed twice
        self._arrays = [region.array() for region in regions]
        self._left = _WATCHED
        self._inside = False

    @contextmanager
    def watched(self, code: engine.Compiled) -> Iterator[None]:
        attach = _function(code, "checked_attach", None, ctypes.c_void_p)
        loop = _LOOP(self._run)
        attach(ctypes.cast(loop, ctypes.c_void_p))
        try:
            yield
        finally:
            attach(runtime.addresses()["ansor_parallel_for"])

    def _run(self, body: int, context: int | None, count: int) -> None:
        """One parallel loop; one inside of another, or one too many, as it stands."""
        run = _BODY(body)
        size = sum(array.nbytes for array in self._arrays)
        if self._inside or count < 2 or size > self._left:
            run(context, 0, count)
            return
        self._left -= size
        self._inside = True
        even, odd = (self._changed(run, context, range(n, count, 2)) for n in (0, 1))
        both = zip(even, odd, strict=True)
        self.found += sum(int((a & b).sum()) for a, b in both)
        self._inside = False

    def _changed(
        self, run: Callable[..., None], context: int | None, iterations: range
    ) -> list[npt.NDArray[np.bool_]]:
        """Which bytes of the outputs these iterations change."""
        before = [array.copy() for array in self._arrays]
        for at in iterations:
            run(context, at, at + 1)
        return [x != y for x, y in zip(before, self._arrays, strict=True)]


# -- what kernels call -----------------------------------------------------------------


@cache
def _checked() -> engine.Compiled:
    """Kept for the life of the process: kernels call it."""
    low, high = SLACK
    word = int.from_bytes(bytes((low, high)) * 4, "little", signed=True)
    words = {
        "STATUS": EXIT_MEMORY,
        "PAGE": PAGE,
        "LAST": PAGE - 1,
        "AHEAD": PAGE + _GUARD,
        "AROUND": PAGE + 2 * _GUARD,
        "WORD": word,
        "STACK": _STACK,
    }
    text = resources.files("ansor.measure").joinpath("checked.ll").read_text("utf-8")
    for name, value in words.items():
        text = text.replace(f"<<{name}>>", str(value))
    code = engine.compile_module(text, Target.host())
    attach = _function(code, "checked_attach", None, ctypes.c_void_p)
    attach(runtime.addresses()["ansor_parallel_for"])
    return code


def _dirty_stacks(code: engine.Compiled) -> None:
    """Let variables that a kernel does not initialise be NaN.

    Those of this thread, last, and of the threads of the pool that take part.
    """
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    everywhere = ctypes.CFUNCTYPE(None, pointer, pointer, size)
    run = everywhere(runtime.addresses()["ansor_parallel_for"])
    run(code.address("checked_dirty"), None, _PIECES)
    _function(code, "checked_dirty", None, pointer, size, size)(None, 0, 1)


def _function(
    code: engine.Compiled, name: str, result: type | None, *arguments: type
) -> ctypes._CFunctionType:
    return ctypes.CFUNCTYPE(result, *arguments)(code.address(name))
