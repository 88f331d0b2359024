"""Programs as data: there and back, and what is refused."""

import copy
import json
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ansor
from ansor.schedule import (
    STEPS,
    Annotate,
    CacheRead,
    CacheWrite,
    ComputeAt,
    ComputeRoot,
    Follow,
    Fuse,
    Inline,
    Knob,
    LayoutRewrite,
    Pack,
    Prefetch,
    Program,
    Reorder,
    RFactor,
    Sketch,
    Split,
    from_data,
    sketch_from_data,
    sketch_to_data,
    to_data,
)
from ansor.schedule.data import MAX_CANDIDATES, MAX_ENTRIES, MAX_STEPS, MAX_TEXT
from strategies import make_case

SEEDS = 300
A = ansor.placeholder((31, 24), name="A")
W = ansor.placeholder((24, 16), name="W", constant=True)
K = ansor.reduce_axis(24, name="k")
P = ansor.compute((31, 24), lambda i, j: A[i, j] * 2.0, name="P")
C = ansor.compute((31, 16), lambda i, j: ansor.sum(P[i, K] * W[K, j], axis=K), name="C")
TASK = ansor.Task(C)
KEY = TASK.key
OTHER = ansor.Task(ansor.compute((31, 24), lambda i, j: A[i, j] + 1.0, name="P"))

TILE = Knob("tile", (4, 8))
SPLIT = Split("C", "k", (TILE,))
CASES = {
    "no steps": (),
    "split": (Split("C", "i", (TILE, 2), "peel"), Split("C", "j", (3,), "equal")),
    "split, shift": (Split("P", "i", (5,), "shift"),),
    "split, follow": (SPLIT, Split("P", "j", (Follow("C", "k.1"),))),
    "split, one knob twice": (SPLIT, Split("C", "i", (TILE,))),
    "fuse": (Fuse("C", ("i", "j")),),
    "reorder": (Reorder("C", ("k", "j", "i")),),
    "annotate": (Annotate("C", "j", "vectorize"),),
    "prefetch": (Prefetch("C", "k", "P", 2),),
    "compute-at": (ComputeAt("P", "C", "i"),),
    "compute-root": (ComputeAt("P", "C", "i"), ComputeRoot("P")),
    "inline": (Inline("P"),),
    "cache-read": (CacheRead("A", "P", "shared"),),
    "cache-write": (CacheWrite("C", "packed"),),
    "pack": (SPLIT, Pack("W", "C", "k.0")),
    "pack, whole": (Pack("W", "C"),),
    "pack, ahead of time": (SPLIT, LayoutRewrite("W", "C")),
    "rfactor": (SPLIT, RFactor("C", "k.1")),
}


def program(steps):
    sketch = Sketch(TASK, steps, trace=("tile C", "pack W"))
    return sketch.program((8,) * len(sketch.knobs))


def there_and_back(given):
    """Through JSON text and back; the text must not change on the way."""
    text = json.dumps(to_data(given), sort_keys=True)
    back = from_data(given.task, json.loads(text))
    assert json.dumps(to_data(back), sort_keys=True) == text
    assert to_data(back) == to_data(given)
    return back


@pytest.mark.parametrize("steps", CASES.values(), ids=CASES)
def test_programs_come_back(steps):
    before = program(steps)
    after = there_and_back(before)
    assert after == before
    assert after.sketch.trace == ("tile C", "pack W")
    assert str(after) == str(before)


def test_the_cases_hold_every_kind_of_step():
    assert {type(step) for steps in CASES.values() for step in steps} == {
        *STEPS.values()
    }


@pytest.mark.parametrize("steps", CASES.values(), ids=CASES)
def test_sketches_come_back(steps):
    before = program(steps).sketch
    data = json.loads(json.dumps(sketch_to_data(before)))
    after = sketch_from_data(TASK, data)
    assert (after, after.trace) == (before, before.trace)
    assert sketch_to_data(after) == data


def test_random_programs_come_back():
    for seed in range(SEEDS):
        before = make_case(Random(seed)).program
        assert there_and_back(before) == before, f"seed {seed}"


