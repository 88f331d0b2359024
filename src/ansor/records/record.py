"""One measurement as it is kept: of what, where, by whom, with which outcome."""

from __future__ import annotations

from dataclasses import dataclass, field

from ansor.errors import RecordError
from ansor.reading import Data
from ansor.records.outcome import Failed, Outcome, Timed
from ansor.records.text import read

ROLES = (
    "trial",  # a candidate of the search
    "final",  # one of the best few, timed again in turn with the others
)
PROGRAM_FIELDS = ("version", "workload", "trace", "steps", "point")
MAX_VERSIONS = 32
MAX_FINGERPRINT = 10_000


@dataclass(frozen=True)
class Record:
    """What the database holds of one measurement.

    `program` is what `ansor.schedule.to_data` gives: data, to be replayed on a task
    whose stages have the names they had then (`Database.task_of`). Records share parts
    of it: do not change it in place.
    """

    workload: str  # task.key
    target: str  # target.fingerprint
    program: Data
    outcome: Outcome
    role: str = "trial"  # one of ROLES
    spent: float = 0.0  # seconds of wall-clock that this measurement cost
    verified: str = ""  # how the output was checked; empty: it was not
    versions: dict[str, str] = field(default_factory=dict)  # ansor, llvm, numpy, python
    host: str = ""  # the machine, as a hash
    created: float = 0.0  # seconds since 1970
    id: int | None = None  # the row, once stored
    form: str = ""  # the DAG with its names, as a hash, once stored

    def __post_init__(self) -> None:
        what = "record"
        read.text(f"{what}, workload", self.workload)
        read.text(f"{what}, target", self.target, MAX_FINGERPRINT)
        read.text(f"{what}, verified", self.verified)
        read.text(f"{what}, host", self.host)
        read_versions(f"{what}, versions", self.versions)
        if not isinstance(self.outcome, (Timed, Failed)):
            raise RecordError(
                what, f"its outcome is of type {type(self.outcome).__name__}"
            )
        if self.role not in ROLES:
            raise RecordError(
                what, f"unknown role {self.role!r}", f"use one of {', '.join(ROLES)}"
            )
        for name in ("spent", "created"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or not 0 <= value < 1e12:
                raise RecordError(what, f"{name}={value!r} is not a number from 0")
            object.__setattr__(self, name, float(value))
        _check_program(what, self.program, self.workload)

    @property
    def seconds(self) -> float | None:
        """The estimate of one call, if the program was timed."""
        outcome = self.outcome
        return outcome.estimate if isinstance(outcome, Timed) else None


def read_versions(what: str, data: object) -> dict[str, str]:
    found = read.dictionary(what, data)
    if len(found) > MAX_VERSIONS:
        raise RecordError(what, f"{len(found)} entries, more than {MAX_VERSIONS}")
    return {
        read.text(f"{what}, a name", name): read.text(f"{what}, {name}", value)
        for name, value in found.items()
    }


def _check_program(what: str, program: Data, workload: str) -> None:
    """The outermost fields; replaying checks the rest."""
    if not isinstance(program, dict) or set(program) != set(PROGRAM_FIELDS):
        raise RecordError(
            what,
            "its program has other fields than a program's data",
            f"fields are {', '.join(PROGRAM_FIELDS)}: see ansor.schedule.to_data",
        )
    if program["workload"] != workload:
        raise RecordError(
            what, f"its program computes another workload than {workload}"
        )
    if not isinstance(program["point"], dict):
        raise RecordError(what, "the point of its program is not a dictionary")
