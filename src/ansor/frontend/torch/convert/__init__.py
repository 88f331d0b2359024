"""What each operator of core ATen is in the vocabulary of graphs."""

from __future__ import annotations

from collections.abc import Mapping

from ansor.frontend.torch.call import Converter
from ansor.frontend.torch.convert import (
    contraction,
    creation,
    elementwise,
    indexing,
    movement,
    norm,
    reduction,
    window,
)

CONVERTERS: Mapping[str, Converter] = {
    name: converter
    for topic in (
        contraction,
        creation,
        elementwise,
        indexing,
        movement,
        norm,
        reduction,
        window,
    )
    for name, converter in topic.CONVERTERS.items()
}
