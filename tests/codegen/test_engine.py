"""LLVM text to machine code, and reading the assembly."""

import ctypes
import gc
import threading
import time

import numpy as np
import pytest

from ansor.codegen import asm, engine
from ansor.errors import CodegenError
from ansor.target.target import Target
from codegen.texts import ADD, DOUBLE

pytestmark = pytest.mark.llvm

HOST = Target.host()
AVX512 = Target("cpu", cpu="skylake-avx512")
NEON = Target("aarch64", cpu="neoverse-n1")
TYPES = (ctypes.c_void_p,) * 3


def call_add(code):
    a, b, c = (np.full(12, x, np.float32) for x in (1, 2, 0))
    ctypes.CFUNCTYPE(None, *TYPES)(code.address("add"))(
        a.ctypes.data, b.ctypes.data, c.ctypes.data
    )
    return c.tolist() == [3.0] * 12


def gemm(rows, vectors, lanes, unroll):
    """An inner kernel as the emitter writes it: accumulators are memory."""
    v = f"<{lanes} x float>"
    fma = f"@llvm.fma.v{lanes}f32"
    lines = [
        f"declare {v} {fma}({v}, {v}, {v})",
        "define void @gemm(ptr noalias %a, ptr noalias %b, ptr noalias %c) "
        '"prefer-vector-width"="512" {',
        "start:",
        f"  %acc = alloca [{rows * vectors} x {v}], align 64",
    ]
    tile = [(r, x, r * vectors + x) for r in range(rows) for x in range(vectors)]
    for _, _, n in tile:
        lines += [
            f"  %z{n} = getelementptr {v}, ptr %acc, i64 {n}",
            f"  store {v} zeroinitializer, ptr %z{n}, align 64",
        ]
    lines += ["  br label %loop", "loop:", "  %k = phi i64 [0, %start], [%next, %loop]"]
    for u in range(unroll):
        lines += [f"  %k{u} = add i64 %k, {u}", f"  %kb{u} = mul i64 %k{u}, {vectors}"]
        for x in range(vectors):
            lines += [
                f"  %i{u}.{x} = add i64 %kb{u}, {x}",
                f"  %b{u}.{x} = getelementptr {v}, ptr %b, i64 %i{u}.{x}",
                f"  %y{u}.{x} = load {v}, ptr %b{u}.{x}, align 4",
            ]
        for r in range(rows):
            lines += [
                f"  %j{u}.{r} = add i64 %k{u}, {r * 256}",
                f"  %a{u}.{r} = getelementptr float, ptr %a, i64 %j{u}.{r}",
                f"  %s{u}.{r} = load float, ptr %a{u}.{r}, align 4",
                f"  %e{u}.{r} = insertelement {v} poison, float %s{u}.{r}, i32 0",
                f"  %x{u}.{r} = shufflevector {v} %e{u}.{r}, {v} poison, "
                f"<{lanes} x i32> zeroinitializer",
            ]
        for r, x, n in tile:
            lines += [
                f"  %o{u}.{n} = load {v}, ptr %z{n}, align 64",
                f"  %f{u}.{n} = call {v} {fma}({v} %x{u}.{r}, {v} %y{u}.{x}, "
                f"{v} %o{u}.{n})",
                f"  store {v} %f{u}.{n}, ptr %z{n}, align 64",
            ]
    lines += [
        f"  %next = add i64 %k, {unroll}",
        "  %more = icmp ult i64 %next, 256",
        "  br i1 %more, label %loop, label %done",
        "done:",
    ]
    for _, _, n in tile:
        lines += [
            f"  %r{n} = load {v}, ptr %z{n}, align 64",
            f"  %c{n} = getelementptr {v}, ptr %c, i64 {n}",
            f"  store {v} %r{n}, ptr %c{n}, align 4",
        ]
    return "\n".join([*lines, "  ret void", "}"])


def test_code_runs_and_says_where_the_time_went():
    code = engine.compile_module(ADD, HOST)
    assert call_add(code)
    assert set(code.seconds) == {"parse", "optimise", "codegen", "link"}


def test_modules_with_the_same_names_coexist_and_die():
    codes = [engine.compile_module(ADD, HOST) for _ in range(5)]
    assert len({code.address("add") for code in codes}) == 5
    del codes[1::2]
    gc.collect()
    assert all(map(call_add, codes))


def test_memory_is_given_back():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    def compile_some():
        for _ in range(60):
            engine.compile_module(ADD, HOST)

    compile_some()
    before = resident()
    compile_some()
    assert resident() - before < 1_500_000


