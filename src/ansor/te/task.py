"""A task: one DAG on one target, with a weight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf

from ansor.errors import ExpressionError
from ansor.target import Target
from ansor.te.analysis import count_flops
from ansor.te.dag import DAG
from ansor.te.key import workload_key
from ansor.te.tensor import Tensor


@dataclass(frozen=True, init=False)
class Task:
    """What to compute, where, and how often it occurs.

    `tensors` are the outputs; their inputs are found, in the order of first use. A
    list that names inputs, too, fixes the order of the kernel's arguments: all inputs,
    then the outputs.

    >>> import ansor
    >>> A = ansor.placeholder((64, 64), name="A")
    >>> B = ansor.placeholder((64, 64), name="B")
    >>> C = ansor.ops.matmul(A, B, name="C")
    >>> task = ansor.Task([B, A, C], target="cpu")
    >>> [argument.name for argument in task.dag.arguments], task.flops
    (['B', 'A', 'C'], 524288)
    """

    dag: DAG
    target: Target
    weight: float

    def __init__(
        self,
        tensors: Tensor | Sequence[Tensor],
        target: str | Target = "cpu",
        weight: float = 1.0,
    ) -> None:
        self._set(_dag(tensors), target, weight)

    @classmethod
    def from_dag(
        cls, dag: DAG, target: str | Target = "cpu", weight: float = 1.0
    ) -> Task:
        """The task of a DAG that exists already, for example one that was stored.

        >>> import ansor
        >>> A = ansor.placeholder((4,), name="A")
        >>> task = ansor.Task(ansor.compute((4,), lambda i: A[i] * 2.0, name="B"))
        >>> ansor.Task.from_dag(task.dag, task.target) == task
        True
        """
        if not isinstance(dag, DAG):
            raise ExpressionError(
                f"task of {dag!r}", f"is of type {type(dag).__name__}, not a DAG"
            )
        task = cls.__new__(cls)
        task._set(dag, target, weight)
        return task

    def _set(self, dag: DAG, target: str | Target, weight: float) -> None:
        if not isinstance(weight, (int, float)) or not 0 < weight < inf:
            raise ExpressionError(
                f"weight {weight!r}",
                "is not a positive number",
                "say how often the computation occurs",
            )
        where = target if isinstance(target, Target) else Target(target)
        object.__setattr__(self, "dag", dag)
        object.__setattr__(self, "target", where)
        object.__setattr__(self, "weight", float(weight))

    @cached_property
    def key(self) -> str:
        """The workload key of the DAG; the target and the weight are not part of it."""
        return workload_key(self.dag)

    @cached_property
    def flops(self) -> int:
        """Arithmetic operations of one run."""
        return count_flops(self.dag)

    def __str__(self) -> str:
        return f"{self.dag}\non {self.target}"


def _dag(tensors: Tensor | Sequence[Tensor]) -> DAG:
    if isinstance(tensors, Tensor):
        return DAG.build([tensors])
    if not isinstance(tensors, (list, tuple)):
        raise ExpressionError(
            f"task of {tensors!r}",
            f"is of type {type(tensors).__name__}, not a tensor or a list of tensors",
        )
    inputs = [t for t in tensors if isinstance(t, Tensor) and t.is_input]
    outputs = list(tensors[len(inputs) :])
    if inputs and list(tensors[: len(inputs)]) != inputs:
        raise ExpressionError(
            "arguments of the task", "an output stands before an input",
            "list the inputs first, then the outputs",
        )  # fmt: skip
    return DAG.build(outputs or inputs, inputs)