def test_the_format(golden):
    """Files hold this text: a change of it is a new version."""
    steps = (
        Split("C", "k", (TILE, 2)),
        Split("P", "j", (Follow("C", "k.1"),)),
        LayoutRewrite("W", "C"),
        Reorder("C", ("i", "j", "k.0", "k.1", "k.2")),
        Prefetch("C", "k.0", "P", 2),
    )
    assert golden == json.dumps(to_data(program(steps)), indent=1)


def test_a_task_made_again_takes_the_program():
    again = ansor.Task(C, "cpu", weight=3.0)
    before = program((SPLIT,))
    after = from_data(again, to_data(before))
    assert after.task is again
    assert after.sketch.steps == before.sketch.steps


@dataclass(frozen=True)
class Kept(Sketch):
    """A sketch of a class of its own."""


def test_the_sketch_is_of_the_class_asked_for():
    data = to_data(program((SPLIT,)))
    assert type(from_data(TASK, data, Kept).sketch) is Kept
    del data["point"]
    assert type(sketch_from_data(TASK, data, kind=Kept)) is Kept


def test_an_illegal_sketch_is_not_written():
    with pytest.raises(ansor.ScheduleError, match="no stage 'X'"):
        sketch_to_data(Sketch(TASK, (Inline("X"),)))


# -- what is refused ------------------------------------------------------------------

GOOD = to_data(program((SPLIT, Annotate("C", "j", "vectorize"))))
KINDS = ", ".join(STEPS)
NAMES = "version, workload, trace, steps, point"
SPLIT_NAMES = "step, stage, loop, lengths, tail"


def changed(**fields):
    return {**copy.deepcopy(GOOD), **fields}


def first(**fields):
    """The data with other fields in its first step."""
    data = copy.deepcopy(GOOD)
    data["steps"][0].update(fields)
    return data


def without(name):
    data = copy.deepcopy(GOOD)
    del data[name]
    return data


def first_without(name):
    data = copy.deepcopy(GOOD)
    del data["steps"][0][name]
    return data


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


def knob(name="tile", candidates=(4, 8), **more):
    return first(lengths=[{"knob": name, "candidates": list(candidates), **more}])


