"""Targets as plain data, and back.

    {"version": 1, "kind": "cpu", "arch": …, every field of Target, "gpu": null | {…}}

Reading checks everything: whatever the data, the result is a complete target, or a
TargetError that says why there is none. It never asks the machine it runs on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, fields
from typing import get_type_hints

from ansor.errors import TargetError
from ansor.reading import Data, Reader
from ansor.target.cpus import BASELINE
from ansor.target.gpus import Gpu
from ansor.target.target import PTX, Target

VERSION = 1
MAX_FEATURES = 8192  # characters; a host has some hundred features
MAX_INTEGER = 2**53  # of sizes and counts
ARCHES = {"cpu": tuple(BASELINE), "cuda": (PTX,)}  # by kind

_read = Reader(TargetError)


def target_to_data(target: Target) -> Data:
    """A target as numbers, texts, lists and dictionaries: ready for JSON.

    >>> data = target_to_data(Target("aarch64", cpu="neoverse-n1", cores=4))
    >>> data["cpu"], data["cores"], data["gpu"]
    ('neoverse-n1', 4, None)
    """
    values = asdict(target)
    values["cache_bytes"] = list(target.cache_bytes)
    return {"version": VERSION, **values}


def target_from_data(data: object) -> Target:
    """The target that `target_to_data` was given; TargetError for anything else.

    >>> target = Target("cuda", arch="sm_90")
    >>> target_from_data(target_to_data(target)) == target
    True
    """
    what = "target data"
    found = _read.versioned(what, data, VERSION, ("version", *SCHEMA))
    values = {
        name: read(f"{what}, {name}", found[name]) for name, read in SCHEMA.items()
    }
    _check(what, values)
    make: Callable[..., Target] = Target
    return make(**values)


def _check(what: str, values: Data) -> None:
    """What Target would fill in from this machine must be there already."""
    kind = values["kind"]
    if kind not in ARCHES:
        raise TargetError(
            f"{what}, kind", f"{kind!r} is unknown", f"use one of {', '.join(ARCHES)}"
        )
    if values["arch"] not in ARCHES[str(kind)]:
        known = ", ".join(ARCHES[str(kind)])
        raise TargetError(
            f"{what}, arch",
            f"{values['arch']!r} is none of a {kind}",
            f"use one of {known}",
        )
    is_gpu = kind == "cuda"
    if (values["gpu"] is not None) != is_gpu:
        raise TargetError(f"{what}, gpu", f"a {kind} {'needs' if is_gpu else 'has no'} "
                          "limits of a GPU")  # fmt: skip
    if not is_gpu and not values["features"]:
        raise TargetError(f"{what}, features", "there are none", "name the baseline's")
    if not is_gpu and 0 in values["cache_bytes"]:  # type: ignore[operator]
        raise TargetError(f"{what}, cache_bytes", "a cache of a cpu has 0 bytes")


def _name(what: str, data: object) -> str:
    text = _read.text(what, data)
    if not text or " " in text:
        raise TargetError(what, f"{text!r} is not a name", "it has no spaces")
    return text


def _features(what: str, data: object) -> str:
    text = _read.text(what, data, MAX_FEATURES)
    for entry in text.split(",") if text else ():
        if entry[:1] not in ("+", "-") or len(entry) < 2 or " " in entry:
            raise TargetError(
                what, f"{entry[:40]!r} is not a switch", 'use "+avx2,-fma" and the like'
            )
    return text


def _size(what: str, data: object) -> int:
    return _read.integer(what, data, 1, MAX_INTEGER)


def _caches(what: str, data: object) -> tuple[int, ...]:
    entries = _read.list(what, data, 3)
    if len(entries) != 3:
        raise TargetError(what, f"{len(entries)} sizes", "give those of L1d, L2, L3")
    return tuple(
        _read.integer(f"{what}[{n}]", x, 0, MAX_INTEGER) for n, x in enumerate(entries)
    )


def _gpu(what: str, data: object) -> Gpu | None:
    if data is None:
        return None
    found = _read.fields(what, data, tuple(GPU_SCHEMA))
    values = {
        name: read(f"{what}, {name}", found[name]) for name, read in GPU_SCHEMA.items()
    }
    make: Callable[..., Gpu] = Gpu
    return make(**values)


READERS: dict[object, Callable[[str, object], object]] = {
    str: _name,
    int: _size,
    tuple[int, int, int]: _caches,
    Gpu | None: _gpu,
}


def _schema(
    kind: type[Target] | type[Gpu],
) -> dict[str, Callable[[str, object], object]]:
    types = get_type_hints(kind)
    return {field.name: READERS[types[field.name]] for field in fields(kind)}


GPU_SCHEMA = _schema(Gpu)
# How to read each field of a target.
SCHEMA = {**_schema(Target), "features": _features}
