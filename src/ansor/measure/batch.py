"""One batch of candidates: built, then run, each on its way to its outcome."""

from __future__ import annotations

import selectors
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from ansor.errors import AnsorError, MeasureError
from ansor.measure import endings, wire
from ansor.measure.builder import Built, Candidate
from ansor.measure.crew import Place, Unanswered
from ansor.measure.process import Worker, ZygoteLost
from ansor.measure.runner import FOREVER, Incumbent, Measured, Ranked
from ansor.measure.shop import Shop
from ansor.records.outcome import STAGES, Failed, Outcome, Timed, outcome_from_data
from ansor.te.task import Task

LOSSES = 2  # of workers, through no fault of a candidate, until it is given up
AHEAD = 4  # candidates per builder that are built before they are run
RANK_SECONDS = 60.0
NO_TIME = Ranked((), None)


class _Late(Exception):
    """The time is over."""


@dataclass(eq=False)
class Job:
    """One candidate on its way."""

    index: int  # -1 for the incumbent
    candidate: Candidate
    built: Built | None = None
    losses: int = 0
    disturbed: Done | None = None  # by other load, the first time


@dataclass(frozen=True)
class Done:
    """A job that has come to its end."""

    job: Job
    outcome: Outcome
    verified: str = ""
    checking: float = 0.0


