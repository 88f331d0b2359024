"""The backend "ansor" of `torch.compile`.

    fast = torch.compile(module, backend="ansor")
    fast = torch.compile(module, backend="ansor", options={"seconds": 300,
                                                           "database": "tuning.db"})

Graphs are compiled for inference and for the shapes they are called with: other shapes
compile again. Calls that are not supported stay in torch, in between. Where gradients
are needed, and whenever something fails, the graph runs in torch, as it was.

Parameters and buffers are constants, laid out for the kernels. When they change (their
version counter or address), the graph is compiled again; from the third time on they
are ordinary inputs. Changes through `parameter.data`, which torch does not count, are
not seen: use `options={"freeze": False}` for that.
"""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansor.codegen import runtime
from ansor.frontend.torch.options import Options
from ansor.frontend.torch.program import quiet
from ansor.frontend.torch.region import Region, lower, results
from ansor.frontend.torch.split import (
    fused,
    keep_views,
    refused,
    restore_products,
    substitute,
)
from ansor.target import Target

if TYPE_CHECKING:
    from torch import Tensor
    from torch.fx import GraphModule, Node

SHAPES = 16  # of one graph that are compiled; more run in torch
CHANGES = 2  # of parameters that are followed by compiling again
log = logging.getLogger("ansor.torch")


def backend(
    module: GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, object] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """What `torch.compile` calls for every graph; `mode` makes no difference."""
    chosen = Options.read(options)
    if _needs_gradients(module, example_inputs):
        return module.forward
    return Specialised(module, example_inputs, chosen)


def _needs_gradients(module: GraphModule, inputs: Sequence[Any]) -> bool:
    import torch

    if not torch.is_grad_enabled():
        return False
    tensors = [*inputs, *module.parameters()]
    return any(isinstance(x, torch.Tensor) and x.requires_grad for x in tensors)


class Specialised:
    """One graph of Dynamo, compiled for each of the shapes it is called with."""

    def __init__(
        self, module: GraphModule, example_inputs: Sequence[Any], options: Options
    ) -> None:
        self._module = module
        self._options = options
        self._is_dynamic = any(map(_has_symbols, example_inputs))
        self._static = _static_places(module)
        self._made: dict[object, Callable[..., Any]] = {}

    def __call__(self, *given: Any) -> Any:
        key = tuple(map(_key, given)) if self._is_dynamic else ()
        found = self._made.get(key)
        if found is None:
            found = self._make(given) if len(self._made) < SHAPES else self._eager
            self._made[key] = found
        return found(*given)

    def _eager(self, *given: Any) -> Any:
        return self._module(*given)

    def _make(self, given: Sequence[Any]) -> Callable[..., Any]:
        import torch
        from torch._functorch.aot_autograd import aot_module_simplified

        static = [x for n, x in enumerate(given) if n in self._static]
        static += [x for x in given if isinstance(x, torch.nn.Parameter)]
        static += [*self._module.parameters(), *self._module.buffers()]
        known = static if self._options.freeze else []
        module = (
            _with_numbers(self._module, given) if self._is_dynamic else self._module
        )

        def compiler(gm: GraphModule, example_inputs: object) -> Callable[..., Any]:
            return _boxed(Program(gm, known, self._options))

        try:
            with quiet():
                return aot_module_simplified(
                    module, list(given), fw_compiler=compiler,
                    bw_compiler=compiler, inference_compiler=compiler,
                    decompositions=_decompositions(),
                )  # fmt: skip
        except Exception as error:  # torch may raise anything; the graph still runs
            _warn(error)
            return self._eager


def _key(given: object) -> object:
    shape = getattr(given, "shape", None)
    return given if shape is None else (tuple(shape), given.stride())  # type: ignore[attr-defined]


def _has_symbols(given: Any) -> bool:
    shape = getattr(given, "shape", None)
    sizes = [given] if shape is None else list(shape)
    return any(type(size).__name__ == "SymInt" for size in sizes)


def _static_places(module: GraphModule) -> set[int]:
    """Which inputs are parameters and buffers, as Dynamo has marked them."""
    places = [x for x in module.graph.nodes if x.op == "placeholder"]
    mark = "_dynamo_static_input_type"
    return {
        n for n, x in enumerate(places) if mark in (x.meta.get("tensor_dict") or {})
    }


def _with_numbers(module: GraphModule, given: Sequence[Any]) -> GraphModule:
    """The graph with the sizes of this call in the place of symbols."""
    import torch

    graph = torch.fx.Graph()
    known: dict[Node, Any] = {}
    places = iter(given)
    for node in module.graph.nodes:
        copied = graph.node_copy(node, lambda x: known[x])
        known[node] = copied
        if node.op == "placeholder":
            value = next(places)
            known[node] = copied if isinstance(value, torch.Tensor) else value
        copied.meta = {}
    return torch.fx.GraphModule(module, graph)


@cache
def _decompositions() -> dict[Any, Any]:
    import torch
    from torch._decomp import core_aten_decompositions

    table = dict(core_aten_decompositions())
    aten = torch.ops.aten
    for op in (
        aten._scaled_dot_product_flash_attention_for_cpu.default,
        aten.silu.default,
        aten.mish.default,
        aten.tril.default,
        aten.triu.default,
        aten.roll.default,
        aten.unfold.default,
        aten.pixel_shuffle.default,
    ):
        table.pop(op, None)
    return table


def _boxed(function: Callable[..., Any]) -> Callable[..., Any]:
    """Takes a list, which it empties: how AOTAutograd calls."""

    def run(given: list[Any]) -> Any:
        taken = list(given)
        given.clear()
        return function(taken)

    run._boxed_call = True  # type: ignore[attr-defined]
    return run


