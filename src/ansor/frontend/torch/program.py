"""A module of PyTorch, through `torch.export`, as a model."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ansor.errors import ModelError, UnsupportedError
from ansor.frontend.builder import Builder
from ansor.frontend.graph import Graph, Value
from ansor.frontend.torch.region import results
from ansor.frontend.torch.split import restore_products
from ansor.frontend.torch.values import to_array
from ansor.frontend.torch.walk import convert_all, tensor_type
from ansor.target import Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor
    from torch.export import ExportedProgram
    from torch.fx import Node
    from torch.nn import Module

    from ansor.frontend.model import Model

# Operators that stay whole, because the graph has them or says them better.
WHOLE = (
    "linear.default",
    "layer_norm.default",
    "scaled_dot_product_attention.default",
    "silu.default",
    "mish.default",
    "pixel_shuffle.default",
    "tril.default",
    "triu.default",
    "roll.default",
    "unfold.default",
    "_scaled_dot_product_flash_attention_for_cpu.default",
)


def from_torch(
    module: Module | ExportedProgram,
    example_inputs: Sequence[object] = (),
    *,
    kwargs: Mapping[str, object] | None = None,
    target: str | Target | None = None,
    alternatives: Iterable[str] | None = None,
) -> Model:
    """A module with the shapes of its example inputs, ready to tune or compile.

    `module` may be an `ExportedProgram`, too; its shapes must be static. Parameters
    and buffers become constants over the same memory: do not change them afterwards.
    Inputs and outputs are tensors in the order in which the module takes and gives
    them; nested ones are listed one after the other. Modules are exported as they are:
    call `eval()` first. For `alternatives` see `ansor.Model`.

    >>> import torch
    >>> linear = torch.nn.Linear(4, 2)
    >>> model = from_torch(linear, (torch.zeros(3, 4),))
    >>> [str(value) for value in model.outputs]
    ['%add: float32[3, 2]']
    """
    from ansor.frontend.model import Model

    graph = graph_of(module, example_inputs, kwargs)
    return Model(graph, target, alternatives=alternatives)


def graph_of(
    module: Module | ExportedProgram,
    example_inputs: Sequence[object] = (),
    kwargs: Mapping[str, object] | None = None,
) -> Graph:
    """The graph of a module, before any optimisation."""
    torch = _torch()
    program: Any = module
    with quiet():
        if not isinstance(module, torch.export.ExportedProgram):
            inputs = tuple(example_inputs)
            try:
                program = torch.export.export(module, inputs, dict(kwargs or {}))
            except (RuntimeError, TypeError, ValueError, AssertionError) as error:
                what = f"torch.export of {type(module).__name__}"
                raise ModelError(what, _first_line(error)) from error
        lowered = program.run_decompositions(decompositions())
    restore_products(lowered.graph)
    return _Importer(lowered, _name(module)).graph()


def _name(module: object) -> str:
    name = type(module).__name__.lower()
    return "program" if name == "exportedprogram" else name


def _first_line(error: BaseException) -> str:
    text = str(error).strip() or type(error).__name__
    return text.splitlines()[0]


def decompositions() -> Any:
    """How torch shall take composite operators apart; `WHOLE` ones stay."""
    torch = _torch()
    table = torch.export.default_decompositions()
    for name in WHOLE:
        base, _, overload = name.partition(".")
        table.pop(getattr(getattr(torch.ops.aten, base), overload), None)
    return table


def _torch() -> Any:
    try:
        import torch
        import torch.export
    except ImportError as error:
        raise ModelError(
            "reading modules of PyTorch", "needs the package torch",
            "pip install 'ansor[torch]'",
        ) from error  # fmt: skip
    return torch


@contextmanager
def quiet() -> Iterator[None]:
    """torch warns about its own internals while it exports."""
    with warnings.catch_warnings():
        for kind in (DeprecationWarning, FutureWarning, UserWarning):
            warnings.simplefilter("ignore", kind)
        yield


class _Importer:
    """The walk over one exported program."""

    def __init__(self, program: ExportedProgram, name: str) -> None:
        self._program = program
        self._signature = program.graph_signature
        self._build = Builder(name)

    def graph(self) -> Graph:
        nodes = list(self._program.graph.nodes)
        given = {x: self._placeholder(x) for x in nodes if x.op == "placeholder"}
        known = {node: value for node, value in given.items() if value is not None}
        walk = convert_all(self._build, nodes, known)
        return self._build.finish([walk.value(x) for x in self._results()])

    def _results(self) -> list[Node]:
        """What the module gives; refused if it changes anything, too."""
        changed = [
            *self._signature.buffers_to_mutate.values(),
            *self._signature.user_inputs_to_mutate.values(),
        ]
        if changed:
            raise UnsupportedError(
                "module", f"changes {changed[0]!r} when it runs", "call eval() first"
            )
        found = results(self._program.graph)
        if len(found) < len(self._signature.output_specs):
            raise UnsupportedError("module", "gives something that is not a tensor")
        return found

    def _placeholder(self, node: Node) -> Value | None:
        """An input, or a constant; None for what is not a tensor."""
        tensor = self._constant(node.name)
        if tensor is not None:
            return self._build.constant(to_array(tensor.contiguous()), node.name)
        found = tensor_type(node, node.meta.get("val"))
        return None if found is None else self._build.input(node.name, *found)

    def _constant(self, name: str) -> Tensor | None:
        """The parameter, buffer or constant behind a placeholder."""
        signature, program = self._signature, self._program
        where: tuple[tuple[Mapping[str, str], Any], ...] = (
            (signature.inputs_to_parameters, program.state_dict),
            (signature.inputs_to_buffers, program.state_dict),
            (signature.inputs_to_buffers, program.constants),
            (signature.inputs_to_lifted_tensor_constants, program.constants),
        )
        for names, tensors in where:
            if name in names and names[name] in tensors:
                return tensors[names[name]].detach()  # type: ignore[no-any-return]
        return None
