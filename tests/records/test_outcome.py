"""Outcomes hold what was measured, and nothing that is no measurement."""

import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansor.errors import RecordError
from ansor.records.outcome import (
    CAUSES,
    STAGES,
    Failed,
    Timed,
    outcome_from_data,
    outcome_to_data,
)

SECONDS = st.floats(1e-9, 1e3)
TIMED = st.builds(
    Timed,
    st.lists(SECONDS, min_size=1, max_size=9).map(tuple),
    disturbed=st.booleans(),
    stopped=st.booleans(),
)
FAILED = st.builds(
    Failed, st.sampled_from(STAGES), st.sampled_from(CAUSES), st.text(min_size=1)
)
PAIRED = st.lists(st.tuples(SECONDS, SECONDS), min_size=1, max_size=9).map(
    lambda pairs: Timed(*map(tuple, zip(*pairs, strict=True)), anchor_seconds=2.5)
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(TIMED | FAILED | PAIRED)
def test_an_outcome_returns_from_json_as_it_was(outcome):
    text = json.dumps(outcome_to_data(outcome), allow_nan=False)
    assert outcome_from_data(json.loads(text)) == outcome
    assert pickle.loads(pickle.dumps(outcome)) == outcome


@given(JSON, st.sampled_from(["", *outcome_to_data(Timed((1.0,))), "stage", "cause"]))
def test_any_data_gives_an_outcome_or_a_record_error(junk, name):
    for base in (Timed((1.0,)), Failed("run", "exit", "left")):
        data = {**outcome_to_data(base), name: junk} if name else junk
        try:
            made = outcome_from_data(data)
        except RecordError:
            continue
        assert isinstance(made, (Timed, Failed))


def test_the_estimate_is_the_median():
    assert Timed((3.0, 1.0, 2.0)).estimate == 2.0


def test_with_an_anchor_drift_cancels():
    slow_machine = Timed((2.0, 4.0, 6.0), (1.0, 2.0, 3.0), anchor_seconds=0.5)
    assert slow_machine.estimate == 1.0


def test_numbers_of_numpy_become_plain():
    timed = Timed(tuple(np.array([1.0, 2.0], np.float32)))
    assert [type(value) for value in timed.seconds] == [float, float]


@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, "1", None])
def test_a_time_is_a_positive_number(bad):
    with pytest.raises(RecordError):
        Timed((1.0, bad))


@pytest.mark.parametrize(
    "arguments",
    [((),), ((1.0,), (1.0, 2.0), 1.0), ((1.0,), (1.0,)), ((1.0,), (), 1.0), (1.0,)],
)
def test_samples_and_anchor_belong_together(arguments):
    with pytest.raises(RecordError):
        Timed(*arguments)


@pytest.mark.parametrize(
    "arguments",
    [("walk", "exit", "x"), ("run", "mood", "x"), ("run", "exit", ""), ([], "exit", 1)],
)
def test_a_failure_names_stage_cause_and_message(arguments):
    with pytest.raises(RecordError):
        Failed(*arguments)


def test_a_message_is_made_fit_to_store():
    failed = Failed("run", "crash", "a\x00b\udc80\nc" + "x" * 10_000)
    assert failed.message.startswith("a?b?\nc")
    assert len(failed.message) == 4000
    failed.message.encode()
