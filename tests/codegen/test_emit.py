"""Loop functions as machine code: every operator on every type, loops, masks."""

import re

import numpy as np
import pytest

import ansor
from ansor.codegen import asm, engine, module, operators
from ansor.codegen.emit import MAX_BLOCKS, emit
from ansor.codegen.kernel import make_kernel
from ansor.codegen.maths import FUNCTIONS_WITH_DEFINITIONS
from ansor.ir import ops
from ansor.ir.dtypes import DTYPES, is_float, is_int
from ansor.ir.expr import Binary, Buffer, Call, Cast, Const, Load, Ramp, Var
from ansor.ir.stmt import For, Function, Prefetch, Seq, Store
from ansor.schedule import (
    Annotate,
    ComputeAt,
    Pack,
    Program,
    Reorder,
    Sketch,
    Split,
)
from ansor.schedule.lower.halves import widen_halves

pytestmark = pytest.mark.llvm

HOST = ansor.Target.host()
LANES, COUNT = 4, 64
FLOATS = [name for name in DTYPES if is_float(name)]
INTEGERS = [name for name in DTYPES if is_int(name)]
COMPARISONS = ("lt", "le", "eq", "ne")
BITWISE = ("and", "or", "xor")
FOR_FLOATS = ("add", "sub", "mul", "div", "floordiv", "mod", "min", "max", *COMPARISONS)
FOR_INTEGERS = (
    *("add", "sub", "mul", "floordiv", "mod", "min", "max", "shl", "shr"),
    *(*BITWISE, *COMPARISONS),
)
FOR_BOOL = (*BITWISE, *COMPARISONS)
UNARY = ("neg", "abs", "sqrt", "floor", "ceil", "round", "isnan")


def test_the_tables_cover_every_operator():
    assert set(operators.BINARY) == set(ops.BINARY)
    assert set(module.TYPES) == set(DTYPES)


def test_the_tables_cover_every_function():
    maths = FUNCTIONS_WITH_DEFINITIONS - {"pow"}  # a binary operator, too
    assert set(operators.CALLS) | maths == set(ops.FUNCTIONS)
    assert not set(operators.CALLS) & maths


# -- every operator on every type ----------------------------------------------------


