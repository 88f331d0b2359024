"""The loop: ask a policy for programs, measure them, remember everything."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from ansor.errors import MeasureError
from ansor.measure.identity import host, versions
from ansor.measure.runner import Incumbent, Measured, Runner
from ansor.reading import Data
from ansor.records.database import Database
from ansor.records.outcome import Failed, Timed
from ansor.records.record import Record
from ansor.schedule.data import to_data
from ansor.schedule.program import Program
from ansor.search.policy import Policy
from ansor.search.progress import Listener, Progress, Stop
from ansor.search.result import Moment, Result
from ansor.space.replay import replay
from ansor.te.task import Task

BATCH = 16  # candidates that are decided upon together
FINALISTS = 5  # timed side by side at the end, if they are
NEAR = 1.15  # times slower than the best, at most
AGAIN = "again with other memory contents, arrays behind their guards"


@dataclass(frozen=True)
class Budget:
    """Where a search ends."""

    trials: int | None
    seconds: float | None

    def allows(self, trials: int, seconds: float) -> bool:
        if self.trials is not None and trials >= self.trials:
            return False
        return self.seconds is None or seconds < self.seconds

    def batch(self, trials: int) -> int:
        return BATCH if self.trials is None else min(BATCH, self.trials - trials)


@dataclass
class Search:
    """One task being tuned. `known` is the task by the names the database has."""

    task: Task
    known: Task
    policy: Policy
    database: Database
    runner: Runner
    budget: Budget
    listener: Listener | None
    stop: Stop | None
    records: list[Record] = field(default_factory=list)
    programs: list[Program] = field(default_factory=list)
    history: list[Moment] = field(default_factory=list)
    spent: float = 0.0

    def run(self) -> Result:
        try:
            self._explore()
            if not self._timed():
                raise self._nothing()
            return self._result(*self._winner())
        except KeyboardInterrupt:
            if not self._timed():
                raise  # there is nothing to give
            return self._result(*self._first(), is_complete=False)

    def _explore(self) -> None:
        while self._more():
            programs = self.policy.ask(self.budget.batch(len(self.records)))
            if not programs or not self._batch(programs):
                return

    def _more(self) -> bool:
        return self.budget.allows(len(self.records), self.spent)

    def _batch(self, programs: Sequence[Program]) -> bool:
        """Measure what is not known yet. Outcomes are noted as they come; afterwards
        everything is in the order of the decisions, which does not depend on it.
        False if the search ends within the batch."""
        found: dict[int, Record] = {}
        best, start = self._best(), len(self.records)
        goes_on = True
        try:
            for at, record in self._outcomes(programs, best):
                found[at] = record
                self._note(programs[at], record)
                if not self._goes_on():
                    goes_on = False
                    break
        finally:
            told = sorted(found)
            self.records[start:] = [found[at] for at in told]
            self.programs[start:] = [programs[at] for at in told]
            outcomes = [record.outcome for record in self.records[start:]]
            self.policy.tell(self.programs[start:], outcomes)
        return goes_on

    def _outcomes(
        self, programs: Sequence[Program], best: int | None
    ) -> Iterator[tuple[int, Record]]:
        """Records from the database first, then those of new measurements."""
        data = [to_data(program) for program in programs]
        missing = []
        for at, program in enumerate(data):
            record = self.database.outcome(self.known, program, versions()["llvm"])
            if record is None:
                missing.append(at)
            else:
                yield at, record
        wanted = [programs[at] for at in missing]
        for measured in self.runner.measure(self.known, wanted, self._incumbent(best)):
            at = missing[measured.index]
            yield at, self._store(data[at], measured)

    def _store(self, program: Data, measured: Measured) -> Record:
        """Write a trial; when this returns it cannot be lost."""
        record = self._record(program, "trial", measured, time.time())
        if isinstance(record.outcome, Failed) and record.outcome.cause == "lost":
            return record  # says nothing about the program: the next run tries again
        return replace(record, id=self.database.add(self.known, record))

    def _record(
        self, program: Data, role: str, measured: Measured, created: float
    ) -> Record:
        return Record(
            workload=self.known.key,
            target=self.known.target.fingerprint,
            program=program,
            outcome=measured.outcome,
            role=role,
            spent=measured.spent,
            verified=measured.verified,
            versions=dict(measured.versions) or versions(),
            host=measured.host or host(),
            created=created,
        )

    def _note(self, program: Program, record: Record) -> None:
        self.records.append(record)
        self.programs.append(program)
        self.spent += record.spent
        best = self._best()
        seconds = None if best is None else self.records[best].seconds
        self.history.append(Moment(len(self.records), seconds, self.spent))

    def _goes_on(self) -> bool:
        now = self._progress()
        if self.listener is not None:
            self.listener(now)
        if self.stop is not None and self.stop(now):
            return False
        return self.budget.seconds is None or self.spent < self.budget.seconds

    def _progress(self) -> Progress:
        times = self._timed()
        return Progress(
            task=self.task,
            trials=len(self.records),
            total=self.budget.trials,
            seconds=self.spent,
            limit=self.budget.seconds,
            best=self.history[-1].best,
            first=self.records[times[0]].seconds if times else None,
            failures=len(self.records) - len(times),
            record=self.records[-1],
        )

    def _timed(self) -> list[int]:
        return [at for at, r in enumerate(self.records) if isinstance(r.outcome, Timed)]

    def _order(self) -> list[int]:
        """Those that ran, the fastest first; of equal ones the earlier."""
        return sorted(self._timed(), key=lambda at: (self.records[at].seconds, at))

    def _best(self) -> int | None:
        return next(iter(self._order()), None)

    def _incumbent(self, best: int | None) -> Incumbent | None:
        if best is None:
            return None
        return Incumbent(self.programs[best], self._seconds(best))

    # -- the end -----------------------------------------------------------------------

    def _result(
        self, program: Program, seconds: float, is_complete: bool = True
    ) -> Result:
        return Result(
            self.task,
            program,
            seconds,
            tuple(self.records),
            tuple(self.history),
            is_complete,
        )

    def _first(self) -> tuple[Program, float]:
        """The best trial."""
        at = self._order()[0]
        return self.programs[at], self._seconds(at)

    def _winner(self) -> tuple[Program, float]:
        """The best of all: this search's best few and the best known before, timed side
        by side unless the last such ranking has all of them."""
        finalists = self._finalists()
        ranking = self.database.ranking(self.known, versions()["llvm"])
        known = [record.program for record in ranking]
        if any(self.records[at].program not in known for at in finalists):
            self._rank(finalists, _winner(ranking))
            ranking = self.database.ranking(self.known, versions()["llvm"])
        winner = _winner(ranking)
        if winner is None or winner.seconds is None:
            return self._unranked(ranking)
        task = self.database.task_of(winner, self.known.target)
        return replay(task, winner.program), winner.seconds

    def _seconds(self, at: int) -> float:
        seconds = self.records[at].seconds
        assert seconds is not None
        return seconds

    def _finalists(self) -> list[int]:
        order = self._order()
        limit = NEAR * self._seconds(order[0])
        return [at for at in order if self._seconds(at) <= limit][:FINALISTS]

    def _unranked(self, ranking: Sequence[Record]) -> tuple[Program, float]:
        """Every finalist failed its last check: the best trial that was not one."""
        failed = [record.program for record in ranking]
        for at in self._order():
            if self.records[at].program not in failed:
                return self.programs[at], self._seconds(at)
        raise MeasureError(
            f"tuning of {self._name}",
            f"all {len(ranking)} finalists failed when they were ranked; "
            f"the first: {ranking[0].outcome}",
            "`ansor records DB --reproduce N` runs one of them again",
        )

    def _rank(self, finalists: Sequence[int], champion: Record | None) -> None:
        """Time them side by side, and store the winner first."""
        data = [self.records[at].program for at in finalists]
        programs = [self.programs[at] for at in finalists]
        if champion is not None and champion.program not in data:
            task = self.database.task_of(champion, self.known.target)
            if task.dag == self.known.dag:
                data.append(champion.program)
                programs.append(replay(task, champion.program))
        ranked = self.runner.rank(self.known, programs)
        order = sorted(range(len(programs)), key=lambda n: n != ranked.winner)
        now = time.time()  # the same for all: so they are found together
        records = [
            self._record(data[n], "final", Measured(n, ranked.outcomes[n], AGAIN), now)
            for n in order
        ]
        self.database.add_all(self.known, records)

    def _nothing(self) -> MeasureError:
        if not self.records:
            return MeasureError(
                f"tuning of {self._name}",
                "the space has no program that the target can run",
                "loosen constraints=…, or see what ansor.sketches(task) gives",
            )
        counts: dict[str, int] = {}
        for record in self.records:
            assert isinstance(record.outcome, Failed)
            kind = f"{record.outcome.stage} ({record.outcome.cause})"
            counts[kind] = counts.get(kind, 0) + 1
        list_ = ", ".join(f"{count} at {kind}" for kind, count in counts.items())
        return MeasureError(
            f"tuning of {self._name}",
            f"none of {len(self.records)} candidates gave a time: {list_}; "
            f"the first: {self.records[0].outcome}",
            "`ansor records DB --reproduce N` runs one of them again",
        )

    @property
    def _name(self) -> str:
        return repr(self.task.dag.outputs[0].name)


def _winner(ranking: Sequence[Record]) -> Record | None:
    return next((record for record in ranking if record.seconds is not None), None)
