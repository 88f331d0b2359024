"""What any learner makes of measured programs: a model on top of the analytic one.

A program takes sum over its statements of analytic seconds * exp(f(features)), where f
is learned: per statement, though only whole programs are measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from ansor.cost.columns import COLUMNS, READ, VERSION
from ansor.cost.features import Features
from ansor.cost.sample import MEMBERS, TINY, Doubles, Floats, Prediction, Rows, Sample
from ansor.cost.stored import read, read_model, write_model
from ansor.errors import CostError
from ansor.reading import Data

LEAST = 4  # programs, before anything is learned from them
FURTHEST = 3.0  # of f: no statement is thought to differ by more than exp(3)
UNKNOWN = 0.5  # the spread where nothing was learned: a factor of about 1.6
TRUST = (1.0, 0.75, 0.5, 0.25, 0.0)  # how much of a prior may count
STANDING = 8  # programs' worth of evidence for a prior, before any are measured
SMALL = 1e-9  # a loss that is no loss
MAX_PARTS = 16

FIELDS = ("features", "columns", "learner", "parts")


class Regressor(Protocol):
    """Functions f of the features of statements, one of each member of an ensemble."""

    def predict(self, values: Floats) -> Floats:
        """float32[members, rows] of float32[rows, columns], in any memory order."""

    def to_data(self) -> object:
        """What the learner's `read` takes; ready for JSON."""


class Learner(Protocol):
    """Makes regressors. The same rows and generator make the same one."""

    @property
    def name(self) -> str: ...

    def learn(
        self, rows: Rows, weights: Doubles, rng: np.random.Generator
    ) -> Regressor:
        """A function for each row of `weights`, [members, programs]: one that makes
        the error small by these weights."""

    def read(self, what: str, data: object, columns: int) -> Regressor:
        """What `to_data` wrote; checks everything, raises CostError."""


@dataclass(frozen=True)
class Part:
    """Something learned earlier, and how much of it counts."""

    learner: Learner
    regressor: Regressor
    trust: float = 1.0


@dataclass
class LearnedModel:
    """The analytic seconds, corrected by what a learner found.

    `fit` starts anew from the analytic model and `prior`: things learned earlier, from
    other tasks or machines, which count as far as the samples agree with them. A model
    that was loaded has what it knew as its prior.
    """

    learner: Learner
    seed: int = 0
    prior: tuple[Part, ...] = ()
    latest: Regressor | None = field(default=None, init=False)
    _trust: float = field(default=1.0, init=False)  # in the prior
    _belief: float = field(default=1.0, init=False)  # in the latest
    _offsets: dict[str, float] = field(default_factory=dict, init=False)

    @property
    def name(self) -> str:
        return self.learner.name

    def fit(self, samples: Sequence[Sample]) -> None:
        rows = Rows.of(samples)
        if not len(rows):
            return
        _check_columns(rows.values.shape[1])
        before = _mean(self.prior, rows.values).astype(np.float64)
        self._trust = _trust(rows, before)
        rows = rows.after(self._trust * before)
        self.latest = None
        learned = np.zeros(len(rows.values))
        if len(rows) >= LEAST:
            learned = self._learn(rows)
        self._offsets = rows.offsets(rows.errors(learned)[0])

    def _learn(self, rows: Rows) -> Doubles:
        """Make `latest`, if it is of use; what it says of the rows."""
        rng = np.random.default_rng(self.seed)
        weights = rows.bootstraps(MEMBERS, rng)
        found = self.learner.learn(rows, weights, rng)
        said = _clipped(found.predict(rows.values)).astype(np.float64)
        self._belief = _belief(rows, weights, said)
        self.latest = found if self._belief else None
        learned: Doubles = self._belief * said.mean(0)
        return learned

    def predict(self, features: Features, task: str = "") -> Prediction:
        """With a `task` that `fit` has seen, seconds are scaled to its measurements;
        the order of points is the same without."""
        logs = self._logs(features) + self._offsets.get(task, 0.0)
        spread = logs.std(0) if len(logs) > 1 else np.full(logs.shape[1], UNKNOWN)
        return Prediction(np.exp(logs.mean(0)), spread)

    def _logs(self, features: Features) -> Doubles:
        """log seconds of each member's opinion: [members, points]."""
        total = np.zeros((1, features.seconds.shape[1]), np.float32)
        for seconds, values in zip(features.seconds, features.values, strict=True):
            _check_columns(values.shape[1])
            total = total + seconds * np.exp(self._opinions(values))
        return np.log(np.maximum(total, TINY), dtype=np.float64)

    def _opinions(self, values: Floats) -> Floats:
        """f of each member: [members, rows]; one member where nothing is learned."""
        trust = np.float32(self._trust)
        if self.latest is None and self.prior:
            *earlier, last = self.prior
            said = np.float32(last.trust) * _clipped(last.regressor.predict(values))
            return trust * (said + _mean(earlier, values))
        before = trust * _mean(self.prior, values)[None]
        if self.latest is None:
            return before
        said = _clipped(self.latest.predict(values))
        return before + np.float32(self._belief) * said

    def as_prior(self) -> Self:
        """A fresh model of the same kind that knows what this one has learned."""
        return type(self)(self.learner, self.seed, self.parts)

    @property
    def parts(self) -> tuple[Part, ...]:
        earlier = tuple(
            Part(x.learner, x.regressor, x.trust * self._trust)
            for x in self.prior
            if x.trust * self._trust > 0
        )
        if self.latest is None:
            return earlier
        return (*earlier, Part(self.learner, self.latest, self._belief))

    def save(self, path: str | Path) -> None:
        """Write what it knows as text. Offsets of tasks are not kept: they belong to
        one machine on one day."""
        parts = [
            {"learner": x.learner.name, "trust": x.trust, "data": x.regressor.to_data()}
            for x in self.parts[-MAX_PARTS:]
        ]
        write_model(
            Path(path),
            {
                "features": VERSION,
                "columns": len(COLUMNS),
                "learner": self.learner.name,
                "parts": parts,
            },
        )


