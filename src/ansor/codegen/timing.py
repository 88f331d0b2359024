"""Timing machine code: calls in a loop that is machine code as well."""

import ctypes
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from ansor.codegen import engine
from ansor.errors import ArgumentError
from ansor.target.target import Target


def median(entry: int, arguments: Sequence[int], repeats: int, seconds: float) -> float:
    """Median seconds of one call of the function at `entry` with these pointers.

    One call warms up and sizes the samples; there are `repeats` of them, each a loop
    of calls, for about `seconds` in all.
    """
    if repeats < 1 or seconds <= 0:
        raise ArgumentError(
            f"time(repeats={repeats}, seconds={seconds})", "both must be positive"
        )
    run = caller(entry, arguments)
    run(1)
    calls = _calls(run(1), run, seconds / repeats)
    return statistics.median(run(calls) / calls for _ in range(repeats))


def caller(
    entry: int,
    arguments: Sequence[int],
    clock: Callable[[], float] = time.perf_counter,
) -> Callable[[int], float]:
    """A function `run(count)`: seconds of that many calls of the code at `entry`.

    The calls are a loop of machine code, so no Python is in the figure: a loop of one
    call costs about a microsecond more than the call. Whoever made the code and the
    memory behind `arguments` keeps both alive.
    """
    code = _compiled(len(arguments))  # cached, so it stays
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
    loop = ctypes.CFUNCTYPE(None, *types)(code.address("repeat"))
    block = (ctypes.c_void_p * len(arguments))(*arguments)

    def run(count: int) -> float:
        start = clock()
        loop(entry, block, count)
        return clock() - start

    return run


def preload(arities: Iterable[int] = range(1, 7)) -> None:
    """Compile the loops for kernels of so many arguments now, not when first used."""
    for arity in arities:
        _compiled(arity)


def _calls(once: float, run: Callable[[int], float], budget: float) -> int:
    """How many calls fill `budget` seconds."""
    calls = 1
    spent = once
    while spent < budget / 4 and calls < 1 << 24:
        calls *= 4
        spent = run(calls)
    return max(1, round(calls * budget / spent)) if spent > 0 else calls


@cache
def _compiled(arity: int) -> engine.Compiled:
    reads = "\n".join(
        f"  %p{n} = getelementptr ptr, ptr %block, i64 {n}\n"
        f"  %a{n} = load ptr, ptr %p{n}"
        for n in range(arity)
    )
    passed = ", ".join(f"ptr %a{n}" for n in range(arity))
    text = f"""
define void @repeat(ptr %entry, ptr %block, i64 %count) {{
start:
{reads}
  br label %loop
loop:
  %i = phi i64 [ 0, %start ], [ %next, %loop ]
  call void %entry({passed})
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %count
  br i1 %more, label %loop, label %done
done:
  ret void
}}
"""
    return engine.compile_module(text, Target.host())
