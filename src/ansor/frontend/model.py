"""A model: its graph, the tasks it consists of, and the way to machine code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING

from ansor.errors import ModelError
from ansor.frontend.executor import Executable
from ansor.frontend.graph import Graph, Value
from ansor.frontend.partition import USUAL, checked, partition
from ansor.frontend.passes import optimise
from ansor.frontend.subgraph import Candidate, Plan
from ansor.frontend.units import choose_all
from ansor.frontend.ways import MEMORY, within
from ansor.frontend.workshop import Workshop
from ansor.target import Target
from ansor.te.task import Task

if TYPE_CHECKING:  # memory that is not needed to compile
    from ansor.cost.model import CostModel
    from ansor.measure.runner import Runner
    from ansor.records.database import Database
    from ansor.search.chooser import Chooser
    from ansor.search.objective import Objective
    from ansor.search.progress import OverviewListener, OverviewStop
    from ansor.search.results import Results

__all__ = ["Executable", "Model"]


@dataclass(frozen=True, init=False, eq=False)
class Model:
    """A whole network, as an importer made it; for this machine unless a target is
    given.

    `alternatives` are the other ways, beside the plain one, in which its subgraphs may
    be computed where that is faster: "winograd" and "winograd4" for convolutions unless
    given, none at all with (). They round differently.

    >>> import numpy as np
    >>> from ansor.frontend.builder import Builder
    >>> build = Builder("tiny")
    >>> x = build.input("x", "float32", (2, 8))
    >>> w = build.constant(np.ones((8, 4), np.float32), "w")
    >>> model = Model(build.finish([build.add("relu", build.add("matmul", x, w))]))
    >>> print(model)
    tiny(%x: float32[2, 8]) -> %relu: float32[2, 4]
    2 nodes, 1 constant of 128 bytes
    >>> [(task.flops, weight) for task, weight in model.tasks]
    [(136, 1)]
    >>> exe = model.compile()
    >>> exe(np.ones((2, 8), np.float32))
    (array([[8., 8., 8., 8.],
           [8., 8., 8., 8.]], dtype=float32),)
    """

    graph: Graph  # as imported
    target: Target
    alternatives: tuple[str, ...]

    def __init__(
        self,
        graph: Graph,
        target: Target | str | None = None,
        *,
        alternatives: Iterable[str] | None = None,
    ) -> None:
        if not isinstance(graph, Graph):
            raise ModelError(
                f"model of {graph!r}",
                f"is of type {type(graph).__name__}, not a graph",
                "use ansor.from_onnx or ansor.from_torch",
            )
        graph.check()
        where = target if isinstance(target, Target) else Target(target or "cpu")
        object.__setattr__(self, "graph", graph)
        object.__setattr__(self, "target", where)
        names = USUAL if alternatives is None else checked(alternatives)
        object.__setattr__(self, "alternatives", names)

    @property
    def name(self) -> str:
        return self.graph.name

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[Value, ...]:
        return self.graph.results

    @cached_property
    def plan(self) -> Plan:
        """The graph as kernels and renames, after optimisation."""
        return partition(optimise(self.graph), self.target, self.alternatives)

    @property
    def tasks(self) -> list[tuple[Task, int]]:
        """The distinct tasks and how often each runs, the most work first. Together
        they are the model, once: alternatives are among the `candidates` only."""
        return self.plan.tasks()

    @property
    def candidates(self) -> list[Candidate]:
        """What `tune` tunes, in the order of its results: the tasks, then alternatives
        to them, each with the number of the task it may replace; without those that the
        usual limit of memory has no room for."""
        return self.candidates_within(MEMORY)

    def candidates_within(self, memory: float | None) -> list[Candidate]:
        """Likewise, for `tune` with this limit."""
        return within(self.plan, memory).candidates()

    def tune(
        self,
        *,
        seconds: float | None = None,
        trials: int | None = None,
        database: Database | str | PathLike[str] | None = None,
        seed: int = 0,
        runner: Runner | None = None,
        model: CostModel | None = None,
        policy: str = "evolution",
        objective: Objective | None = None,
        scheduler: str | Chooser = "gradient",
        transfer: bool = True,
        memory: float | None = MEMORY,
        progress: OverviewListener | bool | None = None,
        stop: OverviewStop | None = None,
    ) -> Results:
        """Search for fast programs of all tasks, where the model gains most first.

        Budgets are for the whole model. Keep the `database`: `compile` takes what is
        best in it, and tuning again goes on where it is. See `ansor.tune` for the rest.

        There is a result for each of the `candidates`; an alternative that is not
        likely to be faster has no trials. An objective sees one time for each of the
        `tasks`: that of the fastest alternative. Those that `compile` could not take
        within this limit of `memory` are left out.
        """
        from ansor.search.tune import tune

        candidates = self.candidates_within(memory)
        return tune(
            [x.task for x in candidates],
            places=[x.place for x in candidates],
            weights=[float(weight) for _, weight in self.tasks],
            seconds=seconds,
            trials=trials,
            database=database,
            seed=seed,
            runner=runner,
            model=model,
            policy=policy,
            objective=objective,
            scheduler=scheduler,
            transfer=transfer,
            progress=progress,
            stop=stop,
        )

    def compile(
        self,
        database: Database | str | PathLike[str] | None = None,
        *,
        memory: float | None = MEMORY,
        workers: int | None = None,
    ) -> Executable:
        """Machine code for the whole model. Measures nothing.

        Each task is compiled once, from the best program that the database has for
        this machine and this LLVM, else from the analytic model's choice. Of
        alternatives the one with the smallest time in the database is taken, as long as
        constants are at most `memory` times those of the plain model; where they would
        be more, those that save most for their bytes. math.inf, or None, is no limit.
        The same database gives the same kernels. `workers` processes take part, one for
        each CPU unless given; 0 compiles in this process alone.
        """
        with Workshop(workers) as shop:
            plan, choices = choose_all(self.plan, database, memory, shop.estimate)
            distinct = {id(choice): choice for choice in choices}
            units = shop.compile(list(distinct.values()))
        of_choice = dict(zip(distinct, units, strict=True))
        each = [of_choice[id(choice)] for choice in choices]
        return Executable.link(plan, each, self.target)

    def __str__(self) -> str:
        takes = ", ".join(map(str, self.inputs))
        gives = ", ".join(map(str, self.outputs))
        sizes = [array.nbytes for array in self.graph.constants.values()]
        return (
            f"{self.name}({takes}) -> {gives}\n"
            f"{len(self.graph.nodes)} nodes, {len(sizes)} "
            f"constant{'s' * (len(sizes) != 1)} of {sum(sizes):,} bytes"
        )

    def __repr__(self) -> str:
        return f"<Model {str(self).splitlines()[0]}>"
