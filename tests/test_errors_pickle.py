"""Errors cross process boundaries with their text."""

import pickle

import pytest

from ansor import errors

CLASSES = [
    value
    for value in vars(errors).values()
    if isinstance(value, type) and issubclass(value, errors.AnsorError)
]
ARGUMENTS = [("what",), ("what", "reason"), ("what", "reason", "do this")]


@pytest.mark.parametrize("arguments", ARGUMENTS, ids=len)
@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_an_error_keeps_class_and_text_through_pickle(cls, arguments):
    error = cls(*arguments)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is cls
    assert str(copy) == str(error)


def test_text_is_what_reason_and_hint():
    error = errors.ScheduleError("split i -> [0]", "0 is below 1", "use lengths from 1")
    assert str(error) == "split i -> [0]: 0 is below 1\n  hint: use lengths from 1"


def test_every_error_is_an_ansor_error():
    own = [x for x in vars(errors).values() if isinstance(x, type)]
    assert own == CLASSES
