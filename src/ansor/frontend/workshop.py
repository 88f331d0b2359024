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
from ansor.frontend.units import Choice, Packing, Unit, compile_choice, estimates
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

Frame = tuple[wire.Header, bytes]

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from ansor.frontend.workshop import serve; serve(int(sys.argv[1]))"
)


def compile_all(choices: Sequence[Choice], workers: int | None = None) -> list[Unit]:
    """The units of choices, in their order; see `Workshop`."""
    with Workshop(workers) as shop:
        return shop.compile(choices)


def forget() -> None:
    """Compile everything again from now on."""
    _KNOWN.clear()


_KNOWN: dict[str, Unit] = {}


def _key(choice: Choice) -> str:
    """All that decides about the code; the model's choice depends on what is known of
    the machine."""
    facts = [_request(choice), repr(Machine.of(choice.form.target))]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()


class Workshop:
    """Processes that work for this one, from when they are first needed to the end of
    the block: as many as there are CPUs, unless given; with 0 all is done here. Memory
    that is needed to choose and compile goes with them."""

    def __init__(self, workers: int | None = None) -> None:
        self._count = workers
        self._stack = ExitStack()
        self._idle: list[socket.socket] = []

    def __enter__(self) -> Workshop:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def estimate(self, tasks: Sequence[Task]) -> list[float]:
        """Seconds of tasks, by the analytic model."""
        answers = self._ask([_task(task) | {"estimate": True} for task in tasks])
        found = [
            answers.get(at, ({}, b""))[0].get("seconds") for at in range(len(tasks))
        ]
        rest = [task for task, x in zip(tasks, found, strict=True) if x is None]
        here = iter(estimates(rest) if rest else ())
        return [next(here) if x is None else cast(float, x) for x in found]

    def compile(self, choices: Sequence[Choice]) -> list[Unit]:
        """The units of choices. What was compiled lately is not compiled again."""
        keys = [_key(choice) for choice in choices]
        pairs = zip(keys, choices, strict=True)
        new = {key: x for key, x in pairs if key not in _KNOWN}
        made = self._compile_new(list(new.values()))
        units = _KNOWN | dict(zip(new, made, strict=True))
        for key in keys:  # the newest last
            _KNOWN.pop(key, None)
            _KNOWN[key] = units[key]
        while len(_KNOWN) > REMEMBERED:
            del _KNOWN[next(iter(_KNOWN))]
        return [replace(units[key], seconds=x.seconds)
                for key, x in zip(keys, choices, strict=True)]  # fmt: skip

    def _compile_new(self, choices: Sequence[Choice]) -> list[Unit]:
        answers = self._ask([_request(choice) for choice in choices])
        return [
            _unit(*answers[at], choice.seconds)
            if "symbol" in answers.get(at, ({}, b""))[0]
            else compile_choice(choice)  # if it fails again, it says why
            for at, choice in enumerate(choices)
        ]

    def _ask(self, requests: Sequence[wire.Header]) -> dict[int, Frame]:
        """What workers answer, by the number of the request; not always all."""
        self._start(self._wanted(len(requests)))
        found: dict[int, Frame] = {}
        waiting = list(enumerate(requests))[::-1] if self._idle else []
        busy: dict[socket.socket, int] = {}
        while waiting or busy:
            while self._idle and waiting:
                worker, (at, request) = self._idle.pop(), waiting.pop()
                with suppress(OSError):
                    worker.sendall(wire.pack(request))
                    busy[worker] = at
            if not busy:
                break  # nobody is left
            for ready in cast(list[socket.socket], wait(list(busy))):
                at = busy.pop(ready)
                frame = _answer(ready)
                if frame is not None:
                    found[at] = frame
                    self._idle.append(ready)
        return found

    def _wanted(self, requests: int) -> int:
        """Workers for so many requests."""
        count = self._count
        if count is None:
            cpus = len(os.sched_getaffinity(0))
            count = 0 if requests <= FEW or cpus < 2 else min(cpus, MOST)
        return min(count, requests)

    def _start(self, count: int) -> None:
        while len(self._idle) < count:
            self._idle.append(self._stack.enter_context(_Worker()).connection)


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
    return _task(choice.form) | {"program": choice.program}


def _task(task: Task) -> wire.Header:
    return {"dag": dag_to_data(task.dag), "target": target_to_data(task.target)}


def _answer(connection: socket.socket) -> Frame | None:
    """None if the worker is no more, for whatever reason."""
    with suppress(OSError, wire.WireError):
        return wire.receive(connection)
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
    task = Task.from_dag(dag, target)
    try:
        if header.get("estimate"):
            return wire.pack({"seconds": estimates([task])[0]})
        program = cast(Data | None, header["program"])
        return _packed(compile_choice(Choice(task, program)))
    except AnsorError as error:
        return wire.pack({"error": str(error)})


def _packed(unit: Unit) -> bytes:
    rows = [
        (x.argument, x.packed.name, list(x.packed.shape), x.packed.dtype, x.entry)
        for x in unit.packings
    ]
    header: wire.Header = {
        "symbol": unit.symbol,
        "exports": list(unit.made.exports),
        "packings": rows,
        "program": unit.program,
    }
    return wire.pack(header, unit.made.code)
