"""Reading DLPack capsules: arrays of other libraries as plain facts, without copying.

NumPy can import such arrays too, but not bfloat16, and not from a read-only source.
"""

import ctypes
from dataclasses import dataclass
from typing import Protocol

from ansor.errors import ArgumentError

CPU_DEVICES = frozenset({1, 3, 11, 13})  # CPU; pinned or managed by CUDA or ROCm
DEVICES = {2: "cuda", 4: "opencl", 7: "vulkan", 8: "metal", 10: "rocm", 14: "oneapi"}
READ_ONLY = 1  # bit of the flags of a versioned tensor
KINDS = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex", 6: "bool"}


class Exporter(Protocol):
    """An array that speaks DLPack."""

    def __dlpack__(self) -> object: ...

    def __dlpack_device__(self) -> tuple[int, int]: ...


class _DataType(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


@dataclass(frozen=True)
class Tensor:
    """What a capsule says. The memory stays valid as long as `capsule` is alive."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None  # in elements; None means dense
    dtype: str
    read_only: bool
    capsule: object

    @property
    def is_dense(self) -> bool:
        """Row-major without gaps; strides of axes of length 1 do not count."""
        step = 1
        if self.strides is None:
            return True
        for extent, stride in zip(self.shape[::-1], self.strides[::-1], strict=True):
            if extent != 1 and stride != step:
                return False
            step *= extent
        return True


def read(value: Exporter) -> Tensor:
    """The array behind `value`, which must be in the memory of the CPU."""
    device = _device(value)
    if device not in CPU_DEVICES:
        name = DEVICES.get(device, f"DLPack device {device}")
        raise ArgumentError(
            f"{type(value).__name__} on {name}",
            "the kernel runs on the CPU",
            "copy it to the CPU first",
        )
    capsule = _export(value)
    if _is_valid(capsule, b"dltensor_versioned"):
        versioned = _Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))
        read_only = bool(versioned.flags & READ_ONLY)
        return _describe(versioned.tensor, capsule, read_only)
    if _is_valid(capsule, b"dltensor"):
        plain = _Tensor.from_address(_pointer(capsule, b"dltensor"))
        return _describe(plain, capsule, False)
    raise ArgumentError(f"{type(value).__name__}", "its DLPack capsule is not valid")


def _device(value: Exporter) -> int:
    try:
        return int(value.__dlpack_device__()[0])
    except (ValueError, RuntimeError) as error:
        raise ArgumentError(f"{type(value).__name__}", str(error)) from error


def _export(value: Exporter) -> object:
    try:
        try:
            return value.__dlpack__(max_version=(1, 1))  # type: ignore[call-arg]
        except TypeError:  # written before versions existed
            return value.__dlpack__()
    except (BufferError, RuntimeError) as error:
        raise ArgumentError(
            f"{type(value).__name__}",
            f"does not export its memory: {error}",
            "detach it or copy it first",
        ) from error


def _describe(tensor: _Tensor, capsule: object, read_only: bool) -> Tensor:
    axes = range(tensor.ndim)
    kind = KINDS.get(tensor.dtype.code, f"code{tensor.dtype.code}_")
    bits = tensor.dtype.bits
    lanes = f"x{tensor.dtype.lanes}" if tensor.dtype.lanes != 1 else ""
    dtype = "bool" if kind == "bool" and bits == 8 else f"{kind}{bits}"
    return Tensor(
        (tensor.data or 0) + tensor.byte_offset,
        tuple(tensor.shape[axis] for axis in axes),
        tuple(tensor.strides[axis] for axis in axes) if tensor.strides else None,
        dtype + lanes,
        read_only,
        capsule,
    )


_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.argtypes = (ctypes.py_object, ctypes.c_char_p)
_is_valid.restype = ctypes.c_int
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
_pointer.restype = ctypes.c_void_p
