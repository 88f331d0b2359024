"""LLVM text to machine code: in this process, as assembly, or as an object file."""

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from ansor.codegen import llvm, runtime
from ansor.errors import CodegenError
from ansor.target.target import Target


@dataclass(frozen=True, eq=False)
class Compiled:
    """Machine code in this process. It is freed when this object dies.

    `seconds` says where the time went: "parse", "optimise", "codegen", "link".
    """

    addresses: Mapping[str, int]
    seconds: Mapping[str, float]
    code: llvm.Loaded = field(repr=False)

    def address(self, function: str) -> int:
        try:
            return self.addresses[function]
        except KeyError:
            known = ", ".join(self.addresses) or "none"
            raise CodegenError(
                f"function {function!r}", "not defined by the module", f"it has {known}"
            ) from None


@dataclass(frozen=True)
class Foreign:
    """Stands for machine code that this machine cannot run."""

    target: Target

    def address(self, function: str) -> int:
        raise CodegenError(
            f"call of {function!r}",
            f"its code is for {self.target}, which this machine cannot run",
            "export it, or build it for this machine",
        )


@dataclass(frozen=True)
class Object:
    """Machine code that is not loaded yet: here, or in another process."""

    code: bytes
    exports: tuple[str, ...]  # functions that can be called
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)


def compile_module(text: str, target: Target) -> Compiled:
    """Compile LLVM text and load it into this process.

    Functions with external linkage can be called; `ansor_…` functions of the runtime
    and the symbols of the process (libc, libm) can be used. May be called from several
    threads.
    """
    return load_object(compile_object(text, target))


def compile_object(text: str, target: Target, imports: Collection[str] = ()) -> Object:
    """Compile LLVM text for a process that has the runtime, and `imports`."""
    if not target.is_host:
        raise CodegenError(
            f"loading of code for {target}",
            "this machine cannot run it",
            "export it, or use a target that fits this machine",
        )
    seconds: dict[str, float] = {}
    with llvm.LOCK, ExitStack() as stack:
        with _timed(seconds, "parse"):
            module = stack.enter_context(_parsed(text, target))
        with _timed(seconds, "optimise"):
            machine = llvm.machine(target)
            llvm.optimise(module, machine)
        if unknown := llvm.missing(module, (*runtime.ENTRIES, *imports)):
            raise CodegenError(
                f"call of {', '.join(unknown)}", "this process has no such function"
            )
        exports = tuple(llvm.functions(module))
        with _timed(seconds, "codegen"):
            code = llvm.emit_object(module, machine)
    return Object(code, exports, seconds)


def load_object(made: Object, imports: Mapping[str, int] | None = None) -> Compiled:
    """Link object code into this process; `imports` replace symbols of the runtime
    and of libc, by address."""
    needed = runtime.addresses() if b"ansor_" in made.code else {}
    seconds = dict(made.seconds)
    with llvm.LOCK, _timed(seconds, "link"):
        loaded = llvm.load(made.code, made.exports, {**needed, **(imports or {})})
    return Compiled(loaded.addresses, seconds, loaded)


def optimised(text: str, target: Target) -> str:
    """The LLVM text after the passes, before code generation."""
    with llvm.LOCK, _parsed(text, target) as module:
        llvm.optimise(module, llvm.machine(target))
        return str(module)


def assembly(text: str, target: Target) -> str:
    """The assembly that `compile_module` would load, with LLVM's comments."""
    with llvm.LOCK, _parsed(text, target) as module:
        machine = llvm.machine(target)
        llvm.optimise(module, machine)
        return llvm.emit_assembly(module, machine)


def object_code(text: str, target: Target) -> bytes:
    """An ELF object of the module and the runtime; needs libc and libpthread only.

    The same text and target give the same bytes.
    """
    more = [runtime.text(target.arch, shared=True)] if "@ansor_" in text else []
    with llvm.LOCK, _parsed(text, target, *more) as module:
        machine = llvm.machine(target)
        llvm.optimise(module, machine)
        return llvm.emit_object(module, machine)


def runtime_code(target: Target) -> bytes:
    """An ELF object of the runtime alone, for objects that were compiled without it.

    Of several copies that are linked together one is used.
    """
    with llvm.LOCK, _parsed(runtime.text(target.arch, shared=True), target) as module:
        return llvm.emit_object(module, llvm.machine(target))


@contextmanager
def _parsed(text: str, target: Target, *more: str) -> Iterator[llvm.Module]:
    """A module for the time of a block.

    It is closed here and not left to the garbage collector: an error's traceback may
    keep it alive, and of a traceback that is garbage the context could be freed first.
    """
    module = llvm.parse(text, target, *more)
    try:
        yield module
    finally:
        llvm.close(module)


@contextmanager
def _timed(seconds: dict[str, float], stage: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    seconds[stage] = time.perf_counter() - start
