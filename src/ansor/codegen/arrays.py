"""Array arguments of kernels: checked against their buffers, as addresses.

Nothing is converted or copied silently: an array that does not fit is an error that
says what would.
"""

import ctypes
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import cast

import numpy as np

from ansor.codegen import dlpack
from ansor.errors import ArgumentError
from ansor.ir.dtypes import dtype
from ansor.ir.expr import Buffer

ALIGNMENT = 64  # of the arrays made here
_NUMPY = np.ndarray


@dataclass(frozen=True)
class Parameter:
    """One argument of a kernel, with what the checks need at hand."""

    kernel: str
    name: str
    shape: tuple[int, ...]
    dtype: np.dtype
    dtype_name: str
    itemsize: int
    bytes: int

    @classmethod
    def of(cls, kernel: str, buffer: Buffer) -> "Parameter":
        row = dtype(buffer.dtype)
        return cls(
            kernel, buffer.name, tuple(buffer.shape), row.numpy, row.name, row.bytes,
            buffer.bytes,
        )  # fmt: skip

    @property
    def what(self) -> str:
        return f"argument {self.name!r} of kernel {self.kernel!r}"


@dataclass(frozen=True)
class View:
    """Memory of an argument. It stays valid as long as `owner` is alive."""

    address: int
    owner: object


def plain_addresses(
    values: Sequence[object], parameters: Sequence[Parameter], *, write: bool = False
) -> list[int] | None:
    """Addresses of NumPy arrays that fit as they are; None if one needs a closer look.

    The common case, in about a microsecond per array.
    """
    addresses: list[int] = []
    for value, parameter in zip(values, parameters, strict=True):
        if (
            type(value) is not _NUMPY
            or (value.dtype is not parameter.dtype and value.dtype != parameter.dtype)
            or value.shape != parameter.shape
        ):
            return None
        flags = value.flags
        # carray: contiguous, aligned and writeable, in one question
        if not flags.carray and (write or not flags.c_contiguous or not flags.aligned):
            return None
        addresses.append(address(value))
    return addresses


def read(value: object, parameter: Parameter) -> View:
    """`value` as an input; raises ArgumentError if it does not fit `parameter`."""
    if isinstance(value, (bool, int, float)):
        value = _scalar(value, parameter)
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        _check(parameter, array.dtype.name, array.shape, array.flags.c_contiguous)
        if not array.dtype.isnative:
            raise ArgumentError(
                parameter.what,
                "its bytes are in the order of another machine",
                f"pass {parameter.name}.astype({parameter.dtype_name!r})",
            )
        return _aligned(View(address(array), array), parameter)
    return _aligned(_read_dlpack(value, parameter)[0], parameter)


def write(value: object, parameter: Parameter) -> View:
    """`value` as an output; raises ArgumentError if it cannot take the result."""
    if isinstance(value, np.ndarray):
        view, read_only = read(value, parameter), not value.flags.writeable
    elif isinstance(value, (bool, int, float, np.generic)):
        raise ArgumentError(
            parameter.what,
            f"{type(value).__name__} cannot be written to",
            "pass an array",
        )
    else:
        view, read_only = _read_dlpack(value, parameter)
        _aligned(view, parameter)
    if read_only:
        raise ArgumentError(
            parameter.what, "the array is read-only", "pass a writable array as out"
        )
    return view


def _scalar(value: bool | int | float, parameter: Parameter) -> np.ndarray:
    if parameter.shape:
        raise ArgumentError(
            parameter.what,
            f"{value!r} is a number, but its shape is {parameter.shape}",
            f"pass an array, for example np.full({parameter.shape}, {value!r})",
        )
    order = {"bool": 0, "int": 1, "uint": 1, "float": 2}
    kind = dtype(parameter.dtype_name).kind
    given = 0 if isinstance(value, bool) else 1 if isinstance(value, int) else 2
    if given > order[kind] or (
        parameter.dtype_name != "bool" and isinstance(value, bool)
    ):
        raise ArgumentError(
            parameter.what,
            f"{value!r} is {type(value).__name__}, but it takes {parameter.dtype_name}",
        )
    try:
        return np.array(float(value) if kind == "float" else value, parameter.dtype)
    except OverflowError as error:
        raise ArgumentError(parameter.what, str(error)) from error


def _read_dlpack(value: object, parameter: Parameter) -> tuple[View, bool]:
    """The memory of `value`, and whether it is read-only."""
    if _torch(value) is not None and (view := _read_torch(value, parameter)):
        return view, False
    if not hasattr(value, "__dlpack__") or not hasattr(value, "__dlpack_device__"):
        raise ArgumentError(
            parameter.what,
            f"{type(value).__name__} is not an array",
            "pass a NumPy array or anything with __dlpack__",
        )
    try:
        tensor = dlpack.read(cast(dlpack.Exporter, value))
    except ArgumentError as error:
        found, reason, hint = error.args
        raise ArgumentError(parameter.what, f"{found}: {reason}", hint) from error
    _check(parameter, tensor.dtype, tensor.shape, tensor.is_dense)
    return View(tensor.address, tensor.capsule), tensor.read_only


