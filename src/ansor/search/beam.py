"""Beam search over incomplete programs, as Halide's scheduler does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ansor.search.evolution import Evolution, EvolutionPolicy, Gene
from ansor.search.judge import Floats, Judge
from ansor.space.points import distinct
from ansor.space.sketch import Sketch
from ansor.space.table import Matrix

NEVER = 1 << 30


@dataclass(frozen=True)
class Beam:
    """How wide the search is."""

    width: int = 32  # incomplete programs that are kept
    completions: int = 6  # of each choice, of which the best one counts
    pool: int = 128  # points of each sketch that completions are taken from
    passes: int = 4  # for one batch, at most


@dataclass(frozen=True)
class State:
    """An incomplete program: a sketch with some of its knobs decided."""

    sketch: int
    decided: int = 0  # so many, in the order of decisions
    values: tuple[int, ...] = ()  # of these


@dataclass
class _Sketch:
    """A sketch, the order of its decisions, and points that complete a program."""

    sketch: Sketch
    order: list[int]
    pool: Matrix = field(repr=False)


class BeamPolicy(EvolutionPolicy):
    """Decides knob by knob, stage by stage, outer loops before inner ones.

    An incomplete program is worth what the judge believes of its best completion, of a
    few at random; the best ones are kept at every step. What is left at the end is
    measured, the judge learns, and the next batch begins anew.
    """

    def __init__(
        self,
        sketches: Sequence[Sketch],
        seed: int,
        judge: Judge,
        beam: Beam = Beam(),  # noqa: B008 - frozen
    ) -> None:
        super().__init__(sketches, seed, judge, Evolution(explore=NEVER, random=0.0))
        self.beam = beam

    def _evolved(self, count: int) -> list[tuple[int, Matrix]]:
        """The final beams of several passes, the best believed first."""
        found: dict[Gene, Matrix] = {}
        for _ in range(self.beam.passes if count > 0 else 0):
            for at, row in self._pass():
                gene = Gene(at, row.tobytes())
                if gene not in self._seen:
                    found.setdefault(gene, row)
            if len(found) >= count:
                break
        return [(gene.sketch, row) for gene, row in found.items()][:count]

    def _pass(self) -> list[tuple[int, Matrix]]:
        """Complete programs, the best believed first."""
        assert self.space is not None
        parts = [
            _Sketch(
                sketch,
                _order(sketch),
                distinct(sketch.sample(self.beam.pool, self._rng)),
            )
            for sketch in self.space.sketches
        ]
        beam = [State(at) for at, part in enumerate(parts) if len(part.pool)]
        beam = self._kept(parts, beam)
        while any(state.decided < len(parts[state.sketch].order) for state in beam):
            beam = self._kept(parts, [s for b in beam for s in _choices(parts, b)])
        return [(state.sketch, _row(parts, state)) for state in beam]

    def _kept(self, parts: list[_Sketch], states: list[State]) -> list[State]:
        """The best states, each judged by its best completion."""
        scores = np.full(len(states), np.inf)
        for at, part in enumerate(parts):
            numbers = [n for n, state in enumerate(states) if state.sketch == at]
            if numbers:
                scores[numbers] = self._worth(part, [states[n] for n in numbers])
        best = np.argsort(scores, kind="stable")[: self.beam.width]
        return [states[n] for n in best if np.isfinite(scores[n])]

    def _worth(self, part: _Sketch, states: list[State]) -> Floats:
        """Seconds of the best of some completions; infinite where none can run."""
        several = self.beam.completions
        rows = self._rng.integers(len(part.pool), size=len(states) * several)
        points = part.pool[rows]
        for n, state in enumerate(states):
            columns = part.order[: state.decided]
            points[n * several : (n + 1) * several, columns] = state.values
        seconds = np.full(len(points), np.inf)
        runs = part.sketch.feasible(points)
        if runs.any():
            belief = self._judge.believe(part.sketch, points[runs])
            courage = self.settings.courage if self._measured else 0.0
            seconds[runs] = belief.optimistic(courage)
        best: Floats = seconds.reshape(len(states), several).min(1)
        return best

    def is_done(self, best: float | None) -> str:
        return ""


def _choices(parts: list[_Sketch], state: State) -> list[State]:
    """A state with its next knob decided in every way; complete ones stay."""
    part = parts[state.sketch]
    if state.decided == len(part.order):
        return [state]
    knob = part.sketch.knobs[part.order[state.decided]]
    return [
        State(state.sketch, state.decided + 1, (*state.values, value))
        for value in knob.candidates
    ]


def _order(sketch: Sketch) -> list[int]:
    """Knobs as they are decided: by stage, consumers first, then by level."""
    groups = sketch.table.groups
    levels = {c: n for group in groups for n, c in enumerate(group.columns)}
    return sorted(
        range(len(sketch.knobs)), key=lambda c: (-int(sketch.knob_stages[c]), levels[c])
    )


def _row(parts: list[_Sketch], state: State) -> Matrix:
    part = parts[state.sketch]
    row = np.zeros(len(part.order), np.int32)
    row[part.order] = state.values
    return row