def mapped(inputs, formulas):
    """A kernel: each formula of the inputs' elements, by vectors and one by one.

    `formulas` maps a name to a function of loads; there are two outputs for each.
    """
    i = Var("i")
    wide, single = Ramp(Binary("mul", i, Const(LANES)), 1, LANES), i
    outputs, vectors, scalars = [], [], []
    for name, formula in formulas.items():
        for index, place, suffix in ((wide, vectors, "v"), (single, scalars, "s")):
            value = formula(*(Load(x, (index,)) for x in inputs))
            out = Buffer(f"{name}.{suffix}", (COUNT,), value.dtype)
            outputs.append(out)
            place.append(Store(out, (index,), value))
    body = Seq(
        (
            For(i, COUNT // LANES, Seq(tuple(vectors))),
            For(i, COUNT, Seq(tuple(scalars))),
        )
    )
    parameters = (*inputs, *outputs)
    function = Function("f", parameters, widen_halves(body), len(outputs))
    text = emit((function,), HOST)
    kernel = make_kernel("f", text, HOST, parameters, outputs=len(outputs))
    names = [buffer.name for buffer in outputs]

    def call(*arrays):
        results = kernel(*arrays)
        results = results if isinstance(results, tuple) else (results,)
        return dict(zip(names, results, strict=True))

    return call


def operands(dtype):
    """Pairs that matter: zeros, signs, extremes, and 40 random ones."""
    rng = np.random.default_rng(0)
    kind = DTYPES[dtype].numpy
    if dtype == "bool":
        return tuple(rng.integers(0, 2, (2, COUNT)).astype(bool))
    if is_float(dtype):
        special = [0.0, -0.0, 1.0, -1.5, 2.5, np.inf, -np.inf, np.nan]
        a, b = (rng.normal(size=COUNT) * 8 for _ in range(2))
    else:
        limits = np.iinfo(kind)
        special = [0, 1, 2, 3, 7, limits.max, limits.min, limits.max - 1]
        a, b = (rng.integers(limits.min, limits.max, COUNT) for _ in range(2))
        b[30:] = rng.integers(0, 9, COUNT - 30) - 4 * (limits.min < 0)
    a[:16], b[:16] = np.repeat(special, 2), special * 2
    a[16:24], b[16:24] = special, special[::-1]
    return a.astype(kind), b.astype(kind)


def expected(op, *arrays):
    """NumPy's answer; 16-bit floats are computed in float32 and rounded."""
    dtype = arrays[0].dtype
    if dtype.name in ("float16", "bfloat16"):
        arrays = [x.astype(np.float32) for x in arrays]
    with np.errstate(all="ignore"):
        result = ops.BINARY[op].numpy(*arrays)
    return result if result.dtype == bool else result.astype(dtype)


def for_type(dtype):
    if dtype == "bool":
        return FOR_BOOL
    return FOR_FLOATS if is_float(dtype) else FOR_INTEGERS


@pytest.mark.parametrize("dtype", DTYPES)
def test_binary_operators_agree_with_numpy(dtype):
    """Integers wrap, division by zero gives 0, // rounds down, shifts saturate."""
    a, b = operands(dtype)
    inputs = [Buffer("a", a.shape, dtype), Buffer("b", b.shape, dtype)]
    formulas = {op: lambda x, y, op=op: Binary(op, x, y) for op in for_type(dtype)}
    results = mapped(inputs, formulas)(a, b)
    for op in formulas:
        for way in "vs":
            same(results[f"{op}.{way}"], expected(op, a, b), f"{op} {way}", a, b)


def same(actual, wanted, note, *arrays):
    actual, wanted = np.asarray(actual), np.asarray(wanted)
    assert actual.dtype == wanted.dtype
    equal = actual == wanted
    if actual.dtype.kind not in "biu":
        equal |= np.isnan(actual) & np.isnan(wanted)
    wrong = np.flatnonzero(~equal)
    at = wrong[:4]
    given = [x[at].tolist() for x in arrays]
    assert not wrong.size, f"{note}: {given} -> {actual[at]}, not {wanted[at]}"


@pytest.mark.parametrize("dtype", INTEGERS)
def test_powers_of_integers_wrap(dtype):
    kind = DTYPES[dtype].numpy
    a, _ = operands(dtype)
    b = (np.arange(COUNT) * 3 % min(np.iinfo(kind).max, 250)).astype(kind)
    inputs = [Buffer("a", a.shape, dtype), Buffer("b", b.shape, dtype)]
    results = mapped(inputs, {"pow": lambda x, y: Binary("pow", x, y)})(a, b)
    for way in "vs":
        same(results[f"pow.{way}"], np.power(a, b), way, a, b)


@pytest.mark.parametrize("dtype", FLOATS)
def test_functions_of_floats_agree_with_numpy(dtype):
    a, _ = operands(dtype)
    inputs = [Buffer("a", a.shape, dtype)]
    results = mapped(inputs, {f: lambda x, f=f: Call(f, (x,)) for f in UNARY})(a)
    wide = a.astype(np.float32) if DTYPES[dtype].bits == 16 else a
    numpy = {"neg": np.negative, "round": np.rint}
    with np.errstate(all="ignore"):
        for f in UNARY:
            wanted = numpy.get(f, getattr(np, f, None))(wide)
            if f != "isnan":
                wanted = wanted.astype(a.dtype)
            for way in "vs":
                same(results[f"{f}.{way}"], wanted, f, a)


@pytest.mark.parametrize("dtype", [*INTEGERS, "bool"])
def test_functions_of_integers_agree_with_numpy(dtype):
    a, _ = operands(dtype)
    functions = {"not": np.invert}
    if dtype != "bool":
        functions |= {"neg": np.negative, "abs": np.abs}
    inputs = [Buffer("a", a.shape, dtype)]
    results = mapped(inputs, {f: lambda x, f=f: Call(f, (x,)) for f in functions})(a)
    for f, numpy in functions.items():
        for way in "vs":
            same(results[f"{f}.{way}"], numpy(a), f, a)


@pytest.mark.parametrize("dtype", DTYPES)
def test_casts_agree_with_numpy(dtype):
    """Floats truncate, integers wrap, and bfloat16 rounds to nearest even."""
    a, _ = operands(dtype)
    small = a
    if is_float(dtype):  # what fits every integer: NumPy's answer is undefined else
        wide = a.astype(np.float64)
        small = np.nan_to_num(np.abs(wide), nan=3.5, posinf=100.0).astype(a.dtype)
    integers = [name for name in DTYPES if is_int(name)]
    others = [name for name in DTYPES if name not in integers]
    for names, given in ((integers, small), (others, a)):
        inputs = [Buffer("a", a.shape, dtype)]
        casts = {t: lambda x, t=t: Cast(x, t) for t in names}
        results = mapped(inputs, casts)(given)
        for target in names:
            with np.errstate(all="ignore"):
                wanted = given.astype(DTYPES[target].numpy)
            for way in "vs":
                same(results[f"{target}.{way}"], wanted, f"to {target}", given)


def test_bfloat16_rounds_halves_to_even():
    bits = np.arange(COUNT, dtype=np.uint32) * 0x4000 + 0x3F800000
    bits[-4:] = 0x7F7FFFFF, 0x7F800000, 0x7FC00001, 0x00000001  # max, inf, nan, tiny
    a = bits.view(np.float32)
    results = mapped([Buffer("a", a.shape, "float32")], {"x": _to_bfloat16})(a)
    for way in "vs":
        same(results[f"x.{way}"], a.astype(DTYPES["bfloat16"].numpy), way, a)


def _to_bfloat16(x):
    return Cast(x, "bfloat16")


def test_casts_of_floats_out_of_range_saturate():
    a = np.array([1e30, -1e30, np.nan, 300.0, -300.0] * 12 + [0.0] * 4, np.float32)
    names = ("int8", "uint8", "int32", "int64")
    casts = {t: lambda x, t=t: Cast(x, t) for t in names}
    results = mapped([Buffer("a", a.shape, "float32")], casts)(a)
    for name in names:
        limits = np.iinfo(name)
        clipped = np.clip(np.nan_to_num(a.astype(np.float64)), limits.min, limits.max)
        exact = [min(max(int(x), limits.min), limits.max) for x in clipped.tolist()]
        for way in "vs":
            same(results[f"{name}.{way}"], np.array(exact, name), name, a)


# -- loops ---------------------------------------------------------------------------

A = ansor.placeholder((11, 37), name="A")
SCALED = ansor.compute((11, 37), lambda i, j: A[i, j] * 2.0 + 1.0, name="B")
INPUT = np.random.default_rng(1).normal(size=(11, 37)).astype(np.float32)


def code(tensor, steps, target):
    """The LLVM text of a program."""
    program = Program(Sketch(ansor.Task(tensor, target), steps))
    return emit((program.lower("f").main,), target)


def result(tensor, steps, *arrays):
    task = ansor.Task(tensor, HOST)
    text = code(tensor, steps, HOST)
    return make_kernel("f", text, HOST, task.dag.arguments)(*arrays)


X86 = {name: ansor.Target("cpu", cpu=name) for name in ("nehalem", "haswell")}
AVX512 = ansor.Target("cpu", cpu="skylake-avx512")
NEON = ansor.Target("aarch64", cpu="neoverse-n1")
TARGETS = {**X86, "skylake-avx512": AVX512, "neoverse-n1": NEON}


def test_a_tiny_kernel_as_text(golden):
    """Pointers are hoisted, buffers do not alias, x*2 + 1 is one operation."""
    small = ansor.placeholder((2, 6), name="A")
    out = ansor.compute((2, 6), lambda i, j: small[i, j] * 2.0 + 1.0, name="B")
    assert golden == code(out, (Annotate("B", "j", "vectorize"),), NEON).rstrip("\n")


def test_the_rest_of_a_vector_loop_is_masked():
    steps = (Annotate("B", "j", "vectorize"),)
    assert "llvm.masked.load" in code(SCALED, steps, AVX512)
    assert "llvm.masked.store" in code(SCALED, steps, AVX512)
    same(result(SCALED, steps, INPUT), INPUT * 2 + 1, "masked")


@pytest.mark.parametrize("columns", range(1, 36))
def test_every_length_of_a_rest(columns):
    a = ansor.placeholder((columns,), name="A")
    out = ansor.compute((columns,), lambda j: a[j] + 1.0, name="B")
    given = np.arange(columns, dtype=np.float32)
    steps = (Annotate("B", "j", "vectorize"),)
    guarded = np.full(columns + 16, 7, np.float32)
    kernel = make_kernel(
        "f", code(out, steps, HOST), HOST, ansor.Task(out, HOST).dag.arguments
    )
    kernel(given, out=guarded[8:-8])
    assert (guarded[8:-8] == given + 1).all()
    assert (guarded[:8] == 7).all()
    assert (guarded[-8:] == 7).all()


def test_a_parallel_loop_is_a_function_of_its_own():
    steps = (Annotate("B", "i", "parallel"), Annotate("B", "j", "vectorize"))
    text = code(SCALED, steps, HOST)
    assert 'define internal void @"f.B.i.0"(ptr' in text
    assert 'call void @ansor_parallel_for(ptr @"f.B.i.0", ptr' in text
    assert "i64 11)" in text
    same(result(SCALED, steps, INPUT), INPUT * 2 + 1, "parallel")


def test_a_parallel_loop_sees_the_loops_around_it():
    steps = (Annotate("B", "j", "parallel"),)
    same(result(SCALED, steps, INPUT), INPUT * 2 + 1, "parallel inside")


def test_a_prefetch_is_an_instruction():
    a, b = Buffer("a", (8,), "float32"), Buffer("b", (8,), "float32")
    i = Var("i")
    ahead = Prefetch(a, (Binary("add", i, Const(4)),))
    body = For(i, 8, Seq((ahead, Store(b, (i,), Load(a, (i,))))))
    function = Function("f", (a, b), body)
    for target, instruction in ((AVX512, "prefetcht0"), (NEON, "prfm\tpldl1keep")):
        assert instruction in engine.assembly(emit((function,), target), target)
    given = np.arange(8, dtype=np.float32)
    kernel = make_kernel("f", emit((function,), HOST), HOST, (a, b))
    assert (kernel(given) == given).all()


def test_one_tuple_of_indices_for_two_shapes():
    a, b = Buffer("a", (2, 8), "float32"), Buffer("b", (2, 3), "float32")
    indices = (Var("i"), Var("j"))
    copy = Store(b, indices, Load(a, indices))
    function = Function("f", (a, b), For(Var("i"), 2, For(Var("j"), 3, copy)))
    kernel = make_kernel("f", emit((function,), HOST), HOST, (a, b))
    given = np.arange(16, dtype=np.float32).reshape(2, 8)
    assert (kernel(given) == given[:, :3]).all()


def test_parts_of_an_address_may_lie_outside():
    """4 - i begins with -i, before the buffer."""
    mirrored = ansor.compute((11, 5), lambda i, j: A[i, 4 - j], name="B")
    gep = re.compile("getelementptr inbounds float")
    assert not gep.search(code(mirrored, (), HOST))


@pytest.mark.parametrize("columns", [2048, 8192])  # on the stack, on the heap
def test_copies_of_a_statement_share_their_memory(columns):
    x = ansor.placeholder((256, columns), name="X")
    at = ansor.placeholder((256,), "int32", name="at")
    y = ansor.compute((256, columns), lambda i, j: x[i, j] + 1.0, name="Y")
    z = ansor.compute((256,), lambda i: y[i, at[i]], name="Z")
    steps = (ComputeAt("Y", "Z", "i"), Annotate("Z", "i", "unroll"))
    text = code(z, steps, HOST)
    sizes = re.findall(r"alloca \[(\d+) x i8", text) + re.findall(
        r"acquire\(i64 (\d+)\)", text
    )
    assert sum(map(int, sizes)) == MAX_BLOCKS * (columns * 4 + 64)
    rng = np.random.default_rng(2)
    given = rng.normal(size=(256, columns)).astype(np.float32)
    places = rng.integers(0, columns, 256).astype(np.int32)
    wanted = given[np.arange(256), places] + 1
    same(result(z, steps, given, places), wanted, "copies")


@pytest.mark.parametrize("name", ["max", "min"])
def test_x86_asks_whether_a_constant_is_nan(name):
    function = getattr(ansor, f"{name}imum")
    for number, asks in ((1.0, False), (np.nan, True), (-np.nan, True)):
        out = ansor.compute((11,), lambda i, c=float(number): function(A[i, 0], c))
        assert ("fcmp uno" in code(out, (), AVX512)) is asks


# -- cross-compilation ---------------------------------------------------------------

P = ansor.placeholder((64, 96), name="A")
Q = ansor.placeholder((96, 128), name="B")
PRODUCT = ansor.ops.matmul(P, Q, name="C")
FMA = {
    "nehalem": "mulps",
    "haswell": r"vfmadd\w+ps\t.*%ymm",
    "skylake-avx512": r"vfmadd\w+ps\t.*%zmm",
    "neoverse-n1": r"fmla\tv\d+\.4s",
}


def rows_of(target):
    """Rows of a register tile, two vectors wide, that leave room for operands."""
    return 12 if target.vector_registers == 32 else 4


def tile(target, rows, vectors=2):
    width = vectors * target.lanes("float32")
    return (
        Split("C", "i", (rows,)),
        Split("C", "j", (width,)),
        Split("C", "k", (32,)),
        Reorder("C", ("j.0", "k.0", "i.0", "k.1", "i.1", "j.1")),
        Pack("B", "C", "k.0"),
        Annotate("B.packed", "d1", "vectorize"),
        Annotate("C", "i.1", "unroll"),
        Annotate("C", "j.1", "vectorize"),
    )


@pytest.mark.parametrize("name", TARGETS)
def test_a_matmul_for_another_machine(name):
    target = TARGETS[name]
    rows = rows_of(target)
    assembly = engine.assembly(code(PRODUCT, tile(target, rows), target), target)
    loops = asm.loops(assembly, "f")
    hot = max(loops, key=lambda loop: loop.instructions)
    assert asm.spills(assembly, "f") == 0
    assert hot.stores == 0, "the accumulators stay in registers"
    if target.has_fma:
        assert hot.fmas == rows * 2
    assert re.search(FMA[name], assembly)


def test_avx512_multiplies_by_an_element_in_memory():
    steps = tile(AVX512, rows=14, vectors=1)
    assembly = engine.assembly(code(PRODUCT, steps, AVX512), AVX512)
    assert re.search(r"vfmadd\w+ps\t[^\n]*\{1to16\}, %zmm", assembly)


def test_the_same_text_comes_out_every_time():
    assert code(PRODUCT, tile(NEON, 8), NEON) == code(PRODUCT, tile(NEON, 8), NEON)
