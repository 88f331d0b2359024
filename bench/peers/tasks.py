"""Tasks by name: the standard workloads, and GMM with any number."""

from __future__ import annotations

from ansor import Target, Task
from ansor.te.workloads import MORE, WORKLOADS, Workload, outputs, workload
from ansor.te.workloads.standard import product


def find(name: str) -> Workload:
    """The workload of this name.

    >>> find("GMM2048").description
    'matrix product 2048x2048x2048'
    """
    size = name.removeprefix("GMM")
    if name in WORKLOADS or name in MORE or not size.isdecimal():
        return workload(name)
    sizes = dict.fromkeys("mnk", int(size))
    text = f"matrix product {size}x{size}x{size}"
    return Workload(name, text, product, sizes, dict.fromkeys("mnk", 4))


def task(name: str, threads: int) -> Task:
    return Task(list(outputs(find(name).make())), Target("cpu", cores=threads))
