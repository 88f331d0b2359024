"""Who measured: versions of what takes part, and the machine."""

from __future__ import annotations

import hashlib
import platform
import uuid
from functools import cache
from importlib import import_module
from pathlib import Path

import numpy as np

from ansor.codegen import llvm

_MACHINE_IDS = ("/etc/machine-id", "/var/lib/dbus/machine-id")


@cache
def versions() -> dict[str, str]:
    """What a time depends on besides the program and the target."""
    return {
        "ansor": str(import_module("ansor").__version__),
        "llvm": llvm.version(),
        "numpy": np.__version__,
        "python": platform.python_version(),
    }


@cache
def host() -> str:
    """This machine, as a hash that tells nothing about it."""
    for path in map(Path, _MACHINE_IDS):
        if path.is_file() and (text := path.read_text().strip()):
            break
    else:
        text = f"{uuid.getnode():x} {platform.node()}"
    return hashlib.sha256(f"ansor host {text}".encode()).hexdigest()[:16]
