"""A compiled model: machine code from the first kernel to the last."""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ansor.codegen import arrays, engine
from ansor.codegen.arrays import Parameter
from ansor.errors import ArgumentError, CodegenError
from ansor.frontend.constants import Constants
from ansor.frontend.driver import Call, driver_text
from ansor.frontend.graph import Array, Value
from ansor.frontend.memory import Copy, Home, Place, Storage, store
from ansor.frontend.pages import make_room
from ansor.frontend.profile import Profile, Row
from ansor.frontend.subgraph import Plan, Subgraph
from ansor.frontend.units import Unit
from ansor.ir.dtypes import DTYPES
from ansor.ir.expr import Buffer
from ansor.target.target import Target

if TYPE_CHECKING:
    from ansor.frontend.export import Exported

ENTRY = "run_model"
LARGE_MODEL = 1 << 24  # bytes of constants that it is worth to make room for


@dataclass(frozen=True)
class Memory:
    """Bytes that a compiled model needs, beside the arrays of its caller."""

    arena: int  # of one call: the intermediate values, with lifetimes shared
    values: int  # what they would need without sharing
    constants: int  # in the layouts of the kernels

    def __str__(self) -> str:
        return (
            f"arena {self.arena:,} bytes (for values of {self.values:,}), constants "
            f"{self.constants:,} bytes"
        )


@dataclass(frozen=True)
class Step:
    """One call of a kernel."""

    subgraph: Subgraph
    unit: Unit
    call: Call


