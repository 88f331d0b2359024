"""From words on the command line to a task.

The first word is an operator of the library (its sizes follow), a workload by its
name, or `file.py:name`: a task, a tensor, or a function that returns one.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from ansor.cli.errors import CommandError
from ansor.cli.operators import OPERATORS
from ansor.errors import AnsorError
from ansor.target import Target
from ansor.te.task import Task
from ansor.te.tensor import Tensor
from ansor.te.workloads import MORE, WORKLOADS, task


def find_task(
    words: Sequence[str],
    target: Target | None = None,
    batch: int | None = None,
    dtype: str | None = None,
) -> Task:
    """The task that `words` name, for `target`, or this machine's CPU.

    >>> find_task(["matmul", "64", "32", "16"], Target("x86_64")).flops
    65536
    """
    name, *rest = words
    path, colon, attribute = name.rpartition(":")
    if colon and path.endswith(".py"):
        refuse(name, rest, batch=batch, dtype=dtype)
        return _from_file(Path(path), attribute, target)
    if name in (*WORKLOADS, *MORE):
        refuse(name, rest, dtype=dtype)
        return task(name, target or "cpu", 1 if batch is None else batch)
    if name not in OPERATORS:
        raise CommandError(f"operator {name!r}", "unknown", _known(name))
    made = OPERATORS[name].make(rest, batch, dtype or "float32")
    return Task(made, target or "cpu")


def _known(name: str) -> str:
    if name.endswith(".py"):
        return f"name a task, tensor or function in it: {name}:my_task"
    near = _nearest(name)
    meant = f"did you mean {near}? " if near else ""
    return (
        f"{meant}operators are {', '.join(OPERATORS)}; "
        "or name a workload (--help lists them) or file.py:name"
    )


def _nearest(name: str) -> str | None:
    known = {x.lower(): x for x in (*OPERATORS, *WORKLOADS, *MORE)}
    longer = [x for low, x in known.items() if low.startswith(name.lower())]
    near = get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    return next(iter((*longer, *(known[x] for x in near))), None)


def refuse(name: str, rest: Sequence[str], **options: object) -> None:
    """Raise CommandError for sizes and options that say nothing about `name`."""
    if rest:
        raise CommandError(f"{name} {' '.join(rest)}", f"{name} takes no sizes")
    for option, value in options.items():
        if value is not None:
            raise CommandError(f"--{option} {value}", f"{name} has its own {option}")


def _from_file(path: Path, attribute: str, target: Target | None) -> Task:
    what = f"{path}:{attribute}"
    if not path.is_file():
        raise CommandError(what, "there is no such file")
    found = getattr(_load(path), attribute, None) if attribute else None
    if found is None:
        raise CommandError(what, f"{path.name} has no {attribute!r}")
    if callable(found):
        found = _call(path, found)
    return _as_task(what, found, target)


def _as_task(what: str, found: object, target: Target | None) -> Task:
    if isinstance(found, Task):
        if target is not None:
            raise CommandError(
                what,
                f"the task has a target of its own, {found.target}",
                "leave --target out, or let it be a tensor",
            )
        return found
    if isinstance(found, Tensor):
        return Task(found, target or "cpu")
    if isinstance(found, (list, tuple)) and all(isinstance(x, Tensor) for x in found):
        return Task(found, target or "cpu")
    raise CommandError(
        what,
        f"is of type {type(found).__name__}",
        "it has to be a Task, a tensor, a list of tensors, or a function of nothing "
        "that returns one",
    )


def _load(path: Path) -> ModuleType:
    spec = spec_from_file_location(f"ansor_file_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    sys.path.insert(0, str(path.parent.resolve()))  # it may import its neighbours
    try:
        spec.loader.exec_module(module)
    except AnsorError:
        raise
    except Exception as error:  # whatever a user's file may raise
        raise _failure(path, error) from error
    finally:
        sys.path.pop(0)
    return module


def _call(path: Path, function: object) -> object:
    assert callable(function)
    try:
        return function()
    except AnsorError:
        raise
    except Exception as error:
        raise _failure(path, error) from error


def _failure(path: Path, error: Exception) -> CommandError:
    """What a user's file raised, with the last of its lines that took part."""
    if isinstance(error, SyntaxError):
        return CommandError(f"{path}:{error.lineno}", f"SyntaxError: {error.msg}")
    frames = traceback.extract_tb(error.__traceback__)
    lines = [x.lineno for x in frames if Path(x.filename).name == path.name]
    where = f"{path}:{lines[-1]}" if lines else str(path)
    return CommandError(where, f"{type(error).__name__}: {error}")
