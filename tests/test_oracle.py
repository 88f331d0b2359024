"""Random programs: NumPy reference = interpreter = machine code."""

from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ansor.codegen import emit, runtime
from ansor.schedule.lower import hoist, unroll, vectorize
from oracle import check
from strategies import make_case

many = settings(max_examples=500, deadline=None, suppress_health_check=[*HealthCheck])
LOW_SEEDS = 200
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
def test_they_agree_where_small_programs_rarely_go(monkeypatch) -> None:
    """With limits so low that every loop is hoisted from, and little is unrolled,
    copied or kept on the stack."""
    monkeypatch.setattr(hoist, "SHORTEST", {"serial": 2, "vectorize": 2})
    monkeypatch.setattr(unroll, "MAX_STATEMENTS", 6)
    monkeypatch.setattr(vectorize, "MAX_COPIES", 1)
    monkeypatch.setattr(emit, "MAX_STACK", 64)
    monkeypatch.setattr(emit, "MAX_BLOCKS", 1)
    for seed in range(LOW_SEEDS):
        check(make_case(Random(50_000 + seed)), f"seed {50_000 + seed}, low limits")


@pytest.mark.llvm
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(10))
def test_reference_interpreter_and_kernel_agree_10000_times(part: int) -> None:
    for seed in range(part * 1000, part * 1000 + 1000):
        check(make_case(Random(seed)), f"seed {seed}")
