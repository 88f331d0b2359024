"""DAGs as data: there and back, and what is refused."""

import copy
import json
import math
from random import Random

import pytest

import ansor
from ansor import ops
from ansor.errors import ExpressionError
from ansor.ir.dtypes import DTYPES
from ansor.ir.expr import Const
from ansor.ir.ops import BINARY, FUNCTIONS
from ansor.ir.visit import DEEPEST, walk
from ansor.te import data as module
from ansor.te.dag import DAG
from ansor.te.data import dag_from_data, dag_to_data
from ansor.te.key import workload_key
from ansor.te.workloads import MORE, WORKLOADS, outputs
from strategies_dag import Maker

ALL = {**WORKLOADS, **MORE}
SEEDS = 150
MUTATIONS = 3000


def there_and_back(dag):
    """Through JSON text and back; the text must not change on the way."""
    text = json.dumps(dag_to_data(dag), allow_nan=False)
    back = dag_from_data(json.loads(text))
    assert json.dumps(dag_to_data(back), allow_nan=False) == text
    assert workload_key(back) == workload_key(dag)
    return back


@pytest.mark.parametrize("row", ALL.values(), ids=ALL)
def test_workloads_come_back(row):
    for made in (row.make(), row.small()):
        dag = DAG.build(outputs(made))
        back = there_and_back(dag)
        assert back == dag
        assert str(back) == str(dag)


def test_random_graphs_come_back():
    for seed in range(SEEDS):
        dag = DAG.build(Maker(Random(seed)).outputs())
        assert there_and_back(dag) == dag, f"seed {seed}"


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_type_comes_back(dtype):
    A = ansor.placeholder((3, 1), dtype, name="A", constant=True)
    B = ansor.compute((3,), lambda i: ansor.cast(A[2 - i, 0], "float16"), name="B")
    C = ansor.compute((), lambda: ansor.select(B[1] < 0.5, A[0, 0], A[1, 0]))
    dag = DAG.build([C, B])
    assert there_and_back(dag) == dag


def test_places_gathers_and_scalars_come_back():
    A = ansor.placeholder((7, 5), name="A")
    N = ansor.placeholder((4,), "int32", name="N")
    p, q = ansor.reduce_axis(7), ansor.reduce_axis(5)
    at = ansor.compute((), lambda: ansor.argmin(A[p, q], axis=[p, q]), name="at")
    G = ansor.compute((4, 5), lambda i, j: A[N[i] * 2 + 1, j] + A[0, at[()] % 5])
    dag = DAG.build([at, G], [N, A])
    back = there_and_back(dag)
    assert back == dag
    assert [b.name for b in back.arguments] == ["N", "A", "at", "compute"]


NUMBERS = {
    "float64": (0.1, -0.0, 5e-324, 1.7976931348623157e308, math.inf, -math.inf),
    "float32": (0.1, 1 / 3, 3.4028234663852886e38, -math.inf),
    "bfloat16": (1e-45, 2.0),
    "int64": (2**63 - 1, -(2**63), 2**53 + 1),
    "int8": (-128, 127),
    "bool": (True, False),
}


@pytest.mark.parametrize(
    ("dtype", "value"), [(d, v) for d, row in NUMBERS.items() for v in row]
)
def test_constants_come_back(dtype, value):
    A = ansor.placeholder((3,), dtype, name="A")
    dag = DAG.build([ansor.compute((3,), lambda i: A[i] == value)])
    back = there_and_back(dag)
    assert back == dag
    assert repr(constants(back)) == repr(constants(dag))


def test_nan_comes_back():
    A = ansor.placeholder((3,), name="A")
    dag = DAG.build([ansor.compute((3,), lambda i: A[i] + math.nan)])
    assert math.isnan(constants(there_and_back(dag))[0])


def constants(dag):
    nodes = (node for stage in dag.stages for x in stage.body for node in walk(x))
    return [node.value for node in nodes if isinstance(node, Const)]


def test_the_format_of_a_graph(golden):
    """Files hold this text: a change of it is a new version."""
    A = ansor.placeholder((4, 6), name="A")
    W = ansor.placeholder((6, 8), "float16", name="W", constant=True)
    k, m = ansor.reduce_axis(6, "k"), ansor.reduce_axis(8, "m")

    def product(i, j):
        return ansor.sum(A[i, k] * ansor.cast(W[k, j], "float32"), axis=k)

    C = ansor.compute((4, 8), product, name="C")
    D = ansor.compute((4, 8), lambda i, j: ansor.select(i < 2, ansor.exp(C[i, j]), 0.5))
    E = ansor.compute((4,), lambda i: ansor.argmax(D[i, m] - math.inf, axis=m))
    assert golden == json.dumps(dag_to_data(DAG.build([E, D])), indent=1)


def test_the_tables_cover_every_operator():
    assert set(module.OPERANDS) == {*BINARY, *FUNCTIONS}
    assert len(module._SHAPES) == 4 + len(BINARY) + len(FUNCTIONS)


# -- what is refused ------------------------------------------------------------------