class Batch:
    """The candidates of one call, and the workers that are busy with them.

    Where a kernel uses all cores, building and running take turns: a few candidates
    are built on all cores, then run one by one while nothing else works.
    """

    def __init__(
        self,
        shop: Shop,
        task: Task,
        candidates: Sequence[Candidate],
        incumbent: Incumbent | None = None,
        until: float = FOREVER,
    ) -> None:
        self.shop, self.crew, self.task = shop, shop.crew, task
        self.until = until
        self.has_time = incumbent is not None  # of any candidate
        self.incumbent = incumbent
        self.anchor = None if incumbent is None else shop.known(incumbent.candidate)
        self.left = len(candidates)
        self.waiting = deque(Job(n, x) for n, x in enumerate(candidates))
        if incumbent is not None and self.anchor is None:
            self.waiting.appendleft(Job(-1, incumbent.candidate))
        self.ready: deque[Job] = deque()
        self.busy: dict[Worker, Job] = {}
        self.finished: deque[Done] = deque()  # without having been sent anywhere
        self.runner: Worker | None = None  # the busy one that runs; others build
        self.selector = selectors.DefaultSelector()
        free = shop.cpus - task.target.cores
        self.shares_cores = free > 0
        self.builders = min(shop.builders, free) if free > 0 else shop.builders
        self.restarts = 0
        self.is_draining = False  # running what is built, before more is

    def run(self) -> Iterator[Measured]:
        """Every outcome, as it comes, while there is time; then those that should have
        been repeated."""
        since = time.monotonic()
        is_over = False
        while self.left and not is_over:
            is_over = self._is_over()
            for done in self._late() if is_over else self._step():
                if done.job.index < 0:
                    continue
                self.left -= 1
                now = time.monotonic()
                yield Measured(
                    done.job.index,
                    done.outcome,
                    done.verified or f"seed {self.shop.seed}",
                    now - since,
                    done.checking,
                )
                since = now

    def rank(self) -> Ranked:
        """Build all, then time all in one fresh process."""
        outcomes: dict[int, Outcome] = {}
        while self.waiting or self.busy or self.finished:
            if time.monotonic() >= self.until:
                return NO_TIME
            try:
                self._start_builds(ahead=self.left)
                outcomes.update({x.job.index: x.outcome for x in self._events()})
            except ZygoteLost as error:
                self._restart(error)
        jobs = sorted(self.ready, key=lambda job: job.index)
        first = None
        if jobs:
            try:
                ranked, first = self._rank(jobs)
            except _Late:
                return NO_TIME
            outcomes.update({j.index: x for j, x in zip(jobs, ranked, strict=True)})
        winner = None if first is None else jobs[first].index
        return Ranked(tuple(outcomes[at] for at in range(self.left)), winner)

    def stop(self) -> None:
        """End what is still at work."""
        for worker in list(self.busy):
            self._release(worker)
            self.crew.end(worker)
        self.selector.close()

    # -- one step ----------------------------------------------------------------------

    def _step(self) -> Iterator[Done]:
        try:
            self._start_builds(AHEAD * self.builders)
            place = self.shop.place(self.task)  # the first time, while others build
            self._start_run(place)
            yield from self._events()
        except ZygoteLost as error:
            self._restart(error)

    def _is_over(self) -> bool:
        """True if time is, and there is something to show for it."""
        return self.has_time and time.monotonic() >= self.until

    def _late(self) -> list[Done]:
        """Outcomes that there is no time to repeat."""
        jobs = sorted([*self.ready, *self.busy.values()], key=lambda job: job.index)
        return [job.disturbed for job in jobs if job.disturbed is not None]

    def _restart(self, error: ZygoteLost) -> None:
        """All workers are gone; what they had in hand begins again."""
        self.restarts += 1
        for worker in list(self.busy):
            job = self._release(worker)
            (self.waiting if job.built is None else self.ready).appendleft(job)
        self.crew.close()
        if self.restarts > LOSSES:
            raise MeasureError(
                "worker processes",
                f"cannot be kept alive: {error}",
                "see whether memory or processes are short",
            ) from error

    def _start_builds(self, ahead: int) -> None:
        if not self.shares_cores and (self.is_draining or self.runner is not None):
            return
        while self.waiting and len(self.ready) + len(self.busy) < ahead:
            job = self.waiting[0]
            job.built = self.shop.known(job.candidate)
            if job.built is not None:
                self.ready.append(self.waiting.popleft())
                continue
            if len(self.busy) - (self.runner is not None) >= self.builders:
                return
            worker = self.crew.builder()
            header = self.shop.asker.request(
                self.task, self.waiting.popleft().candidate
            )
            self._send(worker, job, "lower", header)

    def _start_run(self, place: Place) -> None:
        if not self.ready:
            self.is_draining = self.is_draining and self.runner is not None
            return
        is_building = len(self.busy) > (self.runner is not None)
        if self.runner is not None or (is_building and not self.shares_cores):
            return
        self.is_draining = True
        worker = self._runner(place)
        job = self.ready.popleft()
        assert job.built is not None
        self.runner = worker
        header: wire.Header = {
            "kind": "run",
            "built": job.built.header,
            "sampling": asdict(self.shop.sampling),
            "known": None if (x := self.incumbent) is None else [x.least, x.seconds],
        }
        self._send(worker, job, "load", header, job.built.code)

    def _runner(self, place: Place) -> Worker:
        try:
            return self.crew.runner(place, self.anchor)
        except Unanswered as error:
            if self.anchor is None:
                raise MeasureError(
                    "a worker that runs kernels", f"cannot start: {error}"
                ) from error
            self.anchor = None  # it was fine before; go on without
            return self._runner(place)

    def _send(
        self,
        worker: Worker,
        job: Job,
        stage: str,
        header: wire.Header,
        payload: bytes = b"",
    ) -> None:
        self.busy[worker] = job
        self.selector.register(worker.connection, selectors.EVENT_READ, worker)
        worker.stage = stage
        try:
            worker.send(header, payload, self._seconds(worker))
        except OSError:
            pass  # it has ended: the next event says how
        except wire.WireError as error:
            self._release(worker)
            self._keep(worker)
            self.finished.append(Done(job, Failed(stage, "refused", str(error))))

    def _seconds(self, worker: Worker) -> float:
        limits = self.shop.limits
        return limits.run_seconds if worker.role == "run" else limits.build_seconds

    def _release(self, worker: Worker) -> Job:
        if worker is self.runner:
            self.runner = None
        self.selector.unregister(worker.connection)
        return self.busy.pop(worker)

    # -- what happens ------------------------------------------------------------------

    def _events(self) -> Iterator[Done]:
        """Wait for the next events, and give what they finish."""
        while self.finished:
            yield self.finished.popleft()
        if not self.busy:
            return
        nearest = min(worker.deadline for worker in self.busy)
        now = time.monotonic()
        if now < self.until:
            nearest = min(nearest, self.until)
        wait = max(0.0, nearest - now)
        for key, _ in self.selector.select(wait):
            yield from self._heard(key.data)
        now = time.monotonic()
        for worker in [w for w in self.busy if w.deadline <= now]:
            job = self._release(worker)
            self.crew.end(worker)
            outcome = endings.overdue(worker.stage, self._seconds(worker))
            yield Done(job, outcome)

    def _heard(self, worker: Worker) -> Iterator[Done]:
        try:
            for header, payload in worker.receive():
                yield from self._frame(worker, header, payload)
            if worker.is_closed and worker in self.busy:
                job = self._release(worker)
                yield from self._lost(job, self.crew.ended(worker, worker.stage))
        except (wire.WireError, AnsorError, KeyError, TypeError, ValueError) as error:
            job = self._release(worker)
            self.crew.end(worker)
            yield Done(job, endings.garbled(worker.stage, str(error)))

    def _lost(self, job: Job, failed: Failed) -> Iterator[Done]:
        """A candidate whose worker ended; begins again if it was not its fault."""
        if failed.cause == "lost" and job.losses < LOSSES:
            job.losses += 1
            self.crew.dismiss()
            (self.waiting if job.built is None else self.ready).appendleft(job)
        else:
            yield Done(job, failed)

    def _frame(
        self, worker: Worker, header: wire.Header, payload: bytes
    ) -> Iterator[Done]:
        if "stage" in header:
            self._next_stage(worker, str(header["stage"]))
            return
        if worker not in self.busy:
            raise wire.WireError("more than one answer")
        if "built" in header:
            self._built(worker, Built.read(header["built"], payload))
            return
        outcome = outcome_from_data(header["outcome"])
        job = self._release(worker)
        self._keep(worker)
        checking = header.get("checking", 0.0)
        assert isinstance(checking, float)
        done = Done(job, outcome, str(header.get("verified", "")), checking)
        self.has_time = self.has_time or isinstance(outcome, Timed)
        if isinstance(outcome, Timed) and outcome.disturbed and job.disturbed is None:
            job.disturbed = done
            self.ready.append(job)  # after the others: the load may have gone by then
        else:
            yield done

    def _next_stage(self, worker: Worker, stage: str) -> None:
        """Each stage has the whole time limit; there is no way back."""
        if stage not in STAGES or STAGES.index(stage) <= STAGES.index(worker.stage):
            raise wire.WireError(f"stage {stage!r} after {worker.stage!r}")
        worker.stage = stage
        worker.deadline = time.monotonic() + self._seconds(worker)

    def _built(self, worker: Worker, built: Built) -> None:
        job = self._release(worker)
        self._keep(worker)
        self.shop.remember(job.candidate, built)
        job.built = built
        if job.index < 0:
            self.anchor = built
        else:
            self.ready.append(job)

    def _keep(self, worker: Worker) -> None:
        if worker.role == "run":
            self.crew.keep_runner(worker, self.shop.place(self.task), self.anchor)
        else:
            self.crew.keep_builder(worker)

    # -- ranking -----------------------------------------------------------------------

    def _rank(self, jobs: Sequence[Job]) -> tuple[list[Outcome], int | None]:
        """Outcomes in order, and the position of the winner. Who ends the worker is
        out, and the others begin again."""
        out: dict[int, Outcome] = {}
        while len(out) < len(jobs):
            left = [at for at in range(len(jobs)) if at not in out]
            now = [0]

            def on_stage(header: wire.Header, now: list[int] = now) -> None:
                now[0] = int(str(header.get("at", now[0])))

            try:
                answer = self._ask_rank([jobs[at] for at in left], on_stage)
            except Unanswered as error:
                if time.monotonic() >= self.until:
                    raise _Late from error
                out[left[min(now[0], len(left) - 1)]] = error.failed
                continue
            outcomes, winner = answer["outcomes"], answer["winner"]
            assert isinstance(outcomes, list)
            found = zip(left, map(outcome_from_data, outcomes), strict=True)
            out.update(found)
            first = left[winner] if isinstance(winner, int) else None
            return [out[at] for at in range(len(jobs))], first
        return [out[at] for at in range(len(jobs))], None

    def _ask_rank(
        self, jobs: Sequence[Job], on_stage: Callable[[wire.Header], None]
    ) -> wire.Header:
        built = [job.built for job in jobs if job.built is not None]
        header: wire.Header = {
            "kind": "rank",
            "built": [x.header for x in built],
            "lengths": [len(x.code) for x in built],
            "sampling": asdict(self.shop.sampling),
            "seed": self.shop.seed,
        }
        payload = b"".join(x.code for x in built)
        worker = self.crew.fresh_runner(self.shop.place(self.task))
        seconds = min(RANK_SECONDS, max(0.01, self.until - time.monotonic()))
        answer = self.crew.ask(worker, header, payload, seconds, on_stage)
        self.crew.end(worker)
        return answer
