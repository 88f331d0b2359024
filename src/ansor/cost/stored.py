"""Models as text: JSON that is checked when it is read, never code."""

from __future__ import annotations

import json
import os
from collections.abc import Collection
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Never

import numpy as np
import numpy.typing as npt

from ansor.errors import CostError
from ansor.reading import Data, Reader

VERSION = 1  # of the format
MAX_BYTES = 64 << 20

read = Reader(CostError)


def write_model(path: Path, data: Data) -> None:
    """All of it or nothing: a file that stands there is replaced at the end."""
    text = json.dumps({"version": VERSION, **data}, allow_nan=False)
    try:
        with NamedTemporaryFile(
            "w", dir=path.parent, prefix=path.name, delete=False, encoding="ascii"
        ) as file:
            file.write(text)
        os.replace(file.name, path)
    except OSError as error:
        raise CostError(
            f"model {str(path)!r}",
            f"cannot be written: {error.strerror}",
            "choose another path",
        ) from error


def read_model(path: Path, names: Collection[str]) -> Data:
    """What `write_model` was given, if the file has these fields."""
    what = f"model {str(path)!r}"
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise CostError(what, f"{size} bytes, more than {MAX_BYTES}")
        text = path.read_bytes().decode()
        data: object = json.loads(text, parse_constant=_refuse)
    except OSError as error:
        raise CostError(
            what, f"cannot be read: {error.strerror}", "check its name"
        ) from error
    except (ValueError, RecursionError) as error:
        raise CostError(what, f"not a stored model: {error}") from None
    return read.versioned(what, data, VERSION, ("version", *names))


def _refuse(constant: str) -> Never:
    raise ValueError(f"{constant} is not a number")


def read_array(
    what: str,
    data: object,
    axes: int,
    shape: tuple[int, ...] | None = None,
    most: int | None = None,
) -> npt.NDArray[np.float64]:
    """Numbers from nested lists: of this shape, and integers up to `most` if given."""
    try:
        values = np.array(data, np.float64)
    except (TypeError, ValueError):
        raise CostError(what, "holds something that is no array of numbers") from None
    if values.ndim != axes or (shape is not None and values.shape != shape):
        wanted = f"{axes} axes" if shape is None else f"shape {shape}"
        raise CostError(what, f"an array of shape {values.shape}, not of {wanted}")
    if not np.isfinite(values).all():
        raise CostError(what, "holds a number that is not finite")
    if most is not None and values.size and not _are_indices(values, most):
        raise CostError(what, f"holds an index that is not from 0 to {most}")
    return values


def _are_indices(values: npt.NDArray[np.float64], most: int) -> bool:
    whole = values == np.floor(values)
    return bool((whole & (values >= 0) & (values <= most)).all())
