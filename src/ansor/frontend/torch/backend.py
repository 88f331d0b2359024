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
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from operator import attrgetter, methodcaller
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ansor.codegen import runtime
from ansor.frontend.torch.options import Options
from ansor.frontend.torch.program import quiet
from ansor.frontend.torch.region import Region, lower, results
from ansor.frontend.torch.shapes import has_symbols, with_numbers
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
        _warn("gradients are needed; call it under torch.no_grad() for inference")
        return module.forward
    return Compiled(module, example_inputs, chosen)


def _needs_gradients(module: GraphModule, inputs: Sequence[Any]) -> bool:
    import torch

    if not torch.is_grad_enabled():
        return False
    tensors = [*inputs, *module.parameters()]
    return any(isinstance(x, torch.Tensor) and x.requires_grad for x in tensors)


class Compiled:
    """One graph of Dynamo through AOTAutograd, which takes in-place changes, aliases
    and composite operators apart."""

    def __init__(
        self, module: GraphModule, example_inputs: Sequence[Any], options: Options
    ) -> None:
        self._places = _static_places(module) if options.freeze else []
        own = [*module.parameters(), *module.buffers()] if options.freeze else []
        self._static = Static(own)

        def compiler(gm: GraphModule, example_inputs: object) -> Callable[..., Any]:
            return _boxed(Program(gm, self._static, options))

        self._run = _through_aot(module, example_inputs, compiler)

    def __call__(self, *given: Any) -> Any:
        self._static.given = [given[n] for n in self._places]
        try:
            return self._run(*given)
        finally:
            self._static.given = []


class Static(threading.local):
    """The tensors of the running call that hardly change."""

    def __init__(self, own: Sequence[Tensor]) -> None:
        self.own = own  # of the graph itself
        self.given: Sequence[Tensor] = []  # inputs that are parameters or buffers

    def ids(self) -> set[int]:
        tensors = (*self.own, *self.given)
        return {id(x) for x in tensors if not x.is_inference()}


def _through_aot(
    module: GraphModule,
    example_inputs: Sequence[Any],
    compiler: Callable[..., Callable[..., Any]],
) -> Callable[..., Any]:
    from torch._dynamo.exc import RestartAnalysis
    from torch._functorch.aot_autograd import aot_module_simplified

    try:
        with quiet():
            return aot_module_simplified(
                module, list(example_inputs), fw_compiler=compiler,
                bw_compiler=compiler, inference_compiler=compiler,
                decompositions=_decompositions(),
            )  # fmt: skip
    except RestartAnalysis:  # Dynamo asks for another graph
        raise
    except Exception as error:  # torch may raise anything; the graph still runs
        _warn(error)
        return module.forward


def _static_places(module: GraphModule) -> list[int]:
    """Which inputs are parameters and buffers, as Dynamo has marked them."""
    places = [x for x in module.graph.nodes if x.op == "placeholder"]
    mark = "_dynamo_static_input_type"
    return [
        n for n, x in enumerate(places) if mark in (x.meta.get("tensor_dict") or {})
    ]


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


def _warn(reason: Exception | str) -> None:
    """Say once why a graph runs in torch."""
    text = str(reason).strip() or type(reason).__name__
    warnings.warn(
        f"ansor: a graph runs in torch instead: {text.splitlines()[0]}", stacklevel=2
    )
    if isinstance(reason, Exception):
        log.debug("a graph runs in torch", exc_info=reason)


# -- one graph of ATen -----------------------------------------------------------------


_ADDRESS = methodcaller("data_ptr")
_VERSION = attrgetter("_version")


def _look(given: Sequence[Tensor], frozen: Sequence[int]) -> list[int]:
    """Addresses and versions of the tensors that are constants."""
    tensors = [given[n] for n in frozen]
    return [*map(_ADDRESS, tensors), *map(_VERSION, tensors)]


class Program:
    """A functional graph of ATen, compiled when it is first called, for each of the
    shapes it is called with."""

    def __init__(self, module: GraphModule, static: Static, options: Options) -> None:
        self._module = module
        self._static = static
        self._options = options
        self._is_dynamic = has_symbols(module.graph)
        self._made: dict[object, Callable[..., Any]] = {}
        self._is_full = False
        self._lock = threading.Lock()

    def __call__(self, given: list[Any]) -> Any:
        key = tuple(map(_key, given)) if self._is_dynamic else ()
        found = self._made.get(key) or self._make(key, given)
        return found(*given)

    def _make(self, key: object, given: Sequence[Any]) -> Callable[..., Any]:
        with self._lock:
            if key not in self._made and len(self._made) >= SHAPES:
                if not self._is_full:
                    _warn(f"it is called with more than {SHAPES} shapes")
                self._is_full = True
                return self._module.forward
            if key not in self._made:
                self._made[key] = self._new(given)
            return self._made[key]

    def _new(self, given: Sequence[Any]) -> Callable[..., Any]:
        try:
            fixed = with_numbers(self._module, given) if self._is_dynamic else None
        except Exception as error:  # whatever it is, the user's program goes on
            _warn(error)
            return self._module.forward
        return Followed(fixed or self._module, self._static, self._options)


def _key(given: object) -> object:
    shape = getattr(given, "shape", None)
    return given if shape is None else (tuple(shape), given.stride())  # type: ignore[attr-defined]


@dataclass(frozen=True)
class _Made:
    """Code, and the state of the tensors that are constants in it."""

    run: Callable[..., Any]
    frozen: Sequence[int] = ()  # the numbers of the inputs that they are
    state: Sequence[int] = ()


class Followed:
    """A graph of ATen with shapes that are fixed, compiled when it is called, because
    tensors are there only then: those that are static become constants. Compiled
    again when they have changed."""

    def __init__(self, module: GraphModule, static: Static, options: Options) -> None:
        self._module = module
        self._static = static
        self._options = options
        self._changes = -1
        self._made: _Made | None = None
        self._lock = threading.Lock()

    def __call__(self, *given: Any) -> Any:
        made = self._made
        if made is None or made.state != _look(given, made.frozen):
            made = self._latest(given)
        _follow_threads()
        return made.run(*given)

    def _latest(self, given: Sequence[Any]) -> _Made:
        with self._lock:  # another thread may have been faster
            made = self._made
            if made is None or made.state != _look(given, made.frozen):
                self._changes += 1
                made = self._made = self._prepared(given)
            return made

    def _prepared(self, given: Sequence[Any]) -> _Made:
        known = self._static.ids() if self._changes <= CHANGES else set()
        frozen = [n for n, x in enumerate(given) if id(x) in known]
        state = _look(given, frozen)
        try:
            return _Made(self._compiled({n: given[n] for n in frozen}), frozen, state)
        except Exception as error:  # whatever it is, the user's program goes on
            _warn(error)
            return _Made(self._module.forward, [], [])

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
        others = self._options.alternatives
        model = Model(lowered.graph, _target(), alternatives=others)
        place, memory = self._options.database, self._options.memory
        if not self._options.wants_tuning:
            place = _existing(place)
        else:
            place = place or _own_database()
            seconds, trials = self._options.budget
            model.tune(seconds=seconds, trials=trials, database=place, memory=memory)
        return Region(model.compile(place, memory=memory), lowered)


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