def _warn(error: Exception) -> None:
    """Say once why a graph runs in torch."""
    text = str(error).strip() or type(error).__name__
    warnings.warn(
        f"ansor: a graph runs in torch instead: {text.splitlines()[0]}", stacklevel=2
    )
    log.debug("a graph runs in torch", exc_info=error)


# -- one graph of ATen -----------------------------------------------------------------


_ADDRESS = methodcaller("data_ptr")
_VERSION = attrgetter("_version")


class Program:
    """A functional graph of ATen, compiled when it is first called.

    Only then tensors are there: those of them that are `static` become constants.
    """

    def __init__(
        self, module: GraphModule, static: Sequence[Tensor], options: Options
    ) -> None:
        self._module = module
        self._options = options
        self._static = {id(x): x for x in static if not x.is_inference()}
        self._changes = 0
        self._frozen: list[int] = []
        self._state: list[int] = []
        self._run: Callable[..., Any] | None = None

    def __call__(self, given: list[Any]) -> Any:
        if self._run is None or self._state != self._look(given):
            self._prepare(given)
        assert self._run is not None
        _follow_threads()
        return self._run(*given)

    def _look(self, given: Sequence[Tensor]) -> list[int]:
        """Addresses and versions of the tensors that are constants."""
        frozen = [given[n] for n in self._frozen]
        return [*map(_ADDRESS, frozen), *map(_VERSION, frozen)]

    def _prepare(self, given: Sequence[Any]) -> None:
        if self._run is not None:
            self._changes += 1
        frozen = self._changes <= CHANGES
        self._frozen = [
            n for n, x in enumerate(given) if frozen and id(x) in self._static
        ]
        self._state = self._look(given)
        try:
            self._run = self._compiled({n: given[n] for n in self._frozen})
        except Exception as error:  # whatever it is, the user's program goes on
            _warn(error)
            self._frozen, self._state = [], []
            self._run = self._module.forward

    def _compiled(self, constants: Mapping[int, Tensor]) -> Callable[..., Any]:
        import torch

        graph = torch.fx.Graph()
        copied: dict[Node, Any] = {}
        last = graph.graph_copy(self._module.graph, copied)
        graph.output(last)
        module = torch.fx.GraphModule(self._module, graph)
        restore_products(graph)
        keep_views(graph)
        reasons = refused(graph)
        for op in sorted({str(x.target) for x in reasons if x.op == "call_function"}):
            log.info("%s stays in torch", op)
        places = [x for x in graph.nodes if x.op == "placeholder"]
        known = {places[n]: tensor for n, tensor in constants.items()}
        if _is_whole(graph, reasons):
            return self._whole(graph, known)
        return self._parts(fused(module, reasons), known)

    def _whole(self, graph: Any, known: Mapping[Node, Tensor]) -> Callable[..., Any]:
        """One region, called without torch in between."""
        region = self._region(graph, known, "graph")
        places = [x for x in graph.nodes if x.op == "placeholder"]
        taken = [n for n, x in enumerate(places) if x.users and x not in known]
        return lambda *given: region(*[given[n] for n in taken])

    def _parts(
        self, module: GraphModule, known: Mapping[Node, Tensor]
    ) -> Callable[..., Any]:
        """Regions, and torch in between."""
        by_name = {node.name: tensor for node, tensor in known.items()}

        def make(
            name: str, inner: GraphModule, outer: dict[Node, Node]
        ) -> tuple[Any, list[Node]]:
            own = {x: by_name[y.name] for x, y in outer.items() if y.name in by_name}
            taken = [y for y in outer.values() if y.name not in by_name]
            try:
                return self._region(inner.graph, own, name), taken
            except Exception as error:  # this part runs in torch
                _warn(error)
                return _torch_part(inner), list(outer.values())

        substitute(module, make)
        return module.forward

    def _region(
        self, graph: Any, known: Mapping[Node, Tensor], name: str
    ) -> Callable[..., Any]:
        from ansor.frontend.model import Model

        lowered = lower(graph, known, name)
        model = Model(lowered.graph, _target())
        place = self._options.database
        if not self._options.wants_tuning:
            place = _existing(place)
        else:
            place = place or _own_database()
            seconds, trials = self._options.budget
            model.tune(seconds=seconds, trials=trials, database=place)
        return Region(model.compile(place), lowered)


def _is_whole(graph: Any, reasons: Mapping[Node, str]) -> bool:
    """Whether every call is ours, and every result that of a call."""
    last: Any = graph.output_node().args[0]
    found = results(graph)
    return (
        not reasons
        and len(found) == len(last)
        and all(node.op == "call_function" for node in found)
    )


def _torch_part(inner: GraphModule) -> Callable[..., Any]:
    def run(*given: Any) -> tuple[Any, ...]:
        found = inner(*given)
        return tuple(found) if isinstance(found, list | tuple) else (found,)

    return run


_followed: list[int] = []  # the number of threads that torch had at the last call


def _follow_threads() -> None:
    """Kernels use as many threads as torch does (`torch.set_num_threads`)."""
    import torch

    count = torch.get_num_threads()
    if _followed != [count]:
        runtime.set_threads(min(count, runtime.MOST_THREADS))
        _followed[:] = [count]


def _target() -> Target:
    """This machine, with as many cores as torch may use."""
    import torch

    whole = Target("cpu")
    return Target("cpu", cores=min(whole.cores, torch.get_num_threads()))


def _existing(place: str | None) -> str | None:
    if place is None or Path(place).exists():
        return place
    warnings.warn(
        f"ansor: there is no database {place!r}: kernels are not tuned", stacklevel=2
    )
    return None


@cache
def _own_database() -> str:
    """A database that lives as long as the process."""
    return str(Path(_folder().name) / "tuning.db")


@cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="ansor-")
