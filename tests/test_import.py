"""What importing the package costs."""

import subprocess
import sys

import pytest

HEAVY = ("llvmlite", "torch", "onnx", "hypothesis", "sqlite3")


def loaded_by(statement: str) -> set[str]:
    """Top-level names of the modules that a fresh interpreter loads for `statement`."""
    program = f"{statement}; import sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return {name.split(".")[0] for name in done.stdout.split()}


@pytest.mark.parametrize(
    "statement",
    [
        "import ansor",
        "from ansor.target import Target; Target('x86_64', cpu='haswell')",
    ],
)
def test_nothing_heavy_is_imported(statement):
    assert loaded_by(statement).isdisjoint(HEAVY)
