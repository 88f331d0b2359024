"""The workers of one pool: who is idle, who has what loaded, who must be replaced."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass

from ansor.errors import MeasureError
from ansor.measure import endings, wire
from ansor.measure.builder import Built
from ansor.measure.limits import Limits
from ansor.measure.process import Worker, Zygote
from ansor.records.outcome import Failed
from ansor.te.data import dag_to_data
from ansor.te.task import Task

GRACE = 0.02  # seconds from closing its connection until a process is dead


@dataclass(eq=False)
class Place:
    """The memory of one task: inputs and right results, shared by all its runners."""

    task: Task
    memory: int  # descriptor
    layout: wire.Header
    seed: int

    @property
    def bytes(self) -> int:
        size = self.layout["bytes"]
        assert isinstance(size, int)
        return size


class Unanswered(Exception):
    """A job of ours ended its worker; the outcome says how."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(str(failed))
        self.failed = failed


class Crew:
    """Starts workers when they are needed, and keeps those that did well."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._zygote: Zygote | None = None
        self._workers: set[Worker] = set()  # all that live
        self._builders: list[Worker] = []  # idle ones
        self._runner: tuple[Worker, Place, Built | None] | None = None  # the idle one

    def builder(self) -> Worker:
        """An idle builder."""
        if self._builders:
            return self._builders.pop()
        return self._spawn("build", bytes_=self.limits.build_bytes)

    def runner(self, place: Place, anchor: Built | None) -> Worker:
        """A runner with the task's arrays mapped and the anchor loaded."""
        known, self._runner = self._runner, None
        if known is not None and known[1] is not place:
            self.end(known[0])
            known = None
        worker = self.fresh_runner(place) if known is None else known[0]
        if anchor is not None and (known is None or known[2] is not anchor):
            header: wire.Header = {"kind": "anchor", "built": anchor.header}
            self.ask(worker, header, anchor.code, self.limits.run_seconds)
        return worker

    def fresh_runner(self, place: Place) -> Worker:
        """A runner that has run nothing yet."""
        room = self.limits.run_bytes + 4 * place.bytes
        worker = self._spawn("run", descriptors=(place.memory,), bytes_=room)
        header: wire.Header = {
            "kind": "open",
            "dag": dag_to_data(place.task.dag),
            "layout": place.layout,
            "seed": place.seed,
            "threads": place.task.target.cores,
        }
        self.ask(worker, header, b"", self.limits.run_seconds)
        return worker

    def has(self, worker: Worker) -> bool:
        """True while it lives, as far as anybody knows."""
        return worker in self._workers

    def keep_builder(self, worker: Worker) -> None:
        """It is idle again; retired if it has worked long enough."""
        if worker.jobs >= self.limits.jobs:
            self.end(worker)
        else:
            self._builders.append(worker)

    def keep_runner(self, worker: Worker, place: Place, anchor: Built | None) -> None:
        """It is idle again; retired if it has worked long enough."""
        if worker.jobs >= self.limits.jobs:
            self.end(worker)
        else:
            self._runner = (worker, place, anchor)

    def problem(self, task: Task, memory: int, seed: int) -> Worker:
        """A new worker that computes inputs and reference of a task into this file."""
        worker = self._spawn("problem", descriptors=(memory,), limit_output=False)
        header: wire.Header = {"dag": dag_to_data(task.dag), "seed": seed}
        with contextlib.suppress(OSError):  # it has ended: who waits for it hears how
            worker.send(header, b"", self.limits.problem_seconds)
        return worker

    def layout(self, worker: Worker) -> wire.Header:
        """What the worker of `problem` has made; waits for it."""
        answer = self._answer(worker, self.limits.problem_seconds)
        self.end(worker)
        layout = answer["layout"]
        assert isinstance(layout, dict)
        return layout

    def ask(
        self,
        worker: Worker,
        header: wire.Header,
        payload: bytes,
        seconds: float,
        on_stage: Callable[[wire.Header], None] = lambda header: None,
    ) -> wire.Header:
        """Give a worker a job and wait for its answer.

        Raises Unanswered if there is none; the worker has ended then.
        """
        try:
            worker.send(header, payload, seconds)
        except TimeoutError:
            self.end(worker)
            raise Unanswered(endings.overdue("run", seconds)) from None
        except OSError:
            raise Unanswered(self.ended(worker, "run")) from None
        return self._answer(worker, seconds, on_stage)

    def _answer(
        self,
        worker: Worker,
        seconds: float,
        on_stage: Callable[[wire.Header], None] = lambda header: None,
    ) -> wire.Header:
        """The answer to the job that a worker has."""
        try:
            while True:
                rest = worker.deadline - time.monotonic()
                worker.connection.settimeout(max(1e-3, rest))
                for found, _ in worker.receive() or self._nothing(worker):
                    if "stage" not in found:
                        return found
                    on_stage(found)
        except TimeoutError:
            self.end(worker)
            raise Unanswered(endings.overdue("run", seconds)) from None
        except wire.WireError as error:
            self.end(worker)
            raise Unanswered(endings.garbled("run", str(error))) from None
        except OSError:
            raise Unanswered(self.ended(worker, "run")) from None

    def _nothing(self, worker: Worker) -> list[tuple[wire.Header, bytes]]:
        """No frame is complete yet, or none will come any more."""
        if worker.is_closed:
            raise BrokenPipeError
        return []

    def end(self, worker: Worker) -> None:
        """Kill a worker; nobody asks how it ended."""
        self._workers.discard(worker)
        self._source.end(worker)

    def ended(self, worker: Worker, stage: str) -> Failed:
        """How a worker ended that closed its connection."""
        self._workers.discard(worker)
        return endings.ended(stage, self._source.end(worker, GRACE))

    def dismiss(self) -> None:
        """End idle builders: what killed one of them may have met them, too."""
        idle, self._builders = self._builders, []
        for worker in idle:
            self.end(worker)

    def close(self) -> None:
        """End all workers; a crew that is used again starts new ones."""
        for worker in self._workers:
            worker.connection.close()
            os.close(worker.errors)
        self._workers, self._builders, self._runner = set(), [], None
        if self._zygote is not None:
            self._zygote.close()
            self._zygote = None

    @property
    def _source(self) -> Zygote:
        if self._zygote is None:
            self._zygote = Zygote()
        return self._zygote

    def _spawn(
        self,
        role: str,
        *,
        descriptors: tuple[int, ...] = (),
        bytes_: int | None = None,
        limit_output: bool = True,
    ) -> Worker:
        worker = self._source.spawn(
            role, descriptors=descriptors, bytes_=bytes_, limit_output=limit_output
        )
        self._workers.add(worker)
        return worker


@dataclass(eq=False)
class Pending:
    """A place in the making: a worker computes what belongs there."""

    task: Task
    memory: int
    worker: Worker
    seed: int

    @classmethod
    def start(cls, crew: Crew, task: Task, seed: int) -> Pending:
        memory = os.memfd_create("ansor-problem", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            return cls(task, memory, crew.problem(task, memory, seed), seed)
        except BaseException:
            os.close(memory)
            raise

    def finish(self, crew: Crew) -> Place:
        try:
            return Place(self.task, self.memory, crew.layout(self.worker), self.seed)
        except Unanswered as error:
            os.close(self.memory)
            raise MeasureError(
                "inputs and reference of the task",
                f"could not be computed: {error}",
                "free memory, raise Limits(problem_seconds=…), or measure a smaller "
                "task",
            ) from error
        except BaseException:
            os.close(self.memory)
            raise
