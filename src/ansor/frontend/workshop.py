"""Compiling the tasks of a model, in several processes where that pays.

Choosing a program is Python, and LLVM has one lock in a process, so threads would not
help. A worker that ends early costs time only: what it had is compiled here.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from multiprocessing.connection import wait
from typing import cast

from ansor.codegen import engine
from ansor.cost.machine import Machine
from ansor.errors import AnsorError
from ansor.frontend.units import Choice, Packing, Unit, compile_choice
from ansor.ir.expr import Buffer
from ansor.measure import wire
from ansor.reading import Data
from ansor.target.data import target_from_data, target_to_data
from ansor.target.settings import worker_environment
from ansor.te.data import dag_from_data, dag_to_data
from ansor.te.task import Task

FEW = 3  # tasks that one process compiles sooner than others start
MOST = 8  # processes; each needs about 200 MB
REMEMBERED = 512  # units; each has some 10 KB of code

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from ansor.frontend.workshop import serve; serve(int(sys.argv[1]))"
)


def compile_all(choices: Sequence[Choice], workers: int | None = None) -> list[Unit]:
    """The units of choices, in their order. `workers` processes take part: as many as
    there are CPUs, unless given; 0 compiles here. What was compiled lately is not
    compiled again."""
    keys = [_key(choice) for choice in choices]
    new = {key: x for key, x in zip(keys, choices, strict=True) if key not in _KNOWN}
    units = _KNOWN | dict(zip(new, _compile_new(list(new.values()), workers),
                              strict=True))  # fmt: skip
    for key in keys:  # the newest last
        _KNOWN.pop(key, None)
        _KNOWN[key] = units[key]
    while len(_KNOWN) > REMEMBERED:
        del _KNOWN[next(iter(_KNOWN))]
    return [replace(units[key], seconds=x.seconds)
            for key, x in zip(keys, choices, strict=True)]  # fmt: skip


def forget() -> None:
    """Compile everything again from now on."""
    _KNOWN.clear()


_KNOWN: dict[str, Unit] = {}


def _key(choice: Choice) -> str:
    """All that decides about the code; the model's choice depends on what is known of
    the machine."""
    facts = [_request(choice), repr(Machine.of(choice.form.target))]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


def _compile_new(choices: Sequence[Choice], workers: int | None) -> list[Unit]:
    if workers is None:
        cpus = len(os.sched_getaffinity(0))
        workers = 0 if len(choices) <= FEW or cpus < 2 else min(cpus, MOST)
    count = min(workers, len(choices))
    found = _by_workers(choices, count) if count else {}
    return [
        found[at] if at in found else compile_choice(choice)
        for at, choice in enumerate(choices)
    ]


def _by_workers(choices: Sequence[Choice], count: int) -> dict[int, Unit]:
    """What workers have made of the choices; not always all."""
    found: dict[int, Unit] = {}
    waiting = list(enumerate(choices))[::-1]
    busy: dict[socket.socket, int] = {}
    with ExitStack() as stack:
        idle = [stack.enter_context(_Worker()).connection for _ in range(count)]
        while waiting or busy:
            while idle and waiting:
                at, choice = waiting.pop()
                with suppress(OSError):
                    idle[-1].sendall(wire.pack(_request(choice)))
                    busy[idle[-1]] = at
                idle.pop()
            for ready in cast(list[socket.socket], wait(list(busy))):
                at = busy.pop(ready)
                unit = _answer(ready, choices[at])
                if unit is not None:
                    found[at] = unit
                    idle.append(ready)
            if not busy and not idle:
                break  # nobody is left
    return found


class _Worker:
    """A process that compiles; it ends with the block."""

    def __init__(self) -> None:
        self.connection, theirs = socket.socketpair()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-B", "-c", _START, str(theirs.fileno()),
                 json.dumps(sys.path)],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=worker_environment(),
                start_new_session=True,  # Ctrl-C is for us, not for them
            )  # fmt: skip
        finally:
            theirs.close()

    def __enter__(self) -> _Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.connection.close()
        self._process.kill()
        self._process.wait()


def _request(choice: Choice) -> wire.Header:
    return {
        "dag": dag_to_data(choice.form.dag),
        "target": target_to_data(choice.form.target),
        "program": choice.program,
    }


def _answer(connection: socket.socket, choice: Choice) -> Unit | None:
    """None if the worker failed, for whatever reason: who compiles the same here will
    see which."""
    with suppress(OSError, wire.WireError):
        frame = wire.receive(connection)
        if frame is not None and "symbol" in frame[0]:
            return _unit(*frame, choice.seconds)
    return None


def _unit(header: wire.Header, code: bytes, seconds: float | None) -> Unit:
    exports = cast(list[str], header["exports"])
    rows = cast(list[tuple[int, str, list[int], str, str]], header["packings"])
    packings = tuple(
        Packing(at, Buffer(name, tuple(shape), dtype), entry)
        for at, name, shape, dtype, entry in rows
    )
    made = engine.Object(code, tuple(exports))
    program = cast(Data, header["program"])
    return Unit(str(header["symbol"]), made, packings, program, seconds)


# -- in a worker -----------------------------------------------------------------------


def serve(descriptor: int) -> None:
    """Compile what is asked until the other end closes."""
    connection = socket.socket(fileno=descriptor)
    while frame := wire.receive(connection):
        connection.sendall(_work(frame[0]))


def _work(header: wire.Header) -> bytes:
    dag, target = dag_from_data(header["dag"]), target_from_data(header["target"])
    program = cast(Data | None, header["program"])
    try:
        unit = compile_choice(Choice(Task.from_dag(dag, target), program))
    except AnsorError as error:
        return wire.pack({"error": str(error)})
    rows = [
        (x.argument, x.packed.name, list(x.packed.shape), x.packed.dtype, x.entry)
        for x in unit.packings
    ]
    header = {
        "symbol": unit.symbol,
        "exports": list(unit.made.exports),
        "packings": rows,
        "program": unit.program,
    }
    return wire.pack(header, unit.made.code)
