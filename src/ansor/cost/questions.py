"""Questions of trees: is a column above a threshold? Each is answered once for all
trees that ask it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ansor.cost.sample import Floats, Ints

CHUNK = 4096  # points at a time: columns and answers stay in the cache

Answers = npt.NDArray[np.uint8]  # [questions, points], 0 or 1


@dataclass(frozen=True)
class Questions:
    """The questions of many trees, each once."""

    columns: Ints
    thresholds: Floats
    places: Ints  # the question at each node of the trees

    @staticmethod
    def of(columns: Ints, thresholds: Floats) -> Questions:
        """Of nodes of any shape, one column and threshold each."""
        pairs = np.stack([columns.ravel(), thresholds.ravel()], 1)
        found, places = np.unique(pairs, axis=0, return_inverse=True)
        return Questions(
            found[:, 0].astype(np.intp),
            found[:, 1].astype(np.float32),
            places.reshape(columns.shape),
        )

    def answer(self, values: Floats) -> Iterator[tuple[slice, Answers]]:
        """Parts of the rows with their answers, which the next part overwrites."""
        answers = np.zeros((len(self.columns), min(CHUNK, len(values))), np.bool_)
        for start in range(0, len(values), CHUNK):
            part = slice(start, min(start + CHUNK, len(values)))
            taken = values[part].T
            found = answers[:, : part.stop - start]
            asked = zip(self.columns, self.thresholds, found, strict=True)
            for column, threshold, out in asked:
                np.greater(taken[column], threshold, out=out)
            yield part, found.view(np.uint8)