REFUSED = {
    "no dictionary": ([1, 2], "program data: a list of 2 is not a dictionary"),
    "text": (json.dumps(GOOD), None),
    "no version": (
        without("version"),
        "program data: field 'version' is missing\n  hint: its fields are " + NAMES,
    ),
    "another version": (
        changed(version=2),
        "program data: version 2 is unknown\n  hint: this release reads version 1",
    ),
    "version true": (
        changed(version=True),
        "program data: version True is unknown\n  hint: this release reads version 1",
    ),
    "no point": (
        without("point"),
        "program data: field 'point' is missing\n  hint: its fields are " + NAMES,
    ),
    "another field": (
        changed(weight=3),
        "program data: field 'weight' is unknown\n  hint: its fields are " + NAMES,
    ),
    "a field that is no text": (
        {**GOOD, 5: 6},
        "program data: field 5 is unknown\n  hint: its fields are " + NAMES,
    ),
    "another workload": (
        changed(workload=OTHER.key),
        f"program data: was written for workload {OTHER.key}, the task is {KEY}\n"
        "  hint: take data of a task that computes the same",
    ),
    "workload is a number": (
        changed(workload=7),
        "program data, workload: 7 is not a text",
    ),
    "trace is a text": (
        changed(trace="tile"),
        "program data, trace: 'tile' is not a list",
    ),
    "trace of numbers": (
        changed(trace=["tile", 1.5]),
        "program data, trace[1]: 1.5 is not a text",
    ),
    "steps is null": (
        changed(steps=None),
        "program data, steps: None is not a list",
    ),
    "too many steps": (
        changed(steps=[{}] * (MAX_STEPS + 1)),
        f"program data, steps: {MAX_STEPS + 1} entries, more than {MAX_STEPS}",
    ),
    "a step that is a text": (
        changed(steps=["split C.i -> [4]"]),
        "program data, steps[0]: 'split C.i -> [4]' is not a dictionary",
    ),
    "a step without a kind": (
        first_without("step"),
        "program data, steps[0]: field 'step' is missing\n  hint: it names the kind",
    ),
    "unknown kind": (
        first(step="spilt"),
        f"program data, steps[0]: unknown kind 'spilt'\n  hint: kinds are {KINDS}",
    ),
    "a kind that is a list": (
        first(step=["split"]),
        f"program data, steps[0]: unknown kind a list of 1\n  hint: kinds are {KINDS}",
    ),
    "missing field": (
        first_without("tail"),
        "program data, steps[0] (split): field 'tail' is missing\n"
        f"  hint: its fields are {SPLIT_NAMES}",
    ),
    "extra field": (
        first(__class__="os.system"),
        "program data, steps[0] (split): field '__class__' is unknown\n"
        f"  hint: its fields are {SPLIT_NAMES}",
    ),
    "a loop that is a list": (
        first(loop=["k"]),
        "program data, steps[0] (split), loop: a list of 1 is not a text",
    ),
    "a loop with a line break": (
        first(loop="k\n"),
        "program data, steps[0] (split), loop: 'k\\n' has characters that do not print",
    ),
    "a long name": (
        first(loop="k" * (MAX_TEXT + 1)),
        f"program data, steps[0] (split), loop: a text of {MAX_TEXT + 1} characters, "
        f"more than {MAX_TEXT}",
    ),
    "lengths is a number": (
        first(lengths=4),
        "program data, steps[0] (split), lengths: 4 is not a list",
    ),
    "too many lengths": (
        first(lengths=[1] * (MAX_ENTRIES + 1)),
        f"program data, steps[0] (split), lengths: {MAX_ENTRIES + 1} entries, "
        f"more than {MAX_ENTRIES}",
    ),
    "a length that is a float": (
        first(lengths=[4.0]),
        "program data, steps[0] (split), lengths[0]: 4.0 is not an integer",
    ),
    "a length that is true": (
        first(lengths=[2, True]),
        "program data, steps[0] (split), lengths[1]: True is not an integer",
    ),
    "a length of 0": (
        first(lengths=[0]),
        "program data, steps[0] (split), lengths[0]: 0 is out of range\n"
        "  hint: use 1 to 2147483647",
    ),
    "a length of many digits": (
        first(lengths=[10**5000]),
        "program data, steps[0] (split), lengths[0]: a 16610-bit integer is out of "
        "range\n  hint: use 1 to 2147483647",
    ),
    "a length that nests deep": (
        first(lengths=nested(100_000)),
        "program data, steps[0] (split), lengths[0]: a list of 1 is not an integer",
    ),
    "a knob without candidates": (
        knob(candidates=()),
        "knob 'tile': no candidates given\n  hint: for example (4, 8, 16)",
    ),
    "a knob with a negative candidate": (
        knob(candidates=(8, -4)),
        "program data, steps[0] (split), lengths[0], candidate 1: -4 is out of range\n"
        "  hint: use 1 to 2147483647",
    ),
    "a knob with many candidates": (
        knob(candidates=[1] * (MAX_CANDIDATES + 1)),
        "program data, steps[0] (split), lengths[0], candidates: "
        f"{MAX_CANDIDATES + 1} entries, more than {MAX_CANDIDATES}",
    ),
    "a knob with another field": (
        knob(value=4),
        "program data, steps[0] (split), lengths[0]: field 'value' is unknown\n"
        "  hint: its fields are knob, candidates",
    ),
    "a knob with two lists of candidates": (
        first(
            lengths=[
                {"knob": "tile", "candidates": [4, 8]},
                {"knob": "tile", "candidates": [4]},
            ]
        ),
        "knob 'tile': candidates (4,) here, (4, 8) in an earlier step\n"
        "  hint: give one of the two another name",
    ),
    "a follow of one name": (
        first(lengths=[{"follow": ["C"]}]),
        "program data, steps[0] (split), lengths[0]: follows 1 names\n"
        "  hint: name a stage and a loop",
    ),
    "a follow of no stage": (
        first(lengths=[{"follow": ["X", "i"]}]),
        "split C.k -> [X.i]: no stage 'X'\n  hint: stages are P, C",
    ),
    "a step that does not apply": (
        first(loop="x"),
        "split C.x -> [?tile]: stage 'C' has no loop 'x'\n  hint: loops are i, j, k",
    ),
    "a step that breaks another": (
        changed(
            steps=[
                {"step": "annotate", "stage": "C", "loop": "k", "kind": "unroll"},
                *GOOD["steps"],
            ]
        ),
        "split C.k -> [?tile]: loop 'k' is unroll\n  hint: split before annotating",
    ),
    "a point that is a list": (
        changed(point=[8]),
        "program data, point: a list of 1 is not a dictionary",
    ),
    "a knob without a value": (
        changed(point={}),
        "program data, point: knob 'tile' has no value\n"
        "  hint: give one value to each knob",
    ),
    "a value for an unknown knob": (
        changed(point={"tile": 8, "tail": 8}),
        "program data, point: no knob 'tail'\n  hint: knobs are tile",
    ),
    "a value that is a text": (
        changed(point={"tile": "8"}),
        "program data, point, tile: '8' is not an integer",
    ),
    "a value that is no candidate": (
        changed(point={"tile": 5}),
        "program with tile = 5: 5 is not a candidate of the knob\n"
        "  hint: use one of 4, 8",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refused(case):
    data, message = case
    with pytest.raises(ansor.ScheduleError) as caught:
        from_data(TASK, data)
    if message is None:  # a whole file as one text: it is cut
        message = f"program data: {data[:40] + '…'!r} is not a dictionary"
    assert str(caught.value) == message


def test_program_data_is_no_sketch_data():
    with pytest.raises(ansor.ScheduleError) as caught:
        sketch_from_data(TASK, GOOD)
    assert str(caught.value) == (
        "sketch data: field 'point' is unknown\n"
        "  hint: its fields are version, workload, trace, steps"
    )


def test_loops_can_nest_as_deep_as_their_names_are_long():
    names = ["k" + ".0" * n for n in range(MAX_TEXT // 2)]
    split = {"step": "split", "stage": "C", "lengths": [1], "tail": "peel"}
    data = changed(steps=[{**split, "loop": name} for name in names], point={})
    sketch = from_data(TASK, data).sketch
    assert sketch.plan.nest("C").is_reduce(names[-1] + ".0")


# -- anything at all ------------------------------------------------------------------

calm = settings(deadline=None, suppress_health_check=[*HealthCheck])
JUNK = (
    *(None, True, False, 0, 1, -1, 2**31, 2**64, 10**5000, 0.5, float("nan")),
    *("", "C", "k", "k.0", "W.packed", "local", "\x00", "\ud800", "x" * 10_000),
    *([], {}, [[]], ["i", "j"], {"follow": ["C", "k"]}, {"knob": "t"}, {5: None}),
)
SEEDED = [to_data(program(steps)) for steps in CASES.values()]


def nodes(data):
    """(container, key) of everything inside some data."""
    entries = ()
    if isinstance(data, dict):
        entries = list(data.items())
    elif isinstance(data, list):
        entries = list(enumerate(data))
    for key, value in entries:
        yield data, key
        yield from nodes(value)


def mutate(data, random):
    """Change one place: junk, something from elsewhere, less, or more."""
    places = list(nodes(data))
    container, key = random.choice(places)
    other, there = random.choice(places)
    found = copy.deepcopy(random.choice((other[there], random.choice(JUNK))))
    match random.randrange(5):
        case 0 | 1 | 2:
            container[key] = found
        case 3:
            del container[key]
        case _ if isinstance(container, list):
            container.insert(key, found)
        case _:
            container[random.choice(("step", "loop", "knob", "z", 5))] = found


@settings(calm, max_examples=400)
@given(st.randoms(use_true_random=False))
def test_changed_data_is_a_program_or_refused(random):
    data = copy.deepcopy(random.choice(SEEDED))
    data["steps"] += copy.deepcopy(random.choice(SEEDED)["steps"])
    for _ in range(random.choice((1, 1, 2, 4))):
        if not data:
            break
        mutate(data, random)
    read(data)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@settings(calm, max_examples=50)
@given(json_values, json_values)
def test_any_json_is_refused(steps, point):
    read(changed(steps=steps, point=point))
    read(first(lengths=steps))
    read(steps)


def read(data):
    """Nothing but a program, which comes back from its own data, or ScheduleError."""
    try:
        after = from_data(TASK, data)
    except ansor.ScheduleError:
        return
    assert isinstance(after, Program)
    assert from_data(TASK, to_data(after)) == after
