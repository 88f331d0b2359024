"""The DAG of a task: inputs, stages in order, outputs; plain values throughout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ansor.errors import ExpressionError
from ansor.ir.expr import Buffer, Expr, Load, Var
from ansor.ir.visit import children, rebuild
from ansor.te.stage import LOCATING, Axis, Stage
from ansor.te.tensor import Tensor
from ansor.te.value import IndexVar


@dataclass(frozen=True)
class DAG:
    """Stages in an order where producers come first.

    >>> import ansor
    >>> A = ansor.placeholder((2, 3), name="A")
    >>> k = ansor.reduce_axis(3, name="k")
    >>> S = ansor.compute((2,), lambda i: ansor.sum(A[i, k], axis=k), name="S")
    >>> print(DAG.build([S]))
    A: float32[2, 3]
    S: float32[2]
      S[i] = sum(A[i, k]) over k in 3
    """

    inputs: tuple[Buffer, ...]
    constants: frozenset[str]  # names of constant inputs
    stages: tuple[Stage, ...]
    outputs: tuple[Buffer, ...]
    arguments: tuple[Buffer, ...]  # of the kernel: inputs, then outputs

    @staticmethod
    def build(outputs: Sequence[Tensor], inputs: Sequence[Tensor] = ()) -> DAG:
        """The DAG that computes `outputs`.

        Names that occur twice get a number (A, A_1). Inputs stand in the order of
        their first use, or as `inputs` says, which then names all of them.
        """
        _check_outputs(outputs)
        order = _topological(outputs)
        found = [tensor for tensor in order if tensor.is_input]
        ordered = _order_inputs(found, inputs)
        computed = [tensor for tensor in order if not tensor.is_input]
        names = _unique_names([*ordered, *computed])
        buffers = {t: Buffer(names[t], t.shape, t.dtype) for t in order}
        arguments = tuple(buffers[t] for t in (*ordered, *outputs))
        return DAG(
            inputs=arguments[: len(ordered)],
            constants=frozenset(names[t] for t in ordered if t.constant),
            stages=tuple(_stage(t, buffers) for t in computed),
            outputs=arguments[len(ordered) :],
            arguments=arguments,
        )

    @cached_property
    def _producers(self) -> Mapping[str, Stage]:
        return {b.name: stage for stage in self.stages for b in stage.buffers}

    @cached_property
    def _reads(self) -> Mapping[str, Mapping[str, tuple[Load, ...]]]:
        return {stage.name: _reads(stage) for stage in self.stages}

    def producer(self, name: str) -> Stage | None:
        """The stage that writes the buffer `name`; None for an input."""
        return self._producers.get(name)

    def consumers(self, name: str) -> tuple[Stage, ...]:
        """The stages that read the buffer `name`."""
        return tuple(s for s in self.stages if name in self._reads[s.name])

    def accesses(self, stage: Stage, name: str) -> tuple[Load, ...]:
        """Every load of the buffer `name` in the body of `stage`."""
        return self._reads[stage.name].get(name, ())

    def reads(self, stage: Stage) -> Mapping[str, tuple[Load, ...]]:
        """All loads of `stage` by the name of the buffer, in the order they occur."""
        return self._reads[stage.name]

    def stage(self, name: str) -> Stage:
        """The stage called `name`."""
        found = self._producers.get(name)
        if found is None or found.name != name:
            known = ", ".join(s.name for s in self.stages)
            raise ExpressionError(f"stage {name!r}", "unknown", f"stages are {known}")
        return found

    def __str__(self) -> str:
        lines = []
        for buffer in self.inputs:
            constant = " constant" if buffer.name in self.constants else ""
            lines.append(f"{str(buffer).removesuffix(' global')}{constant}")
        for stage in self.stages:
            lines.append(str(stage.output).removesuffix(" global"))
            lines.append(f"  {stage}")
        return "\n".join(lines)


def _reads(stage: Stage) -> dict[str, tuple[Load, ...]]:
    found: dict[str, tuple[Load, ...]] = {}
    for expr in stage.body:
        for load in _in_order(expr):
            name = load.buffer.name
            found[name] = (*found.get(name, ()), load)
    return found


def _in_order(expr: Expr) -> Iterator[Load]:
    """Loads as they are written, a gather before the loads of its indices."""
    if isinstance(expr, Load):
        yield expr
    for child in children(expr):
        yield from _in_order(child)


def _check_outputs(outputs: Sequence[Tensor]) -> None:
    if not outputs:
        raise ExpressionError("a task without outputs", "there is nothing to compute")
    for i, tensor in enumerate(outputs):
        if not isinstance(tensor, Tensor):
            raise ExpressionError(
                f"output {tensor!r}",
                f"is of type {type(tensor).__name__}, not a tensor",
                "pass what ansor.compute returned",
            )
        if tensor.is_input:
            raise ExpressionError(
                f"output {tensor.name!r}",
                "is a placeholder: there is nothing to compute",
                "copy it with ansor.compute if you need a copy",
            )
        if tensor in outputs[:i]:
            raise ExpressionError(f"output {tensor.name!r}", "is given twice")


def _sources(tensor: Tensor) -> list[Tensor]:
    """The tensors a tensor reads, in the order they occur."""
    if tensor.operation is None:
        return []
    found: dict[Tensor, None] = {}
    for expr in tensor.operation.body:
        for load in _in_order(expr):
            assert isinstance(load.buffer, Tensor)
            found[load.buffer] = None
    return list(found)


def _topological(outputs: Iterable[Tensor]) -> list[Tensor]:
    """Producers first, depth first from the outputs; the graph may be deep."""
    done: dict[Tensor, None] = {}
    stack = [(tensor, False) for tensor in reversed(list(outputs))]
    while stack:
        tensor, expanded = stack.pop()
        if tensor in done:
            continue
        if expanded:
            done[tensor] = None
            continue
        stack.append((tensor, True))
        stack.extend((source, False) for source in reversed(_sources(tensor)))
    return list(done)


def _order_inputs(found: Sequence[Tensor], given: Sequence[Tensor]) -> list[Tensor]:
    if not given:
        return list(found)
    missing = [repr(tensor.name) for tensor in found if tensor not in given]
    if missing:
        raise ExpressionError(
            "arguments of the task",
            f"the outputs read {', '.join(missing)}, which the list lacks",
            "name every input, or none",
        )
    for i, tensor in enumerate(given):
        if tensor not in found:
            raise ExpressionError(f"argument {tensor.name!r}", "no output reads it")
        if tensor in given[:i]:
            raise ExpressionError(f"argument {tensor.name!r}", "is given twice")
    return list(given)


def _unique_names(tensors: Sequence[Tensor]) -> dict[Tensor, str]:
    taken: set[str] = set()
    return {tensor: _unique(tensor.name, taken) for tensor in tensors}


def _unique(name: str, taken: set[str]) -> str:
    """`name`, or the first of name_1, name_2 … that is free; then it is taken."""
    number, unique = 0, name
    while unique in taken:
        number += 1
        unique = f"{name}_{number}"
    taken.add(unique)
    return unique


def _stage(tensor: Tensor, buffers: Mapping[Tensor, Buffer]) -> Stage:
    op = tensor.operation
    assert op is not None
    named = sorted((*op.axes, *op.reduce_axes), key=lambda axis: not axis.named)
    taken: set[str] = set()
    axes = {v: Axis(_unique(v.name, taken), v.extent) for v in named}
    body = tuple(_plain(expr, buffers, axes) for expr in op.body)
    output = buffers[tensor]
    written: tuple[Buffer, ...] = (output,)
    if op.reducer in LOCATING:
        value = Buffer(f"{output.name}.value", output.shape, body[0].dtype)
        written = (value, output)
    return Stage(
        name=output.name,
        axes=tuple(axes[v] for v in op.axes),
        reduce_axes=tuple(axes[v] for v in op.reduce_axes),
        body=body,
        reducer=op.reducer,
        buffers=written,
    )


def _plain(
    expr: Expr, buffers: Mapping[Tensor, Buffer], axes: Mapping[IndexVar, Axis]
) -> Expr:
    """`expr` over plain buffers and variables."""
    if isinstance(expr, IndexVar):
        return Var(axes[expr].name)
    expr = rebuild(expr, lambda e: _plain(e, buffers, axes))
    if isinstance(expr, Load):
        assert isinstance(expr.buffer, Tensor)
        return Load(buffers[expr.buffer], expr.indices)
    return expr
