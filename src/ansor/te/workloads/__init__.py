"""Workloads by name: the standard ones that every claim is measured on, and others."""

from __future__ import annotations

from difflib import get_close_matches

from ansor.errors import ExpressionError
from ansor.target import Target
from ansor.te.task import Task
from ansor.te.workloads.more import MORE
from ansor.te.workloads.standard import WORKLOADS
from ansor.te.workloads.workload import Outputs, Workload, outputs

__all__ = ["MORE", "WORKLOADS", "Outputs", "Workload", "outputs", "task", "workload"]


def workload(name: str) -> Workload:
    """The workload called `name`, standard or other.

    >>> workload("NRM").description
    'root of the sum of squares of 256x256 matrices'
    """
    known = {**WORKLOADS, **MORE}
    if name not in known:
        near = get_close_matches(name, known, n=3, cutoff=0.4)
        raise ExpressionError(
            f"workload {name!r}", "unknown", f"use one of {', '.join(near or known)}"
        )
    return known[name]


def task(name: str, target: str | Target = "cpu", batch: int = 1) -> Task:
    """The task of a workload, standard or other, at full size.

    >>> task("GMM512", target="x86_64").flops
    268435456
    """
    return Task(list(outputs(workload(name).make(batch))), target)
