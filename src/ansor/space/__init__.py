"""The answers: derivation rules, sketches, sampling, mutation, crossover, limits."""

from ansor.space.derive import derive, sketches
from ansor.space.sketch import Sketch

__all__ = ["Sketch", "derive", "sketches"]
