"""The loop: ask a policy for programs, measure them, remember everything."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from statistics import mean

from ansor.errors import MeasureError
from ansor.measure.identity import host, versions
from ansor.measure.runner import FOREVER, Incumbent, Measured, Runner
from ansor.reading import Data
from ansor.records.database import Database
from ansor.records.outcome import Failed
from ansor.records.record import Record
from ansor.schedule.data import to_data
from ansor.schedule.program import Program
from ansor.search.budget import (
    RECENT,
    SHARE,
    Budget,
    Finalist,
    Spent,
    affordable,
    monotonic,
    ranking_seconds,
)
from ansor.search.policy import Policy
from ansor.search.progress import Listener, Progress, Stop
from ansor.search.result import INTERRUPTED, Moment, Result
from ansor.space.replay import replay
from ansor.te.task import Task

FINALISTS = 8  # timed side by side at the end, if they are
FIRST = 2  # candidates that are measured before there is one to compare with
CLEARLY = 0.92  # of the time of what others are compared with: this is, from now on
NEAR = 1.15  # times slower than the best, at most
OVERTIME = 0.5  # seconds beyond the budget that a ranking may end
AGAIN = "again with other memory contents, arrays behind their guards"
EXHAUSTED = "all of the space is measured"


@dataclass(frozen=True)
class Trial:
    """A program and what became of it."""

    program: Program
    record: Record
    checking: float = 0.0  # seconds for checking its result, if it was measured now

    @property
    def seconds(self) -> float:
        """Of one that ran."""
        assert self.record.seconds is not None
        return self.record.seconds


@dataclass
class Search:
    """One task being tuned. `known` is the task by the names the database has.

    `run` does all of it. Of several tasks, each is begun, gets batches as somebody
    decides, and is finished; then `spent` is what all have spent together, and
    `reserve` says what their rankings will take.

    With a budget of trials no decision depends on the clock. With one of seconds the
    clock decides how much of a batch is measured, and who is ranked; what is asked of
    the policy is the same, so that a later run finds what this one has measured.
    """

    task: Task
    known: Task
    decide: Callable[[Task, Database], Policy]  # for the known task
    database: Database
    runner: Runner
    budget: Budget
    listener: Listener | None
    stop: Stop | None
    spent: Spent
    reserve: Callable[[], float] | None = None
    finalists: int = FINALISTS
    is_alone: bool = True  # so that it goes on past its time until something has run
    policy: Policy | None = None
    trials: list[Trial] = field(default_factory=list)
    history: list[Moment] = field(default_factory=list)
    thinking: float = 0.0  # seconds that the last batch took to choose
    runs: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    ended: int = 0  # trials that all had when this had its last

    def run(self) -> Result:
        """From the beginning to the end."""
        try:
            self.begin()
            while not (reason := self._end()):
                if reason := self.step(self.budget.batch(len(self.trials))):
                    break
            if not self._timed():
                raise self.nothing()
            return self.finish(reason)
        except KeyboardInterrupt:
            if self._timed():
                return self._result(*self._first(), INTERRUPTED)
            known = best_known(self.task, self.known, self.database)
            if known is None:
                raise  # there is nothing to give
            return known

    def begin(self) -> None:
        """Let the policy know the task, and the runner, where it has to measure: among
        several tasks, where nothing is known."""
        llvm = versions()["llvm"]
        is_known = not self.is_alone and self.database.best(self.known, llvm)
        if not is_known and not self.database.ranking(self.known, llvm):
            self._prepare()
        self.policy = self.decide(self.known, self.database)

    def step(self, count: int) -> str:
        """Measure a batch of so many, of a search that has begun. What ends the search,
        in words, if something does: then the policy has not heard of it."""
        assert self.policy is not None
        start = monotonic()
        programs = self.policy.ask(count)
        self.thinking = monotonic() - start
        if not programs:
            return EXHAUSTED
        before = len(self.trials)
        if reason := self._batch(programs):
            return reason
        self._tell(self.policy, self.trials[before:])
        return ""

    def finish(self, stopped: str, is_ranked: bool = True) -> Result:
        """The best of a search in which something has run: the winner of a ranking, or
        just the fastest trial or the one of an earlier ranking."""
        if is_ranked:
            return self._result(*self._winner(), stopped)
        ranking = self.database.ranking(self.known, versions()["llvm"])
        return self._result(*self._better(_winner(ranking)), stopped)

    def is_done(self) -> str:
        """Why the policy expects nothing more; empty while it does."""
        assert self.policy is not None
        return self.policy.is_done(self.best)

    @property
    def best(self) -> float | None:
        """Seconds of the fastest trial."""
        found = self._best()
        return None if found is None else found.seconds

    def _prepare(self) -> None:
        """Let a runner that can begin to work, before candidates are chosen."""
        prepare = getattr(self.runner, "prepare", None)
        if prepare is not None:
            prepare(self.known)

    def _end(self) -> str:
        """Why there is no other batch; empty if there is one."""
        if self.budget.trials is not None and len(self.trials) >= self.budget.trials:
            return "trials"
        if self.trials and self._left() < self.thinking + self.trial_seconds:
            return "seconds"
        return self.is_done()

    @property
    def trial_seconds(self) -> float:
        """Of the next trial, about."""
        return mean(self.runs) if self.runs else self.spent.trial

    def _left(self) -> float:
        """Seconds left for trials: all but what ranking will take."""
        if self.budget.seconds is None:
            return FOREVER
        kept = self._reserve() if self.reserve is None else self.reserve()
        return self.budget.seconds - self.spent.seconds - kept

    def _batch(self, programs: Sequence[Program]) -> str:
        """Measure what is not known yet. Outcomes are noted as they come; afterwards
        everything is in the order of the decisions, which does not depend on it.
        Why the search ends within the batch, or an empty string."""
        found: dict[int, Trial] = {}
        start = len(self.trials)
        reason = ""
        try:
            for at, trial, is_new in self._outcomes(programs):
                found[at] = trial
                self._note(trial)
                reason = self._heard(is_new)
                if reason:
                    break
            else:
                reason = "" if len(found) == len(programs) else "seconds"
        finally:
            self.trials[start:] = [found[at] for at in sorted(found)]
        return reason

    def _tell(self, policy: Policy, trials: Sequence[Trial]) -> None:
        start = monotonic()
        outcomes = [trial.record.outcome for trial in trials]
        policy.tell([trial.program for trial in trials], outcomes)
        self.thinking += monotonic() - start

    def _outcomes(
        self, programs: Sequence[Program]
    ) -> Iterator[tuple[int, Trial, bool]]:
        """Records from the database first, then those of new measurements, which are
        not all there if time is over. The last says whether it is new."""
        data = [to_data(program) for program in programs]
        missing = []
        for at, program in enumerate(data):
            record = self.database.outcome(self.known, program, versions()["llvm"])
            if record is None:
                missing.append(at)
            else:
                self.spent.remember(record.spent)
                yield at, Trial(programs[at], record), False
        while missing and (count := self._fitting(len(missing))):
            now, left = missing[:count], len(missing)
            for measured in self._measure([programs[at] for at in now]):
                at = now[measured.index]
                missing.remove(at)
                record = self._store(data[at], measured)
                yield at, Trial(programs[at], record, measured.checking), True
            if len(missing) == left:
                return  # the runner had no time for any of them

    def _fitting(self, count: int) -> int:
        """How many of so many candidates there is time for; while none has run, a few,
        so that there is something soon, also to compare the others with."""
        left = self._left()
        if not self._timed() and (self.is_alone or left > 0):
            return min(count, FIRST)
        if left == FOREVER:
            return count
        return min(count, max(0, int(left / self.trial_seconds)))

    def _measure(self, programs: Sequence[Program]) -> Iterator[Measured]:
        beside = self._incumbent()
        if self.budget.seconds is None:
            return self.runner.measure(self.known, programs, beside)
        until = monotonic() + self._left()
        return self.runner.measure(self.known, programs, beside, until)

    def _incumbent(self) -> Incumbent | None:
        """What candidates are timed beside: the same program until another is clearly
        faster. Times are relative to it, and with few changes comparable."""
        anchor: Trial | None = None
        for trial in self._timed():
            if anchor is None or trial.seconds < CLEARLY * anchor.seconds:
                anchor = trial
        if anchor is None:
            return None
        return Incumbent(anchor.program, anchor.seconds, self.best)

    def _store(self, program: Data, measured: Measured) -> Record:
        """Write a trial; when this returns it cannot be lost."""
        spent = self.spent.lap(measured.spent)
        self.runs.append(measured.spent)
        record = self._record(program, "trial", measured, time.time(), spent)
        if isinstance(record.outcome, Failed) and record.outcome.cause == "lost":
            return record  # says nothing about the program: the next run tries again
        return replace(record, id=self.database.add(self.known, record))

    def _record(
        self,
        program: Data,
        role: str,
        measured: Measured,
        created: float,
        spent: float = 0.0,
    ) -> Record:
        return Record(
            workload=self.known.key,
            target=self.known.target.fingerprint,
            program=program,
            outcome=measured.outcome,
            role=role,
            spent=spent,
            verified=measured.verified,
            versions=dict(measured.versions) or versions(),
            host=measured.host or host(),
            created=created,
        )

    def _note(self, trial: Trial) -> None:
        self.trials.append(trial)
        self.ended = self.spent.trials
        self.history.append(Moment(len(self.trials), self.best, self.spent.counted))

    def _heard(self, is_new: bool) -> str:
        """Why the search ends after a trial; what is known already has no price."""
        now = self._progress()
        if self.listener is not None:
            self.listener(now)
        if self.stop is not None and self.stop(now):
            return "stopped by the caller"
        may_end = bool(self._timed()) or not self.is_alone
        return "seconds" if is_new and may_end and self._left() <= 0 else ""

    def _progress(self) -> Progress:
        times = self._timed()
        return Progress(
            task=self.task,
            trials=len(self.trials),
            total=self.budget.trials,
            seconds=self.spent.counted,
            limit=self.budget.seconds,
            best=self.history[-1].best,
            first=times[0].seconds if times else None,
            failures=len(self.trials) - len(times),
            record=self.trials[-1].record,
        )

    def _timed(self) -> list[Trial]:
        return [trial for trial in self.trials if trial.record.seconds is not None]

    def _order(self) -> list[Trial]:
        """Those that ran, the fastest first; of equal ones the earlier."""
        return sorted(self._timed(), key=lambda trial: trial.seconds)

    def _best(self) -> Trial | None:
        return min(self._timed(), key=lambda trial: trial.seconds, default=None)

    # -- the end -----------------------------------------------------------------------

    def _result(self, program: Program, seconds: float, stopped: str) -> Result:
        return Result(
            self.task,
            program,
            seconds,
            tuple(trial.record for trial in self.trials),
            tuple(self.history),
            stopped,
        )

    def _first(self) -> tuple[Program, float]:
        """The best trial."""
        best = self._best()
        assert best is not None
        return best.program, best.seconds

    def _winner(self) -> tuple[Program, float]:
        """The best of all: this search's best few and the best known before, timed side
        by side unless the last such ranking has all of them, or time is short."""
        ranking = self.database.ranking(self.known, versions()["llvm"])
        known = [record.program for record in ranking]
        finalists = self._finalists()
        if any(trial.record.program not in known for trial in finalists):
            finalists = finalists[: self._rankable(finalists)]
            if not finalists or not self._rank(finalists, _winner(ranking)):
                return self._better(_winner(ranking))
            ranking = self.database.ranking(self.known, versions()["llvm"])
        winner = _winner(ranking)
        return self._unranked(ranking) if winner is None else self._replayed(winner)

    def _replayed(self, record: Record) -> tuple[Program, float]:
        assert record.seconds is not None
        task = self.database.task_of(record, self.known.target)
        return replay(task, record.program), record.seconds

    def _better(self, champion: Record | None) -> tuple[Program, float]:
        """The best trial, or the winner of an earlier ranking if that is faster."""
        program, seconds = self._first()
        if champion is None or champion.seconds is None or champion.seconds >= seconds:
            return program, seconds
        return self._replayed(champion)

    def _finalists(self) -> list[Trial]:
        order = self._order()
        if not order:
            return []
        limit = NEAR * order[0].seconds
        return [trial for trial in order if trial.seconds <= limit][: self.finalists]

    def costs(self) -> list[Finalist]:
        """What ranking takes, the fastest first."""
        return self._costs(self._finalists())

    def _costs(self, finalists: Sequence[Trial]) -> list[Finalist]:
        places = {id(trial): at for at, trial in enumerate(self.trials)}
        count = len(self.trials) + self.spent.trials - self.ended
        return [
            Finalist(x.seconds, x.checking, count - places[id(x)]) for x in finalists
        ]

    def _reserve(self) -> float:
        """Seconds to keep for ranking: a share of all, or it is left out."""
        assert self.budget.seconds is not None
        costs = self.costs()
        count = affordable(costs, SHARE * self.budget.seconds)
        return ranking_seconds(costs[:count]) if count else 0.0

    def _rankable(self, finalists: Sequence[Trial]) -> int:
        """How many finalists there is time to rank."""
        if self.budget.seconds is None:
            return len(finalists)
        left = self.budget.seconds - self.spent.seconds
        return affordable(self._costs(finalists), left)

    def _unranked(self, ranking: Sequence[Record]) -> tuple[Program, float]:
        """Every finalist failed its last check: the best trial that was not one."""
        failed = [record.program for record in ranking]
        for trial in self._order():
            if trial.record.program not in failed:
                return trial.program, trial.seconds
        raise MeasureError(
            f"tuning of {self._name}",
            f"all {len(ranking)} finalists failed when they were ranked; "
            f"the first: {ranking[0].outcome}",
            "`ansor records DB --reproduce N` runs one of them again",
        )

    def _rank(self, finalists: Sequence[Trial], champion: Record | None) -> bool:
        """Time them side by side, and store the winner first; False if there was not
        enough time for it."""
        data = [trial.record.program for trial in finalists]
        programs = [trial.program for trial in finalists]
        if champion is not None and champion.program not in data:
            task = self.database.task_of(champion, self.known.target)
            if task.dag == self.known.dag:
                data.append(champion.program)
                programs.append(replay(task, champion.program))
        if self.budget.seconds is None:
            ranked = self.runner.rank(self.known, programs)
        else:
            until = monotonic() + OVERTIME + self.budget.seconds - self.spent.seconds
            ranked = self.runner.rank(self.known, programs, until)
        if not ranked.outcomes:
            return False
        order = sorted(range(len(programs)), key=lambda n: n != ranked.winner)
        now = time.time()  # the same for all: so they are found together
        records = [
            self._record(data[n], "final", Measured(n, ranked.outcomes[n], AGAIN), now)
            for n in order
        ]
        self.database.add_all(self.known, records)
        return True

    def nothing(self) -> MeasureError:
        """Why there is no result."""
        if not self.trials:
            return MeasureError(
                f"tuning of {self._name}",
                "the space has no program that the target can run",
                "loosen constraints=…, or see what ansor.sketches(task) gives",
            )
        counts: dict[str, int] = {}
        for trial in self.trials:
            assert isinstance(trial.record.outcome, Failed)
            kind = f"{trial.record.outcome.stage} ({trial.record.outcome.cause})"
            counts[kind] = counts.get(kind, 0) + 1
        list_ = ", ".join(f"{count} at {kind}" for kind, count in counts.items())
        return MeasureError(
            f"tuning of {self._name}",
            f"none of {len(self.trials)} candidates gave a time: {list_}; "
            f"the first: {self.trials[0].record.outcome}",
            "`ansor records DB --reproduce N` runs one of them again",
        )

    @property
    def _name(self) -> str:
        return repr(self.task.dag.outputs[0].name)


def best_known(task: Task, known: Task, database: Database) -> Result | None:
    """What earlier runs have found, for one that has nothing itself."""
    record = database.best(known, llvm=versions()["llvm"])
    if record is None or record.seconds is None:
        return None
    program = replay(database.task_of(record, known.target), record.program)
    return Result(task, program, record.seconds, (), (), INTERRUPTED)


def _winner(ranking: Sequence[Record]) -> Record | None:
    return next((record for record in ranking if record.seconds is not None), None)