def _read_torch(value: object, parameter: Parameter) -> View | None:
    """A torch tensor without DLPack, which takes ten times as long; None if unusual."""
    torch = sys.modules["torch"]
    assert isinstance(value, torch.Tensor)
    if value.is_neg():
        raise ArgumentError(
            parameter.what,
            "a view of numbers of the opposite sign",
            f"pass {parameter.name}.resolve_neg()",
        )
    plain = value.layout == torch.strided and value.is_cpu and not value.is_nested
    if value.requires_grad or not plain:
        return None
    name = str(value.dtype).removeprefix("torch.")
    _check(parameter, name, tuple(value.shape), value.is_contiguous(), _TORCH_HINTS)
    try:
        return View(int(value.data_ptr()), value)
    except RuntimeError:  # inside a transform such as vmap
        return None


# How an array is converted, and how it is made dense.
_HINTS = ("{0}.astype(...)", "np.ascontiguousarray({0})")
_TORCH_HINTS = ("{0}.to(torch.{1})", "{0}.contiguous()")


def _check(
    parameter: Parameter,
    dtype_name: str,
    shape: tuple[int, ...],
    dense: bool,
    hints: tuple[str, str] = _HINTS,
) -> None:
    if dtype_name != parameter.dtype_name:
        raise ArgumentError(
            parameter.what,
            f"dtype {dtype_name}, but it takes {parameter.dtype_name}",
            "convert it, for example "
            + hints[0].format(parameter.name, parameter.dtype_name),
        )
    if shape != parameter.shape:
        raise ArgumentError(
            parameter.what, f"shape {shape}, but it takes {parameter.shape}"
        )
    if not dense:
        raise ArgumentError(
            parameter.what,
            "not contiguous in row-major order",
            f"pass {hints[1].format(parameter.name)}",
        )


def _aligned(view: View, parameter: Parameter) -> View:
    if not view.address and parameter.bytes:
        raise ArgumentError(
            parameter.what,
            "it has no memory, only a shape",
            "pass an array with elements, not a stand-in made for tracing",
        )
    if view.address % parameter.itemsize:
        raise ArgumentError(
            parameter.what,
            f"address {view.address:#x} is not a multiple of "
            f"{parameter.itemsize} bytes",
            f"pass {parameter.name}.copy()",
        )
    return view


def check_overlap(
    parameters: Sequence[Parameter], addresses: Sequence[int], outputs: int
) -> None:
    """Raise ArgumentError if an output shares memory with another argument."""
    for at in range(len(parameters) - outputs, len(parameters)):
        begin = addresses[at]
        end = begin + parameters[at].bytes
        for other in range(at):
            start = addresses[other]
            if start < end and begin < start + parameters[other].bytes:
                raise ArgumentError(
                    parameters[at].what,
                    f"it overlaps argument {parameters[other].name!r} in memory",
                    "pass an array of its own as out",
                )


def empty(parameter: Parameter) -> np.ndarray:
    """A new array for `parameter`, aligned to 64 bytes, with any contents."""
    raw = np.empty(parameter.bytes + ALIGNMENT, np.uint8)
    offset = -address(raw) % ALIGNMENT
    return np.ndarray(parameter.shape, parameter.dtype, raw, offset)


def empty_like(parameter: Parameter, model: object) -> object:
    """A new writable array for `parameter`: of torch if `model` is, else of NumPy."""
    torch = _torch(model)
    if torch is None:
        return empty(parameter)
    return torch.empty(parameter.shape, dtype=getattr(torch, parameter.dtype_name))


def finish_like(result: object, model: object) -> object:
    """`result` of `empty_like` as the kind of array that `model` is, if possible."""
    if not isinstance(result, np.ndarray):
        return result
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(model, jax.Array):
        return jax.numpy.asarray(result)
    return result


def _torch(model: object) -> ModuleType | None:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.Tensor):
        return torch
    return None


def _by_interface(array: np.ndarray) -> int:
    return int(array.__array_interface__["data"][0])


def _by_header(array: np.ndarray) -> int:
    # The data pointer follows the object header: NumPy's C ABI, 7 times as fast as
    # __array_interface__.
    return _word(id(array) + _HEADER).value or 0


_word = ctypes.c_void_p.from_address
_HEADER = object.__basicsize__


def _fastest() -> Callable[[np.ndarray], int]:
    probes = (np.arange(3.0), np.zeros((2, 3), np.int8)[1:], np.ones(4)[::-1])
    if sys.implementation.name == "cpython" and all(
        _by_header(probe) == _by_interface(probe) for probe in probes
    ):
        return _by_header
    return _by_interface


address = _fastest()
"""Where the elements of a NumPy array begin."""
