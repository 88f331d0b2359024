"""The machine that code is made for, as one value."""

import sys
from dataclasses import dataclass

import ml_dtypes  # noqa: F401  (teaches NumPy the name "bfloat16")
import numpy as np

from ansor.errors import TargetError
from ansor.target import detect
from ansor.target.cpus import BASELINE, CPUS, FEATURES, cpu, widest_vector
from ansor.target.gpus import Gpu, device, gpu

PTX = "nvptx64"
KINDS = ("cpu", "cuda", *BASELINE)


@dataclass(frozen=True)
class Target:
    """A machine: `Target("cpu")` is this one, other arguments describe another.

        Target("cpu")                                   this machine
        Target("cpu", cores=4, cpu="skylake-avx512")    a CPU by LLVM's name
        Target("aarch64", cpu="neoverse-n1")            another instruction set (Linux)
        Target("x86_64")                                its baseline
        Target("cuda"), Target("cuda", arch="sm_90")    the GPU here, or a named one

    Every field may be given; one left at its empty default is filled in: from this
    machine for a plain "cpu", else from the table of known CPUs or GPUs. A CPU given
    by its name has one core unless `cores` says more. Afterwards `kind` is "cpu" or
    "cuda". Naming a CPU never asks this machine, nor does it import LLVM.

    >>> Target("aarch64", cpu="neoverse-n1", cores=4).lanes("float32")
    4
    >>> print(Target("cpu", cpu="skylake-avx512"))
    cpu skylake-avx512 (x86_64), 1 core, 512-bit vectors
    """

    kind: str = "cpu"
    arch: str = ""  # "x86_64" | "aarch64" | "nvptx64"
    cpu: str = ""  # LLVM's name of the CPU; of a GPU its architecture, "sm_90"
    features: str = ""  # for LLVM: "+avx2,+fma", sorted; "-x" is a feature hidden here
    triple: str = ""
    cores: int = 0  # of a GPU its multiprocessors
    vector_bits: int = 0
    cache_bytes: tuple[int, int, int] = (0, 0, 0)  # L1d, L2, L3 as one core sees them
    line_bytes: int = 0
    gpu: Gpu | None = None  # limits of a GPU

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            known = ", ".join(map(repr, KINDS))
            raise TargetError(f"target {self.kind!r}", "unknown", f"use one of {known}")
        if not all(map(_given, (getattr(self, name) for name in _required(self)))):
            _fill(self, _describe(self))
        _check(self)

    @classmethod
    def host(cls) -> "Target":
        """This machine, as detected. Imports LLVM."""
        return cls("cpu")

    @property
    def has_fma(self) -> bool:
        """A fused multiply-add is one instruction."""
        return self.arch != "x86_64" or "+fma" in self._switches

    @property
    def has_masks(self) -> bool:
        """Masked loads and stores of every element type cost what plain ones do."""
        return self.arch == "x86_64" and "+avx512bw" in self._switches

    @property
    def amx(self) -> bool:
        """There is a matrix unit that multiplies int8 and bfloat16 tiles."""
        return "+amx-tile" in self._switches

    @property
    def vector_registers(self) -> int:
        """How many vector registers a kernel may use; of a GPU, registers a thread."""
        if self.gpu is not None:
            return self.gpu.thread_registers
        return 32 if self.arch == "aarch64" or self.has_masks else 16

    @property
    def is_host(self) -> bool:
        """This machine can run code made for the target."""
        if self.kind == "cuda":
            found = device()
            return found is not None and found.arch == self.cpu
        here = detect.triple(detect.arch(), sys.platform)
        if _system(self.triple) != _system(here) or self.arch != detect.arch():
            return False
        present = detect.features(self.arch)
        needed = {x[1:] for x in self._switches if x.startswith("+")}
        return needed <= present

    @property
    def fingerprint(self) -> str:
        """All that decides which program is best, as one line: the key of records.

        >>> Target("aarch64", cpu="cortex-a72", cores=4).fingerprint
        'cpu aarch64 cortex-a72 +neon cores=4 vector=128 caches=32768/1048576/1048576 line=64'
        """  # noqa: E501
        caches = "/".join(map(str, self.cache_bytes))
        return " ".join(
            (
                *(self.kind, self.arch, self.cpu, self.features or "-"),
                f"cores={self.cores} vector={self.vector_bits}",
                f"caches={caches} line={self.line_bytes}",
            )
        )

    def lanes(self, dtype: str) -> int:
        """Elements of `dtype` in the widest vector, as stored in memory."""
        try:
            return self.vector_bits // (8 * np.dtype(dtype).itemsize)
        except TypeError:
            raise TargetError(f"lanes of dtype {dtype!r}", "unknown dtype") from None

    def __str__(self) -> str:
        if self.kind == "cuda":
            return f"cuda {self.cpu}, {self.cores} multiprocessors"
        plural = "" if self.cores == 1 else "s"
        return (
            f"cpu {self.cpu} ({self.arch}), {self.cores} core{plural}, "
            f"{self.vector_bits}-bit vectors"
        )

    @property
    def _switches(self) -> frozenset[str]:
        return frozenset(self.features.split(","))


