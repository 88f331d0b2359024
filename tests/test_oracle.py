"""Random programs: NumPy reference = interpreter = machine code."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansor.codegen import runtime
from oracle import check
from strategies import make_case

many = settings(max_examples=500, deadline=None, suppress_health_check=[*HealthCheck])
SEEDS = 300  # Hypothesis prefers small cases; these are of any size, but do not shrink


@pytest.fixture(autouse=True)
def _same_threads() -> Iterator[None]:
    before = runtime.threads()
    yield
    runtime.set_threads(before)


@pytest.mark.llvm
@many
@given(st.randoms(use_true_random=False))
def test_reference_interpreter_and_kernel_agree(random: Random) -> None:
    check(make_case(random))


@pytest.mark.llvm
def test_reference_interpreter_and_kernel_agree_on_larger_cases() -> None:
    for seed in range(SEEDS):
        check(make_case(Random(-1 - seed)), f"seed {-1 - seed}")


@pytest.mark.llvm
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(10))
def test_reference_interpreter_and_kernel_agree_10000_times(part: int) -> None:
    for seed in range(part * 1000, part * 1000 + 1000):
        check(make_case(Random(seed)), f"seed {seed}")