def test_several_threads_compile():
    fine = []
    callers = [
        threading.Thread(
            target=lambda: fine.append(call_add(engine.compile_module(ADD, HOST)))
        )
        for _ in range(4)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert fine == [True] * 4


def test_text_that_does_not_parse():
    with pytest.raises(CodegenError, match=r"LLVM text.*expected"):
        engine.compile_module("define void @f( {", HOST)


def test_text_that_is_not_valid():
    text = (
        "define i32 @f() {\n  %y = add i32 %x, 1\n  %x = add i32 1, 1\n  ret i32 %y\n}"
    )
    with pytest.raises(CodegenError, match="dominate"):
        engine.compile_module(text, HOST)


def test_symbol_that_nobody_has():
    text = "declare void @no_such_thing()\ndefine void @f() {\n"
    with pytest.raises(CodegenError, match="no_such_thing"):
        engine.compile_module(text + "call void @no_such_thing()\nret void\n}", HOST)


def test_function_that_the_module_lacks():
    with pytest.raises(CodegenError, match="it has add"):
        engine.compile_module(ADD, HOST).address("sub")


def test_code_for_another_machine_is_not_loaded():
    other = AVX512 if HOST.arch == "aarch64" else NEON
    with pytest.raises(CodegenError, match="cannot run it"):
        engine.compile_module(ADD, other)


def test_constants_and_libc_symbols_are_found():
    text = """
@table = private constant [4 x double] [double 1.0, double 4.0, double 9.0, double 2.0]
declare double @hypot(double, double)
define double @f(i64 %i) {
  %p = getelementptr double, ptr @table, i64 %i
  %x = load double, ptr %p
  %y = call double @hypot(double %x, double 3.0)
  ret double %y
}"""
    code = engine.compile_module(text, HOST)
    f = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int64)(code.address("f"))
    assert f(1) == 5.0


def test_optimised_text_has_no_memory_for_accumulators():
    assert "alloca" not in engine.optimised(gemm(4, 2, 4, 2), HOST)


@pytest.mark.parametrize(
    ("target", "rows", "vectors", "lanes"), [(AVX512, 6, 4, 16), (NEON, 6, 4, 4)]
)
def test_inner_loop_has_only_what_it_needs(target, rows, vectors, lanes):
    text = engine.assembly(gemm(rows, vectors, lanes, 1), target)
    (loop,) = asm.loops(text, "gemm")
    assert loop.fmas == rows * vectors
    assert loop.spills == loop.reloads == loop.stores == 0
    assert asm.spills(text, "gemm") == 0
    assert loop.broadcasts >= rows
    assert loop.instructions < loop.fmas + 5 * rows


@pytest.mark.parametrize(("target", "lanes"), [(AVX512, 16), (NEON, 4)])
def test_spills_are_seen(target, lanes):
    text = engine.assembly(gemm(7, 6, lanes, 1), target)
    (loop,) = asm.loops(text, "gemm")
    assert loop.spills > 0
    assert loop.reloads > 0
    bare = "\n".join(line.split("\t#")[0].split("//")[0] for line in text.split("\n"))
    (same,) = asm.loops(bare, "gemm")
    assert (same.spills, same.reloads) == (loop.spills, loop.reloads)


NESTED = """
f:
.LBB0_1:
        mov     rax, rdi
.LBB0_2:
        vmovups zmm0, zmmword ptr [rax]
        vfmadd231ps     zmm1, zmm0, dword ptr [rsi]{1to16}
        vmovups zmmword ptr [rsp + 64], zmm1
        vmovups zmmword ptr [rdx], zmm1
        add     rax, 64
        jne     .LBB0_2
        cmp     rdi, rcx
        jb      .LBB0_1
        ret
.Lfunc_end0:
g:
.LBB1_1:
        jmp     .LBB1_1
"""


def test_intel_syntax_and_nests():
    assert asm.loops(NESTED, "f") == [
        asm.Loop(".LBB0_2", 6, 1, spills=1, reloads=0, broadcasts=1, loads=2, stores=1)
    ]
    assert [loop.instructions for loop in asm.loops(NESTED, "g")] == [1]
    assert asm.loops(NESTED, "h") == []


def test_objects_are_the_same_each_time():
    text = DOUBLE.replace("NAME", "double_it")
    for target in (AVX512, NEON):
        first = engine.object_code(text, target)
        assert first[:4] == b"\x7fELF"
        assert engine.object_code(text, target) == first


def test_compile_time_of_a_large_kernel():
    text = gemm(6, 4, 4, 16)
    assert text.count("\n") > 1500
    spent = []
    for _ in range(3):
        start = time.process_time()  # of the processor: others may compute as well
        engine.compile_module(text, HOST)
        spent.append(time.process_time() - start)
    assert min(spent) < 0.2  # loose: machines differ
