"""What each pass makes of a few programs, as text, and that it means the same."""

import numpy as np
import pytest

import ansor
from ansor.ir.interp import run
from ansor.ir.verify import verify
from ansor.schedule import (
    Annotate,
    CacheRead,
    ComputeAt,
    Inline,
    LayoutRewrite,
    Pack,
    Prefetch,
    Program,
    Reorder,
    RFactor,
    Sketch,
    Split,
)
from ansor.schedule.lower import PASSES
from ansor.te.reference import agrees, reference, tolerance

AVX512 = ansor.Target("cpu", cpu="skylake-avx512")
NEON = ansor.Target("aarch64", cpu="neoverse-n1")
BLOCKS = (
    Split("C", "i", (2,)),
    Split("C", "j", (16,)),
    Split("C", "k", (4,)),
    Reorder("C", ("k.0", "i.0", "j.0", "k.1", "i.1", "j.1")),
    Annotate("C", "i.1", "unroll"),
    Annotate("C", "j.1", "vectorize"),
)


def matmul(target):
    """A packed operand, a register tile, and a rest in every direction."""
    a = ansor.placeholder((3, 6), name="A")
    b = ansor.placeholder((6, 19), name="B")
    task = ansor.Task(ansor.ops.matmul(a, b, name="C"), target)
    pack = (Pack("B", "C", "k.0"), Annotate("B.packed", "d1.1", "vectorize"))
    return Program(Sketch(task, (*BLOCKS, *pack)))


def constant(target):
    """The same with an operand that is laid out ahead of time."""
    a = ansor.placeholder((3, 6), name="A")
    b = ansor.placeholder((6, 19), name="B", constant=True)
    task = ansor.Task(ansor.ops.matmul(a, b, name="C"), target)
    return Program(Sketch(task, (*BLOCKS, LayoutRewrite("B", "C"))))


def convolution(target):
    """Borders and interior of a padded input, rows in parallel."""
    x = ansor.placeholder((1, 3, 5, 1), name="X")
    w = ansor.placeholder((3, 3, 1, 16), name="W")
    conv = ansor.ops.conv2d(x, w, padding=1, layout="NHWC", name="C")
    task = ansor.Task(conv, target)
    n, y, v, o = (axis.name for axis in task.dag.stages[-1].axes)
    window = [axis.name for axis in task.dag.stages[-1].reduce_axes]
    steps = (
        Inline(task.dag.stages[0].name),
        Split("C", v, (2,)),
        Reorder("C", (n, y, f"{v}.0", *window, f"{v}.1", o)),
        Prefetch("C", window[0], "W", 1),
        Annotate("C", y, "parallel"),
        Annotate("C", f"{v}.1", "unroll"),
        Annotate("C", o, "vectorize"),
    )
    return Program(Sketch(task, steps))


def softmax(target):
    """Stages inside the loop of rows; the sum in partial results, one per lane."""
    task = ansor.Task(
        ansor.ops.softmax(ansor.placeholder((3, 20), name="X"), name="S"), target
    )
    top, power, total, out = (stage.name for stage in task.dag.stages)
    rows, columns = (axis.name for axis in task.dag.stages[-1].axes)
    k = task.dag.stages[2].reduce_axes[0].name
    steps = (
        Split(total, k, (8,)),
        RFactor(total, f"{k}.1"),
        ComputeAt(total, out, rows),
        ComputeAt(f"{total}.rf", out, rows),
        ComputeAt(power, out, rows),
        ComputeAt(top, out, rows),
        Reorder(f"{total}.rf", (rows, f"{k}.0", f"{k}.1")),
        Annotate(f"{total}.rf", f"{k}.1", "vectorize"),
        Annotate(power, task.dag.stages[1].axes[1].name, "vectorize"),
        Annotate(out, columns, "vectorize"),
    )
    return Program(Sketch(task, steps))


def moved(target):
    """Blocks of equal length, a copied input, and a 16-bit type."""
    x = ansor.placeholder((2, 31), "float16", name="X")
    y = ansor.compute((2, 31), lambda i, j: x[i, 30 - j] * 0.5, name="Y")
    steps = (
        Split("Y", "j", (12,), "equal"),
        CacheRead("X", "Y"),
        ComputeAt("X.local", "Y", "j.0"),
        Annotate("Y", "j.1", "vectorize"),
    )
    return Program(Sketch(ansor.Task(y, target), steps))


PROGRAMS = {f.__name__: f for f in (matmul, constant, convolution, softmax, moved)}


def passes(program):
    """(pass, function) in the order in which they are made."""
    found = []
    program.lower(dump=lambda name, function: found.append((name, function)))
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_pass(golden, name):
    before = {}
    shown = []
    for step, function in passes(PROGRAMS[name](AVX512)):
        same = before.get(function.name) == function
        shown.append(f"# {step}\n{'(unchanged)' if same else function}")
        before[function.name] = function
    assert golden == "\n\n".join(shown)


@pytest.mark.parametrize("name", PROGRAMS)
def test_lowered_for_neon(golden, name):
    assert golden == str(PROGRAMS[name](NEON).lower())


@pytest.mark.parametrize("target", [AVX512, NEON], ids=lambda t: t.cpu)
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_pass_keeps_the_meaning(name, target):
    program = PROGRAMS[name](target)
    dag = program.task.dag
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=b.shape).astype(b.dtype) for b in dag.inputs]
    expected = reference(dag, inputs)
    allowed = tolerance(dag, inputs, expected)
    names = ["nest", *(name for name, _ in PASSES)]
    shown = passes(program)
    for step in names:
        functions = [f for found, f in shown if found == step]
        (actual,) = executed(functions, dag, inputs)
        assert agrees(actual, expected[0], allowed[0]).all(), step


def executed(functions, dag, inputs):
    """The outputs of a program at some pass, by the interpreter."""
    main, *prepare = functions
    arrays = dict(zip((b.name for b in dag.inputs), inputs, strict=True))
    for function in prepare:
        source, block = function.parameters
        arrays[block.name] = np.full(block.shape, 7, block.dtype)
        run(function, [arrays[source.name], arrays[block.name]])
    outputs = [np.full(b.shape, 7, b.dtype) for b in dag.outputs]
    given = [arrays[p.name] for p in main.parameters[: -main.outputs]]
    run(main, [*given, *outputs])
    return outputs


def test_dumps_come_in_the_order_of_the_passes():
    names = [name for name, _ in passes(matmul(AVX512))]
    assert names == ["nest", *(name for name, _ in PASSES)]


def test_the_last_dump_is_what_lowering_returns():
    program = constant(NEON)
    last = [function for name, function in passes(program) if name == PASSES[-1][0]]
    lowered = program.lower()
    assert [lowered.main, *lowered.prepare] == last


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_result_is_verified_code(name):
    lowered = PROGRAMS[name](AVX512).lower()
    for function in (lowered.main, *lowered.prepare):
        verify(function, stage="final")
