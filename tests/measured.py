"""A small task, and as many records of it as a test wants."""

import ansor
from ansor.records.outcome import Failed, Timed
from ansor.records.record import Record
from ansor.schedule import Knob, Sketch, Split, to_data
from ansor.target import Target
from ansor.te.task import Task

HERE = Target("aarch64", cpu="neoverse-n1", cores=2)
CHOICES = tuple(range(1, 501))


def doubling(name: str = "B", size: int = 1024, target: Target = HERE) -> Task:
    A = ansor.placeholder((size,), name="A")
    return Task(ansor.compute((size,), lambda i: A[i] * 2.0, name=name), target)


def split(task: Task, value: int) -> dict[str, object]:
    stage = task.dag.stages[-1].name
    knob = Knob("t", CHOICES)
    return to_data(Sketch(task, (Split(stage, "i", (knob,)),)).program((value,)))


def measured(task: Task, n: int = 1, **changes: object) -> Record:
    """The n-th record: program n, which takes n microseconds; every tenth failed."""
    failed = Failed("run", "timeout", f"program {n} ran over 1 s")
    timed = Timed((n * 1e-6, n * 1.1e-6, n * 1e-6))
    values: dict[str, object] = {
        "outcome": timed if n % 10 else failed,
        "spent": 0.1,
        "verified": "seed 7" if n % 10 else "",
        "versions": {"ansor": "0.1.0", "llvm": "22.1"},
        "host": "h0",
        "created": 1e9 + n,
    }
    program = split(task, 1 + (n - 1) % len(CHOICES))
    return Record(
        task.key, task.target.fingerprint, program, **{**values, **changes}
    )  # fmt: skip
