"""How good a model is: does it rank programs as the machine does?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from ansor.cost.model import CostModel
from ansor.cost.sample import Doubles, Sample

TOP = 30  # programs, of recall


@dataclass(frozen=True)
class Scores:
    """Of one task, or the mean over tasks."""

    pairwise: float  # of pairs of programs, how many are in the right order
    recall: float  # of the TOP fastest programs, how many the model has among its own
    r2: float  # of normalised throughput: fastest seconds / seconds
    programs: int

    def __str__(self) -> str:
        return (
            f"pairwise {self.pairwise:.3f}, recall@{TOP} {self.recall:.3f}, "
            f"R2 {self.r2:.3f} ({self.programs} programs)"
        )


def evaluate(model: CostModel, samples: Sequence[Sample]) -> dict[str, Scores]:
    """Scores of each task among the samples that has two programs or more."""
    found: dict[str, Scores] = {}
    for task in dict.fromkeys(sample.task for sample in samples):
        own = [sample for sample in samples if sample.task == task]
        seconds = np.concatenate([sample.seconds for sample in own])
        guesses = [model.predict(sample.features).seconds for sample in own]
        is_timed = np.isfinite(seconds)
        if is_timed.sum() > 1:
            guessed = np.concatenate(guesses)[is_timed]
            found[task] = score(guessed, seconds[is_timed])
    return found


def score(predicted: Doubles, measured: Doubles) -> Scores:
    """Of programs of one task; predictions may be off by any one factor.

    >>> score(np.array([1.0, 2.0, 3.0]), np.array([2.0, 4.0, 6.0])).pairwise
    1.0
    """
    return Scores(
        pairwise_accuracy(predicted, measured),
        recall(predicted, measured, TOP),
        r_squared(predicted.min() / predicted, measured.min() / measured),
        len(measured),
    )


def mean(scores: Iterable[Scores]) -> Scores:
    """Every task counts the same."""
    every = list(scores)
    return Scores(
        float(np.mean([x.pairwise for x in every])),
        float(np.mean([x.recall for x in every])),
        float(np.mean([x.r2 for x in every])),
        sum(x.programs for x in every),
    )


def pairwise_accuracy(predicted: Doubles, measured: Doubles) -> float:
    """Pairs that the machine finds equal do not count; a model's ties count half."""
    one, other = np.triu_indices(len(measured), 1)
    truth = np.sign(measured[one] - measured[other])
    guess = np.sign(predicted[one] - predicted[other])
    decided = truth != 0
    if not decided.any():
        return 1.0
    return float(np.mean((1 + truth[decided] * guess[decided]) / 2))


def recall(predicted: Doubles, measured: Doubles, top: int) -> float:
    """Of the fastest `top` programs, how many are among the `top` best predicted."""
    count = min(top, len(measured))
    best = np.argsort(measured, kind="stable")[:count]
    chosen = np.argsort(predicted, kind="stable")[:count]
    return len(np.intersect1d(best, chosen)) / count


def r_squared(predicted: Doubles, measured: Doubles) -> float:
    """1 if all is explained, 0 if no more than by the mean."""
    total = float(np.sum((measured - measured.mean()) ** 2))
    left = float(np.sum((measured - predicted) ** 2))
    return 1 - left / total if total else float(left == 0)
