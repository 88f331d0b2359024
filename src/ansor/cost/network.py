"""A small neural network in NumPy: all members of the ensemble at once."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ansor.cost.sample import MEMBERS, TINY, Doubles, Floats, Rows
from ansor.cost.stored import read, read_array

HIDDEN = 32  # units of each of the two layers
STEPS = 200
RATE = 0.01
DECAY = 1e-3  # of the weights, for each step at the full rate
BATCH = 2048  # programs of a step, at most
CHUNK = 8192  # rows predicted at a time
FURTHEST = 4.0  # deviations from the mean: beyond, inputs count as this far

FIELDS = ("mean", "scale", "first", "second", "last")


@dataclass(frozen=True)
class Network:
    """An ensemble of perceptrons with two hidden layers, trained by Adam."""

    name = "network"

    def learn(
        self, rows: Rows, weights: Doubles, rng: np.random.Generator
    ) -> Perceptrons:
        mean, deviation = rows.values.mean(0), rows.values.std(0)
        scale = np.where(deviation > 1e-4, 1 / np.maximum(deviation, 1e-4), 0)
        made = _untrained(mean, scale.astype(np.float32), rng)
        _train(made, rows, weights, rng)
        return made

    def read(self, what: str, data: object, columns: int) -> Perceptrons:
        found = read.fields(what, data, FIELDS)
        inputs, units = columns + 1, HIDDEN + 1
        shapes: dict[str, tuple[int, ...]] = {
            "mean": (columns,),
            "scale": (columns,),
            "first": (MEMBERS, inputs, HIDDEN),
            "second": (MEMBERS, units, HIDDEN),
            "last": (MEMBERS, units, 1),
        }
        arrays = [
            read_array(what, found[name], len(shape), shape).astype(np.float32)
            for name, shape in shapes.items()
        ]
        return Perceptrons(*arrays)


@dataclass(frozen=True)
class Perceptrons:
    """Weights of all members; the last row of each layer is added, whatever comes."""

    mean: Floats  # [columns]
    scale: Floats  # [columns]
    first: Floats  # [members, columns + 1, HIDDEN]
    second: Floats  # [members, HIDDEN + 1, HIDDEN]
    last: Floats  # [members, HIDDEN + 1, 1]

    @property
    def layers(self) -> tuple[Floats, Floats, Floats]:
        return self.first, self.second, self.last

    def predict(self, values: Floats) -> Floats:
        """f of each member: float32[members, rows]."""
        out = np.zeros((len(self.first), len(values)), np.float32)
        for start in range(0, len(values), CHUNK):
            part = slice(start, start + CHUNK)
            out[:, part] = self.forward(self.inputs(values[part]))[-1][..., 0]
        return out

    def inputs(self, values: Floats) -> Floats:
        """Columns as deviations from their mean."""
        deviations = (values - self.mean) * self.scale
        return np.clip(deviations, -FURTHEST, FURTHEST, out=deviations)

    def forward(self, inputs: Floats) -> list[Floats]:
        """What each layer puts out: [members, rows, units]."""
        found: list[Floats] = []
        given = inputs
        for number, layer in enumerate(self.layers):
            out = given @ layer[:, :-1] + layer[:, -1:]
            if number < 2:
                np.maximum(out, 0, out=out)
            found.append(out)
            given = out
        return found

    def to_data(self) -> object:
        return {name: getattr(self, name).tolist() for name in FIELDS}


def _untrained(mean: Floats, scale: Floats, rng: np.random.Generator) -> Perceptrons:
    """Random weights whose last layer says 0: the analytic model is the start."""

    def layer(inputs: int, outputs: int, size: float) -> Floats:
        made = rng.standard_normal((MEMBERS, inputs + 1, outputs)) * size
        made[:, -1] = 0
        return made.astype(np.float32)

    columns = len(mean)
    return Perceptrons(
        mean,
        scale,
        layer(columns, HIDDEN, (2 / max(1, int((scale > 0).sum()))) ** 0.5),
        layer(HIDDEN, HIDDEN, (2 / HIDDEN) ** 0.5),
        layer(HIDDEN, 1, 0.0),
    )


def _train(
    network: Perceptrons, rows: Rows, weights: Doubles, rng: np.random.Generator
) -> None:
    """Change the weights in place. The rate falls to nothing like a cosine."""
    inputs = network.inputs(rows.values)
    states = [Adam(layer) for layer in network.layers]
    for step in range(STEPS):
        rate = RATE * 0.5 * (1 + np.cos(np.pi * step / STEPS))
        part, some, weight = rows, inputs, weights
        if len(rows) > BATCH:
            programs = rng.permutation(len(rows))[:BATCH]
            part, chosen = rows.subset(programs)
            some, weight = inputs[chosen], weights[:, programs]
        gradients = _gradients(network, part, some, weight)
        for state, gradient in zip(states, gradients, strict=True):
            state.step(gradient, step + 1, rate)


def _gradients(
    network: Perceptrons, rows: Rows, inputs: Floats, weights: Doubles
) -> list[Floats]:
    """Of the mean weighted error, with respect to each layer."""
    outputs = network.forward(inputs)
    pulls = [
        rows.slopes(f.astype(np.float64), weight)[0] / max(weight.sum(), TINY)
        for f, weight in zip(outputs[-1][..., 0], weights, strict=True)
    ]
    back = np.stack(pulls)[..., None].astype(np.float32)
    given = [np.broadcast_to(inputs, (len(back), *inputs.shape)), *outputs[:-1]]
    found: list[Floats] = []
    for number in (2, 1, 0):
        slope = given[number].transpose(0, 2, 1) @ back
        found.insert(0, np.concatenate([slope, back.sum(1, keepdims=True)], 1))
        layer = network.layers[number]
        back = back @ layer[:, :-1].transpose(0, 2, 1)
        if number:
            back *= given[number] > 0
    return found


@dataclass
class Adam:
    """Adam with decoupled decay, for one array that it changes in place."""

    values: Floats
    first: Floats = field(init=False)
    second: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.first = np.zeros_like(self.values)
        self.second = np.zeros_like(self.values)

    def step(self, gradient: Floats, count: int, rate: float) -> None:
        self.first += 0.1 * (gradient - self.first)
        self.second += 0.001 * (gradient * gradient - self.second)
        mean = self.first / (1 - 0.9**count)
        size = np.sqrt(self.second / (1 - 0.999**count)) + 1e-8
        self.values -= rate * (mean / size + DECAY * self.values)
