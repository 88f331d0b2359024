"""A ridge regression that trees stand on: with few programs, most of what the analytic
model misses is a trend, which trees of a few leaves only draw in steps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ansor.cost.learned import Learner, Regressor
from ansor.cost.sample import MEMBERS, Doubles, Floats, Rows
from ansor.cost.stored import read, read_array

RIDGES = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)  # programs' worth of doubt
ROUNDS = 2  # of linearising: shares of statements change with what is learned
FURTHEST = 3.0  # deviations from the mean: beyond, inputs count as this far
LEAST = 1e-4  # deviation of a column that varies at all

BELIEVED = 0.5  # of the trend; what stands on it learns the rest
CHUNK = 4096  # rows at a time: they stay in the cache
PRODUCT = 2048  # rows of a product, too small to be worth threads of BLAS

FIELDS = ("mean", "scale", "weights")


@dataclass(frozen=True)
class Trend:
    """f = weights * how far each column is from its mean, for each member."""

    mean: Floats  # [columns]
    scale: Floats  # [columns]; 0 where a column does not vary
    weights: Floats  # [members, columns]

    def predict(self, values: Floats) -> Floats:
        """f of each member: float32[members, rows]."""
        out = np.zeros((len(self.weights), len(values)), np.float32)
        columns = np.flatnonzero(self.scale)
        reach = FURTHEST / self.scale[columns]
        mean = self.mean[columns]
        low, high = (mean - reach)[:, None], (mean + reach)[:, None]
        slopes = (self.weights * self.scale)[:, columns]
        for start in range(0, len(values), CHUNK):
            part = slice(start, start + CHUNK)
            taken = values[part].T[columns]
            np.clip(taken, low, high, out=taken)
            for at in range(0, taken.shape[1], PRODUCT):
                rows = slice(start + at, start + min(at + PRODUCT, CHUNK))
                np.matmul(slopes, taken[:, at : at + PRODUCT], out=out[:, rows])
        out -= (slopes @ mean)[:, None]
        return out

    def to_data(self) -> object:
        return {name: getattr(self, name).tolist() for name in FIELDS}


@dataclass(frozen=True)
class OnTrend:
    """A learner that starts from half of the trend in the rows."""

    upper: Learner

    @property
    def name(self) -> str:
        return self.upper.name

    def learn(self, rows: Rows, weights: Doubles, rng: np.random.Generator) -> Stacked:
        trend = learn_trend(rows, weights)
        said = trend.predict(rows.values).mean(0, dtype=np.float64)
        return Stacked(trend, self.upper.learn(rows.after(said), weights, rng))

    def read(self, what: str, data: object, columns: int) -> Stacked:
        found = read.fields(what, data, ("trend", "upper"))
        upper = self.upper.read(what, found["upper"], columns)
        return Stacked(read_trend(what, found["trend"], columns), upper)


@dataclass(frozen=True)
class Stacked:
    """The sum of a trend and of what was learned on top of it, member by member."""

    trend: Trend
    upper: Regressor

    def predict(self, values: Floats) -> Floats:
        """f of each member: float32[members, rows]."""
        return self.trend.predict(values) + self.upper.predict(values)

    def to_data(self) -> object:
        return {"trend": self.trend.to_data(), "upper": self.upper.to_data()}


def read_trend(what: str, data: object, columns: int) -> Trend:
    found = read.fields(what, data, FIELDS)
    shapes = ((columns,), (columns,), (MEMBERS, columns))
    arrays = (
        read_array(what, found[name], len(shape), shape).astype(np.float32)
        for name, shape in zip(FIELDS, shapes, strict=True)
    )
    return Trend(*arrays)


def learn_trend(rows: Rows, weights: Doubles) -> Trend:
    """The trend in rows, for the weights of each member: float64[members, programs].

    How much is believed is decided by what it says of programs left out.
    """
    deviation = rows.values.std(0)
    varies = deviation > LEAST
    scale = np.where(varies, 1 / np.where(varies, deviation, 1), 0).astype(np.float32)
    start = np.zeros((len(weights), len(scale)), np.float32)
    trend = Trend(rows.values.mean(0), scale, start)
    deviations = (rows.values - trend.mean) * scale
    inputs = np.clip(deviations, -FURTHEST, FURTHEST).astype(np.float64)
    ridge = _ridge(rows, inputs)
    found = [_solve(rows, inputs, weight, ridge) for weight in weights]
    return Trend(trend.mean, scale, BELIEVED * np.array(found, np.float32))


def _solve(rows: Rows, inputs: Doubles, weight: Doubles, ridge: float) -> Doubles:
    found: Doubles = np.zeros(inputs.shape[1])
    for _ in range(ROUNDS):
        design, wanted = _linearised(rows, inputs, weight, found)
        scaled = design * weight[:, None]
        matrix = design.T @ scaled + ridge * np.eye(len(found))
        found = np.asarray(np.linalg.solve(matrix, scaled.T @ wanted), np.float64)
    return found


def _linearised(
    rows: Rows, inputs: Doubles, weight: Doubles, found: Doubles
) -> tuple[Doubles, Doubles]:
    """Per program: inputs by the share of the statement, and what they should sum to;
    both inside the tasks."""
    errors, shares = rows.errors(inputs @ found)
    design = np.zeros((len(rows), inputs.shape[1]))
    np.add.at(design, rows.program, inputs * shares[:, None])
    wanted = design @ found - errors
    return rows.centred(design, weight), rows.centred(wanted, weight)


def _ridge(rows: Rows, inputs: Doubles) -> float:
    """The ridge whose predictions of programs that are left out err least."""
    weight = rows.weight
    design, wanted = _linearised(rows, inputs, weight, np.zeros(inputs.shape[1]))
    root = np.sqrt(weight)
    values, sizes, _ = np.linalg.svd(design * root[:, None], full_matrices=False)
    target = wanted * root
    losses = []
    for ridge in RIDGES:
        shrunk = sizes**2 / (sizes**2 + ridge)
        left = target - values @ (shrunk * (values.T @ target))
        own = np.minimum((values**2) @ shrunk, 0.99)
        losses.append(float(np.sum((left / (1 - own)) ** 2)))
    return RIDGES[int(np.argmin(losses))]
