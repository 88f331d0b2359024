"""The answers: derivation rules, sketches, sampling, mutation, crossover, limits."""

from ansor.space.constraints import (
    Constraint,
    NoParallel,
    Vectorized,
    Without,
    at_least,
    at_most,
    one_of,
)
from ansor.space.derive import derive, sketches
from ansor.space.population import Population, Space
from ansor.space.replay import replay
from ansor.space.rules import Rule
from ansor.space.sketch import Sketch

__all__ = [
    "Constraint",
    "NoParallel",
    "Population",
    "Rule",
    "Sketch",
    "Space",
    "Vectorized",
    "Without",
    "at_least",
    "at_most",
    "derive",
    "one_of",
    "replay",
    "sketches",
]
