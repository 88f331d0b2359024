"""Which way each step takes where memory is limited."""

import socket
from itertools import product
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ansor
from ansor.cli.network import memory as memory_option
from ansor.errors import ModelError
from ansor.frontend.graph import Graph
from ansor.frontend.interpret import interpret
from ansor.frontend.model import Model
from ansor.frontend.subgraph import Plan
from ansor.frontend.torch.options import Options
from ansor.frontend.units import choose_all
from ansor.frontend.ways import (
    MEMORY,
    Way,
    checked,
    constant_bytes,
    more_bytes,
    room,
    take,
    within,
)
from ansor.frontend.workshop import Workshop
from ansor.measure.identity import versions
from ansor.schedule import Sketch, to_data
from frontend.networks import Layers, inputs_of

CHANNELS = 64
KERNELS = 9 * 4 * CHANNELS**2  # bytes of plain weights


@pytest.fixture(autouse=True)
def models_are_not_small(monkeypatch) -> None:
    monkeypatch.setattr("ansor.frontend.ways.SMALL", 0)


# -- choosing --------------------------------------------------------------------------

LAYER = (Way(6.0), Way(4.0, 10), Way(3.0, 40))


def test_nothing_is_taken_where_there_is_no_room():
    assert take([LAYER, LAYER], 0) == [0, 0]
    assert take([], 10) == []


def test_without_a_limit_the_fastest_is_taken():
    assert take([LAYER, (Way(1.0),), (Way(1.0), Way(2.0, 1))], inf) == [2, 0, 0]


def test_what_saves_most_for_its_bytes_comes_first():
    small, large = (Way(5.0), Way(4.0, 1)), (Way(9.0), Way(5.0, 10))
    assert take([large, small], 10) == [1, 0]  # what fits alone and saves more
    assert take([large, small, small], 2) == [0, 1, 1]
    assert take([large, large, small], 11) == [1, 0, 1]


def test_steps_go_on_from_way_to_way():
    assert take([LAYER], 10) == [1]
    assert take([LAYER], 39) == [1]
    assert take([LAYER], 40) == [2]


def test_equal_steps_differ_where_the_room_ends_and_the_first_come_first():
    assert take([LAYER] * 4, 75) == [2, 1, 1, 1]
    assert take([LAYER] * 3, 20) == [1, 1, 0]


def test_ways_that_must_not_be_taken_are_not():
    assert take([(Way(6.0), Way(inf, 0), Way(5.0, 3))], inf) == [2]


def test_a_way_with_less_memory_makes_room():
    assert take([(Way(6.0), Way(5.0, -10)), (Way(6.0), Way(4.0, 10))], 0) == [1, 1]


seconds = st.integers(1, 40).map(float)
ways = st.lists(st.builds(Way, seconds | st.just(inf), st.integers(0, 40)), max_size=3)
steps_of_ways = st.lists(
    st.builds(lambda first, rest: [Way(first), *rest], seconds, ways), max_size=4
)


@settings(max_examples=200, deadline=None)
@given(steps_of_ways, st.integers(0, 120))
def test_never_above_the_limit_nor_slower_than_plain_nor_far_from_the_best(steps, most):
    taken = take(steps, most)
    assert sum(ways[n].bytes for ways, n in zip(steps, taken, strict=True)) <= most
    for choices, n in zip(steps, taken, strict=True):
        assert choices[n].seconds <= choices[0].seconds
    saved = _saved(steps, taken)
    best = max(
        (
            _saved(steps, numbers)
            for numbers in product(*(range(len(x)) for x in steps))
            if sum(x[n].bytes for x, n in zip(steps, numbers, strict=True)) <= most
        ),
        default=0.0,
    )
    assert saved >= best / 2
    assert taken == take(steps, most)


def _saved(steps, numbers) -> float:
    return sum(x[0].seconds - x[n].seconds for x, n in zip(steps, numbers, strict=True))


# -- limits ----------------------------------------------------------------------------


