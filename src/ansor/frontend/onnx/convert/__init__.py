"""How operators of ONNX become operators of graphs."""

from __future__ import annotations

from collections.abc import Mapping

from ansor.frontend.onnx.convert.attention import CONVERTERS as ATTENTION
from ansor.frontend.onnx.convert.contraction import CONVERTERS as CONTRACTION
from ansor.frontend.onnx.convert.elementwise import CONVERTERS as ELEMENTWISE
from ansor.frontend.onnx.convert.generator import CONVERTERS as GENERATOR
from ansor.frontend.onnx.convert.indexing import CONVERTERS as INDEXING
from ansor.frontend.onnx.convert.loss import CONVERTERS as LOSS
from ansor.frontend.onnx.convert.movement import CONVERTERS as MOVEMENT
from ansor.frontend.onnx.convert.norm import CONVERTERS as NORM
from ansor.frontend.onnx.convert.patches import CONVERTERS as PATCHES
from ansor.frontend.onnx.convert.quantize import CONVERTERS as QUANTIZE
from ansor.frontend.onnx.convert.recurrent import CONVERTERS as RECURRENT
from ansor.frontend.onnx.convert.reduction import CONVERTERS as REDUCTION
from ansor.frontend.onnx.convert.resize import CONVERTERS as RESIZE
from ansor.frontend.onnx.convert.signal import CONVERTERS as SIGNAL
from ansor.frontend.onnx.convert.window import CONVERTERS as WINDOW
from ansor.frontend.onnx.node import Converter

# One line per topic: from ansor.frontend.onnx.convert.x import CONVERTERS as X
_TOPICS: tuple[Mapping[str, Converter], ...] = (
    CONTRACTION,
    ELEMENTWISE,
    GENERATOR,
    INDEXING,
    MOVEMENT,
    NORM,
    REDUCTION,
    RESIZE,
    WINDOW,
    PATCHES,
    SIGNAL,
    RECURRENT,
    QUANTIZE,
    LOSS,
    ATTENTION,
)

# Of the domains "" and "ai.onnx"; names of other domains are "domain::Name".
CONVERTERS: Mapping[str, Converter] = {
    name: convert for topic in _TOPICS for name, convert in topic.items()
}
