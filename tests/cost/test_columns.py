"""The table of features: names, documentation, values by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ansor
from ansor.cost.columns import BUFFERS, COLUMNS, PLAIN, table
from ansor.cost.features import extract, log2
from ansor.schedule import Annotate, Knob, Reorder, Sketch, Split

DOCS = Path(__file__).parents[2] / "docs" / "features.md"


def test_names_are_unique():
    names = [column.name for column in COLUMNS]
    assert len(set(names)) == len(names)


def test_every_column_says_what_it_means():
    for column in COLUMNS:
        assert column.doc.endswith("."), column.name
        assert column.unit, column.name


def test_documentation_is_that_of_the_table():
    hint = "python -m ansor.cost.columns > docs/features.md"
    assert DOCS.read_text(encoding="utf-8") == table(), hint


def test_only_ratios_are_stored_as_they_are():
    plain = {column.unit for column in COLUMNS if not column.is_log}
    assert plain <= set(PLAIN)


def matmul() -> Sketch:
    a, b = ansor.placeholder((64, 32), name="A"), ansor.placeholder((32, 64), name="B")
    target = ansor.Target("aarch64", cpu="neoverse-n1")
    return Sketch(ansor.Task(ansor.ops.matmul(a, b, name="C"), target)).then(
        Split("C", "i", (Knob("i", (4, 5)),)),
        Split("C", "j", (Knob("j", (8, 16)),)),
        Reorder("C", ("i.0", "j.0", "k", "i.1", "j.1")),
        Annotate("C", "i.1", "unroll"),
        Annotate("C", "j.1", "vectorize"),
    )


def column(name: str, points: list[tuple[int, ...]]) -> list[float]:
    at = [column.name for column in COLUMNS].index(name)
    found = extract(matmul(), points, columns=COLUMNS)
    return [float(x) for x in found.values[0, :, at]]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ops.fma", log2(np.float32([64 * 64 * 32 + 1]))[0]),
        ("ops.div", 0),
        ("flops", log2(np.float32([2 * 64 * 64 * 32 + 1]))[0]),
        ("vector.length", log2(np.float32([9]))[0]),
        ("vector.fill", 1),
        ("vector.reduces", 0),
        ("unroll.spatial", log2(np.float32([5]))[0]),
        ("unroll.reduce", 1),
        ("loop.registers", log2(np.float32([33]))[0]),
        ("loop.depth", 5),
        ("registers.tile", log2(np.float32([9]))[0]),
        ("is_copy", 0),
        ("tail.waste", 1),
        ("stores.each", log2(np.float32([1 + 1 / 32]))[0]),
    ],
)
def test_values_of_a_small_matmul(name: str, expected: float):
    assert column(name, [(4, 8)]) == [pytest.approx(expected, rel=1e-4)]


def test_short_rows_at_distances_of_powers_of_two_conflict():
    narrow, wide = column("fill.conflict", [(4, 8), (4, 16)])
    assert narrow > wide > 1


def test_tails_are_wasted():
    assert column("tail.waste", [(4, 8), (5, 8)]) == [1, pytest.approx(65 / 64)]


def test_accesses_beyond_the_last_are_zero():
    names = [c.name for c in COLUMNS]
    rows = [
        n for n, name in enumerate(names) if name.startswith(f"buffer{BUFFERS - 1}")
    ]
    found = extract(matmul(), [(4, 8)], columns=COLUMNS)
    assert not found.values[0][:, rows].any()
