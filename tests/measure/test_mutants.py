"""Faulty kernels are caught, and right ones are not accused.

Mutants are made of lowered programs (see `mutations`), compiled, and checked in
processes of their own; a crash is a fault that was caught. Mutants that are no faults
are told by the rule of `equivalence`.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

import ansor
from ansor.codegen import runtime
from ansor.ir.expr import Binary, Buffer, Const, Load, Var
from ansor.ir.stmt import Allocate, For, Function, Seq, Stmt, Store
from ansor.measure import check
from ansor.measure.problem import Problem
from ansor.schedule.program import Program
from ansor.space import sketches
from ansor.target import Target
from ansor.te.dag import DAG
from ansor.te.task import Task
from ansor.te.workloads import MORE, WORKLOADS, outputs, workload
from measure.equivalence import equivalent
from measure.harness import Candidate, forked, once, thorough
from measure.mutations import Mutant, mutants

pytestmark = pytest.mark.llvm

# Small versions, with more rows where a fault in one of few would show by chance only.
SUBJECTS = {
    "matmul-relu": {},
    "GMM512": {},
    "matmul-int8": {},
    "matmul-bfloat16": {},
    "matmul-chain": {},
    "R50a-nhwc": {},
    "R50b-nchw": {},
    "conv-bias-bn-relu": {},
    "SFM": {"m": 37},
    "LNG": {"m": 11},
    "NRM": {},
    "max-pool": {},
    "argmax-rows": {"m": 149},
    "min-rows": {"m": 149},
    "transpose-copy": {},
    "prefix-sum": {},
    "concat": {},
    "gather": {},
}
OUTSIDE = ("written behind", "written before", "input written")
CAUGHT = 0.99  # of all mutants, at least


@dataclass(frozen=True)
class Fate:
    """What became of a mutant: how it was caught, or "alive"."""

    subject: str
    mutant: Mutant
    how: str

    def __str__(self) -> str:
        return f"{self.subject}, {self.mutant.kind}: {self.mutant.place}"


def task_of(name: str) -> Task:
    row = workload(name)
    sizes = {**row.sizes, **row.tiny, **SUBJECTS.get(name, {})}
    made = row.expression(batch=row.small_batch, **sizes)
    return Task(list(outputs(made)), replace(Target("cpu"), cores=2))


@cache
def problem_of(name: str) -> Problem:
    return Problem.create(task_of(name).dag, 5)


def programs(name: str, count: int, seed: int) -> list[Program]:
    """Points of the first sketch and of others, spread over all."""
    task = task_of(name)
    every = sketches(task)
    rng = np.random.default_rng(seed)
    chosen = [every[0], *(every[len(every) * n // count] for n in range(count))]
    found = []
    for sketch in chosen:
        points = sketch.sample(1, int(rng.integers(1 << 30)))
        found += [sketch.program(tuple(map(int, point))) for point in points]
    return found


def candidate(program: Program) -> Candidate:
    lowered = program.lower("kernel")
    functions = (lowered.main, *lowered.prepare)
    return Candidate(functions, program.task.dag, program.task.target)


def fates(name: str, count: int, sketches: int, seed: int) -> Iterator[Fate]:
    """The fates of `count` mutants of each program, equivalent ones left out."""
    rng = np.random.default_rng(seed)
    problem = problem_of(name)
    for program in programs(name, sketches, seed):
        original = candidate(program)
        for mutant in mutants(original.functions, rng)[:count]:
            faulty = replace(original, functions=mutant.functions)
            how, verdict = forked(thorough, faulty, problem)
            if how == "refused":  # no code, so there is nothing that could run
                continue
            if not verdict.ok:
                yield Fate(name, mutant, how)
            elif not equivalent(faulty, original):
                yield Fate(name, mutant, "alive")


@pytest.fixture(scope="module", autouse=True)
def _ready():
    """What children share: compiled before they are forked."""
    runtime.addresses()
    check.checked_imports()


def judge(found: list[Fate], least: float) -> None:
    alive = [fate for fate in found if fate.how == "alive"]
    report = "\n".join(map(str, alive))
    assert not [x for x in alive if x.mutant.kind in OUTSIDE], report
    assert len(alive) <= (1 - least) * len(found), report


def test_some_mutants_are_caught():
    names = list(SUBJECTS)
    found = [x for name in names[::3] for x in fates(name, 5, 1, seed=1)]
    assert len(found) > 40
    judge(found, 0.94)  # of so few, a single one is 2 %


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_mutants_are_caught(record_property):
    found = [x for name in SUBJECTS for x in fates(name, 12, 4, seed=2)]
    how = Counter(fate.how for fate in found)
    for key in ("first", "crash", "after timing", "second", "exit", "alive"):
        record_property(key, how[key])
    assert len(found) >= 300
    assert {x.mutant.kind for x in found} >= set(OUTSIDE)
    judge(found, CAUGHT)


# -- racing reductions -----------------------------------------------------------


def racing(m: int, n: int, k: int) -> tuple[DAG, Function]:
    """A product whose reduction runs in parallel: sums get lost."""
    A = ansor.placeholder((m, k), name="A")
    B = ansor.placeholder((k, n), name="B")
    r = ansor.reduce_axis(k)
    C = ansor.compute(
        (m, n), lambda i, j: ansor.sum(A[i, r] * B[r, j], axis=r), name="C"
    )
    dag = DAG.build([C])
    a, b, c = (*dag.inputs, *dag.outputs)
    x, y, z = Var("x"), Var("y"), Var("z")
    product = Binary("mul", Load(a, (x, z)), Load(b, (z, y)))
    total = Binary("add", Load(c, (x, y)), product)
    clear = _nest((x, m), (y, n), Store(c, (x, y), Const(0.0, "float32")))
    add = For(z, k, _nest((x, m), (y, n), Store(c, (x, y), total)), "parallel")
    return dag, Function("kernel", (a, b, c), Seq((clear, add)))


def shared(m: int, n: int) -> tuple[DAG, Function]:
    """Rows that are worked out in a temporary which all threads share."""
    A = ansor.placeholder((m, n), name="A")
    B = ansor.compute((m, n), lambda i, j: A[i, j] * 2.0, name="B")
    dag = DAG.build([B])
    a, b = (*dag.inputs, *dag.outputs)
    row = Buffer("row", (n,), "float32")
    x, y = Var("x"), Var("y")
    double = Binary("mul", Load(a, (x, y)), Const(2.0, "float32"))
    work = Seq((
        For(y, n, Store(row, (y,), double)),
        For(y, n, Store(b, (x, y), Load(row, (y,)))),
    ))  # fmt: skip
    return dag, Function("kernel", (a, b), Allocate(row, For(x, m, work, "parallel")))


def _nest(outer: tuple[Var, int], inner: tuple[Var, int], body: Stmt) -> Stmt:
    return For(*outer, For(*inner, body))


SUMS = ((1, 1, 2), (3, 5, 7), (16, 32, 512), (4, 1024, 128), (1, 8, 65536))


def verdict_of(dag: DAG, function: Function) -> bool:
    problem = Problem.create(dag, 0)
    racy = Candidate((function,), dag, Target.host())
    _, verdict = forked(thorough, racy, problem)
    problem.close()
    return verdict.ok


@pytest.mark.parametrize("sizes", SUMS)
def test_racing_sums_are_caught(sizes):
    """Whatever the threads do: the second check does not leave it to them."""
    assert not verdict_of(*racing(*sizes))


@pytest.mark.skipif(runtime.threads() < 2, reason="needs two threads")
def test_a_temporary_that_threads_share_is_caught():
    assert not all(verdict_of(*shared(2048, 512)) for _ in range(5))


# -- right programs --------------------------------------------------------------

EVERY = (*WORKLOADS, *MORE)


def accused(name: str, count: int, seed: int) -> list[str]:
    problem = problem_of(name)
    found = []
    for program in programs(name, count, seed):
        how, verdict = forked(thorough, candidate(program), problem)
        if not verdict.ok:
            found.append(f"{name}: {how}, {verdict.message}\n{program}")
    return found


@pytest.mark.parametrize("name", EVERY)
def test_right_programs_pass(name):
    assert accused(name, 1, seed=3) == []


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", EVERY)
def test_ten_thousand_right_programs_pass(name):
    assert accused(name, -(-10_000 // len(EVERY)), seed=4) == []


def test_a_program_is_checked_once_in_a_process_of_its_own():
    program = programs("GMM512", 0, seed=0)[0]
    how, verdict = forked(once, candidate(program), problem_of("GMM512"))
    assert (how, verdict.ok) == ("first", True)
