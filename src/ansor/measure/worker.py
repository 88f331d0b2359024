"""What a worker process does: one role, one job after the other.

role       job                         answer, after "stage" frames
build      a candidate as data         object code, or an outcome
problem    a DAG and a seed            layout of the shared memory
run        "open" the task's memory    -
           "anchor": object code       -
           "run": object code          outcome
           "rank": several of them     outcomes, and the winner
"""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from ansor.measure import wire
from ansor.measure.process import EXIT_MEMORY, EXIT_SILENT

Reply: TypeAlias = tuple[wire.Header, bytes]
Role: TypeAlias = Callable[[wire.Header, bytes], Iterator[Reply]]


def preload() -> None:
    """Import and compile what every role needs, before there are any workers."""
    from ansor.measure import builder, execute

    builder.preload()
    execute.preload()


def serve(role: str, connection: socket.socket, descriptors: Sequence[int]) -> None:
    """Answer jobs until the other end closes."""
    work = ROLES[role](descriptors)
    while frame := wire.receive(connection):
        header, payload = frame
        ticket = header["ticket"]
        for answer, block in _answers(work, header, payload):
            try:
                connection.sendall(wire.pack({**answer, "ticket": ticket}, block))
            except OSError:  # the kernel closed it, or nobody listens any more
                os._exit(EXIT_SILENT)


def _answers(work: Role, header: wire.Header, payload: bytes) -> Iterator[Reply]:
    try:
        yield from work(header, payload)
    except MemoryError:
        os._exit(EXIT_MEMORY)
    except OSError as error:
        if error.errno == errno.EBADF:  # the kernel closed our files, too
            os._exit(EXIT_SILENT)
        raise


def _build(descriptors: Sequence[int]) -> Role:
    from ansor.measure import builder

    return builder.work


def _problem(descriptors: Sequence[int]) -> Role:
    from ansor.measure.problem import Problem
    from ansor.te.data import dag_from_data

    def work(header: wire.Header, payload: bytes) -> Iterator[Reply]:
        seed = header["seed"]
        assert isinstance(seed, int)
        problem = Problem.create(dag_from_data(header["dag"]), seed, descriptors[0])
        yield {"layout": {**problem.layout}}, b""

    return work


def _run(descriptors: Sequence[int]) -> Role:
    from ansor.measure.execute import Bench

    return Bench(descriptors[0]).work


ROLES: dict[str, Callable[[Sequence[int]], Role]] = {
    "build": _build,
    "problem": _problem,
    "run": _run,
}
