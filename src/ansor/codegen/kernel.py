"""A compiled loop program that is called with arrays."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike

import numpy as np

from ansor.codegen import arrays, engine, runtime, timing
from ansor.codegen.arrays import Parameter
from ansor.errors import ArgumentError, CodegenError
from ansor.ir.expr import Buffer
from ansor.target.target import Target

KINDS = ("loops", "llvm", "asm")  # of Kernel.source


@dataclass(frozen=True)
class Prepared:
    """Input `name` enters the kernel as `packed`, in another layout.

    The module's function `entry`, void(ptr input, ptr packed), writes it.
    """

    name: str
    packed: Buffer
    entry: str


@dataclass(frozen=True)
class Build:
    """All that a kernel is made of, before it is machine code."""

    name: str
    text: str  # LLVM
    target: Target
    parameters: tuple[Buffer, ...]  # inputs, then outputs, as the user sees them
    outputs: int = 1
    loops: str | Callable[[], str] = ""
    prepared: tuple[Prepared, ...] = ()

    def __post_init__(self) -> None:
        inputs = [buffer.name for buffer in self.inputs]
        if not 1 <= self.outputs <= len(self.parameters):
            raise CodegenError(
                f"kernel {self.name!r}",
                f"{self.outputs} outputs of {len(self.parameters)} parameters",
            )
        if self.name in runtime.ENTRIES:
            raise CodegenError(
                f"kernel {self.name!r}",
                "the runtime has a function of this name",
                "give the first output another name",
            )
        for row in self.prepared:
            if row.name not in inputs:
                raise CodegenError(
                    f"kernel {self.name!r}", f"prepares {row.name!r}, not an input"
                )

    @property
    def inputs(self) -> tuple[Buffer, ...]:
        return self.parameters[: len(self.parameters) - self.outputs]

    @property
    def results(self) -> tuple[Buffer, ...]:
        return self.parameters[len(self.parameters) - self.outputs :]


def make_kernel(
    name: str,
    text: str,
    target: Target,
    parameters: Sequence[Buffer],
    *,
    outputs: int = 1,
    loops: str | Callable[[], str] = "",
    prepared: Sequence[Prepared] = (),
    seconds: float | None = None,
) -> "Kernel":
    """Compile LLVM text into a kernel.

    `text` defines `void @name(ptr, …)` with one pointer per parameter: inputs, then
    the last `outputs` ones, dense and row-major, aligned to their element only. For an
    input with a row in `prepared` it gets the packed block, aligned to 64 bytes, and
    `text` also defines the function that fills it. `loops` is what
    `kernel.source("loops")` says, or a function that makes it. `seconds` is the
    measured time of a call, if there is one. A kernel for another machine can be read
    and exported, not called.
    """
    build = Build(
        *(name, text, target, tuple(parameters), outputs, loops, tuple(prepared))
    )
    if target.kind != "cpu":
        raise CodegenError(f"kernel {name!r}", f"no code for {target} yet", "use a CPU")
    if not target.is_host:
        return Kernel(build, engine.Foreign(target), seconds)
    return Kernel(build, engine.compile_module(text, target), seconds)


@dataclass(frozen=True, eq=False)
class Kernel:
    """Machine code that is called with arrays; made by `make_kernel`.

        c = kernel(a, b)             returns the output, a tuple if there are several
        kernel(a, b, out=c)          writes into c, and returns it
        fast = kernel.bind(B=b)      a kernel of the other inputs; B is laid out once

    Inputs are NumPy arrays, or anything on the CPU with DLPack, of exactly the shape
    and dtype of the parameters; numbers for parameters without axes. Outputs are of
    the kind of the first input. Calls from several threads run at the same time.
    """

    build: Build
    compiled: engine.Compiled | engine.Foreign
    seconds: float | None = None
    bound: Mapping[str, arrays.View] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.build.name

    @property
    def target(self) -> Target:
        return self.build.target

    @property
    def parameters(self) -> tuple[Buffer, ...]:
        """What a call takes, then what it returns; bound inputs are not among them."""
        return tuple(x for x in self.build.parameters if x.name not in self.bound)

    def __call__(self, *inputs: object, out: object = None) -> object:
        if len(inputs) != len(self._inputs):
            raise self._wrong_count(len(inputs))
        addresses = arrays.plain_addresses(inputs, self._inputs)
        if addresses is None:
            return self._call_any(inputs, out)
        if out is None:
            results = [arrays.empty(x) for x in self._outputs]
            addresses += map(arrays.address, results)
            self._run(addresses)
            return results[0] if len(results) == 1 else tuple(results)
        targets = self._given(out)
        written = arrays.plain_addresses(targets, self._outputs, write=True)
        if written is None:
            return self._call_any(inputs, out)
        addresses += written
        self._check_overlap(addresses)
        self._run(addresses)
        return out

    def _call_any(self, inputs: Sequence[object], out: object) -> object:
        """A call with arrays of any kind, or with arrays to write to."""
        views = [
            arrays.read(value, parameter)
            for value, parameter in zip(inputs, self._inputs, strict=True)
        ]
        model = inputs[0] if inputs else None
        if out is None:
            results = tuple(arrays.empty_like(x, model) for x in self._outputs)
        else:
            results = self._given(out)
        views += [
            arrays.write(value, parameter)
            for value, parameter in zip(results, self._outputs, strict=True)
        ]
        addresses = [view.address for view in views]
        if out is not None:
            self._check_overlap(addresses)
        self._run(addresses)
        if out is not None:
            return out
        results = tuple(arrays.finish_like(x, model) for x in results)
        return results[0] if len(results) == 1 else results

    def bind(self, /, **constants: object) -> "Kernel":
        """This kernel with some inputs fixed, by name.

        An input with a layout of its own is copied into it now, so later changes of
        the array do not show; others are used in place and kept alive.
        """
        by_name = {x.name: x for x in self._inputs}
        bound = dict(self.bound)
        for name, value in constants.items():
            if name not in by_name:
                free = ", ".join(by_name) or "none"
                raise ArgumentError(
                    f"bind({name}=…) of kernel {self.name!r}",
                    "no such input, or it is bound already",
                    f"its free inputs are: {free}",
                )
            view = arrays.read(value, by_name[name])
            row = self._prepared.get(name)
            bound[name] = view if row is None else self._pack(row, view.address)
        return Kernel(self.build, self.compiled, None, bound)

    def source(self, kind: str) -> str:
        """The program as text: "loops", "llvm" (as compiled, optimised) or "asm"."""
        if kind not in KINDS:
            known = ", ".join(map(repr, KINDS))
            raise ArgumentError(
                f"source({kind!r}) of kernel {self.name!r}",
                "no such kind of source",
                f"use one of {known}",
            )
        build = self.build
        if kind == "llvm":
            return engine.optimised(build.text, build.target)
        if kind == "asm":
            return engine.assembly(build.text, build.target)
        return build.loops if isinstance(build.loops, str) else build.loops()

    def time(self, *inputs: object, repeats: int = 10, seconds: float = 0.1) -> float:
        """Median seconds of one call, from `repeats` samples of about `seconds` in all.

        Calls are made by machine code, so no Python is in the figure. Inputs that must
        be laid out differently are laid out once, as if they were bound.
        """
        if len(inputs) != len(self._inputs):
            raise self._wrong_count(len(inputs))
        views = [
            arrays.read(value, parameter)
            for value, parameter in zip(inputs, self._inputs, strict=True)
        ]
        keep: list[object] = [arrays.empty(x) for x in self._outputs]
        views += [arrays.write(x, y) for x, y in zip(keep, self._outputs, strict=True)]
        addresses = [view.address for view in views]
        entry = self.compiled.address(self.name)
        arguments = self._packed(self._with_bound(addresses), keep)
        return timing.median(entry, arguments, repeats, seconds)

    def export(self, path: str | PathLike[str]) -> None:
        """Write object code, a C header and a manifest into the directory `path`."""
        from ansor.codegen.export import export

        export(self, path)

    def __copy__(self) -> "Kernel":
        return self

    def __deepcopy__(self, memo: dict[int, object]) -> "Kernel":
        return self

    def __reduce__(self) -> tuple[object, ...]:
        raise CodegenError(
            f"pickling of kernel {self.name!r}",
            "machine code belongs to its process",
            "pickle the program, and build it where it is needed",
        )

    def __repr__(self) -> str:
        takes = ", ".join(map(_signature, self.parameters[: len(self._inputs)]))
        gives = ", ".join(map(_signature, self.build.results))
        time = "" if self.seconds is None else f", {self.seconds * 1e6:.4g} µs"
        bound = f", bound: {', '.join(self.bound)}" if self.bound else ""
        return f"<Kernel {self.name}({takes}) -> {gives}{bound}{time}>"

    @cached_property
    def _all(self) -> tuple[Parameter, ...]:
        return tuple(Parameter.of(self.name, x) for x in self.build.parameters)

    @cached_property
    def _inputs(self) -> tuple[Parameter, ...]:
        every = self._all[: len(self.build.inputs)]
        return tuple(x for x in every if x.name not in self.bound)

    @cached_property
    def _outputs(self) -> tuple[Parameter, ...]:
        return self._all[len(self.build.inputs) :]

    @cached_property
    def _prepared(self) -> dict[str, Prepared]:
        return {row.name: row for row in self.build.prepared}

    @cached_property
    def _is_direct(self) -> bool:
        """A call's arguments are those of the machine code."""
        return not self.bound and not self.build.prepared

    @cached_property
    def _exposed(self) -> tuple[int, ...]:
        """Parameters in memory of the user; a bound and packed input is a copy."""
        return tuple(
            at
            for at, parameter in enumerate(self._all)
            if parameter.name not in self.bound or parameter.name not in self._prepared
        )

    @cached_property
    def _function(self) -> Callable[..., None]:
        types = [ctypes.c_void_p] * len(self.build.parameters)
        return ctypes.CFUNCTYPE(None, *types)(self.compiled.address(self.name))

    def _run(self, addresses: list[int]) -> None:
        """Call the machine code with the free arguments given."""
        if self._is_direct:
            self._function(*addresses)
            return
        keep: list[object] = []
        self._function(*self._packed(self._with_bound(addresses), keep))

    def _with_bound(self, addresses: Sequence[int]) -> list[int]:
        """Addresses of all parameters, those of bound inputs put in."""
        if not self.bound:
            return list(addresses)
        free = iter(addresses)
        return [
            self.bound[x.name].address if x.name in self.bound else next(free)
            for x in self._all
        ]

    def _packed(self, addresses: list[int], keep: list[object]) -> list[int]:
        """The same with inputs in the layout that the code wants."""
        for at, parameter in enumerate(self._all):
            row = self._prepared.get(parameter.name)
            if row is not None and parameter.name not in self.bound:
                keep.append(view := self._pack(row, addresses[at]))
                addresses[at] = view.address
        return addresses

    def _pack(self, row: Prepared, source: int) -> arrays.View:
        block = arrays.empty(Parameter.of(self.name, row.packed))
        entry = self.compiled.address(row.entry)
        prepare = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(entry)
        prepare(source, arrays.address(block))
        return arrays.View(arrays.address(block), block)

    def _check_overlap(self, addresses: list[int]) -> None:
        if not self.bound:
            arrays.check_overlap(self._all, addresses, len(self._outputs))
            return
        where = self._with_bound(addresses)
        arrays.check_overlap(
            [self._all[at] for at in self._exposed],
            [where[at] for at in self._exposed],
            len(self._outputs),
        )

    def _given(self, out: object) -> tuple[object, ...]:
        """The arrays that the caller wants to be written."""
        if type(out) is np.ndarray:  # the common case
            values: tuple[object, ...] = (out,)
        else:
            values = tuple(out) if isinstance(out, (tuple, list)) else (out,)
        if len(values) != len(self._outputs):
            raise ArgumentError(
                f"out of kernel {self.name!r}",
                f"{len(values)} arrays, but it has {len(self._outputs)} outputs",
            )
        return values

    def _wrong_count(self, given: int) -> ArgumentError:
        names = ", ".join(x.name for x in self._inputs) or "none"
        return ArgumentError(
            f"call of kernel {self.name!r}",
            f"{given} inputs, but it takes {len(self._inputs)}: {names}",
            "outputs are returned, or given as out=…",
        )


def _signature(buffer: Buffer) -> str:
    return f"{buffer.name}: {buffer.dtype}[{', '.join(map(str, buffer.shape))}]"
