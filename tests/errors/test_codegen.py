"""One misuse of code generation per case, full message compared."""

import gc
import pickle

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


def exported(name):
    build(ansor.Task(ansor.compute((4,), lambda i: i, name=name))).export("nowhere")


CASES = {
    "kernel for a GPU": (
        lambda: build(ansor.Task(B, ansor.Target("cuda", arch="sm_90"))),
        "kernel 'B': no code for cuda sm_90, 132 multiprocessors yet\n"
        "  hint: use a CPU",
    ),
    "kernel called like a function of the runtime": (
        lambda: make_kernel("ansor_parallel_for", "", X86, [OUT]),
        "kernel 'ansor_parallel_for': the runtime has a function of this name\n"
        "  hint: give the first output another name",
    ),
    "export of a function that the runtime calls": (
        lambda: exported("free"),
        "export of 'free': the runtime that is linked to it calls another function of "
        "this name\n  hint: give the first output another name",
    ),
    "export of a keyword": (
        lambda: exported("int"),
        "export of 'int': not a name in C",
    ),
    "pickled kernel": (
        lambda: pickle.dumps(build(ansor.Task(B))),
        "pickling of kernel 'B': machine code belongs to its process\n"
        "  hint: pickle the program, and build it where it is needed",
    ),
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


def test_a_kernel_for_another_machine_is_not_called():
    kernel = build(ansor.Task(B, FOREIGN))
    with pytest.raises(ansor.CodegenError) as caught:
        kernel()
    assert str(caught.value) == (
        f"call of 'B': its code is for {FOREIGN}, which this machine cannot run\n"
        "  hint: export it, or build it for this machine"
    )


def test_code_for_another_machine_is_not_loaded():
    with pytest.raises(ansor.CodegenError) as caught:
        engine.compile_module("", FOREIGN)
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
