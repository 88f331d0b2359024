"""The least time a task can take on its machine, as far as that is known."""

from __future__ import annotations

from ansor.cost.machine import Machine
from ansor.ir.expr import Select
from ansor.ir.visit import walk
from ansor.target.calibrate import load
from ansor.te.task import Task

FITS = 2.0  # times the last cache: from here on, arrays come from memory each time


def roofline(task: Task) -> float:
    """Seconds: all arithmetic at the peak of all cores, or all inputs and outputs
    through their memory, whichever is longer. 0 if the machine was never measured.

    It is a lower bound: cores share memory bandwidth, and few programs are nothing but
    multiply-adds. Arithmetic does not count where a condition may spare some of it, nor
    of other types than float32, whose peak was not measured.
    """
    if task.target.kind != "cpu" or load(task.target.fingerprint) is None:
        return 0.0
    machine = Machine.of(task.target)
    buffers = (*task.dag.inputs, *task.dag.outputs)
    traffic = sum(buffer.bytes for buffer in buffers)
    if traffic <= FITS * machine.capacities[-1]:
        traffic = 0
    flops = task.flops if _is_counted(task) else 0
    rate, bandwidth = machine.peak, machine.bandwidths[-1]
    return max(flops / rate, traffic / bandwidth) / machine.cores


def _is_counted(task: Task) -> bool:
    """True if every program of the task does the same arithmetic, in float32."""
    exprs = [expr for stage in task.dag.stages for expr in stage.body]
    if any(isinstance(node, Select) for expr in exprs for node in walk(expr)):
        return False
    buffers = (*task.dag.inputs, *task.dag.outputs)
    return all(buffer.dtype == "float32" for buffer in buffers)
