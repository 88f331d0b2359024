"""What the tests of the database share."""

from collections.abc import Callable

import pytest

from ansor.records.record import Record
from ansor.te.task import Task
from measured import doubling, measured


@pytest.fixture
def make_task() -> Callable[..., Task]:
    return doubling


@pytest.fixture
def make() -> Callable[..., Record]:
    return measured


@pytest.fixture
def task() -> Task:
    return doubling()
