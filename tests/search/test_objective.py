"""Objectives: what they say of times, and what they refuse."""

import pytest

import ansor
from ansor.search.objective import (
    Deadlines,
    Network,
    Patient,
    Speedup,
    Total,
    bound,
    patience,
    value,
)

ONE, TWO = Network("one", {0: 1, 1: 2}), Network("two", {1: 1})


def test_the_default_is_the_weighted_sum():
    assert bound(None, [2.0, 3.0])([1.0, 10.0]) == 32.0
    assert bound(Total((ONE, TWO)), [1, 1])([1.0, 10.0]) == 31.0


def test_a_network_within_its_deadline_has_nothing_to_gain():
    goal = bound(Deadlines((30.0, 5.0), (ONE, TWO)), [1, 1])
    assert goal([1.0, 10.0]) == goal([0.0, 10.0]) == 40.0
    assert goal([1.0, 8.0]) == 38.0
    assert goal([1.0, 1.0]) == 35.0


def test_a_deadline_of_one_network_is_for_all_tasks():
    assert bound(Deadlines(5.0), [1, 2])([4.0, 1.0]) == 6.0


def test_speedup_is_a_geometric_mean():
    goal = bound(Speedup((21.0, 40.0), (ONE, TWO)), [1, 1])
    assert goal([1.0, 10.0]) == pytest.approx(0.5)
    assert goal([2.0, 20.0]) == pytest.approx(1.0)


def test_patience_wraps_another_objective():
    goal = bound(Patient(32, Deadlines(5.0)), [1, 2])
    assert patience(goal) == 32
    assert goal([4.0, 1.0]) == 6.0
    assert patience(bound(None, [1])) == float("inf")


def test_any_function_will_do():
    assert value(bound(max, [1, 1]), [3.0, 4.0]) == 4.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Network("empty", {}), "network 'empty': calls no task"),
        (lambda: Network("odd", {0: -1}), "calls task 0 -1 times"),
        (lambda: Network("odd", {-1: 1}), "-1 is not the number of a task"),
        (lambda: bound(Total((TWO,)), [1]), "calls task 1, but there are 1"),
        (lambda: bound(Deadlines((1.0, 2.0)), [1]), "has 1 networks"),
        (lambda: bound(Speedup(-1.0), [1]), "is not a time above 0"),
        (lambda: Patient(0), "is below 1"),
        (lambda: Patient(1.5), "is not a number of trials"),
        (lambda: bound("sum", [1]), "cannot be called"),
        (lambda: value(lambda times: float("nan"), [1.0]), "is nan where"),
    ],
)
def test_nonsense_is_named(make, message):
    with pytest.raises(ansor.MeasureError, match=message):
        make()
