"""Fast kernels from the mathematics of a computation.

    A = ansor.placeholder((512, 512), name="A")
    B = ansor.placeholder((512, 512), name="B")
    C = ansor.ops.matmul(A, B)
    task = ansor.Task(C, target="cpu")

Names are loaded when first used, so importing the package is cheap.
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

_TENSOR = "ansor.te.tensor"
_REDUCTION = "ansor.te.reduction"
_FUNCTIONS = "ansor.te.functions"

# Public name -> the module that defines it.
_LAZY = {
    **dict.fromkeys(("Tensor", "placeholder", "compute"), _TENSOR),
    **dict.fromkeys(
        ("reduce_axis", "sum", "prod", "max", "min", "any", "all", "argmax", "argmin"),
        _REDUCTION,
    ),
    **dict.fromkeys(
        ("exp", "log", "log2", "sqrt", "rsqrt", "tanh", "sigmoid", "erf", "sin", "cos",
         "pow", "floor", "ceil", "round", "abs", "isnan", "maximum", "minimum", "clip",
         "select", "cast", "min_value", "max_value"),
        _FUNCTIONS,
    ),
    **dict.fromkeys(
        ("AnsorError", "IRError", "ExpressionError", "ScheduleError", "TargetError",
         "CodegenError", "MeasureError", "ArgumentError", "RecordError", "CostError",
         "ModelError", "UnsupportedError"),
        "ansor.errors",
    ),
    **dict.fromkeys(("Timed", "Failed"), "ansor.records.outcome"),
    "Record": "ansor.records.record",
    "Database": "ansor.records.database",
    "build": "ansor.search.build",
    "tune": "ansor.search.tune",
    "Network": "ansor.search.objective",
    "load_model": "ansor.cost.model",
    "Kernel": "ansor.codegen.kernel",
    "Program": "ansor.schedule.program",
    "Sketch": "ansor.space.sketch",
    "sketches": "ansor.space.derive",
    "DAG": "ansor.te.dag",
    "Task": "ansor.te.task",
    "Target": "ansor.target",
    "einsum": "ansor.te.ops",
    "from_onnx": "ansor.frontend.onnx",
    "from_torch": "ansor.frontend.torch",
    **dict.fromkeys(("Model", "Executable"), "ansor.frontend.model"),
}  # fmt: skip

# Public name -> the module it is.
_MODULES = {
    "ops": "ansor.te.ops",
    "objectives": "ansor.search.objective",
    "onnx_backend": "ansor.frontend.onnx.backend",
}

__all__ = ["__version__", *_LAZY, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = import_module(_MODULES[name])
    elif name in _LAZY:
        value = getattr(import_module(_LAZY[name]), name)
    else:
        raise AttributeError(f"module 'ansor' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
