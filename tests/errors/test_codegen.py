"""One misuse of code generation per case, full message compared."""

import gc

import pytest

import ansor
from ansor.codegen import engine
from ansor.codegen.emit import emit
from ansor.codegen.kernel import make_kernel
from ansor.ir.expr import Buffer
from ansor.schedule import Annotate, Program, Sketch
from ansor.search.build import build

pytestmark = pytest.mark.llvm

B = ansor.compute((4,), lambda i: i, name="B")
X86, ARM = (ansor.Target(arch) for arch in ("x86_64", "aarch64"))
FOREIGN = X86 if ansor.Target.host().arch == "aarch64" else ARM
OUT = Buffer("B", (4,), "int64")


def bound_to_a_thread():
    program = Program(Sketch(ansor.Task(B), (Annotate("B", "i", "threadIdx.x"),)))
    emit((program.lower().main,), X86)


def unknown_function():
    call = "declare void @nowhere()\ndefine void @f() {\n  call void @nowhere()\n"
    engine.compile_module(call + "  ret void\n}\n", ansor.Target.host())


CASES = {
    "thread index on a CPU": (
        bound_to_a_thread,
        "loop B.i: threadIdx.x has no CPU code\n"
        "  hint: use parallel, vectorize or unroll",
    ),
    "function nobody has": (
        unknown_function,
        "call of nowhere: this process has no such function",
    ),
    "kernel without outputs": (
        lambda: make_kernel("f", "", X86, [OUT], outputs=0),
        "kernel 'f': 0 outputs of 1 parameters",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_message(case):
    misuse, message = case
    with pytest.raises(ansor.CodegenError) as caught:
        misuse()
    assert str(caught.value) == message


def test_a_foreign_target_is_compiled_but_not_loaded():
    with pytest.raises(ansor.CodegenError) as caught:
        build(ansor.Task(B, FOREIGN))
    assert str(caught.value) == (
        f"loading of code for {FOREIGN}: this machine cannot run it\n"
        "  hint: export it, or use a target that fits this machine"
    )


def test_an_error_that_becomes_garbage_in_a_cycle_is_harmless():
    """Its traceback holds LLVM objects, and a cycle is freed in any order."""
    for _ in range(10):
        with pytest.raises(ansor.CodegenError) as caught:
            unknown_function()
        caught.value.cycle = caught
        del caught
    assert gc.collect() > 0
