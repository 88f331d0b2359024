"""Inputs and right results of a workload, in a file that all competitors read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]


def save(
    path: Path, inputs: dict[str, Array], expected: Array, allowed: npt.ArrayLike
) -> None:
    named: dict[str, Any] = {f"in {name}": array for name, array in inputs.items()}
    np.savez(path, **named, expected=expected, allowed=np.asarray(allowed, np.float32))


def load(path: Path) -> tuple[dict[str, Array], Array, Array]:
    """Inputs by name, the expected result, and by how much it may be missed."""
    with np.load(path) as file:
        inputs = {
            name.removeprefix("in "): file[name]
            for name in file.files
            if name.startswith("in ")
        }
        return inputs, file["expected"], file["allowed"]


def is_right(found: npt.ArrayLike, expected: Array, allowed: Array) -> bool:
    result = np.asarray(found)
    return result.shape == expected.shape and bool(
        np.all(np.abs(result - expected) <= allowed)
    )
