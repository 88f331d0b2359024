"""What one measurement left behind: times, or the stage that failed and why."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from numbers import Real
from statistics import median
from typing import TypeAlias

from ansor.errors import RecordError
from ansor.reading import Data, brief
from ansor.records.text import message, number, plain, read

STAGES = ("lower", "build", "load", "check", "run")
CAUSES = (
    "refused",  # an error that says why
    "crash",  # a signal ended the process
    "timeout",
    "memory",
    "exit",  # the process left on its own
    "silent",  # the process ended or closed its pipe without a reply
    "wrong",  # the output differs from the reference
    "lost",  # the machine or its worker went away; says nothing about the program
)
MAX_SAMPLES = 100_000


@dataclass(frozen=True)
class Timed:
    """The program ran, and its output matched the reference.

    >>> Timed((2.0, 4.0, 3.0)).estimate
    3.0
    >>> Timed((2.0, 4.0), anchor=(1.0, 2.0), anchor_seconds=1.5).estimate
    3.0
    """

    seconds: tuple[float, ...]  # of one call, raw samples in order, never empty
    anchor: tuple[float, ...] = ()  # the incumbent, timed in turn with them
    anchor_seconds: float | None = None  # what the incumbent is known to take
    disturbed: bool = False  # other load was seen until the end
    stopped: bool = False  # ended early: it cannot win

    def __post_init__(self) -> None:
        what = "timed outcome"
        for name in ("seconds", "anchor"):
            values = _seconds(f"{what}, {name}", getattr(self, name))
            object.__setattr__(self, name, values)
        if not self.seconds:
            raise RecordError(what, "has no samples", "record a failure instead")
        if len(self.anchor) not in (0, len(self.seconds)):
            raise RecordError(
                what,
                f"{len(self.anchor)} samples of the anchor for {len(self.seconds)}",
                "time the anchor once beside every sample, or not at all",
            )
        if (self.anchor_seconds is None) != (not self.anchor):
            raise RecordError(
                what, "anchor and anchor_seconds are given together or not at all"
            )
        if self.anchor_seconds is not None:
            (known,) = _seconds(f"{what}, anchor_seconds", (self.anchor_seconds,))
            object.__setattr__(self, "anchor_seconds", known)
        if not 0 < self.estimate < inf:
            raise RecordError(what, f"its estimate {self.estimate!r} is not a time")

    @property
    def estimate(self) -> float:
        """Seconds of one call: the one rule by which programs are compared.

        The median; with an anchor, the median ratio to it times its known seconds.
        """
        if self.anchor_seconds is None:
            return median(self.seconds)
        pairs = zip(self.seconds, self.anchor, strict=True)
        return self.anchor_seconds * median(own / other for own, other in pairs)


@dataclass(frozen=True)
class Failed:
    """The program gave no time: where it stopped, by what, and what was said."""

    stage: str  # one of STAGES
    cause: str  # one of CAUSES
    message: str  # never empty; cut if long, odd characters replaced

    def __post_init__(self) -> None:
        what = "failed outcome"
        for name, known in (("stage", STAGES), ("cause", CAUSES)):
            value = getattr(self, name)
            if value not in known:
                raise RecordError(
                    what, f"unknown {name} {value!r}", f"use one of {', '.join(known)}"
                )
        if not isinstance(self.message, str) or not self.message:
            raise RecordError(what, "its message is empty", "say what happened")
        object.__setattr__(self, "message", plain(self.message))

    def __str__(self) -> str:
        return f"{self.stage}, {self.cause}: {self.message}"


Outcome: TypeAlias = Timed | Failed

TIMED_FIELDS = ("seconds", "anchor", "anchor_seconds", "disturbed", "stopped")
FAILED_FIELDS = ("stage", "cause", "message")


def outcome_to_data(outcome: Outcome) -> Data:
    """An outcome ready for JSON.

    >>> outcome_to_data(Failed("run", "timeout", "ran over 10.0 s"))
    {'stage': 'run', 'cause': 'timeout', 'message': 'ran over 10.0 s'}
    """
    if isinstance(outcome, Failed):
        return {name: getattr(outcome, name) for name in FAILED_FIELDS}
    return {
        "seconds": list(outcome.seconds),
        "anchor": list(outcome.anchor),
        "anchor_seconds": outcome.anchor_seconds,
        "disturbed": outcome.disturbed,
        "stopped": outcome.stopped,
    }


def outcome_from_data(data: object) -> Outcome:
    """What `outcome_to_data` was given. Trusts nothing; raises RecordError only."""
    what = "outcome"
    found = read.dictionary(what, data)
    if "stage" in found:
        read.names(what, found, FAILED_FIELDS)
        texts = (message(f"{what}, {name}", found[name]) for name in FAILED_FIELDS)
        return Failed(*texts)
    read.names(what, found, TIMED_FIELDS)
    known = found["anchor_seconds"]
    return Timed(
        seconds=_numbers(f"{what}, seconds", found["seconds"]),
        anchor=_numbers(f"{what}, anchor", found["anchor"]),
        anchor_seconds=(
            None if known is None else number(f"{what}, anchor_seconds", known)
        ),
        disturbed=read.flag(f"{what}, disturbed", found["disturbed"]),
        stopped=read.flag(f"{what}, stopped", found["stopped"]),
    )


def _numbers(what: str, data: object) -> tuple[float, ...]:
    entries = read.list(what, data, MAX_SAMPLES)
    return tuple(number(f"{what}[{n}]", value) for n, value in enumerate(entries))


def _seconds(what: str, values: object) -> tuple[float, ...]:
    """Times as plain floats, whatever kind of number they came as."""
    if not isinstance(values, (tuple, list)):
        raise RecordError(what, f"is of type {type(values).__name__}, not a tuple")
    if len(values) > MAX_SAMPLES:
        raise RecordError(what, f"{len(values)} samples, more than {MAX_SAMPLES}")
    for value in values:
        if not isinstance(value, Real):
            raise RecordError(what, f"{brief(value)} is not a number")
    try:
        found = tuple(map(float, values))
    except OverflowError:
        raise RecordError(what, "holds a number that is too large") from None
    for value in found:
        if not 0 < value < inf:
            raise RecordError(what, f"{value!r} is not a time", "times are above 0")
    return found
