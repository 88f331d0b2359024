"""The CPUs that can be named: one table, and what follows from a set of features."""

from dataclasses import dataclass

from ansor.errors import TargetError

KIB, MIB = 1 << 10, 1 << 20

# The features that change the code we emit, in LLVM's names. `/proc/cpuinfo` spells
# some of them differently; `detect` translates.
X86_FEATURES = (
    "amx-bf16", "amx-int8", "amx-tile", "avx", "avx2", "avx512bf16", "avx512bw",
    "avx512dq", "avx512f", "avx512fp16", "avx512vl", "avx512vnni", "avxvnni",
    "f16c", "fma", "sse4.2",
)  # fmt: skip
ARM_FEATURES = ("bf16", "dotprod", "fullfp16", "i8mm", "lse", "neon")
FEATURES = {"x86_64": X86_FEATURES, "aarch64": ARM_FEATURES}

_SSE = ("sse4.2",)
_AVX2 = (*_SSE, "avx", "avx2", "f16c", "fma")
_AVX512 = (*_AVX2, "avx512bw", "avx512dq", "avx512f", "avx512vl")
_ICELAKE = (*_AVX512, "avx512vnni")
_AMX = ("amx-bf16", "amx-int8", "amx-tile")
_SAPPHIRE = (*_ICELAKE, *_AMX, "avx512bf16", "avx512fp16", "avxvnni")
_ARM_8_2 = ("dotprod", "fullfp16", "lse", "neon")
_ARM_8_6 = (*_ARM_8_2, "bf16", "i8mm")


@dataclass(frozen=True, slots=True)
class Cpu:
    """One row: what LLVM and the cost model need to know of a CPU by its name."""

    name: str  # LLVM's
    arch: str  # "x86_64" | "aarch64"
    features: tuple[str, ...]
    cache_bytes: tuple[int, int, int]  # L1d and L2 of one core, the L3 it can reach
    line_bytes: int = 64
    system: str = ""  # the only operating system it runs, where there is one


CPUS: dict[str, Cpu] = {
    row.name: row
    for row in (
        #   name              arch       features    L1d       L2          L3
        Cpu("nehalem",        "x86_64",  _SSE,      (32 * KIB, 256 * KIB,  8 * MIB)),
        Cpu("haswell",        "x86_64",  _AVX2,     (32 * KIB, 256 * KIB,  8 * MIB)),
        Cpu("skylake",        "x86_64",  _AVX2,     (32 * KIB, 256 * KIB,  8 * MIB)),
        Cpu("skylake-avx512", "x86_64",  _AVX512,   (32 * KIB, 1 * MIB,    32 * MIB)),
        Cpu("cascadelake",    "x86_64",  _ICELAKE,  (32 * KIB, 1 * MIB,    32 * MIB)),
        Cpu("icelake-server", "x86_64",  _ICELAKE,  (48 * KIB, 1280 * KIB, 48 * MIB)),
        Cpu("sapphirerapids", "x86_64",  _SAPPHIRE, (48 * KIB, 2 * MIB,    64 * MIB)),
        Cpu("emeraldrapids",  "x86_64",  _SAPPHIRE, (48 * KIB, 2 * MIB,   256 * MIB)),
        Cpu("graniterapids",  "x86_64",  _SAPPHIRE, (48 * KIB, 2 * MIB,   256 * MIB)),
        Cpu("znver2",         "x86_64",  _AVX2,     (32 * KIB, 512 * KIB,  16 * MIB)),
        Cpu("znver3",         "x86_64",  _AVX2,     (32 * KIB, 512 * KIB,  32 * MIB)),
        Cpu("znver4",         "x86_64",  (*_ICELAKE, "avx512bf16"),
                                                    (32 * KIB, 1 * MIB,    32 * MIB)),
        Cpu("znver5",         "x86_64",  (*_ICELAKE, "avx512bf16", "avxvnni"),
                                                    (48 * KIB, 1 * MIB,    32 * MIB)),
        Cpu("generic",        "aarch64", ("neon",), (32 * KIB, 512 * KIB,  1 * MIB)),
        Cpu("cortex-a72",     "aarch64", ("neon",), (32 * KIB, 1 * MIB,    1 * MIB)),
        Cpu("cortex-a76",     "aarch64", _ARM_8_2,  (64 * KIB, 256 * KIB,  2 * MIB)),
        Cpu("neoverse-n1",    "aarch64", _ARM_8_2,  (64 * KIB, 1 * MIB,    32 * MIB)),
        Cpu("neoverse-n2",    "aarch64", _ARM_8_6,  (64 * KIB, 1 * MIB,    32 * MIB)),
        Cpu("neoverse-v1",    "aarch64", _ARM_8_6,  (64 * KIB, 1 * MIB,    32 * MIB)),
        Cpu("neoverse-v2",    "aarch64", _ARM_8_6,  (64 * KIB, 2 * MIB,    36 * MIB)),
        Cpu("apple-m1",       "aarch64", _ARM_8_2,  (128 * KIB, 12 * MIB,  12 * MIB),
            line_bytes=128, system="darwin"),
    )
}  # fmt: skip

ALIASES = {
    "x86-64": "nehalem",
    "x86-64-v2": "nehalem",
    "x86-64-v3": "haswell",
    "x86-64-v4": "skylake-avx512",
    "graviton1": "cortex-a72",
    "graviton2": "neoverse-n1",
    "graviton3": "neoverse-v1",
    "graviton4": "neoverse-v2",
}
BASELINE = {"x86_64": "nehalem", "aarch64": "generic"}


def cpu(name: str, arch: str = "") -> Cpu:
    """The row of `name` or of its alias; of the baseline of `arch` where name is empty.

    >>> cpu("graviton2").name
    'neoverse-n1'
    """
    wanted = name or BASELINE[arch]
    row = CPUS.get(ALIASES.get(wanted, wanted))
    if row is None:
        raise TargetError(
            f"cpu {name!r}", "unknown", f"use one of {', '.join((*CPUS, *ALIASES))}"
        )
    if arch and row.arch != arch:
        fitting = ", ".join(x.name for x in CPUS.values() if x.arch == arch)
        raise TargetError(
            f"cpu {name!r}", f"is {row.arch}, not {arch}", f"use one of {fitting}"
        )
    return row


def widest_vector(arch: str, features: frozenset[str]) -> int:
    """Bits of the widest vector register that all our element types can use.

    From the features and never from a CPU's name: a virtual machine may hide some.
    SVE is not used, so AArch64 has 128 bits.
    """
    if arch == "x86_64" and features.issuperset(_AVX512):
        return 512
    if arch == "x86_64" and features.issuperset(_AVX2):
        return 256
    return 128
