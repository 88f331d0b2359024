"""Policies by name: the search, and what it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ansor.cost.model import CostModel, default_model
from ansor.errors import MeasureError
from ansor.search.evolution import Evolution, EvolutionPolicy
from ansor.search.judge import Indifferent, ModelJudge
from ansor.search.policy import Policy, RandomPolicy
from ansor.space.sketch import Sketch
from ansor.te.task import Task

Make = Callable[[Task, Sequence[Sketch], int, CostModel], Policy]

POLICIES: dict[str, Make] = {
    "evolution": lambda task, sketches, seed, model: EvolutionPolicy(
        sketches, seed, ModelJudge(model, task)
    ),
    # Drawn at random, nothing learnt.
    "random": lambda task, sketches, seed, model: RandomPolicy(sketches, seed),
    # Mutations of the best measured ones; no model.
    "mutation": lambda task, sketches, seed, model: EvolutionPolicy(
        sketches, seed, Indifferent()
    ),
    # The model chooses among random points; nothing is mutated.
    "sampling": lambda task, sketches, seed, model: EvolutionPolicy(
        sketches, seed, ModelJudge(model, task), Evolution(generations=0, local=0.0)
    ),
}


def make_policy(
    name: str,
    task: Task,
    sketches: Sequence[Sketch],
    seed: int,
    model: CostModel | None = None,
) -> Policy:
    """The policy of this name for the sketches of a task."""
    check_policy(name)
    chosen = default_model(seed) if model is None else model
    return POLICIES[name](task, sketches, seed, chosen)


def check_policy(name: str) -> None:
    if name not in POLICIES:
        known = ", ".join(map(repr, POLICIES))
        raise MeasureError(f"policy {name!r}", "unknown", f"policies are {known}")