def test_limits_are_numbers_from_one_up():
    assert (checked(None), checked(1), checked(inf)) == (inf, 1.0, inf)
    for wrong in (0.99, -1, nan, True, "much"):
        with pytest.raises(ModelError, match=rf"memory={wrong!r}.*from 1 up"):
            checked(wrong)
    with pytest.raises(ModelError, match=r"math\.inf for no limit"):
        Model(network()).compile(memory=0.5)


def test_the_backend_of_torch_takes_a_limit():
    assert Options.read({}).memory == MEMORY
    assert Options.read({"memory": inf}).memory == inf
    with pytest.raises(ModelError, match=r"memory=0\.5"):
        Options.read({"memory": 0.5})
    with pytest.raises(ModelError, match="'memory': '2' is of the wrong type"):
        Options.read({"memory": "2"})


def test_the_command_line_names_the_usual_limit():
    @memory_option
    def command() -> None: ...

    (option,) = command.__click_params__  # type: ignore[attr-defined]
    assert f"[default: {MEMORY}]" in option.help


# -- plans -----------------------------------------------------------------------------


def network(count: int = 3, is_shared: bool = False) -> Graph:
    """Equal layers, after one with steps; perhaps all with the same weights."""
    net = Layers()
    y = net.conv(net.input(1, 3, 16, 16), CHANNELS, 3, stride=2)
    kernels = net.constant(CHANNELS, CHANNELS, 3, 3)
    for _ in range(count):
        if not is_shared:
            kernels = net.build.constant(net.array(CHANNELS, CHANNELS, 3, 3) / 24)
        y = net.add(
            "conv", y, kernels, strides=(1, 1), padding=((1, 1), (1, 1)),
            dilations=(1, 1), groups=1, layout="first",
        )  # fmt: skip
        y = net.add("relu", y)
    return net.finish(y)


def taken(plan: Plan) -> list[str]:
    """How the equal layers are computed."""
    ops = [node.op for step in plan.subgraphs for node in step.nodes]
    return [op for op in ops if op == "conv" or op.startswith("winograd")][1:]


