"""The runtime that parallel kernels call: a thread pool and scratch memory.

It is LLVM text (`runtime.ll`, `scratch.ll`), compiled once per process on first need,
shared by all kernels, and linked into exported objects. No Python runs in it.
"""

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from ansor.codegen import llvm
from ansor.errors import ArgumentError, CodegenError
from ansor.target.settings import thread_limit
from ansor.target.target import Target

MOST_THREADS = 256  # as in runtime.ll


@dataclass(frozen=True)
class _Arch:
    """What differs between instruction sets."""

    futex: int  # number of the system call
    pause: str  # a call of an intrinsic that eases a spin loop
    declare: str


_ARCHS = {
    "x86_64": _Arch(
        202,
        "call void @llvm.x86.sse2.pause()",
        "declare void @llvm.x86.sse2.pause()",
    ),
    # `isb` waits tens of cycles; `yield` does nothing on most cores.
    "aarch64": _Arch(
        98,
        "call void @llvm.aarch64.isb(i32 15)",
        "declare void @llvm.aarch64.isb(i32)",
    ),
}

ENTRIES = {
    "ansor_parallel_for": "void (ptr body, ptr context, i64 n)",
    "ansor_get_threads": "i32 ()",
    "ansor_set_threads": "void (i32)",
    "ansor_scratch_acquire": "ptr (i64 bytes)",
    "ansor_scratch_release": "void (ptr)",
}  # name -> type, for reading


def text(arch: str, *, shared: bool = False) -> str:
    """The runtime as LLVM text, for "x86_64" or "aarch64".

    With `shared`, objects that each contain it link together and use one copy.
    """
    row = _ARCHS.get(arch)
    if row is None:
        raise CodegenError(f"runtime for {arch!r}", "unknown", "x86_64 or aarch64")
    words = {
        "API": "weak" if shared else "",
        "COMDAT": "$ansor_runtime = comdat any" if shared else "",
        "COMDAT_USE": "comdat($ansor_runtime) " if shared else "",
        "GROUP": "comdat($ansor_runtime), " if shared else "",
        "FUTEX": str(row.futex),
        "PAUSE": row.pause,
        "PAUSE_DECLARE": row.declare,
    }
    result = _template()
    for word, value in words.items():
        result = result.replace(f"<<{word}>>", value)
    return result


@cache
def _template() -> str:
    folder = resources.files("ansor.codegen")
    pool, scratch = (
        folder.joinpath(name).read_text("utf-8")
        for name in ("runtime.ll", "scratch.ll")
    )
    return pool + scratch


def addresses() -> Mapping[str, int]:
    """Where the entry points of this process's runtime are. Compiles it once."""
    with llvm.LOCK:
        return _load().addresses


@cache
def _load() -> llvm.Loaded:
    """Under LOCK. The result stays for the life of the process: threads run in it."""
    from ansor.target import detect

    target = Target(detect.arch())
    module = llvm.parse(text(target.arch), target)
    # Level 0: a third of the time to compile; waiting loops gain nothing from more.
    code = llvm.emit_object(module, llvm.machine(target, level=0))
    loaded = llvm.load(code, ENTRIES, {})
    loaded.tracker.detach()  # type: ignore[attr-defined]
    limit = thread_limit()
    if limit is not None:
        present = _function(loaded, "ansor_get_threads", ctypes.c_int32)()
        set_limit = _function(loaded, "ansor_set_threads", None, ctypes.c_int32)
        set_limit(min(limit, present))
    return loaded


def _function(
    loaded: llvm.Loaded, name: str, result: type | None, *arguments: type
) -> "ctypes._CFunctionType":
    return ctypes.CFUNCTYPE(result, *arguments)(loaded.addresses[name])


def threads() -> int:
    """Threads that a parallel loop may use, the caller included.

    All CPUs this process may run on, or `ANSOR_THREADS` if that is less, until
    `set_threads` says otherwise.
    """
    addresses()
    return int(_function(_load(), "ansor_get_threads", ctypes.c_int32)())


def set_threads(count: int) -> None:
    """Let parallel loops use up to `count` threads from now on."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ArgumentError(
            f"set_threads({count!r})", "not a positive integer", "1 means no pool"
        )
    if count > MOST_THREADS:
        raise ArgumentError(f"set_threads({count})", f"more than {MOST_THREADS}")
    addresses()
    _function(_load(), "ansor_set_threads", None, ctypes.c_int32)(count)
