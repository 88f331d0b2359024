"""Planned memory: no two values that are needed at the same time overlap."""

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansor.frontend.builder import Builder
from ansor.frontend.memory import (
    ALIGNMENT,
    Arrangement,
    Block,
    Home,
    arrange,
    lower_bound,
    store,
)
from frontend.plans import one_by_one


@st.composite
def blocks(draw: st.DrawFn) -> list[Block]:
    rows = draw(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 20),
                                   st.integers(0, 6)), max_size=30))  # fmt: skip
    return [
        Block(f"v{n}", size, first, first + length)
        for n, (size, first, length) in enumerate(rows)
    ]


def check(found: Arrangement, given_: list[Block]) -> None:
    for block in given_:
        offset = found.offsets[block.name]
        assert offset % ALIGNMENT == 0
        assert offset >= 0
        assert offset + block.bytes <= found.bytes
    for one, other in combinations(given_, 2):
        if one.meets(other):
            begin, start = found.offsets[one.name], found.offsets[other.name]
            assert begin + one.bytes <= start or start + other.bytes <= begin


@given(blocks())
@settings(max_examples=200, deadline=None)
def test_blocks_that_meet_do_not_overlap(given_):
    found = arrange(given_)
    check(found, given_)
    least = lower_bound(given_)
    assert least <= found.bytes <= 3 * least


def chain(lengths: list[int]) -> list[Block]:
    """Values of a network without branches: each lives for two steps."""
    return [Block(f"v{n}", size, n, n + 1) for n, size in enumerate(lengths)]


@pytest.mark.parametrize(
    "given_",
    [
        chain([64 * n for n in (7, 3, 9, 1, 5, 5, 8, 2)]),
        # a residual network: every third value is read three steps later, too
        [Block(f"v{n}", 64 * (1 + n % 4), n, n + (4 if n % 3 == 0 else 1))
         for n in range(40)],
        [Block("only", 1, 0, 0)],
        [],
    ],
)  # fmt: skip
def test_networks_come_close_to_the_lower_bound(given_):
    found = arrange(given_)
    check(found, given_)
    assert found.bytes <= 1.05 * lower_bound(given_)


def test_a_block_of_no_bytes_has_a_place():
    assert arrange([Block("empty", 0, 0, 3)]) == Arrangement({"empty": 0}, 0)


def test_where_values_live():
    build = Builder()
    x = build.input("x", "float32", (4, 8))
    a = build.add("relu", x)
    b = build.add("exp", build.add("reshape", a, shape=(32,)))
    c = build.add("negative", b)
    again = build.add("reshape", c, shape=(8, 4))
    plan = one_by_one(build.finish([c, x, again, c]))
    storage = store(plan)
    places = storage.places
    assert places["x"].home is Home.INPUT
    assert places[a.name] == places["reshape"]  # the same bytes
    assert places[a.name].home is places[b.name].home is Home.ARENA
    assert (places[c.name].home, places[c.name].at) == (Home.OUTPUT, 0)
    copied = [(x.output, x.source.home) for x in storage.copies]
    assert copied == [(1, Home.INPUT), (2, Home.OUTPUT), (3, Home.OUTPUT)]
    assert storage.arena == 256


def test_an_alias_keeps_its_source_alive():
    build = Builder()
    x = build.input("x", "float32", (16,))
    a = build.add("relu", x)
    view = build.add("reshape", a, shape=(4, 4))
    b = build.add("exp", a)
    c = build.add("negative", b)
    d = build.add("add", build.add("reshape", c, shape=(4, 4)), view)
    storage = store(one_by_one(build.finish([d])))
    lives = {block.name: (block.first, block.last) for block in storage.blocks}
    assert lives[a.name] == (0, 5)


def test_constants_stay_where_they_are():
    import numpy as np

    build = Builder()
    x = build.input("x", "float32", (3,))
    w = build.constant(np.arange(3, dtype=np.float32), "w")
    storage = store(one_by_one(build.finish([build.add("add", x, w), w])))
    assert storage.places["w"].home is Home.CONSTANT
    assert [(x.output, x.source.name) for x in storage.copies] == [(1, "w")]
