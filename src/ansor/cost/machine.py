"""The machine as the analytic model sees it: rates, capacities, fixed costs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import ceil

from ansor.target import Target
from ansor.target.calibrate import Calibration, load

GUESSED_HERTZ = 2.6e9  # of a CPU that was never measured
FMA_PIPES = 2  # vector multiply-adds in a cycle; of all CPUs in our table
ISSUE = {"x86_64": 5.0, "aarch64": 3.5}  # instructions in a cycle
# Cycles until a multiply-add can add to the result of another one. AArch64 cores
# forward it early.
LATENCY = {"x86_64": 4.0, "aarch64": 2.5}
WINDOW = 100.0  # instructions that a core looks ahead
# Bytes in a cycle that one core gets, where nothing was measured. Level 1 delivers two
# vectors.
L2_BYTES = {"x86_64": 36.0, "aarch64": 24.0}
L3_BYTES, DRAM_BYTES = 10.0, 5.0
FORK_JOIN = 3e-6  # seconds
GPU_HERTZ, GPU_LANES, GPU_BANDWIDTH = 1.6e9, 128, 2.5e12


@dataclass(frozen=True)
class Machine:
    """One core, and what cores share. Bandwidths are bytes per second of one core."""

    hertz: float
    lanes: int  # of float32
    fma_pipes: float  # vector operations in a cycle
    load_ports: float  # vector loads in a cycle
    store_ports: float
    issue: float  # instructions in a cycle
    latency: float  # cycles from one addition to the next
    window: float  # instructions that are looked at at once
    registers: int
    capacities: tuple[float, float, float]  # bytes: levels 1, 2, 3
    bandwidths: tuple[float, float, float]  # from levels 2, 3 and memory
    line: int  # bytes
    cores: int
    fork_join: float  # seconds of a parallel region
    shared: float  # cores that memory bandwidth suffices for
    has_fma: bool
    has_lane_operand: bool  # multiplies by a lane of a register (AArch64)

    @property
    def peak(self) -> float:
        """Float32 operations in a second of one core; a multiply-add is two."""
        return 2 * self.lanes * self.fma_pipes * self.hertz

    @staticmethod
    def of(target: Target) -> Machine:
        """From what was measured on this target; else from its description."""
        return _machine(target)


def look_again() -> None:
    """Forget the machines: one of them was measured."""
    _machine.cache_clear()


@cache
def _machine(target: Target) -> Machine:
    if target.kind == "cuda":
        return _gpu(target)
    return _cpu(target, load(target.fingerprint))


def _cpu(target: Target, measured: Calibration | None) -> Machine:
    lanes = target.lanes("float32")
    hertz, fork_join = GUESSED_HERTZ, FORK_JOIN
    near = L2_BYTES.get(target.arch, 24.0)
    rates = (near * hertz, L3_BYTES * hertz, DRAM_BYTES * hertz)
    load_ports = 2.0
    if measured is not None:
        hertz = measured.peak_flops_per_core / (2 * lanes * FMA_PIPES)
        rates = (
            measured.l2_bandwidth, measured.l3_bandwidth, measured.dram_bandwidth
        )  # fmt: skip
        fork_join = measured.fork_join_seconds
        ports = measured.l1_bandwidth / hertz / (lanes * 4)
        load_ports = min(max(ceil(2 * ports) / 2, 1.0), 4.0)  # never quite reached
    level1, level2, level3 = target.cache_bytes
    return Machine(
        hertz=hertz,
        lanes=lanes,
        fma_pipes=FMA_PIPES,
        load_ports=load_ports,
        store_ports=1.0,
        issue=ISSUE.get(target.arch, 4.0),
        latency=LATENCY.get(target.arch, 4.0),
        window=WINDOW,
        registers=target.vector_registers,
        capacities=(float(level1), float(level2), float(level3)),
        bandwidths=rates,
        line=target.line_bytes,
        cores=target.cores,
        fork_join=fork_join,
        shared=max(target.cores / 2, 1.0),
        has_fma=target.has_fma,
        has_lane_operand=target.arch == "aarch64",
    )


def _gpu(target: Target) -> Machine:
    """A multiprocessor as a core with very wide vectors: good for an order."""
    gpu = target.gpu
    assert gpu is not None
    share = GPU_BANDWIDTH / target.cores
    return Machine(
        hertz=GPU_HERTZ,
        lanes=GPU_LANES,
        fma_pipes=1.0,
        load_ports=0.25,
        store_ports=0.25,
        issue=4.0,
        latency=4.0,
        window=1e6,
        registers=gpu.thread_registers,
        capacities=(float(gpu.shared_bytes), 4e5, 4e5),
        bandwidths=(share * 3, share * 1.5, share),
        line=target.line_bytes,
        cores=target.cores,
        fork_join=3e-6,
        shared=float(target.cores),
        has_fma=True,
        has_lane_operand=False,
    )
