"""Workload keys: what changes them and what does not."""

import subprocess
import sys

import pytest

import ansor
from ansor import ops
from ansor.te.dag import DAG
from ansor.te.key import workload_key

PROGRAM = """
import ansor
from ansor import ops
from ansor.te.dag import DAG
from ansor.te.key import workload_key
A, B = (ansor.placeholder((512, 512), name=n) for n in "AB")
x = ansor.placeholder((1, 8, 8, 4), "int8")
w = ansor.placeholder((3, 3, 4, 2), "int8", constant=True)
y = ops.conv2d(x, w, padding=1, layout="NHWC", dtype="int32")
print(workload_key(DAG.build([ops.matmul(A, B)])))
z = ansor.compute((8,), lambda i: y[0, i, 0, 1] * 0.1)
print(workload_key(DAG.build([ops.gelu(z)])))
"""
KEYS = """
w1-e749007d42046c827aaff7eaa0d909e08d92df050a4eaff4da2a6a55d74be7b2
w1-8f853c2ae03b08b1dc09ab2a37b6f01e546775b1a848a1b7bce7ba112555ae96
"""


@pytest.mark.parametrize("seed", ["0", "1", "77"])
def test_keys_are_the_same_in_every_process(seed, monkeypatch):
    monkeypatch.setenv("PYTHONHASHSEED", seed)
    monkeypatch.setenv("PYTHONPATH", ":".join(filter(None, sys.path)))
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == KEYS.split()


def key(*outputs, inputs=()):
    return workload_key(DAG.build(outputs, inputs))


def scaled(shape=(4, 6), dtype="float32", factor=2.0, constant=False, names="ABij"):
    A = ansor.placeholder(shape, dtype, name=names[0], constant=constant)
    axes = (names[2], names[3])
    return ansor.compute(shape, lambda *i: A[i] * factor, name=names[1], axes=axes)


def test_names_do_not_matter():
    assert key(scaled()) == key(scaled(names="XYpq"))


@pytest.mark.parametrize(
    "other",
    [{"shape": (6, 4)}, {"dtype": "float64"}, {"factor": 3.0}, {"constant": True}],
    ids=lambda change: next(iter(change)),
)
def test_what_matters(other):
    assert key(scaled()) != key(scaled(**other))


def test_reducers_argument_order_and_outputs_matter():
    A = ansor.placeholder((4, 6), name="A")
    B = ansor.placeholder((4, 6), name="B")
    assert key(ops.reduce_sum(A, 1)) != key(ops.reduce_max(A, 1))
    D = ops.subtract(A, B)
    assert key(D, inputs=(A, B)) != key(D, inputs=(B, A))
    E = ops.relu(D)
    assert len({key(E), key(E, D), key(D, E)}) == 3


def test_transposed_access_matters():
    A = ansor.placeholder((4, 4), name="A")
    straight = ansor.compute((4, 4), lambda i, j: A[i, j])
    turned = ansor.compute((4, 4), lambda i, j: A[j, i])
    assert key(straight) != key(turned)
