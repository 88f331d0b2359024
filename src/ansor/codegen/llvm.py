"""LLVM itself: text to module to optimised module to code, one function per stage.

Nothing here knows about kernels. Modules live in contexts of their own, so nothing of
them stays behind. One lock guards LLVM, and a fork waits for it: the child can compile.
"""

import ctypes
import itertools
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import NewType, cast

from ansor.errors import CodegenError
from ansor.target.target import Target

# Passes of LLVM, in order. The text already has explicit vectors, unrolled bodies and
# hoisted addresses; what is left is to inline the maths functions and to turn the
# accumulators from memory into values. LLVM's own O1 takes ten times as long and gives
# the same inner loops.
PIPELINE = (
    "always_inliner",
    "global_dead_code_eliminate",
    "sroa",
    "simplify_cfg",
    "dead_code_elimination",
)

# Options of the whole process, as LLVM has no others for these. Scheduling before
# register allocation in both directions takes most of the time on AArch64, and gives
# code no faster than bottom-up. Loop strength reduction takes a third of what is left;
# the emitter's pointers step along by themselves.
OPTIONS = ("-misched-prera-direction=bottomup", "-disable-lsr")

Module = NewType("Module", object)  # llvmlite.binding.ModuleRef
Machine = NewType("Machine", object)  # llvmlite.binding.TargetMachine

LOCK = threading.Lock()
os.register_at_fork(
    before=LOCK.acquire, after_in_parent=LOCK.release, after_in_child=LOCK.release
)
_names = itertools.count()


@cache
def binding() -> ModuleType:
    """llvmlite's binding with every target of it ready. The first call is slow."""
    try:
        import llvmlite.binding as llvm
    except ImportError as error:
        raise CodegenError(
            "code for the CPU", f"no LLVM: {error}", "pip install llvmlite"
        ) from error
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    for option in OPTIONS:
        llvm.set_option("", option)
    return llvm  # type: ignore[no-any-return]


def version() -> str:
    """The version of LLVM, such as "22.1.0"."""
    return ".".join(map(str, binding().llvm_version_info))


def machine(target: Target, level: int = 3) -> Machine:
    """LLVM's code generator for `target`: position independent, small code model."""
    if target.kind != "cpu":
        raise CodegenError(f"CPU code for target {target.kind!r}", "not a CPU")
    llvm = binding()
    try:
        found = llvm.Target.from_triple(target.triple)
    except RuntimeError as error:
        raise CodegenError(f"target {target.triple!r}", str(error)) from error
    made = found.create_target_machine(
        cpu=target.cpu,
        features=target.features,
        opt=level,
        reloc="pic",
        codemodel="default",
    )
    return Machine(made)


def parse(text: str, target: Target, *more: str) -> Module:
    """The module of `text`, verified and marked as code for `target`.

    Definitions of `more` texts are linked into it.
    """
    llvm = binding()
    context = llvm.create_context()
    modules = []
    try:
        for each in (text, *more):
            modules.append(llvm.parse_assembly(each, context))
        module, *others = modules
        for other in others:
            module.link_in(other)
        module.verify()
    except RuntimeError as error:
        for parsed in modules:
            parsed.close()
        raise CodegenError("LLVM text", _message(error), "a bug in ansor") from error
    module.triple = target.triple
    return Module(module)


def close(module: Module) -> None:
    """Free the memory of a module, which cannot be used any more."""
    module.close()  # type: ignore[attr-defined]


def optimise(module: Module, machine: Machine) -> None:
    """Run PIPELINE on `module`, in place."""
    llvm = binding()
    builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options())
    passes = llvm.create_new_module_pass_manager()
    for name in PIPELINE:
        getattr(passes, f"add_{name}_pass")()
    passes.run(module, builder)


def emit_object(module: Module, machine: Machine) -> bytes:
    """Object code (ELF). The module is used up."""
    return bytes(machine.emit_object(module))  # type: ignore[attr-defined]


def emit_assembly(module: Module, machine: Machine) -> str:
    """Assembly with LLVM's comments. The module is used up."""
    machine.set_asm_verbosity(True)  # type: ignore[attr-defined]
    return str(machine.emit_assembly(module))  # type: ignore[attr-defined]


def functions(module: Module) -> tuple[str, ...]:
    """Names of the functions that `module` defines for others."""
    return tuple(
        function.name
        for function in module.functions  # type: ignore[attr-defined]
        if not function.is_declaration and function.linkage.name == "external"
    )


def missing(module: Module, present: Iterable[str]) -> list[str]:
    """Functions that `module` calls, but neither `present` nor the process has."""
    process = ctypes.CDLL(None)
    known = frozenset(present)
    return [
        function.name
        for function in module.functions  # type: ignore[attr-defined]
        if function.is_declaration
        and not function.name.startswith("llvm.")
        and function.name not in known
        and not hasattr(process, function.name)
    ]


@dataclass(frozen=True, eq=False)
class Loaded:
    """Object code in this process; its memory is freed together with this object."""

    addresses: Mapping[str, int]
    tracker: object


def load(code: bytes, exports: Iterable[str], imports: Mapping[str, int]) -> Loaded:
    """Link object code into this process.

    Symbols that it needs come from `imports` (name to address), then from the process.
    """
    builder = binding().JITLibraryBuilder().add_object_img(code).add_current_process()
    for name, address in imports.items():
        builder.import_symbol(name, address)
    names = tuple(exports)
    for name in names:
        builder.export_symbol(name)
    try:
        tracker = builder.link(_linker(), f"ansor.{next(_names)}")
    except RuntimeError as error:
        raise CodegenError("linking of object code", _message(error)) from error
    return Loaded({name: tracker[name] for name in names}, tracker)


@cache
def _linker() -> object:
    # JITLink, because LLVM's older linker does not give all memory back. Kept for the
    # life of the process (llvmlite frees nothing at exit): pool threads run in it.
    linker = binding().create_lljit_compiler(use_jit_link=True, suppress_errors=True)
    return cast(object, linker)


def _message(error: BaseException) -> str:
    return " ".join(str(error).split())
