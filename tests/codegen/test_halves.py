"""Conversions of 16-bit floats: by the target, or by hand where it cannot."""

import numpy as np
import pytest

import ansor
from ansor.codegen import engine
from ansor.codegen.emit import emit
from ansor.codegen.instructions import Instructions
from ansor.ir.dtypes import DTYPES
from ansor.schedule import Annotate, Program, Sketch

pytestmark = [
    pytest.mark.llvm,
    pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning"),
]

ALL_HALVES = np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)


def cast_task(source: str, to: str, n: int, target: ansor.Target) -> ansor.Task:
    a = ansor.placeholder((n,), source, name="A")
    return ansor.Task(ansor.compute((n,), lambda i: ansor.cast(a[i], to)), target)


@pytest.fixture(params=["target", "by hand"])
def _conversion(request, monkeypatch):
    if request.param == "by hand":
        both = property(lambda self: ("bfloat16", "float16"))
        monkeypatch.setattr(Instructions, "by_hand", both)


def convert(values: np.ndarray, source: str, to: str) -> np.ndarray:
    task = cast_task(source, to, len(values), ansor.Target("cpu", cores=1))
    name = task.dag.outputs[0].name
    program = Program(Sketch(task, (Annotate(name, "i", "vectorize"),)))
    return np.asarray(ansor.build(task, program=program)(values))


@pytest.mark.usefixtures("_conversion")
@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_every_half_to_float(half):
    values = ALL_HALVES.view(DTYPES[half].numpy)
    found, wanted = convert(values, half, "float32"), values.astype("float32")
    nan = np.isnan(wanted)
    assert (np.isnan(found) == nan).all()
    np.testing.assert_array_equal(
        found[~nan].view("uint32"), wanted[~nan].view("uint32")
    )


@pytest.mark.usefixtures("_conversion")
@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_floats_to_halves_round_to_even(half):
    step = 4099
    bits = np.arange(0, 1 << 32, step, dtype=np.uint64).astype(np.uint32)
    between = ALL_HALVES.view(DTYPES[half].numpy).astype("float32")
    between = between[np.isfinite(between)]
    middles = (between[:-1].astype("float64") + between[1:]) / 2
    values = np.concatenate([bits.view("float32"), between, middles.astype("float32")])
    with np.errstate(all="ignore"):
        wanted = values.astype(DTYPES[half].numpy)
    found = convert(values, "float32", half)
    nan = np.isnan(wanted.astype("float32"))
    assert (np.isnan(found.astype("float32")) == nan).all()
    np.testing.assert_array_equal(
        found[~nan].view("uint16"), wanted[~nan].view("uint16")
    )


@pytest.mark.parametrize("by_way", [False, True])
def test_doubles_to_halves_round_once(by_way, monkeypatch):
    monkeypatch.setattr(Instructions, "halves_from_floats", by_way)
    exact = ALL_HALVES.view(np.float16).astype("float64")
    exact = exact[np.isfinite(exact)]
    middles = (exact[:-1] + exact[1:]) / 2
    odd = [middles * (1 + e) for e in (0.0, 2e-16, -2e-16, 1e-9, -1e-9)]
    ends = [5e-324, -1e-300, 1e300, -np.inf, np.nan, 0.0, -0.0]
    values = np.concatenate([exact, *odd, ends])
    with np.errstate(all="ignore"):
        wanted = values.astype(np.float16)
    found = convert(values, "float64", "float16")
    nan = np.isnan(values)
    assert (np.isnan(found) == nan).all()
    np.testing.assert_array_equal(
        found[~nan].view("uint16"), wanted[~nan].view("uint16")
    )


@pytest.mark.parametrize("cpu", ["nehalem", "haswell", "skylake-avx512"])
@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_no_x86_target_calls_a_library(cpu, half):
    target = ansor.Target("x86_64", cpu=cpu)
    for source, to in ((half, "float32"), ("float32", half), ("float64", half)):
        task = cast_task(source, to, 37, target)
        name = task.dag.outputs[0].name
        program = Program(Sketch(task, (Annotate(name, "i", "vectorize"),)))
        text = emit((program.lower("f").main,), target)
        assert "call" not in engine.assembly(text, target)
