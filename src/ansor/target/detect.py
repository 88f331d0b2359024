"""What this machine is: asked from the operating system, and from LLVM for the name."""

import functools
import os
import platform
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from ansor.errors import TargetError
from ansor.target.cpus import CPUS, FEATURES
from ansor.target.settings import thread_limit

# How the kernel spells a feature in /proc/cpuinfo, where LLVM spells it otherwise.
PROC_NAMES = {
    "amx-bf16": "amx_bf16",
    "amx-int8": "amx_int8",
    "amx-tile": "amx_tile",
    "avx512bf16": "avx512_bf16",
    "avx512fp16": "avx512_fp16",
    "avx512vnni": "avx512_vnni",
    "avxvnni": "avx_vnni",
    "sse4.2": "sse4_2",
    "dotprod": "asimddp",
    "fullfp16": "asimdhp",
    "lse": "atomics",
    "neon": "asimd",
}
ARCHES = {
    "x86_64": "x86_64",
    "amd64": "x86_64",
    "aarch64": "aarch64",
    "arm64": "aarch64",
}
SYSTEMS = {
    "linux": "unknown-linux-gnu",
    "darwin": "apple-darwin",
    "win32": "pc-windows-msvc",
}
FALLBACK_CACHE = (32 << 10, 512 << 10, 8 << 20)  # bytes of L1d, L2, L3
FALLBACK_LINE = 64

SYS_CACHE = Path("/sys/devices/system/cpu/cpu0/cache")
CPUINFO = Path("/proc/cpuinfo")


def arch() -> str:
    """The instruction set of this machine, in the words of `Target.arch`."""
    machine = platform.machine().lower()
    if machine not in ARCHES:
        raise TargetError(
            f"this machine ({machine})",
            "no code can be generated for it",
            "name a target, such as Target('x86_64') or Target('aarch64')",
        )
    return ARCHES[machine]


def triple(arch: str, system: str) -> str:
    """LLVM's name of an instruction set and operating system (as `sys.platform`)."""
    return f"{arch}-{SYSTEMS.get(system, SYSTEMS['linux'])}"


def cores() -> int:
    """CPUs this process may run on, or fewer where ANSOR_THREADS says so."""
    if hasattr(os, "sched_getaffinity"):
        available = len(os.sched_getaffinity(0))
    else:
        available = os.cpu_count() or 1
    return min(available, thread_limit() or available)


@functools.cache
def cpu_name() -> str:
    """LLVM's name of the host CPU. Imports LLVM."""
    from llvmlite import binding

    return str(binding.get_host_cpu_name())


@functools.cache
def features(arch: str) -> frozenset[str]:
    """The features of this machine that matter to us, in LLVM's names.

    The kernel's list comes first: it knows what a hypervisor hides, and LLVM's own
    detection leaves out half-precision and dot-product arithmetic on AArch64.
    """
    flags = proc_flags(CPUINFO)
    if flags:
        wanted = FEATURES[arch]
        return frozenset(x for x in wanted if PROC_NAMES.get(x, x) in flags)
    return _llvm_features(arch)


def proc_flags(path: Path) -> frozenset[str]:
    """The flags of the first CPU in a file like /proc/cpuinfo; empty without one."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return frozenset()
    for line in lines:
        key, _, value = line.partition(":")
        if key.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def _llvm_features(arch: str) -> frozenset[str]:
    from llvmlite import binding

    try:
        found = binding.get_host_cpu_features()
    except RuntimeError:  # LLVM cannot tell on this system: what the name implies
        row = CPUS.get(cpu_name())
        return frozenset(row.features if row else ())
    present = {name for name, has in found.items() if has}
    return frozenset(present.intersection(FEATURES[arch]))


@functools.cache
def caches() -> tuple[tuple[int, int, int], int]:
    """Bytes of L1d, L2 and L3 as one core sees them, and of a cache line."""
    if sys.platform == "darwin":
        return _sysctl_caches()
    return sys_caches(SYS_CACHE)


def sys_caches(root: Path) -> tuple[tuple[int, int, int], int]:
    """The same from a folder like /sys/devices/system/cpu/cpu0/cache.

    What is missing there is filled by common sizes; no cache is below the one before.
    """
    sizes: dict[int, int] = {}
    line = 0
    for index in sorted(root.glob("index*")):
        try:
            if (index / "type").read_text().strip() == "Instruction":
                continue
            level = int((index / "level").read_text())
            sizes[level] = _bytes((index / "size").read_text())
            line = line or int((index / "coherency_line_size").read_text())
        except (
            OSError,
            ValueError,
            KeyError,
        ):  # virtual machines leave some out
            continue
    return _complete(sizes), line or FALLBACK_LINE


def _bytes(text: str) -> int:
    """The size "64K" in bytes."""
    digits = text.strip().rstrip("KMG")
    unit = text.strip().removeprefix(digits)
    return int(digits) * {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}[unit]


def _complete(sizes: dict[int, int]) -> tuple[int, int, int]:
    if not sizes:
        return FALLBACK_CACHE
    l1 = sizes.get(1) or FALLBACK_CACHE[0]
    l2 = sizes.get(2) or max(l1, FALLBACK_CACHE[1])
    return l1, l2, sizes.get(3) or l2


def _sysctl_caches() -> tuple[tuple[int, int, int], int]:
    performance_core = "hw.perflevel0."
    l1 = _sysctl((performance_core + "l1dcachesize", "hw.l1dcachesize"))
    l2 = _sysctl((performance_core + "l2cachesize", "hw.l2cachesize"))
    l3 = _sysctl((performance_core + "l3cachesize", "hw.l3cachesize"))
    line = _sysctl(("hw.cachelinesize",))
    return _complete({1: l1, 2: l2, 3: l3}), line or FALLBACK_LINE


def _sysctl(names: Iterable[str]) -> int:
    """The first of these kernel values that is there; 0 without one."""
    for name in names:
        try:
            done = subprocess.run(
                ["sysctl", "-n", name], capture_output=True, text=True, check=True
            )
            if value := int(done.stdout):
                return value
        except (OSError, ValueError, subprocess.CalledProcessError):
            continue
    return 0