def test_bytes_of_ways():
    plan = Model(network()).plan
    rows = [row for row in more_bytes(plan) if len(row) > 1]
    assert rows == [[0, KERNELS * 7 // 9, KERNELS * 27 // 9]] * 3
    assert 3 * KERNELS < constant_bytes(plan) < 3.1 * KERNELS
    for n in (1, 2):
        other = plan.using([step.ways[min(n, len(step.ways) - 1)]
                            for step in plan.subgraphs])  # fmt: skip
        grown = constant_bytes(other) - constant_bytes(plan)
        assert grown == sum(row[n] for row in rows)


def test_weights_that_others_read_are_not_free():
    plan = Model(network(is_shared=True)).plan
    rows = [row for row in more_bytes(plan) if len(row) > 1]
    assert rows == [[0, KERNELS * 16 // 9, KERNELS * 36 // 9]] * 3
    assert constant_bytes(plan) < 1.1 * KERNELS


def test_room_is_a_part_of_the_constants():
    plan = Model(network()).plan
    assert room(plan, 1) == 0
    assert room(plan, 1.5) == constant_bytes(plan) / 2
    assert room(plan, inf) == room(plan, None) == inf


def test_a_small_model_has_the_room_of_a_larger_one(monkeypatch):
    plan = Model(network()).plan
    monkeypatch.setattr("ansor.frontend.ways.SMALL", 10 * constant_bytes(plan))
    assert room(plan, 1) == 0
    assert room(plan, 1.5) == 5 * constant_bytes(plan)


def kept(plan: Plan) -> list[int]:
    """Alternatives of the equal layers."""
    steps = [x for x in plan.subgraphs if any(node.op == "conv" for node in x.nodes)]
    return [len(step.alternatives) for step in steps[1:]]


def test_what_does_not_fit_is_not_tried():
    model = Model(network())
    assert kept(model.plan) == [2, 2, 2]
    assert kept(within(model.plan, 1.2)) == [0, 0, 0]
    assert kept(within(model.plan, 1.3)) == [1, 1, 1]  # for one of them
    assert kept(within(model.plan, 2.5)) == [1, 1, 1]  # the larger not for all
    assert kept(within(model.plan, 4.1)) == [2, 2, 2]
    assert len(model.candidates) == len(model.tasks)
    assert len(model.candidates_within(None)) == len(model.tasks) + 2


def known(database: ansor.Database, plan: Plan, seconds: tuple[float, ...]) -> None:
    """Times of the ways of the steps that have several."""
    for step in plan.subgraphs:
        for way, x in zip(step.ways, seconds[: len(step.ways)], strict=True):
            program = to_data(Sketch(way.task).program())
            record = ansor.Record(
                way.task.key, way.task.target.fingerprint, program,
                ansor.Timed((x, x)), verified="seed 0", versions=versions(),
            )  # fmt: skip
            database.add(way.task, record)


@pytest.mark.parametrize(
    ("memory", "right"),
    [
        (1, ["conv", "conv", "conv"]),
        (1.3, ["winograd", "conv", "conv"]),
        (1.6, ["winograd", "winograd", "conv"]),
        (2, ["winograd", "winograd", "winograd"]),
        (4.1, ["winograd4", "winograd4", "winograd4"]),
        (inf, ["winograd4", "winograd4", "winograd4"]),
    ],
)
def test_measured_ways_are_taken_as_far_as_there_is_room(tmp_path, memory, right):
    plan = Model(network()).plan
    with ansor.Database(tmp_path / "tuning.db") as database:
        known(database, plan, (6e-3, 4e-3, 3e-3))
        chosen, choices = choose_all(plan, database, memory)
    assert taken(chosen) == right
    assert constant_bytes(chosen) <= memory * constant_bytes(plan)
    assert [step.task for step in chosen.subgraphs] == [x.form for x in choices]


def test_beliefs_have_the_same_limit(monkeypatch):
    plan = Model(network()).plan
    times = dict.fromkeys((step.task.key for step in plan.subgraphs), 6e-3)
    for step in plan.subgraphs:
        for way, seconds in zip(step.alternatives, (4e-3, 3e-3), strict=False):
            times[way.task.key] = seconds
    asked = []

    def belief(task):
        asked.append(task.key)
        return times[task.key]

    monkeypatch.setattr("ansor.search.estimate.estimate", belief)
    assert taken(choose_all(plan, None, 1)[0]) == ["conv"] * 3
    assert not asked  # there was nothing to choose from
    assert taken(choose_all(plan, None, 1.6)[0]) == ["winograd", "winograd", "conv"]
    assert len(asked) == 2
    assert taken(choose_all(plan, None, inf)[0]) == ["winograd4"] * 3


@pytest.mark.llvm
@pytest.mark.parametrize("memory", [1.0, 1.5, inf])
def test_models_within_limits_agree_with_numpy(tmp_path, memory):
    graph = network()
    model = Model(graph)
    (x,) = inputs_of(graph)
    with ansor.Database(tmp_path / "tuning.db") as database:
        known(database, model.plan, (6e-3, 4e-3, 3e-3))
        exe = model.compile(database, memory=memory, workers=0)
    (right,) = interpret(graph, [x])
    (found,) = exe(x)
    assert np.abs(found - right).max() < 1e-4 * np.abs(right).max()
    plain = Model(graph, alternatives=()).compile(workers=0)
    packed = exe.memory.constants / plain.memory.constants
    assert packed <= 1.02 * memory  # kernels may round layouts up
    assert (memory == 1) == (packed < 1.02)


@pytest.mark.llvm
def test_workers_believe_the_same():
    plan = Model(network()).plan
    found = {way.task.key: way.task for step in plan.subgraphs for way in step.ways}
    tasks = list(found.values())
    with Workshop(1) as shop, Workshop(0) as alone:
        assert shop.estimate(tasks) == alone.estimate(tasks)
        assert len(shop._idle) == 1
        shop._idle[0].shutdown(socket.SHUT_RDWR)  # whoever fails is not needed
        assert shop.estimate(tasks[:2]) == alone.estimate(tasks[:2])
