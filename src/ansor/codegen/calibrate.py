"""A short measurement of this machine: what its cores and memories can do at best."""

import ctypes
import time
from collections.abc import Callable
from contextlib import suppress

import numpy as np

from ansor.codegen.engine import compile_module
from ansor.errors import CodegenError
from ansor.target import Calibration, Target
from ansor.target.calibrate import load, store

MIB = 1 << 20
STREAMS = 8  # vectors in flight while reading
SAMPLE_SECONDS = 0.008  # of one timed call; the best of SAMPLES counts
SAMPLES = 6


def calibrate(target: Target, refresh: bool = False) -> Calibration:
    """Peak arithmetic, read bandwidth per memory level, cost of a parallel region.

    Measured once, in about a second, then kept in the cache folder for this target;
    `refresh` measures again. Best of several samples, in time that the thread had a
    core, so that a busy machine is not taken for a slow one. Bandwidths are of one core
    that reads alone.
    """
    if target.kind != "cpu" or not target.is_host:
        raise CodegenError(
            f"calibration of {target}",
            "this machine cannot run its code",
            "calibrate on the machine itself, or use Target('cpu')",
        )
    known = None if refresh else load(target.fingerprint)
    if known is not None:
        return known
    measured = _measure(target)
    with suppress(OSError):  # no place to keep it: the figures are good all the same
        store(target.fingerprint, measured)
    return measured


def _measure(target: Target) -> Calibration:
    compiled = compile_module(kernels(target), target)
    integer, pointer = ctypes.c_int64, ctypes.c_void_p
    peak = ctypes.CFUNCTYPE(ctypes.c_float, integer)(compiled.address("peak"))
    read = ctypes.CFUNCTYPE(integer, integer, pointer, integer)(
        compiled.address("read")
    )
    regions = ctypes.CFUNCTYPE(None, integer, integer)(compiled.address("regions"))
    flops = 2 * target.lanes("float32") * accumulators(target)
    peak_seconds = _best(lambda n: peak(n))
    l1, l2, l3, dram = (_bandwidth(read, size) for size in sizes(target))
    return Calibration(
        peak_flops_per_core=flops / peak_seconds,
        l1_bandwidth=l1,
        l2_bandwidth=l2,
        l3_bandwidth=l3,
        dram_bandwidth=dram,
        fork_join_seconds=_best(lambda n: regions(n, target.cores), time.perf_counter),
    )


def accumulators(target: Target) -> int:
    """Independent chains: enough to hide latency, and all of them in registers."""
    return min(20, target.vector_registers - 4)


