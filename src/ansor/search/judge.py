"""What a policy believes about points that were not measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ansor.cost.features import extract
from ansor.cost.model import AnalyticModel, CostModel
from ansor.cost.sample import Sample, task_key
from ansor.cost.scores import evaluate
from ansor.space.sketch import Sketch
from ansor.space.table import Matrix
from ansor.te.task import Task

OWN = 8  # how much a trial counts against one of another task
ENOUGH = 32  # trials, from which on only they count

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Belief:
    """Seconds of each point, and how unsure they are (deviation of the logarithm)."""

    seconds: Floats
    spread: Floats

    def optimistic(self, courage: float) -> Floats:
        """What it may take if things go well."""
        result: Floats = self.seconds * np.exp(-courage * self.spread)
        return result


@dataclass(frozen=True)
class Trials:
    """Measured points of one sketch; infinite seconds for those that failed."""

    sketch: Sketch
    points: Matrix
    seconds: Floats


class Judge(Protocol):
    """Guesses the time of points of one task's sketches, and learns from trials."""

    def believe(self, sketch: Sketch, points: Matrix) -> Belief:
        """One entry per point. Must work before anything was learnt."""

    def learn(self, trials: Sequence[Trials]) -> None:
        """All trials of the task so far; called again as there are more."""


class Indifferent:
    """Believes nothing: every point is as good as any other."""

    def believe(self, sketch: Sketch, points: Matrix) -> Belief:
        return Belief(np.ones(len(points)), np.zeros(len(points)))

    def learn(self, trials: Sequence[Trials]) -> None:
        pass


@dataclass(frozen=True)
class Prior:
    """Trials of other tasks, and a model that has learnt from them and nothing else."""

    samples: tuple[Sample, ...]
    model: CostModel


class ModelJudge:
    """A cost model over features: analytic before the first trial, learnt after.

    With a `prior` it learns from other tasks, too, its own trials counting OWN times as
    much: until there are ENOUGH of them, and only while the prior's model ranks them no
    worse than the analytic seconds do.
    """

    def __init__(
        self, model: CostModel, task: Task, prior: Prior | None = None
    ) -> None:
        self._model = model
        self._key = task_key(task)
        self._known: dict[int, tuple[Sketch, int, Sample]] = {}
        self._prior = prior

    def believe(self, sketch: Sketch, points: Matrix) -> Belief:
        found = self._model.predict(extract(sketch, points), self._key)
        return Belief(found.seconds, found.spread)

    def learn(self, trials: Sequence[Trials]) -> None:
        samples = [self._sample(part) for part in trials]
        if self._prior is not None and self._is_of_use(self._prior, samples):
            samples = [*self._prior.samples, *samples * OWN]
        self._model.fit(samples)

    def _is_of_use(self, prior: Prior, samples: Sequence[Sample]) -> bool:
        if sum(len(sample.seconds) for sample in samples) >= ENOUGH:
            return False
        known, analytic = (
            evaluate(model, samples).get(self._key)
            for model in (prior.model, AnalyticModel())
        )
        if known is None or analytic is None:
            return False  # nothing to judge it by
        return known.pairwise >= analytic.pairwise

    def _sample(self, part: Trials) -> Sample:
        """Features of the points, taken once; by the sketch's identity."""
        known = self._known.get(id(part.sketch))
        if known is None or known[1] != len(part.points):
            made = Sample(self._key, extract(part.sketch, part.points), part.seconds)
            known = self._known[id(part.sketch)] = (part.sketch, len(part.points), made)
        return known[2]
