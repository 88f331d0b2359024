"""Cost models: what a program will take, before it is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from ansor.cost import trees
from ansor.cost.boosting import DEEP, Boosting
from ansor.cost.columns import READ
from ansor.cost.features import Features
from ansor.cost.learned import UNKNOWN, LearnedModel, Learner, Part, read_parts
from ansor.cost.linear import OnTrend
from ansor.cost.network import Network
from ansor.cost.sample import Prediction, Sample, task_key
from ansor.errors import CostError

__all__ = [
    "AnalyticModel",
    "CostModel",
    "LearnedModel",
    "Prediction",
    "Sample",
    "default_model",
    "load_model",
    "model_from_name",
    "task_key",
]


class CostModel(Protocol):
    """Predicts how long programs take. Works before the first `fit`: then it gives the
    analytic seconds, and the same spread everywhere.

    Decisions depend on the seed and the samples only: fitted with the same, a model
    predicts the same. Models survive pickling.
    """

    def fit(self, samples: Sequence[Sample]) -> None:
        """Learn from these samples, all that there are: what earlier calls gave is
        forgotten unless it is among them. Without any time in them it changes nothing.
        """

    def predict(self, features: Features, task: str = "") -> Prediction:
        """One entry per point. Seconds compare points of one task; with the `task_key`
        of a task among the samples, they are on the scale of its measurements."""


class AnalyticModel:
    """The analytic seconds as they are."""

    def fit(self, samples: Sequence[Sample]) -> None:
        """It does not learn."""

    def predict(self, features: Features, task: str = "") -> Prediction:
        seconds = features.seconds.sum(0, dtype=np.float64)
        return Prediction(seconds, np.full(len(seconds), UNKNOWN))


LEARNERS: dict[str, Callable[[], Learner]] = {
    "trees": lambda: OnTrend(trees.Trees()),
    "boosting": lambda: OnTrend(Boosting()),
    "deep": lambda: OnTrend(Boosting("deep", DEEP)),
    "network": Network,
}


def model_from_name(name: str, seed: int = 0) -> CostModel:
    """A model that knows nothing yet: "trees" (needs LightGBM), "boosting", "deep" (for
    many programs), "network" or "analytic", which never learns.

    >>> model_from_name("forest")
    Traceback (most recent call last):
    ansor.errors.CostError: cost model 'forest': unknown name
      hint: use one of trees, boosting, deep, network, analytic
    """
    if name == "analytic":
        return AnalyticModel()
    if name == "trees":
        trees.lightgbm()  # or the error that says how to get it
    return LearnedModel(_learner(name), seed)


def default_model(seed: int = 0) -> LearnedModel:
    """The trees in NumPy. LightGBM's rank programs of unseen tasks a little better and
    those of a task that is being tuned a little worse, and take longer for both
    learning and judging. Deep ones know the tasks that they were taught better, but the
    best few programs of an unseen task no better."""
    return LearnedModel(_learner("boosting"), seed)


def load_model(path: str | Path, seed: int = 0) -> LearnedModel:
    """A model as `save` wrote it. What it knows is the prior of later calls of `fit`.

    Refuses, with a CostError, one that was trained on other features.
    """
    name, stored = read_parts(Path(path))
    parts = []
    for part, trust, data in stored:
        learner = _learner(part)
        what = f"model {str(path)!r}, {part}"
        regressor = learner.read(what, data, len(READ))
        parts.append(Part(learner, regressor, trust))
    if name == "trees" and not trees.is_available():
        name = "boosting"  # which goes on from what the trees know
    return LearnedModel(_learner(name), seed, tuple(parts))


def _learner(name: str) -> Learner:
    if name not in LEARNERS:
        known = ", ".join([*LEARNERS, "analytic"])
        raise CostError(f"cost model {name!r}", "unknown name", f"use one of {known}")
    return LEARNERS[name]()
