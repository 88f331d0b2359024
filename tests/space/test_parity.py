"""Our sketches include those that the tests of the original system assert.

One table row is one sketch of the original: a claim about the plan that at least one of
ours must meet, without packing, which the original does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from itertools import product

import pytest

import ansor
from ansor.ir.expr import Select
from ansor.schedule.plan import Plan
from ansor.space import Sketch, Without, sketches
from ansor.te.workloads import task
from structures import (
    cached,
    is_across,
    is_factored,
    is_fused,
    is_inlined,
    is_serial,
    is_shared,
    is_threaded,
    is_tiled,
    is_unpacked,
    is_unrolled,
    is_untiled,
    is_within_rows,
)

CPU = ansor.Target("aarch64", cpu="neoverse-n1", cores=4)
GPU = ansor.Target("cuda", arch="sm_90")

Claim = Callable[[Plan], bool]


@cache
def space(name: str, target: ansor.Target) -> list[Sketch]:
    return sketches(task(name, target))


def missing(found: Iterable[Sketch], claims: dict[str, Claim]) -> list[str]:
    """The claims that no sketch meets."""
    plans = [sketch.plan for sketch in found]
    return [what for what, claim in claims.items() if not any(map(claim, plans))]


def tiled(stage: str) -> dict[str, Claim]:
    """The three ways to tile a stage without an element-wise consumer."""

    def fused(level: int) -> Claim:
        def claim(plan: Plan) -> bool:
            inner = cached(plan, stage)
            return inner != stage and is_fused(plan, inner, level)

        return claim

    return {
        f"{stage} tiled": lambda plan: is_tiled(plan, stage),
        f"{stage} cached, fused at level 1": fused(1),
        f"{stage} cached, fused at level 2": fused(2),
    }


def reduced(stage: str) -> dict[str, Claim]:
    """The three ways to run a long reduction on a CPU."""
    return {
        f"{stage} as it is": lambda plan: is_untiled(plan, stage),
        f"{stage} factored, outer": lambda plan: is_factored(plan, stage, "outer"),
        f"{stage} factored, inner": lambda plan: is_factored(plan, stage, "inner"),
    }


def factored(stage: str) -> dict[str, Claim]:
    return dict(list(reduced(stage).items())[1:])


def threaded(stage: str) -> Claim:
    """Tiled in threads, operands in shared memory; a result that is an output of the
    tile is copied from registers."""

    def claim(plan: Plan) -> bool:
        inner = cached(plan, stage)
        return is_threaded(plan, inner) and is_shared(plan, inner)

    return claim


def both(first: Claim, second: Claim) -> Claim:
    return lambda plan: first(plan) and second(plan)


def each(first: dict[str, Claim], second: dict[str, Claim]) -> dict[str, Claim]:
    """All pairs of claims."""
    pairs = product(first.items(), second.items())
    return {f"{a}, {b}": both(p, q) for (a, p), (b, q) in pairs}


def unpacked(claims: dict[str, Claim]) -> dict[str, Claim]:
    return {what: both(is_unpacked, claim) for what, claim in claims.items()}


def ends_inlined(plan: Plan) -> bool:
    return all(is_inlined(plan, x) for x in ("bias_add", "bn_mul", "bn_add"))


def conv_claims() -> dict[str, Claim]:
    ways: dict[str, Claim] = {
        "fused at level 1": lambda plan: is_fused(plan, "conv2d", 1),
        "fused at level 2": lambda plan: is_fused(plan, "conv2d", 2),
        "not fused": lambda p: is_tiled(p, "conv2d") and is_untiled(p, "relu"),
    }
    rest: dict[str, Claim] = {
        "ends inlined, pad not tiled": lambda plan: (
            ends_inlined(plan) and is_untiled(plan, "conv2d_pad")
        )
    }
    return each(ways, rest)


def winograd_claims() -> dict[str, Claim]:
    transforms: dict[str, Claim] = {
        "transforms unrolled": lambda plan: (
            is_unrolled(plan, "inverse") and is_unrolled(plan, "data_pack")
        )
    }
    return each(tiled("bgemm"), transforms)


def pool_claims() -> dict[str, Claim]:
    return {
        "as it is": lambda p: (
            is_untiled(p, "max_pool") and is_untiled(p, "max_pool_pad")
        )
    }


ON_CPU: dict[str, dict[str, Claim]] = {
    "GMM512": tiled("matmul"),
    "matmul-8x8x512": {**factored("matmul"), **tiled("matmul")},
    "matmul-chain": each(tiled("ABC"), tiled("AB")),
    "conv-bias-bn-relu": conv_claims(),
    "max-pool": pool_claims(),
    "min-rows": reduced("reduce_min"),
    "softmax-1x1024": each(reduced("softmax_max"), reduced("softmax_sum")),
    "softmax-4d": each(reduced("softmax_max"), reduced("softmax_sum")),
    "conv-winograd": winograd_claims(),
    "sum-128": reduced("reduce_sum"),
}


def across_or_serial(stage: str) -> dict[str, Claim]:
    return {
        f"{stage} across threads": lambda plan: is_across(plan, stage),
        f"{stage} by one thread": lambda plan: is_serial(plan, stage),
    }


def padded_claim(plan: Plan) -> bool:
    shared = [nest for nest in plan if nest.scope == "shared"]
    padding = [n for n in shared if n.stage.loads[0].buffer.name == "X"]
    return (
        threaded("conv2d")(plan)
        and ends_inlined(plan)
        and is_inlined(plan, "conv2d_pad")
        and len(padding) == 1
        and isinstance(padding[0].stage.body[0], Select)
    )


def winograd_claim(plan: Plan) -> bool:
    tile = plan.nest("input_tile")
    if tile.at is None or tile.at.stage != "data_pack":
        return False
    pack = plan.nest("data_pack")
    inside = pack.loops[pack.loops.index(tile.at.loop) + 1 :]
    unrolled = all(pack.annotations.get(loop) == "unroll" for loop in inside)
    return bool(inside) and unrolled and threaded("bgemm")(plan)


ON_GPU: dict[str, dict[str, Claim]] = {
    "GMM512": {"in threads": threaded("matmul")},
    "matmul-8x8x1024": {
        "across threads": lambda plan: is_across(plan, "matmul"),
        "in threads": threaded("matmul"),
    },
    "matmul-chain": {"both in threads": both(threaded("ABC"), threaded("AB"))},
    "conv-bias-bn-relu": {"in threads, pad in the shared load": padded_claim},
    "max-pool": {"as it is": lambda plan: is_serial(plan, "max_pool")},
    "min-rows": across_or_serial("reduce_min"),
    "softmax-2x1024": each(
        across_or_serial("softmax_max"), across_or_serial("softmax_sum")
    ),
    "conv-winograd": {"input tile kept": winograd_claim},
    "sum-128": across_or_serial("reduce_sum"),
}

# The numbers of sketches that the original's own tests assert.
CPU_COUNTS = dict(zip(ON_CPU, (3, 5, 9, 3, 1, 3, 9, 9, 3, 3), strict=True))
GPU_COUNTS = dict(zip(ON_GPU, (1, 2, 1, 1, 1, 2, 4, 1, 2), strict=True))


def test_every_sketch_of_the_original_has_a_claim() -> None:
    assert {name: len(claims) for name, claims in ON_CPU.items()} == CPU_COUNTS
    assert {name: len(claims) for name, claims in ON_GPU.items()} == GPU_COUNTS


@pytest.mark.parametrize("name", ON_CPU)
def test_there_are_at_least_as_many(name: str) -> None:
    found = space(name, CPU)
    assert len(found) >= CPU_COUNTS[name]
    assert len({sketch.steps for sketch in found}) == len(found)


@pytest.mark.parametrize("name", ON_GPU)
def test_there_are_at_least_as_many_for_gpus(name: str) -> None:
    assert len(space(name, GPU)) >= GPU_COUNTS[name]


@pytest.mark.parametrize("name", ON_CPU)
def test_structures_on_cpus(name: str) -> None:
    assert missing(space(name, CPU), ON_CPU[name]) == []


@pytest.mark.parametrize("name", [x for x in ON_CPU if x != "matmul-chain"])
def test_structures_on_cpus_without_packing(name: str) -> None:
    assert missing(space(name, CPU), unpacked(ON_CPU[name])) == []


def test_chained_products_without_packing() -> None:
    """Beyond the first sketches: what packs neither product is unusual twice."""
    found = sketches(task("matmul-chain", CPU), constraints=[Without("pack")])
    assert missing(found, unpacked(ON_CPU["matmul-chain"])) == []


@pytest.mark.parametrize("name", ON_GPU)
def test_structures_on_gpus(name: str) -> None:
    assert missing(space(name, GPU), ON_GPU[name]) == []


def test_reductions_of_a_softmax_run_in_the_rows_of_its_result() -> None:
    def claim(plan: Plan) -> bool:
        return all(
            is_across(plan, x) and is_within_rows(plan, x, "softmax")
            for x in ("softmax_max", "softmax_sum")
        )

    assert missing(space("softmax-2x1024", GPU), {"both inside": claim}) == []


def test_what_was_cheap_is_inlined_on_gpus() -> None:
    for sketch in space("softmax-2x1024", GPU):
        assert is_inlined(sketch.plan, "softmax_exp")
    for sketch in space("max-pool", GPU):
        assert is_inlined(sketch.plan, "max_pool_pad")


class TestPredicates:
    """They tell the structures apart: each claim is met by some sketch, not by all."""

    @pytest.mark.parametrize("name", ["GMM512", "matmul-8x8x512", "min-rows"])
    def test_claims_exclude_each_other(self, name: str) -> None:
        for sketch in space(name, CPU):
            met = [what for what, f in ON_CPU[name].items() if f(sketch.plan)]
            assert len(met) <= 1, (sketch.trace, met)

    def test_a_flipped_order_is_not_the_original_one(self) -> None:
        plain, flipped = (
            next(s for s in space("GMM512", CPU) if s.trace == (what,))
            for what in ("tile matmul along j", "tile matmul along j flipped")
        )
        assert is_tiled(plain.plan, "matmul")
        assert not is_tiled(flipped.plan, "matmul")

    def test_a_level_may_be_left_out_but_not_added(self) -> None:
        (sketch, *_) = (s for s in space("GMM512", CPU) if is_tiled(s.plan, "matmul"))
        for structure in ("SSRSRRS", "SSRSRS", "SSRS", "SRS"):
            assert is_tiled(sketch.plan, "matmul", structure), structure
        for structure in ("SSSRSRS", "RSRS", "SSRSRR", "SSRSRSRS"):
            assert not is_tiled(sketch.plan, "matmul", structure), structure