def read_parts(path: Path) -> tuple[str, list[tuple[str, float, object]]]:
    """The learner of a stored model, and (learner, trust, data) of its parts."""
    what = f"model {str(path)!r}"
    data = read_model(path, FIELDS)
    _check_version(what, data)
    entries = read.list(f"{what}, parts", data["parts"], MAX_PARTS)
    parts = []
    for entry in entries:
        found = read.fields(f"{what}, a part", entry, ("learner", "trust", "data"))
        trust = found["trust"]
        if not isinstance(trust, int | float) or not 0 <= trust <= 1:
            raise CostError(what, f"trust {trust!r} is not from 0 to 1")
        parts.append((read.text(what, found["learner"]), float(trust), found["data"]))
    return read.text(f"{what}, learner", data["learner"]), parts


def _check_version(what: str, data: Data) -> None:
    columns = len(COLUMNS)
    if (data["features"], data["columns"]) != (VERSION, columns):
        raise CostError(
            what,
            f"was trained on features of version {data['features']!r} with "
            f"{data['columns']!r} columns, this release has version {VERSION} with "
            f"{columns}",
            "train it again from a database",
        )


def _check_columns(found: int) -> None:
    if found != len(READ):
        raise CostError(
            f"features with {found} columns",
            f"the models of this release take {len(READ)}",
            "make features with ansor.cost.features.extract",
        )


def _trust(rows: Rows, before: Doubles) -> float:
    """How much of a prior counts: all of it until the samples speak against it."""
    alone = max(rows.loss(np.zeros_like(before)), SMALL)

    def doubt(trust: float) -> float:
        ratio = rows.loss(trust * before) / alone
        return len(rows) * ratio + STANDING * (1 - trust) ** 2

    return min(TRUST, key=doubt)


def _belief(rows: Rows, weights: Doubles, said: Doubles) -> float:
    """How much of what members say, [members, rows], is borne out by the programs that
    they have not seen."""
    unseen = weights == 0
    judges = unseen.sum(0)
    programs = np.flatnonzero(judges)
    if not len(programs):
        return 1.0
    votes = np.where(unseen[:, rows.program], said, 0).sum(0)
    part, chosen = rows.subset(programs)
    heard = votes[chosen] / judges[programs][part.program]
    return min(TRUST, key=lambda trust: part.loss(trust * heard))


def _mean(parts: Sequence[Part], values: Floats) -> Floats:
    """What earlier parts say together; the mean of the members of each."""
    total = np.zeros(len(values), np.float32)
    for part in parts:
        said = _clipped(part.regressor.predict(values))
        total += np.float32(part.trust) * said.mean(0)
    return total


def _clipped(said: Floats) -> Floats:
    return np.clip(said, -FURTHEST, FURTHEST)
