"""A model: its graph, the tasks it consists of, and the way to machine code."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from os import PathLike

from ansor.cost.model import CostModel
from ansor.errors import ModelError
from ansor.frontend.executor import Executable
from ansor.frontend.graph import Graph, Value
from ansor.frontend.partition import partition
from ansor.frontend.passes import optimise
from ansor.frontend.subgraph import Plan
from ansor.frontend.units import choose
from ansor.frontend.workshop import compile_all
from ansor.measure.runner import Runner
from ansor.records.database import Database
from ansor.search.chooser import Chooser
from ansor.search.objective import Objective
from ansor.search.progress import OverviewListener, OverviewStop
from ansor.search.results import Results
from ansor.search.tune import tune
from ansor.target import Target
from ansor.te.task import Task

__all__ = ["Executable", "Model"]


@dataclass(frozen=True, init=False, eq=False)
class Model:
    """A whole network, as an importer made it; for this machine unless a target is
    given.

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

    def __init__(self, graph: Graph, target: Target | str | None = None) -> None:
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

    @property
    def name(self) -> str:
        return self.graph.name

    @property
    def inputs(self) -> tuple[Value, ...]:
        return self.graph.inputs

    @property
    def outputs(self) -> tuple[Value, ...]:
        return self.graph.outputs

    @cached_property
    def plan(self) -> Plan:
        """The graph as kernels and renames, after optimisation."""
        return partition(optimise(self.graph), self.target)

    @property
    def tasks(self) -> list[tuple[Task, int]]:
        """The distinct tasks and how often each runs, the most work first."""
        return self.plan.tasks()

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
        progress: OverviewListener | bool | None = None,
        stop: OverviewStop | None = None,
    ) -> Results:
        """Search for fast programs of all tasks, where the model gains most first.

        Budgets are for the whole model. Keep the `database`: `compile` takes what is
        best in it, and tuning again goes on where it is. See `ansor.tune` for the rest.
        """
        pairs = self.tasks
        return tune(
            [task for task, _ in pairs],
            weights=[float(weight) for _, weight in pairs],
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
        workers: int | None = None,
    ) -> Executable:
        """Machine code for the whole model. Measures nothing.

        Each task is compiled once, from the best program that the database has for
        this machine and this LLVM, else from the analytic model's choice. The same
        database gives the same kernels. `workers` processes take part, one for each
        CPU unless given; 0 compiles in this process alone.
        """
        distinct = {id(x.task): x.task for x in self.plan.subgraphs}
        units = compile_all(choose(list(distinct.values()), database), workers)
        of_task = dict(zip(distinct, units, strict=True))
        each = [of_task[id(x.task)] for x in self.plan.subgraphs]
        return Executable.link(self.plan, each, self.target)

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
