"""Policies by name: the search, and what it is compared with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ansor.cost.model import CostModel, default_model
from ansor.errors import MeasureError
from ansor.search.beam import BeamPolicy
from ansor.search.evolution import Evolution, EvolutionPolicy
from ansor.search.judge import Indifferent, ModelJudge
from ansor.search.policy import Policy, RandomPolicy
from ansor.search.transfer import Start
from ansor.space.divisors import divided
from ansor.space.sketch import Sketch
from ansor.te.task import Task

TRANSFERS = ("evolution",)  # the others are there to compare with
Make = Callable[[Task, Sequence[Sketch], int, CostModel], Policy]

POLICIES: dict[str, Make] = {
    "evolution": lambda task, sketches, seed, model: EvolutionPolicy(
        sketches, seed, ModelJudge(model, task)
    ),
    # Knob by knob, the best incomplete programs are kept: Halide's way.
    "beam": lambda task, sketches, seed, model: BeamPolicy(
        sketches, seed, ModelJudge(model, task)
    ),
    # The same evolution in the original's space: divisors, nothing packed.
    "divisors": lambda task, sketches, seed, model: EvolutionPolicy(
        divided(sketches), seed, ModelJudge(model, task)
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
    start: Start | None = None,
) -> Policy:
    """The policy of this name for the sketches of a task; for one of TRANSFERS, with
    what other tasks have taught."""
    check_policy(name)
    chosen = default_model(seed) if model is None else model
    if start is not None and name in TRANSFERS:
        judge = ModelJudge(chosen, task, start.prior)
        return EvolutionPolicy(sketches, seed, judge, seeds=start.seeds)
    return POLICIES[name](task, sketches, seed, chosen)


def check_policy(name: str) -> None:
    if name not in POLICIES:
        known = ", ".join(map(repr, POLICIES))
        raise MeasureError(f"policy {name!r}", "unknown", f"policies are {known}")