@dataclass(frozen=True, eq=False)
class Executable:
    """A model as machine code; made by `Model.compile`.

        (y,) = exe(x)        a tuple of arrays in the order of the model's outputs
        (y,) = exe(input=x)  the same by the name of an input, `exe.inputs[0].name`

    Inputs are NumPy arrays, or anything on the CPU with DLPack, of exactly the shapes
    and dtypes of the model, dense; they are not copied. Outputs are new arrays of the
    kind of the first input. Calls from several threads run at the same time, each with
    an arena of its own.
    """

    name: str
    target: Target
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    steps: tuple[Step, ...]
    copies: tuple[Copy, ...]
    memory: Memory
    constants: Mapping[str, Array]  # by symbol, as the kernels read them
    _codes: Mapping[str, engine.Compiled]  # by symbol of the kernel
    _driver: engine.Compiled
    _arenas: list[Array]  # those that no call uses now

    @classmethod
    def link(cls, plan: Plan, units: Sequence[Unit], target: Target) -> Executable:
        """Load the units of the plan's subgraphs, one each, in order, and bind
        constants to them."""
        if not target.is_host:
            raise CodegenError(
                f"model {plan.graph.name!r}",
                f"its code is for {target}, which this machine cannot run",
                "compile it on such a machine",
            )
        codes = {x.symbol: x for x in units}
        loaded = {symbol: engine.load_object(x.made) for symbol, x in codes.items()}
        storage = store(plan)
        constants = Constants(plan.graph.constants, plan.made)
        binder = _Binder(storage, constants, loaded)
        pairs = zip(plan.subgraphs, units, strict=True)
        steps = tuple(Step(x, unit, binder.call(x, unit)) for x, unit in pairs)
        copies = tuple(map(binder.copy, storage.copies))
        calls = [step.call for step in steps]
        text = driver_text(ENTRY, calls, copies, storage.arena)
        made = engine.compile_object(text, target, (*loaded, *constants.symbols))
        with _room(plan):
            constants.fill()
            driver = _load_driver(made, loaded, constants.blocks)
        return cls(
            plan.graph.name,
            target,
            plan.graph.inputs,
            plan.graph.results,
            steps,
            copies,
            Memory(storage.arena, sum(x.bytes for x in storage.blocks),
                   constants.bytes),
            constants.blocks,
            loaded,
            driver,
            [],
        )  # fmt: skip

    # -- calls -------------------------------------------------------------------------

    def __call__(self, /, *inputs: object, **named: object) -> tuple[object, ...]:
        if named:
            inputs = self._in_order(inputs, named)
        if len(inputs) != len(self._takes):
            raise self._wrong_count(len(inputs))
        addresses = arrays.plain_addresses(inputs, self._takes)
        if addresses is None:
            return self._call_any(inputs)
        results = tuple(map(arrays.empty, self._gives))
        self._run(addresses, list(map(arrays.address, results)))
        return results

    def _in_order(
        self, inputs: tuple[object, ...], named: dict[str, object]
    ) -> tuple[object, ...]:
        """Inputs that were given by place and then by name, all by place."""
        rest = [x.name for x in self.inputs[len(inputs) :]]
        for name in named:
            if name not in rest:
                free = ", ".join(rest) or "none"
                raise ArgumentError(
                    f"call of model {self.name!r} with {name}=…",
                    "is no input, or was given by its place",
                    f"inputs that are left are {free}",
                )
        return (*inputs, *(named[name] for name in rest if name in named))

    def _call_any(self, inputs: Sequence[object]) -> tuple[object, ...]:
        """A call with arrays of any kind."""
        views = [arrays.read(*pair) for pair in zip(inputs, self._takes, strict=True)]
        model = inputs[0] if inputs else None
        results = [arrays.empty_like(x, model) for x in self._gives]
        pairs = zip(results, self._gives, strict=True)
        written = [arrays.write(*pair).address for pair in pairs]
        self._run([view.address for view in views], written)
        return tuple(arrays.finish_like(x, model) for x in results)

    def _run(self, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        try:
            arena = self._arenas.pop()
        except IndexError:
            arena = self._new_arena()
        self._function(
            self._input_table(*inputs), self._output_table(*outputs),
            arrays.address(arena),
        )  # fmt: skip
        if len(self._arenas) < _CPUS:
            self._arenas.append(arena)

    @cached_property
    def _function(self) -> Callable[..., int]:
        types = [ctypes.c_void_p] * 3
        return ctypes.CFUNCTYPE(ctypes.c_int32, *types)(self._driver.address(ENTRY))

    @cached_property
    def _input_table(self) -> type[ctypes.Array[ctypes.c_void_p]]:
        return ctypes.c_void_p * len(self.inputs)

    @cached_property
    def _output_table(self) -> type[ctypes.Array[ctypes.c_void_p]]:
        return ctypes.c_void_p * len(self.outputs)

    @cached_property
    def _takes(self) -> tuple[Parameter, ...]:
        return tuple(_parameter(_Input, self.name, x) for x in self.inputs)

    @cached_property
    def _gives(self) -> tuple[Parameter, ...]:
        return tuple(_parameter(_Output, self.name, x) for x in self.outputs)

    def _new_arena(self) -> Array:
        """Memory for the intermediate values of a call, aligned."""
        size = max(self.memory.arena, 1)
        return arrays.empty(Parameter.of("arena", Buffer("arena", (size,), "uint8")))

    def _wrong_count(self, given: int) -> ArgumentError:
        names = ", ".join(x.name for x in self.inputs) or "none"
        return ArgumentError(
            f"call of model {self.name!r}",
            f"{given} inputs, but it takes {len(self.inputs)}: {names}",
        )

    # -- looking -----------------------------------------------------------------------

    def profile(self, *inputs: object, repeats: int = 10) -> Profile:
        """Seconds of every step, in the order and with the data of a real run: medians
        of `repeats` runs, after one that warms up."""
        if repeats < 1:
            raise ArgumentError(f"profile(repeats={repeats})", "less than 1")
        if len(inputs) != len(self._takes):
            raise self._wrong_count(len(inputs))
        views = [arrays.read(*pair) for pair in zip(inputs, self._takes, strict=True)]
        results = list(map(arrays.empty, self._gives))
        arena = self._new_arena()
        arguments = (
            self._input_table(*(view.address for view in views)),
            self._output_table(*map(arrays.address, results)),
            arrays.address(arena),
        )
        times = np.zeros((len(self.steps) + 1, 2), np.int64)
        spent, totals = [], []
        for _ in range(repeats + 1):
            self._timed(*arguments, arrays.address(times))
            spent.append(np.diff(times @ (1_000_000_000, 1)) * 1e-9)
            start = time.perf_counter()
            self._function(*arguments)
            totals.append(time.perf_counter() - start)
        seconds = np.median(spent[1:], axis=0)
        return Profile(self._rows(seconds), float(np.median(totals[1:])))

    @cached_property
    def _timed(self) -> Callable[..., int]:
        calls = [step.call for step in self.steps]
        text = driver_text(
            *(ENTRY, calls, self.copies, self.memory.arena), is_timed=True
        )
        names = (*self._codes, *self.constants)
        made = engine.compile_object(text, self.target, names)
        code = _load_driver(made, self._codes, self.constants)
        types = [ctypes.c_void_p] * 4
        function = ctypes.CFUNCTYPE(ctypes.c_int32, *types)(code.address(ENTRY))
        function.code = code  # type: ignore[attr-defined]  # lives as long
        return function

    def _rows(
        self, seconds: Sequence[float] | npt.NDArray[np.float64]
    ) -> tuple[Row, ...]:
        whole = float(sum(seconds)) or 1.0
        return tuple(
            Row(
                step=at,
                operators=tuple(node.op for node in step.subgraph.nodes),
                output=step.subgraph.outputs[0].name,
                task=step.subgraph.task.key,
                seconds=float(spent),
                share=float(spent) / whole,
                gflops=step.subgraph.task.flops / max(float(spent), 1e-9) / 1e9,
                is_tuned=step.unit.is_tuned,
            )
            for at, (step, spent) in enumerate(zip(self.steps, seconds, strict=True))
        )

    def export(self, path: str | PathLike[str], name: str | None = None) -> Exported:
        """Write a library, a C header, a manifest and an example into a directory; see
        `ansor.frontend.export`.

        `name` begins the names of files and functions; the model's own, unless given.
        """
        from ansor.frontend.export import export

        return export(self, path, name)

    def __reduce__(self) -> tuple[object, ...]:
        raise CodegenError(
            f"pickling of model {self.name!r}",
            "machine code belongs to its process",
            "compile it where it is needed, or export it",
        )

    def __copy__(self) -> Executable:
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> Executable:
        return self

    def __repr__(self) -> str:
        takes = ", ".join(map(str, self.inputs))
        gives = ", ".join(map(str, self.outputs))
        return f"<Executable {self.name}({takes}) -> {gives}, {len(self.steps)} steps>"


_CPUS = len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class _Input(Parameter):
    @property
    def what(self) -> str:
        return f"input {self.name!r} of model {self.kernel!r}"


@dataclass(frozen=True)
class _Output(Parameter):
    @property
    def what(self) -> str:
        return f"output {self.name!r} of model {self.kernel!r}"


def _parameter(kind: type[Parameter], model: str, value: Value) -> Parameter:
    """Not by way of a buffer, which has elements."""
    row = DTYPES[value.dtype]
    return kind(
        model, value.name, value.shape, row.numpy, row.name, row.bytes, value.bytes
    )


@dataclass(frozen=True)
class _Binder:
    """Places of arguments, with constants as the symbols of their blocks."""

    storage: Storage
    constants: Constants
    codes: Mapping[str, engine.Compiled]

    def call(self, subgraph: Subgraph, unit: Unit) -> Call:
        values = (*subgraph.inputs, *subgraph.outputs)
        packings = {x.argument: x for x in unit.packings}
        places = []
        for at, value in enumerate(values):
            place = self.storage.places[value.name]
            if place.home is not Home.CONSTANT:
                assert at not in packings, f"{value} is packed, but not constant"
                places.append(place)
            elif at in packings:
                code = self.codes[unit.symbol]
                symbol = self.constants.packed(place.name, unit, packings[at], code)
                places.append(Place(Home.CONSTANT, name=symbol))
            else:
                places.append(self._plain(place))
        return Call(unit.symbol, tuple(places))

    def copy(self, copy: Copy) -> Copy:
        if copy.source.home is not Home.CONSTANT:
            return copy
        return replace(copy, source=self._plain(copy.source))

    def _plain(self, place: Place) -> Place:
        return Place(Home.CONSTANT, name=self.constants.plain(place.name))


@contextmanager
def _room(plan: Plan) -> Iterator[None]:
    """Before and after constants are made, give back what LLVM and others needed, if
    there are enough of them to make that worth the time."""
    is_large = sum(x.nbytes for x in plan.graph.constants.values()) >= LARGE_MODEL
    if is_large:
        make_room()
    yield
    if is_large:
        make_room()


def _load_driver(
    made: engine.Object,
    codes: Mapping[str, engine.Compiled],
    constants: Mapping[str, Array],
) -> engine.Compiled:
    imports = {symbol: code.address(symbol) for symbol, code in codes.items()}
    imports |= {name: arrays.address(x) for name, x in constants.items()}
    return engine.load_object(made, imports)