X = ansor.placeholder((4, 6), name="A")
K = ansor.reduce_axis(6, "k")
S = ansor.compute((4,), lambda i: ansor.sum(X[i, K] * 2.0, axis=K), name="S")
T = ansor.compute((4,), lambda i: S[i] + 1, name="T")
GOOD = dag_to_data(DAG.build([T]))


def changed(**fields):
    return {**copy.deepcopy(GOOD), **fields}


def input_with(**fields):
    data = copy.deepcopy(GOOD)
    data["inputs"][0].update(fields)
    return data


def stage_with(**fields):
    data = copy.deepcopy(GOOD)
    data["stages"][0].update(fields)
    return data


def body(expr):
    return stage_with(body=expr)


def deep(levels):
    expr = ["load", "A", "i", "k"]
    for _ in range(levels):
        expr = ["neg", expr]
    return expr


def wide(levels):
    """A formula whose tree has 2**levels leaves, in a list that shares them."""
    expr = ["const", "float32", 1.0]
    for _ in range(levels):
        expr = ["add", expr, expr]
    return expr


BODY = "DAG data, stages[0] (S), body"
HEADS = ", ".join(module._SHAPES)
REFUSED = {
    "no dictionary": (None, "DAG data: None is not a dictionary"),
    "another version": (
        changed(version=2),
        "DAG data: version 2 is unknown\n  hint: this release reads version 1",
    ),
    "another field": (
        changed(name="x"),
        "DAG data: field 'name' is unknown\n"
        "  hint: its fields are version, inputs, stages, outputs",
    ),
    "no outputs": (
        changed(outputs=[]),
        "a task without outputs: there is nothing to compute",
    ),
    "an input as output": (
        changed(outputs=["A"]),
        "output 'A': is a placeholder: there is nothing to compute\n"
        "  hint: copy it with ansor.compute if you need a copy",
    ),
    "an output twice": (changed(outputs=["T", "T"]), "output 'T': is given twice"),
    "an unknown output": (
        changed(outputs=["U"]),
        "DAG data, outputs[0]: no tensor 'U' so far\n  hint: producers come first",
    ),
    "a stage that nobody needs": (
        changed(outputs=["S"]),
        "DAG data, stages: no output needs 'T'\n  hint: leave it out",
    ),
    "an input that nobody reads": (
        changed(inputs=[*GOOD["inputs"], {**GOOD["inputs"][0], "name": "B"}]),
        "argument 'B': no output reads it",
    ),
    "stages in another order": (
        changed(stages=GOOD["stages"][::-1]),
        "DAG data, stages[0] (T), body[1][1]: no tensor 'S' so far\n"
        "  hint: producers come first",
    ),
    "a name twice": (
        stage_with(name="A"),
        "DAG data, stages[0], name: 'A' is taken\n  hint: rename one of the two",
    ),
    "a name that is no identifier": (
        input_with(name="A.value"),
        "DAG data, inputs[0], name: name 'A.value' is not a plain identifier\n"
        "  hint: use letters, digits, _",
    ),
    "an unknown type": (
        input_with(dtype="float8"),
        "DAG data, inputs[0], dtype: unknown dtype 'float8'\n"
        f"  hint: use one of {', '.join(DTYPES)}",
    ),
    "an empty axis": (
        input_with(shape=[4, 0]),
        f"DAG data, inputs[0], shape[1]: 0 is out of range\n  hint: use 1 to {1 << 40}",
    ),
    "a shape of floats": (
        input_with(shape=[4.0, 6]),
        "DAG data, inputs[0], shape[0]: 4.0 is not an integer",
    ),
    "a tensor that no memory holds": (
        input_with(shape=[1 << 40, 1 << 40]),
        "DAG data, inputs[0]: more than 281474976710656 elements or iterations",
    ),
    "too many axes": (
        input_with(shape=[1] * 65),
        "DAG data, inputs[0], shape: 65 entries, more than 64",
    ),
    "constant as a number": (
        input_with(constant=1),
        "DAG data, inputs[0], constant: 1 is neither true nor false",
    ),
    "an axis without an extent": (
        stage_with(axes=[["i"]]),
        "DAG data, stages[0] (S), axes[0]: 1 entries\n"
        "  hint: an axis is [name, extent]",
    ),
    "an axis twice": (
        stage_with(axes=[["i", 4], ["i", 4]]),
        "compute 'S': two axes are called 'i'\n  hint: rename one of them",
    ),
    "an unknown reducer": (
        stage_with(reducer="mean"),
        "DAG data, stages[0] (S), reducer: unknown reducer 'mean'\n  hint: use one of "
        "sum, prod, max, min, any, all, argmax, argmin",
    ),
    "no reducer": (
        stage_with(reducer=None),
        "DAG data, stages[0] (S), reducer: there is none, but there are reduce axes",
    ),
    "a reducer without axes": (
        stage_with(reduce_axes=[], body=["load", "A", "i", 0]),
        "sum over nothing: no axis is given\n  hint: pass axis=reduce_axis(n)",
    ),
    "a sum of bools": (
        body(["lt", "i", "k"]),
        "sum(i < k): the operand is bool\n"
        '  hint: use any or all, or cast it: cast(x, "int32")',
    ),
    "a load outside": (
        body(["load", "A", "i", ["add", "k", 1]]),
        "compute 'S': A[i, k + 1]: index k + 1 of axis 1 runs from 1 to 6, outside 0 "
        "to 5\n  hint: guard it: ansor.select(condition, element, 0)",
    ),
    "a load with one index": (
        body(["load", "A", "i"]),
        "A[i]: 1 indices, but shape (4, 6) has 2 axes",
    ),
    "a load of itself": (
        body(["load", "S", "i"]),
        f"{BODY}[1]: no tensor 'S' so far\n  hint: producers come first",
    ),
    "a load of nothing": (body(["load"]), f"{BODY}: 'load' with 0 operands"),
    "an unknown axis": (
        body("j"),
        f"{BODY}: no axis 'j'\n  hint: axes are i, k",
    ),
    "an unknown head": (
        body(["system", "i"]),
        f"{BODY}: unknown head 'system'\n  hint: use one of {HEADS}",
    ),
    "a head that is a list": (body([["add"], "i", "i"]), None),
    "an empty list": (body([]), f"{BODY}: an empty list is no formula"),
    "a dictionary": (body({}), f"{BODY}: a value of type dict is not a list"),
    "true": (body(True), f"{BODY}: True is not an integer"),
    "a bare float": (body(1.5), f"{BODY}: 1.5 is not a list"),
    "one operand": (body(["add", "i"]), f"{BODY}: 'add' with 1 operands"),
    "operands of two types": (
        body(["add", "i", ["load", "A", "i", "k"]]),
        f"{BODY}: operands are int64 and float32\n"
        "  hint: cast or broadcast one of them",
    ),
    "bits of a float": (
        body(["xor", ["load", "A", "i", "k"], ["load", "A", "i", "k"]]),
        f"{BODY}: 'xor' of float32\n  hint: its operands are int, uint, bool",
    ),
    "a root of an integer": (
        body(["sqrt", "i"]),
        f"{BODY}: 'sqrt' of int64\n  hint: its operands are float",
    ),
    "a choice by a number": (
        body(["select", "i", "i", "k"]),
        f"{BODY}: the condition is int64, not bool",
    ),
    "an infinite number": (
        body(["const", "float32", math.inf]),
        f"{BODY}[2]: inf is not a finite float\n"
        "  hint: others are the texts inf, -inf, nan",
    ),
    "a number that is too large": (
        body(["const", "float16", 1e5]),
        "constant 100000.0: does not fit float16, which ends at 65504",
    ),
    "an integer that is too large": (
        body(["const", "int8", 128]),
        "constant 128: does not fit int8, which holds -128 to 127\n"
        "  hint: cast the other operand to a wider type",
    ),
    "an integer of many digits": (
        body(10**5000),
        f"{BODY}: a 16610-bit integer is out of range\n"
        f"  hint: use {-(2**63)} to {2**63 - 1}",
    ),
    "a deep formula": (body(deep(DEEPEST)), None),
    "a deep list": (body(deep(100_000)), None),
    "a wide formula": (body(wide(60)), None),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refused(case):
    data, message = case
    with pytest.raises(ExpressionError) as caught:
        dag_from_data(data)
    if message is not None:
        assert str(caught.value) == message


def test_a_formula_may_be_as_deep_as_the_language_allows():
    data = body(deep(DEEPEST - 2))
    assert dag_to_data(dag_from_data(data)) == data


def places(value, path=()):
    """The path of every entry of nested lists and dictionaries."""
    if path:
        yield path
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, entry in pairs:
        if isinstance(entry, (list, dict)):
            yield from places(entry, (*path, key))
        else:
            yield (*path, key)


def mutated(data, r, junk):
    result = copy.deepcopy(data)
    for _ in range(r.choice((1, 1, 2, 3))):
        path = r.choice(list(places(result)))
        holder = result
        for key in path[:-1]:
            holder = holder[key]
        if r.random() < 0.2:
            del holder[path[-1]]
        else:
            holder[path[-1]] = copy.deepcopy(r.choice(junk))
    return result


def test_whatever_the_data_a_graph_or_an_expression_error():
    r = Random(7)
    sources = [dag_to_data(DAG.build(Maker(Random(s)).outputs())) for s in range(40)]
    sources.append(dag_to_data(DAG.build([ops.softmax(X)])))
    plain = [None, True, -1, 0, 1, 3, 2**70, 0.5, math.nan, "", "i", "k", "x0", "sum"]
    good = 0
    for _ in range(MUTATIONS):
        data = r.choice(sources)
        junk = [*plain, [], {}, ["add", "i", 1], ["load", "x0", "i"], r.choice(sources)]
        other = r.choice(list(places(data)))
        value = data
        for key in other:
            value = value[key]
        try:
            dag = dag_from_data(mutated(data, r, [*junk, value, value, value]))
        except ExpressionError:
            continue
        good += 1
        assert there_and_back(dag) == dag
        str(dag)
    assert good > MUTATIONS / 50
