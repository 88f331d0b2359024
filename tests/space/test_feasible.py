"""What the limits let through can be lowered, compiled and run as they promise."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import ansor
from ansor.codegen import asm
from ansor.ir.verify import verify
from ansor.search.build import build
from ansor.space import Sketch, sketches
from ansor.space.feasible import LIMITS, broken
from ansor.space.registers import promised_spills
from ansor.space.table import Matrix
from ansor.space.view import View
from ansor.target import Target
from ansor.te.task import Task
from ansor.te.workloads import outputs, task, workload

TARGETS = {
    "aarch64": Target("aarch64", cpu="neoverse-n1", cores=4),
    "avx512": Target("x86_64", cpu="skylake-avx512", cores=4),
    "haswell": Target("x86_64", cpu="haswell", cores=4),
    "cuda": Target("cuda", arch="sm_90"),
}
LOWERED = ("GMM512", "C1D-nhwc", "R50b-nchw", "DEP-nhwc", "T2D-nhwc", "SFM", "TBG")
COMPILED = ("GMM512", "R50c-nhwc", "SFM", "C1D-nhwc", "DEP-nhwc")
SPREAD = 8  # sketches of a workload, over all of them
MANY = 200  # points of a slow test: 1000 of five workloads
COUNT = 64


@cache
def space(name: str, target: str, size: str = "full") -> list[Sketch]:
    row = workload(name)
    made = row.make() if size == "full" else row.small()
    return sketches(Task(list(outputs(made)), TARGETS[target]))


def spread(found: list[Sketch], count: int) -> Iterator[tuple[int, Sketch]]:
    """Some of many sketches: the first, the last, and between them; numbered."""
    last = len(found) - 1
    for at in sorted({last * n // max(count - 1, 1) for n in range(count)}):
        yield at, found[at]


def wild(sketch: Sketch, count: int, seed: int) -> Matrix:
    """Points with any lengths, whatever the target can run."""
    rng = np.random.default_rng(seed)
    points = [rng.choice(knob.candidates, count) for knob in sketch.knobs]
    return np.array(points, np.int32).reshape(len(points), count).T


def check_lowers(sketch: Sketch, point: list[int]) -> None:
    lowered = sketch.program(tuple(point)).lower("kernel")
    for function in (lowered.main, *lowered.prepare):
        verify(function, "final")


# -- what is let through can be lowered -----------------------------------------------


@pytest.mark.parametrize("name", LOWERED)
def test_feasible_points_lower(name: str) -> None:
    for target in TARGETS:
        for number, sketch in spread(space(name, target, "small"), SPREAD):
            for point in sketch.sample(1, number).tolist():
                check_lowers(sketch, point)


@pytest.mark.parametrize("name", LOWERED)
def test_feasible_points_lower_at_full_size(name: str) -> None:
    for target in ("aarch64", "cuda"):
        for number, sketch in spread(space(name, target), 4):
            for point in sketch.sample(1, number).tolist():
                check_lowers(sketch, point)


@pytest.mark.parametrize("name", LOWERED)
def test_so_do_those_that_were_not_drawn_by_tiles(name: str) -> None:
    """Mutations leave what `sample` draws: the mask alone stands before lowering."""
    for number, sketch in spread(space(name, "aarch64", "small"), SPREAD):
        moved = sketch.sample(COUNT, number)
        for seed in range(4):
            moved = sketch.mutate(moved, seed)
        points = np.concatenate([moved, wild(sketch, COUNT, number)])
        for point in points[sketch.feasible(points)][:2].tolist():
            check_lowers(sketch, point)


# -- and compiled ---------------------------------------------------------------------


def spills(assembly: str) -> int:
    """Vector registers that innermost loops of all functions keep on the stack."""
    names = set(re.findall(r"^\"?([^\s:\"]+)\"?:", assembly, re.MULTILINE))
    functions = (name for name in names if not name.startswith((".L", "L")))
    return sum(asm.spills(assembly, name) for name in functions)


def broken_promises(made: Task, sketch: Sketch, points: Matrix) -> Iterator[str]:
    view = View.of(sketch.plan, made.target, sketch.knobs, points)
    promised = np.broadcast_to(promised_spills(view), len(points))
    for point, most in zip(points.tolist(), promised.tolist(), strict=True):
        kernel = build(made, program=sketch.program(tuple(point)))
        found = spills(kernel.source("asm"))
        if found > most:
            yield f"{found} spills, {most} promised, at {point} of {sketch.trace}"


@pytest.mark.llvm
@pytest.mark.parametrize("name", COMPILED)
def test_kernels_spill_no_more_than_promised(name: str) -> None:
    made = task(name, replace(Target("cpu"), cores=2))
    for number, sketch in spread(sketches(made), SPREAD):
        faults = broken_promises(made, sketch, sketch.sample(1, number))
        assert not (found := list(faults)), found


@pytest.mark.llvm
def test_a_tile_above_the_limit_spills() -> None:
    """The limit is needed, and spills are seen where there are some."""
    target = replace(Target("cpu"), cores=2)
    sketch = product(target)
    lengths = {"C.i.3": 16, "C.j.3": 8 * target.lanes("float32"), "C.k.1": 64}
    point = with_lengths(sketch, lengths)
    assert why(sketch, point)
    kernel = build(sketch.task, program=sketch.program(tuple(point.tolist())))
    assert spills(kernel.source("asm")) > 0


@pytest.mark.llvm
@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", COMPILED)
def test_a_thousand_kernels_spill_no_more_than_promised(name: str) -> None:
    made = task(name, replace(Target("cpu"), cores=2))
    found = sketches(made)
    faults: list[str] = []
    for number, sketch in enumerate(found):
        points = sketch.sample(-(-MANY // len(found)), 1000 + number)
        faults += broken_promises(made, sketch, points)
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("name", COMPILED)
def test_a_promise_is_a_number_for_every_point(name: str) -> None:
    for number, sketch in spread(space(name, "aarch64"), SPREAD):
        points = sketch.sample(COUNT, number)
        view = View.of(sketch.plan, TARGETS["aarch64"], sketch.knobs, points)
        promised = np.broadcast_to(promised_spills(view), len(points))
        assert (promised >= 0).all()
        if name == "GMM512":
            assert not promised.any()


# -- populations ----------------------------------------------------------------------


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["GMM512", "DEP-nhwc", "SFM"])
def test_mutations_and_children_stay_in_range(name: str, target: str) -> None:
    for number, sketch in spread(space(name, target), 4):
        points = sketch.sample(COUNT, number)
        for seed in range(4):
            mutated = sketch.mutate(points, seed)
            points = sketch.cross(points, mutated, seed)
            for some in (points, mutated):
                assert some.shape == (len(points), len(sketch.knobs))
                for at, knob in enumerate(sketch.knobs):
                    assert np.isin(some[:, at], knob.candidates).all()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["GMM512", "DEP-nhwc", "SFM"])
def test_the_same_points_give_the_same_mask(name: str, target: str) -> None:
    first, second = (sketches(space(name, target)[0].task, most=2) for _ in range(2))
    for one, other in zip(first, second, strict=True):
        assert one.sample(COUNT, 3).tobytes() == other.sample(COUNT, 3).tobytes()
        points = wild(one, 1000, 3)
        mask = one.feasible(points)
        assert mask.tobytes() == other.feasible(points).tobytes()
        assert mask.tobytes() == one.feasible(np.asfortranarray(points)).tobytes()


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["GMM512", "DEP-nhwc", "SFM"])
def test_a_point_is_refused_if_and_only_if_a_limit_is_broken(
    name: str, target: str
) -> None:
    for number, sketch in spread(space(name, target), 4):
        points = np.concatenate([wild(sketch, 20, number), sketch.sample(4, number)])
        mask = sketch.feasible(points)
        for point, fits in zip(points, mask, strict=True):
            assert (why(sketch, point) == []) == fits


@pytest.mark.parametrize("rows", [0, 1, 16384, 16385])
def test_a_mask_has_an_entry_per_point(rows: int) -> None:
    sketch = space("GMM512", "aarch64")[0]
    points = wild(sketch, rows, 0)
    mask = sketch.feasible(points)
    assert mask.shape == (rows,)
    assert (mask[:100] == sketch.feasible(points[:100])).all()
    assert (mask[-100:] == sketch.feasible(points[-100:])).all()


# -- why not --------------------------------------------------------------------------


def why(sketch: Sketch, point: np.ndarray) -> list[str]:
    return broken(sketch.plan, sketch.task.target, sketch.knobs, point[None])


def product(target: Target) -> Sketch:
    """A matmul in tiles, the operands where they are; on a GPU, its first sketch."""
    a, b = (ansor.placeholder((512, 512), name=name) for name in "AB")
    found = sketches(Task(ansor.ops.matmul(a, b, name="C"), target))
    if target.kind == "cuda":
        return found[0]
    return next(s for s in found if s.trace == ("tile C along j",))


def with_lengths(sketch: Sketch, lengths: dict[str, int]) -> np.ndarray:
    """A point with these lengths; all others are the smallest."""
    assert lengths.keys() <= {knob.name for knob in sketch.knobs}
    point = [lengths.get(k.name, min(k.candidates)) for k in sketch.knobs]
    return np.array(point, np.int32)


TILE = {"C.i.3": 6, "C.j.3": 64}
LARGE = {"C.i.3": 16, "C.j.3": 32}  # 8 vectors of NEON
WIDE = {"C.i.3": 16, "C.j.3": 128}  # and of AVX-512
BLOCK = {"C.i.2": 32, "C.j.2": 32}
WHY: dict[str, tuple[dict[str, int], str, list[str]]] = {
    "nothing": ({}, "aarch64", []),
    "large tile": (LARGE, "aarch64", ["vector registers: 141 of 31"]),
    "wide tile": (WIDE, "avx512", ["vector registers: 137 of 31"]),
    "fewer registers": (TILE, "haswell", ["vector registers: 57 of 15"]),
    "enough registers": (TILE, "avx512", []),
    "too long": (
        {"C.k.1": 512, "C.k.2": 8},
        "aarch64",
        ["tiles longer than what they tile: 1 of 0"],
    ),
    "two at once": (
        {**LARGE, "C.i.2": 512},
        "aarch64",
        ["vector registers: 141 of 31", "tiles longer than what they tile: 1 of 0"],
    ),
    "largest block": (BLOCK, "cuda", []),
    "too many threads": (
        {**BLOCK, "C.i.2": 64},
        "cuda",
        ["threads of a block: 2048 of 1024"],
    ),
    "too many virtual threads": (
        {**BLOCK, "C.i.1": 4, "C.j.1": 4},
        "cuda",
        ["virtual threads: 16 of 8"],
    ),
    "half a warp": (
        {"C.i.2": 4, "C.j.2": 4},
        "cuda",
        ["threads missing to a warp: 16 of 0"],
    ),
    "too much shared": (
        {**BLOCK, "C.i.3": 4, "C.j.4": 4, "C.k.1": 64, "C.k.2": 8},
        "cuda",
        ["bytes of shared memory: 524288 of 232448"],
    ),
    "too many results": (
        {**BLOCK, "C.i.3": 4, "C.i.4": 4, "C.j.3": 2, "C.j.4": 8},
        "cuda",
        ["registers of a thread: 256 of 191"],
    ),
}


@pytest.mark.parametrize(("lengths", "target", "limits"), WHY.values(), ids=WHY)
def test_limits_are_named(
    lengths: dict[str, int], target: str, limits: list[str]
) -> None:
    sketch = product(TARGETS[target])
    assert why(sketch, with_lengths(sketch, lengths)) == limits


def test_limits_have_different_names() -> None:
    for kind, groups in LIMITS.items():
        names = [limit.name for limits in groups for limit in limits]
        assert len(names) == len(set(names)), kind
