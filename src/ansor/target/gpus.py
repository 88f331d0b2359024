"""The CUDA architectures that can be named, and the one this machine has."""

import ctypes
import functools
from dataclasses import dataclass

from ansor.errors import TargetError

KIB = 1 << 10


@dataclass(frozen=True, slots=True)
class Gpu:
    """The limits a kernel has to respect on one architecture."""

    arch: str  # "sm_90"
    multiprocessors: int  # of the part named in the table, or of the device found
    shared_bytes: int  # the most one block may ask for
    warp: int = 32  # threads
    max_threads: int = 1024  # per block
    registers: int = 65536  # 32-bit, per multiprocessor
    thread_registers: int = 255


GPUS: dict[str, Gpu] = {
    row.arch: row
    for row in (
        Gpu("sm_70", 80, 96 * KIB),  # V100
        Gpu("sm_75", 40, 64 * KIB),  # T4
        Gpu("sm_80", 108, 163 * KIB),  # A100
        Gpu("sm_86", 84, 99 * KIB),  # A40, RTX 3090
        Gpu("sm_87", 16, 163 * KIB),  # Orin
        Gpu("sm_89", 142, 99 * KIB),  # L40, RTX 4090
        Gpu("sm_90", 132, 227 * KIB),  # H100, H200
        Gpu("sm_100", 148, 227 * KIB),  # B200
        Gpu("sm_120", 170, 99 * KIB),  # RTX 5090
    )
}
DEFAULT = "sm_90"  # what is compiled for where there is no device


def gpu(arch: str = "") -> Gpu:
    """The limits of `arch`; where empty, of the first device, else of the default."""
    if not arch:
        return device() or GPUS[DEFAULT]
    if arch not in GPUS:
        known = ", ".join(GPUS)
        raise TargetError(f"cuda arch {arch!r}", "unknown", f"use one of {known}")
    return GPUS[arch]


# CUdevice_attribute: the numbers are part of the driver's stable interface.
_MAX_THREADS, _WARP, _MULTIPROCESSORS, _REGISTERS = 1, 10, 16, 82
_MAJOR, _MINOR, _SHARED = 75, 76, 97


@functools.cache
def device() -> Gpu | None:
    """The first CUDA device, asked through the driver; None without one."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None
    handle = ctypes.c_int()
    if driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(handle), 0):
        return None

    def attribute(number: int) -> int:
        value = ctypes.c_int()
        driver.cuDeviceGetAttribute(ctypes.byref(value), number, handle)
        return value.value

    return Gpu(
        arch=f"sm_{attribute(_MAJOR)}{attribute(_MINOR)}",
        multiprocessors=attribute(_MULTIPROCESSORS),
        shared_bytes=attribute(_SHARED),
        warp=attribute(_WARP),
        max_threads=attribute(_MAX_THREADS),
        registers=attribute(_REGISTERS),
    )