def sizes(target: Target) -> tuple[int, int, int, int]:
    """Bytes to read so that they come from L1, L2, L3 and memory.

    Far enough above one level and below the next; the L3 is shared with others, so
    only a part of it is asked for.
    """
    l1, l2, l3 = target.cache_bytes
    from_l3 = max(min(4 * l2, l3 // 2), l2 + l2 // 2)
    return l1 // 2, max(l2 // 2, 2 * l1), from_l3, min(max(2 * l3, 64 * MIB), 512 * MIB)


def _bandwidth(read: Callable[..., object], size: int) -> float:
    """Bytes per second that `read` gets from a buffer of `size` bytes."""
    step = 64 * STREAMS  # a whole number of blocks for every vector width
    size = max(size // step, 1) * step
    raw = np.ones(size + 64, dtype=np.uint8)
    start = raw.ctypes.data + (-raw.ctypes.data) % 64
    return size / _best(lambda n: read(n, start, size))


def _best(
    call: Callable[[int], object], clock: Callable[[], float] = time.thread_time
) -> float:
    """Seconds of one of the n repetitions inside `call(n)`, at best."""

    def spent(n: int) -> float:
        start = clock()
        call(n)
        return clock() - start

    n, seconds = 1, spent(1)
    while seconds < SAMPLE_SECONDS:
        n = int(n * min(16, max(2, 1.2 * SAMPLE_SECONDS / max(seconds, 1e-9))))
        seconds = spent(n)
    return min(seconds, *(spent(n) for _ in range(SAMPLES - 1))) / n


def kernels(target: Target) -> str:
    """The module that is timed. Every function repeats its work `n` times."""
    return "\n".join((_peak(target), _read(target), _REGIONS))


def _peak(target: Target) -> str:
    """Chains of multiply-adds that only wait for themselves."""
    lanes = target.lanes("float32")
    vector, fmuladd = f"<{lanes} x float>", f"@llvm.fmuladd.v{lanes}f32"
    chains = range(accumulators(target))
    phis = [f"%a{i} = phi {vector} [ %y, %entry ], [ %b{i}, %loop ]" for i in chains]
    steps = [
        f"%b{i} = call {vector} {fmuladd}({vector} %x, {vector} %y, {vector} %a{i})"
        for i in chains
    ]
    # The factors are loaded so that nothing is computed ahead.
    return f"""
declare {vector} {fmuladd}({vector}, {vector}, {vector})
@factor = internal global {vector} splat (float 0.5)
@addend = internal global {vector} splat (float 1.0)

define float @peak(i64 %n) {{
entry:
  %x = load volatile {vector}, ptr @factor
  %y = load volatile {vector}, ptr @addend
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  {_lines(phis)}
  {_lines(steps)}
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %exit
exit:
  {_lines(_total(vector, "fadd", [f"%b{i}" for i in chains]))}
  %result = extractelement {vector} %total, i64 0
  ret float %result
}}"""


def _read(target: Target) -> str:
    """A sum over `size` bytes at `data`, in blocks of several vectors."""
    lanes = target.lanes("int64")
    vector, block = f"<{lanes} x i64>", 8 * lanes * STREAMS
    streams = range(STREAMS)
    phi = f"phi {vector}"
    outer = [
        f"%s{i} = {phi} [ splat (i64 0), %entry ], [ %b{i}, %again ]" for i in streams
    ]
    inner = [f"%a{i} = {phi} [ %s{i}, %pass ], [ %b{i}, %loop ]" for i in streams]
    loads = [
        f"%p{i} = getelementptr i8, ptr %p, i64 {8 * lanes * i}\n  "
        f"%v{i} = load {vector}, ptr %p{i}, align {8 * lanes}\n  "
        f"%b{i} = add {vector} %a{i}, %v{i}"
        for i in streams
    ]
    return f"""
define i64 @read(i64 %n, ptr %data, i64 %size) {{
entry:
  br label %pass
pass:
  %k = phi i64 [ 0, %entry ], [ %k.next, %again ]
  {_lines(outer)}
  br label %loop
loop:
  %at = phi i64 [ 0, %pass ], [ %next, %loop ]
  {_lines(inner)}
  %p = getelementptr i8, ptr %data, i64 %at
  {_lines(loads)}
  %next = add i64 %at, {block}
  %more = icmp slt i64 %next, %size
  br i1 %more, label %loop, label %again
again:
  %k.next = add i64 %k, 1
  %passes = icmp slt i64 %k.next, %n
  br i1 %passes, label %pass, label %exit
exit:
  {_lines(_total(vector, "add", [f"%b{i}" for i in streams]))}
  %result = extractelement {vector} %total, i64 0
  ret i64 %result
}}"""


def _total(vector: str, operation: str, parts: list[str]) -> list[str]:
    """The sum of `parts` as %total."""
    lines, total = [], parts[0]
    for n, part in enumerate(parts[1:], 1):
        name = "%total" if n == len(parts) - 1 else f"%t{n}"
        lines.append(f"{name} = {operation} {vector} {total}, {part}")
        total = name
    return lines


def _lines(lines: list[str]) -> str:
    return "\n  ".join(lines)


_REGIONS = """
declare void @ansor_parallel_for(ptr, ptr, i64)

define internal void @nothing(ptr %context, i64 %begin, i64 %end) {
  ret void
}

define void @regions(i64 %n, i64 %pieces) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  call void @ansor_parallel_for(ptr @nothing, ptr null, i64 %pieces)
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %exit
exit:
  ret void
}"""