def _given(value: object) -> bool:
    return all(value) if isinstance(value, tuple) else bool(value)


def _required(target: Target) -> tuple[str, ...]:
    """Fields that must not be empty; with all of them given, nothing is looked up."""
    if target.kind == "cuda":
        return ("arch", "cpu", "triple", "cores", "vector_bits", "line_bytes", "gpu")
    return (
        *("arch", "cpu", "features", "triple", "cores"),
        *("vector_bits", "cache_bytes", "line_bytes"),
    )


def _fill(target: Target, found: dict[str, object]) -> None:
    """Set what the caller left empty; names are set as the tables spell them."""
    for name, value in found.items():
        if name in ("kind", "arch", "cpu") or not _given(getattr(target, name)):
            object.__setattr__(target, name, value)


def _describe(target: Target) -> dict[str, object]:
    if target.kind == "cuda":
        return _describe_cuda(target)
    if target.kind == "cpu" and not target.cpu and not target.arch:
        return _describe_host()
    return _describe_named(target)


def _describe_host() -> dict[str, object]:
    arch, name = detect.arch(), detect.cpu_name()
    present = detect.features(arch)
    sizes, line = detect.caches()
    # The name may imply what a virtual machine hides: then it has to be switched off.
    implied = CPUS[name].features if name in CPUS else FEATURES[arch]
    return {
        "kind": "cpu",
        "arch": arch,
        "cpu": name,
        "features": _join(present, hidden=frozenset(implied) - present),
        "triple": detect.triple(arch, sys.platform),
        "cores": detect.cores(),
        "vector_bits": widest_vector(arch, present),
        "cache_bytes": sizes,
        "line_bytes": line,
    }


def _describe_named(target: Target) -> dict[str, object]:
    arch = target.arch or (target.kind if target.kind in BASELINE else "")
    if arch and arch not in BASELINE:
        known = ", ".join(BASELINE)
        raise TargetError(f"arch {arch!r} of a cpu", "unknown", f"use one of {known}")
    row = cpu(target.cpu, arch)
    system = sys.platform if target.kind == "cpu" else row.system or "linux"
    return {
        "kind": "cpu",
        "arch": row.arch,
        "cpu": row.name,
        "features": _join(frozenset(row.features)),
        "triple": detect.triple(row.arch, system),
        "cores": 1,
        "vector_bits": widest_vector(row.arch, frozenset(row.features)),
        "cache_bytes": row.cache_bytes,
        "line_bytes": row.line_bytes,
    }


def _describe_cuda(target: Target) -> dict[str, object]:
    named = target.arch if target.arch != PTX else ""
    limits = target.gpu or gpu(target.cpu or named)
    return {
        "kind": "cuda",
        "arch": PTX,
        "cpu": limits.arch,
        "triple": f"{PTX}-nvidia-cuda",
        "cores": limits.multiprocessors,
        "vector_bits": 128,  # the widest load of one thread
        "line_bytes": 128,
        "gpu": limits,
    }


def _join(present: frozenset[str], hidden: frozenset[str] = frozenset()) -> str:
    """LLVM's feature string, sorted by name."""
    signed = [(name, "+") for name in present] + [(name, "-") for name in hidden]
    return ",".join(sign + name for name, sign in sorted(signed))


def _check(target: Target) -> None:
    what = f"target {target.cpu!r}"
    if isinstance(target.cores, bool) or not isinstance(target.cores, int):
        raise TargetError(what, f"cores={target.cores!r} is not an integer")
    if target.cores < 1:
        raise TargetError(what, f"cores={target.cores} is below 1")
    if target.kind == "cuda":
        return
    switches = {x[1:] for x in target.features.split(",") if x.startswith("+")}
    widest = widest_vector(target.arch, frozenset(switches))
    if target.vector_bits not in (128, 256, 512) or target.vector_bits > widest:
        raise TargetError(
            what,
            f"vector_bits={target.vector_bits} is not a width it has",
            f"use {', '.join(str(x) for x in (128, 256, 512) if x <= widest)}",
        )


def _system(triple: str) -> str:
    """What follows the instruction set: vendor, operating system and ABI."""
    return triple.partition("-")[2]
