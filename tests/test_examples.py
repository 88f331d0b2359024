"""Examples and bench programs run, on small versions of what they are made for."""

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ansor
from ansor.schedule import Program
from ansor.te.reference import agrees, reference, tolerance

pytestmark = pytest.mark.llvm
ROOT = Path(__file__).parent.parent
HOST = ansor.Target("cpu", cores=1)
PAIR = ansor.Target("cpu", cores=2)

sys.path.insert(0, str(ROOT / "bench"))
import programs  # noqa: E402


def check(task: ansor.Task, program: Program | None) -> None:
    rng = np.random.default_rng(0)
    dag = task.dag
    values = [rng.standard_normal(b.shape).astype(b.dtype) for b in dag.inputs]
    kernel = ansor.build(task, program=program)
    (expected,) = reference(dag, values)
    (allowed,) = tolerance(dag, values, [expected])
    assert np.all(agrees(np.asarray(kernel(*values)), expected, allowed))


def test_demo_runs(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["demo.py", "64", "1"])
    runpy.run_path(str(ROOT / "examples" / "demo.py"), run_name="__main__")
    assert "verified" in capsys.readouterr().out


def test_space_runs(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["space.py", "67"])
    runpy.run_path(str(ROOT / "examples" / "space.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "verified" in out
    assert "parallel" not in out
    assert "?C.k.1 in 32, 64\n" in out


def test_model_runs(monkeypatch, capsys):
    pytest.importorskip("torch")
    monkeypatch.setattr(sys, "argv", ["model.py", "3"])
    monkeypatch.syspath_prepend(ROOT / "examples")  # as if it were the script
    runpy.run_path(str(ROOT / "examples" / "model.py"), run_name="__main__")
    out = capsys.readouterr().out
    assert "of the largest result" in out
    assert "tuned" in out


def test_bench_of_the_space_runs():
    script = str(ROOT / "bench" / "space.py")
    command = [sys.executable, script, "GMM1024", "--count", "256", "--rounds", "1"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "the most: " in done.stdout


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("shape", [(101, 103, 107), (31, 50, 96), (200, 96, 64)])
@pytest.mark.parametrize("target", [HOST, PAIR], ids=["one", "two"])
def test_matmul_programs(shape, constant, target):
    task = programs.matmul_task(*shape, target, constant)
    check(task, programs.matmul(task))


def test_vector_matrix_program():
    task = programs.matmul_task(1, 129, 67, HOST)
    check(task, programs.vector_matrix(task))


@pytest.mark.parametrize(("size", "kernel"), [(15, 3), (14, 1)])
def test_conv2d_programs(size, kernel):
    task = programs.conv2d_task(size, 8, 20, kernel, kernel // 2, HOST)
    check(task, programs.conv2d(task))


def test_depthwise_program():
    task = programs.depthwise_task(13, 32, HOST)
    check(task, programs.depthwise(task))


def test_softmax_program():
    task = programs.softmax_task(5, 256, HOST)
    check(task, programs.softmax(task))


def test_norm_gelu_program():
    task = programs.norm_gelu_task(3, 768, HOST)
    check(task, programs.norm_gelu(task))


def tasks() -> dict[str, ansor.Tensor]:
    a, b = ansor.placeholder((33, 70), name="A"), ansor.placeholder((70, 41), name="B")
    x = ansor.placeholder((2, 9, 9, 6), name="X")
    w = ansor.placeholder((3, 3, 6, 5), name="W")
    conv = ansor.ops.conv2d(x, w, padding=1, layout="NHWC")
    return {
        "matmul": ansor.ops.relu(ansor.ops.matmul(a, b)),
        "dense": ansor.ops.dense(a, ansor.placeholder((50, 70), name="V")),
        "conv": ansor.ops.relu(conv),
        "softmax": ansor.ops.softmax(a),
        "norm": ansor.ops.gelu(ansor.ops.layer_norm(a)),
        "sum": ansor.ops.reduce_sum(a),
        "rows": ansor.ops.reduce_max(a, axis=1),
        "columns": ansor.ops.reduce_mean(a, axis=0),
        "attention": ansor.ops.attention(
            *(ansor.placeholder((2, 8, 16), name=name) for name in "QKV")
        ),
        "pool": ansor.ops.max_pool(x, 2, layout="NHWC"),
    }


@pytest.mark.parametrize("name", tasks())
def test_untuned_programs(name):
    check(ansor.Task(tasks()[name], PAIR), None)


def test_untuned_long_chains_stay_small():
    x = ansor.placeholder((8,), name="X")
    for n in range(120):
        x = ansor.compute((8,), lambda i, x=x: x[i] * 0.5 + 1.0, name=f"s{n}")
    check(ansor.Task(x, HOST), None)


def test_untuned_stages_read_twice_stay_small():
    x = ansor.placeholder((8,), name="X")
    for n in range(20):
        x = ansor.compute((8,), lambda i, x=x: x[i] * 0.5 + x[7 - i], name=f"s{n}")
    check(ansor.Task(x, HOST), None)
