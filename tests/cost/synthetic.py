"""Features made up, and times that depend on them in a way a model can find."""

import numpy as np

from ansor.cost.columns import READ
from ansor.cost.features import Features
from ansor.cost.sample import Sample

COUNT = len(READ)


def features(points: int, seed: int = 0, statements: int = 2) -> Features:
    """Random columns; the analytic seconds follow the first two."""
    rng = np.random.default_rng(seed)
    made = rng.normal(4, 2, (statements, COUNT, points)).astype(np.float32)
    values = made.transpose(0, 2, 1)  # one column lies together, as in the real ones
    seconds = np.exp(0.3 * values[..., 0] + 0.2 * values[..., 1] - 12)
    return Features(values, seconds.astype(np.float32))


def times(made: Features, factor: float = 1.0) -> np.ndarray:
    """What the programs take: steps and a trend on top of the analytic seconds."""
    x = made.values.astype(np.float64)
    missed = 1.2 * (x[..., 2] > 4) - 0.8 * (x[..., 3] > x[..., 4]) + 0.2 * x[..., 5]
    return (made.seconds * np.exp(missed)).sum(0) * factor


def sample(
    points: int,
    seed: int = 0,
    task: str = "a",
    factor: float = 1.0,
    statements: int = 2,
) -> Sample:
    made = features(points, seed, statements)
    return Sample(task, made, times(made, factor))
