"""The spaces of the standard workloads as text: a change of the space is a diff.

Each file holds the number of sketches, the trace and a fingerprint of every sketch, and
the first of them in full.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

import pytest

import ansor
from ansor.space import Sketch, sketches
from ansor.te.workloads import WORKLOADS, task

TARGETS = {
    "cpu": ansor.Target("aarch64", cpu="neoverse-n1", cores=4),
    "cuda": ansor.Target("cuda", arch="sm_90"),
}
SHOWN = 2  # sketches in full


def fingerprint(sketch: Sketch) -> str:
    return sha256(str(sketch).encode()).hexdigest()[:12]


def lines(name: str, target: str, found: list[Sketch]) -> Iterator[str]:
    yield f"{name}: {WORKLOADS[name].description}"
    yield f"{len(found)} sketches for {TARGETS[target]}"
    for number, sketch in enumerate(found):
        yield f"{number:>2} {fingerprint(sketch)} {'; '.join(sketch.trace)}".rstrip()
    for number, sketch in enumerate(found[:SHOWN]):
        yield f"\nsketch {number}"
        yield str(sketch)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", WORKLOADS)
def test_space(name: str, target: str, golden: str) -> None:
    found = sketches(task(name, TARGETS[target]))
    assert "\n".join(lines(name, target, found)) == golden
