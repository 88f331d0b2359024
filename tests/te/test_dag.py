"""Tensors, the DAG and tasks."""

import pickle

import pytest

import ansor
from ansor import ops
from ansor.ir.expr import Buffer, Var
from ansor.te.dag import DAG
from ansor.te.stage import Axis, Stage


def matmul_relu(n=8):
    A = ansor.placeholder((n, n), name="A")
    B = ansor.placeholder((n, n), name="B", constant=True)
    k = ansor.reduce_axis(n, name="k")
    C = ansor.compute((n, n), lambda i, j: ansor.sum(A[i, k] * B[k, j], axis=k), "C")
    return A, B, ansor.compute((n, n), lambda i, j: ansor.maximum(C[i, j], 0), "D")


def test_stages_are_plain_values():
    dag = DAG.build([matmul_relu()[-1]])
    C, D = dag.stages
    assert C.axes == (Axis("i", 8), Axis("j", 8))
    assert C.reduce_axes == (Axis("k", 8),)
    assert (C.reducer, D.reducer) == ("sum", None)
    assert C.buffers == (Buffer("C", (8, 8), "float32"),)
    assert Axis("i", 8).var == Var("i")
    assert type(C.body[0].a.buffer) is Buffer
    assert all(type(index) is Var for index in C.body[0].a.indices)
    assert isinstance(C, Stage)
    assert hash(dag) == hash(DAG.build([matmul_relu()[-1]]))


def test_printed():
    assert str(DAG.build([matmul_relu()[-1]])) == (
        "A: float32[8, 8]\n"
        "B: float32[8, 8] constant\n"
        "C: float32[8, 8]\n"
        "  C[i, j] = sum(A[i, k] * B[k, j]) over k in 8\n"
        "D: float32[8, 8]\n"
        "  D[i, j] = max(C[i, j], 0.0)"
    )


def test_lookups():
    dag = DAG.build([matmul_relu()[-1]])
    C, D = dag.stages
    assert dag.producer("C") is C
    assert dag.producer("A") is None
    assert dag.consumers("C") == (D,)
    assert dag.consumers("D") == ()
    assert [str(load) for load in dag.accesses(C, "B")] == ["B[k, j]"]
    assert list(dag.reads(C)) == ["A", "B"]
    assert dag.constants == {"B"}
    with pytest.raises(ansor.ExpressionError, match="stage 'Z': unknown"):
        dag.stage("Z")


def test_names_become_unique():
    x = ansor.placeholder((4,), name="A")
    y = ansor.placeholder((4,), name="A")
    z = ansor.compute((4,), lambda i: x[i] + y[i], name="A")
    w = ansor.compute((4,), lambda i: x[i] + z[i])
    dag = DAG.build([w])
    assert [b.name for b in dag.inputs] == ["A", "A_1"]
    assert [s.name for s in dag.stages] == ["A_2", "compute"]


def test_unnamed_reduce_axes_get_free_names():
    A = ansor.placeholder((3, 4, 5), name="A")
    axes = [ansor.reduce_axis(4), ansor.reduce_axis(5)]
    S = ansor.compute((3,), lambda k: ansor.sum(A[k, axes[0], axes[1]], axis=axes))
    (stage,) = DAG.build([S]).stages
    assert [a.name for a in (*stage.axes, *stage.reduce_axes)] == ["k", "k_1", "k_2"]


def test_argmax_has_two_buffers():
    A = ansor.placeholder((3, 4, 5), name="A")
    k, m = ansor.reduce_axis(4, "k"), ansor.reduce_axis(5, "m")
    S = ansor.compute((3,), lambda i: ansor.argmax(A[i, k, m], axis=[k, m]), name="S")
    dag = DAG.build([S])
    (stage,) = dag.stages
    value, index = Buffer("S.value", (3,), "float32"), Buffer("S", (3,), "int64")
    assert stage.buffers == (value, index)
    assert [str(e) for e in stage.body] == ["A[i, k, m]", "k * 5 + m"]
    assert dag.outputs == (index,)
    assert dag.producer("S.value") is stage


def test_several_outputs_and_shared_stages():
    A = ansor.placeholder((4,), name="A")
    B = ansor.compute((4,), lambda i: A[i] + 1, name="B")
    C = ansor.compute((4,), lambda i: B[i] * 2, name="C")
    dag = DAG.build([C, B])
    assert [s.name for s in dag.stages] == ["B", "C"]
    assert [b.name for b in dag.arguments] == ["A", "C", "B"]


def test_axis_names():
    A = ansor.placeholder((2, 3), name="A")
    B = ansor.compute((2, 3), lambda *i: A[i])
    C = ansor.compute((2, 3), lambda row, *rest: A[(row, *rest)])
    D = ansor.compute((2, 3), lambda x, y, shift=0: A[x, y] + shift)
    E = ansor.compute((2, 3), lambda *i: A[i], axes=("p", "q"))
    names = [[a.name for a in s.axes] for s in DAG.build([B, C, D, E]).stages]
    assert names == [["i0", "i1"], ["row", "rest0"], ["x", "y"], ["p", "q"]]


def test_scalars_numbers_and_integer_shapes():
    S = ansor.compute((), lambda: 1.5)
    V = ansor.compute(3, lambda i: i)
    assert (S.shape, S.dtype, S.ndim) == ((), "float32", 0)
    assert (V.shape, V.dtype) == ((3,), "int64")
    T = ansor.compute((), lambda: S[()] + V[2])
    assert DAG.build([T]).inputs == ()


def test_tensors_compare_by_identity():
    x, y = (ansor.placeholder((4,), name="A") for _ in range(2))
    assert x != y
    assert len({x, y}) == 2


def test_a_long_chain_builds():
    x = ansor.placeholder((4,), name="A")
    for _ in range(3000):
        x = ops.relu(x)
    assert len(DAG.build([x]).stages) == 3000


def test_tensor_graph_dag_and_task_survive_pickling():
    D = matmul_relu()[-1]
    dag = DAG.build([D])
    assert DAG.build([pickle.loads(pickle.dumps(D))]) == dag
    assert pickle.loads(pickle.dumps(dag)) == dag
    task = ansor.Task(D, target=ansor.Target("cpu", cpu="skylake-avx512"), weight=2)
    copy = pickle.loads(pickle.dumps(task))
    assert copy == task
    assert (copy.key, copy.flops) == (task.key, task.flops)


def test_task_fixes_the_argument_order():
    A, B, D = matmul_relu()
    target = ansor.Target("cpu", cpu="skylake-avx512")
    task = ansor.Task([B, A, D], target)
    assert [b.name for b in task.dag.arguments] == ["B", "A", "D"]
    assert task.key != ansor.Task(D, target).key
    assert task.flops == 2 * 8**3 + 8**2
    assert ansor.Task(D).target == ansor.Target("cpu")


def test_a_task_of_a_dag_is_the_task_of_its_tensors():
    tensors = matmul_relu()
    task = ansor.Task([*tensors], target="x86_64", weight=2)
    again = ansor.Task.from_dag(task.dag, "x86_64", 2)
    assert again == task
    assert (again.key, again.flops) == (task.key, task.flops)
    assert again.dag is task.dag


def test_a_task_is_made_of_a_dag_and_a_positive_weight():
    dag = DAG.build([matmul_relu()[-1]])
    with pytest.raises(ansor.ExpressionError, match="is of type str, not a DAG"):
        ansor.Task.from_dag("C = A @ B")
    with pytest.raises(ansor.ExpressionError, match="is not a positive number"):
        ansor.Task.from_dag(dag, "x86_64", weight=0)
