"""Several tasks tuned together: batch after batch, each for the task that a chooser
names, then the last rankings while time lasts.

Nothing is kept but the records. A run that is started again decides the same from the
outcomes that it finds, and goes on where they end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from statistics import mean, median

from ansor.errors import AnsorError, RecordError
from ansor.measure.identity import versions
from ansor.measure.runner import FOREVER, Runner
from ansor.records.database import Database
from ansor.search.budget import GUESS, KEPT, SHARE, Budget, Finalist, Spent
from ansor.search.chooser import Chooser, Standing, spread, worth
from ansor.search.estimate import estimate, ideal, may_pay
from ansor.search.finals import DOUBT, FINALISTS, Final, in_order, reserved
from ansor.search.loop import EXHAUSTED, Search
from ansor.search.objective import Objective, patience, value
from ansor.search.progress import (
    Overview,
    OverviewListener,
    OverviewStop,
    Progress,
    Row,
)
from ansor.search.related import distance
from ansor.search.result import INTERRUPTED, Moment, Result
from ansor.search.results import Results
from ansor.search.roofline import roofline
from ansor.search.wishes import Wishes
from ansor.space.replay import replay
from ansor.te.task import Task

SIZE = 8  # candidates of a batch: among several tasks, smaller steps
HOPELESS = 3  # batches of which nothing ran, after which a task is given up
ALIKE = 3.0  # the distance of tasks that have much in common
SIZES = 4.0  # how many times more arithmetic one of them may have
MOMENT = 1e-3  # seconds that a batch takes at least
UNLIKELY = "hardly faster"  # an alternative that is not tried


@dataclass(eq=False)
class Job:
    """One task among several. Equal tasks are one: `numbers` says which, and `places`
    where the objective has their time, which other jobs may share."""

    search: Search
    numbers: tuple[int, ...]
    places: tuple[int, ...]
    believed: float  # seconds, by the analytic model
    least: float  # seconds that no program is below, if that is known
    ideal: float  # seconds of its arithmetic at full speed
    bests: list[float] = field(default_factory=list)  # after each batch
    ended: str = ""  # why it gets no more
    error: AnsorError | None = None
    is_refuted: bool = False  # what ran has failed when it was ranked
    bias: float = 1.0  # how many times too small beliefs are, by the other tasks
    _best: tuple[int, float | None] = (0, None)  # after so many trials
    _finalists: tuple[tuple[int, int], tuple[Finalist, ...]] = ((0, 0), ())

    @property
    def best(self) -> float | None:
        """Seconds of the fastest trial; asked for all jobs after every trial."""
        count = len(self.search.trials)
        if self._best[0] != count:
            self._best = (count, self.search.best)
        return self._best[1]

    @property
    def has_run(self) -> bool:
        return self.best is not None

    @property
    def seconds(self) -> float:
        return self.estimate if self.best is None else self.best

    @property
    def estimate(self) -> float:
        return self.believed * self.bias

    @property
    def brief(self) -> Standing:
        """Its time and where it counts, also within a batch."""
        bests = (self.seconds,) if self.has_run else ()
        return Standing(self.seconds, bests, places=self.places)

    @property
    def finalists(self) -> tuple[Finalist, ...]:
        """What a ranking would take; likewise."""
        search = self.search
        age = min(KEPT + 1, search.spent.trials - search.ended)
        if self._finalists[0] != (key := (len(search.trials), age)):
            self._finalists = (key, tuple(search.costs()))
        return self._finalists[1]

    @property
    def spent(self) -> list[float]:
        return [trial.record.spent for trial in self.search.trials]

    @property
    def idle(self) -> int:
        """Trials since it last became faster."""
        trials = self.search.trials
        times = [inf if x.record.seconds is None else x.seconds for x in trials]
        return len(times) - 1 - times.index(min(times)) if times else 0


@dataclass(eq=False)
class Campaign:
    """All jobs, and what they share."""

    jobs: Sequence[Job]
    chooser: Chooser
    objective: Objective
    budget: Budget
    spent: Spent
    listener: OverviewListener | None = None
    stop: OverviewStop | None = None
    history: list[Moment] = field(default_factory=list)
    first: float = 0.0  # the objective before the first trial
    is_stopped: bool = False

    def __post_init__(self) -> None:
        self.alike = _alike([job.search.known for job in self.jobs])
        self.first = self._value()
        for number, job in enumerate(self.jobs):
            job.search.listener = self._hearing(number)
            job.search.stop = self._is_stopped
            job.search.reserve = self._reserve
            job.search.is_alone = False

    def run(self) -> Results:
        try:
            stopped = self._explore()
        except KeyboardInterrupt:
            stopped = INTERRUPTED
        return self.end(stopped)

    # -- batches -----------------------------------------------------------------------

    def _explore(self) -> str:
        """Batches until something ends it: what, in words."""
        while True:
            if self._trials_left() == 0:
                return "trials"
            number = self.chooser.choose(self._standings(), self.objective)
            if number is None:
                return self._exhausted()
            job = self.jobs[number]
            if self.history and self._left() < self._beginning(job):
                return "seconds"
            if reason := self._step(job):
                return reason

    def _trials_left(self) -> float:
        limit = self.budget.trials
        return FOREVER if limit is None else max(0, limit - len(self.history))

    def _exhausted(self) -> str:
        reasons = {job.ended for job in self.jobs} - {"", UNLIKELY}
        is_open = any(not job.ended for job in self.jobs)
        if is_open or len(reasons) != 1:
            return "no gain expected"
        return reasons.pop()

    def _left(self) -> float:
        """Seconds left for trials."""
        if self.budget.seconds is None:
            return FOREVER
        return self.budget.seconds - self.spent.seconds - self._reserve()

    def _beginning(self, job: Job) -> float:
        """Seconds until the next trial of a job is there, about."""
        search = job.search
        if search.trials:
            return search.thinking + search.trial_seconds
        firsts = [other.spent[0] for other in self.jobs if other.search.trials]
        return mean(firsts) if firsts else GUESS

    def _step(self, job: Job) -> str:
        """A batch of one job. What ends everything, if something does."""
        try:
            if job.search.policy is None:
                job.search.begin()
            reason = job.search.step(self.budget.batch(len(self.history)))
            job.ended = reason if reason == EXHAUSTED else ""
            if reason and not job.ended:
                return reason
            job.bests.append(inf if job.best is None else job.best)
            job.ended = job.ended or self._done(job)
            self._correct()
        except RecordError:
            raise  # what is measured could not be kept
        except AnsorError as error:
            job.error, job.ended = error, "failed"
        return ""

    def _correct(self) -> None:
        """Let beliefs about tasks learn from how wrong they were about others."""
        errors = [job.best / job.believed for job in self.jobs if job.best is not None]
        if errors:
            for job in self.jobs:
                job.bias = median(errors)

    def _done(self, job: Job) -> str:
        """Why a job needs no more batches."""
        if not job.has_run:
            if len(job.bests) < HOPELESS:
                return ""
            job.error = job.search.nothing()
            return "failed"
        if reason := job.search.is_done():
            return reason
        trials = patience(self.objective)
        return f"no gain in {trials} trials" if job.idle >= trials else ""

    # -- how things stand --------------------------------------------------------------

    def _standings(self) -> list[Standing]:
        return [
            Standing(
                seconds=job.seconds,
                bests=tuple(job.bests),
                cost=self._cost(job),
                least=job.least,
                ideal=job.ideal,
                flops=job.search.known.flops,
                alike=self.alike[number],
                is_open=not job.ended,
                places=job.places,
            )
            for number, job in enumerate(self.jobs)
        ]

    def _cost(self, job: Job) -> float:
        """Of the next batch, in the unit of the budget: by the clock only if that
        decides. The first trial of a task does not count where there are others: the
        time for its structures and inputs is in it."""
        if self.budget.seconds is None:
            return 1.0
        spent = job.spent[1:] or job.spent
        if not spent:
            begun = [other.spent for other in self.jobs if other.search.trials]
            spent = [mean(map(mean, begun))] if begun else [GUESS]
        return max(MOMENT, mean(spent) * self.budget.size)

    def _seconds(self) -> list[float]:
        return spread([job.brief for job in self.jobs])

    def _value(self) -> float:
        return value(self.objective, self._seconds())

    def _hearing(self, number: int) -> Callable[[Progress], None]:
        def hear(now: Progress) -> None:
            moment = Moment(len(self.history) + 1, self._value(), self.spent.counted)
            self.history.append(moment)
            if self.listener is None and self.stop is None:
                return
            overview = self._overview(number, now)
            if self.listener is not None:
                self.listener(overview)
            self.is_stopped = self.stop is not None and self.stop(overview)

        return hear

    def _is_stopped(self, now: Progress) -> bool:
        return self.is_stopped

    def _overview(self, number: int, now: Progress) -> Overview:
        rows: dict[int, Row] = {}
        for job in self.jobs:
            count = len(job.search.trials)
            row = Row(job.search.task, job.seconds, job.has_run, count, job.ended)
            rows.update(dict.fromkeys(job.numbers, row))
        last = self.history[-1]
        return Overview(
            now=now,
            index=self.jobs[number].numbers[0],
            rows=tuple(rows[n] for n in sorted(rows)),
            trials=len(self.history),
            total=self.budget.trials,
            seconds=last.spent,
            limit=self.budget.seconds,
            value=last.best if last.best is not None else self.first,
            first=self.first,
        )

    # -- the end -----------------------------------------------------------------------

    def _finals(self) -> list[Final]:
        tasks = [job.brief for job in self.jobs]
        return [
            Final(
                number,
                worth(tasks, self.objective, number, (1 - DOUBT) * job.seconds),
                job.finalists,
            )
            for number, job in enumerate(self.jobs)
            if job.has_run
        ]

    def _reserve(self) -> float:
        """Seconds to keep for rankings."""
        assert self.budget.seconds is not None
        return reserved(self._finals(), SHARE * self.budget.seconds)

    def end(self, stopped: str) -> Results:
        """What was found; rankings come first, unless it was interrupted."""
        found: dict[int, Result] = {}
        if stopped != INTERRUPTED:
            try:
                self._rank(found, stopped)
            except KeyboardInterrupt:
                stopped = INTERRUPTED
        for number, job in enumerate(self.jobs):
            if number not in found:
                found[number] = self._unranked(job, job.ended or stopped)
        if not any(result.is_measured for result in found.values()):
            self._raise(stopped)
        return self._together(found, stopped)

    def _rank(self, found: dict[int, Result], stopped: str) -> None:
        """Finish jobs with a ranking: all of them or, by the clock, those where most is
        at stake while time lasts."""
        finals = self._finals()
        if self.budget.seconds is not None:
            finals = in_order(finals)
        for final in finals:
            if self.budget.seconds is not None:
                left = self.budget.seconds - self.spent.seconds
                if final.seconds > left:
                    continue
            job = self.jobs[final.number]
            try:
                result = job.search.finish(job.ended or stopped)
                found[final.number] = replace(result, error=job.error)
            except RecordError:
                raise
            except AnsorError as error:
                job.error, job.is_refuted = error, True

    def _unranked(self, job: Job, stopped: str) -> Result:
        """The best trial of a job; without any, what the database knows, or what the
        analytic model believes."""
        search = job.search
        if job.has_run and not job.is_refuted:
            return replace(search.finish(stopped, is_ranked=False), error=job.error)
        if search.trials and job.error is None:
            job.error = search.nothing()
        program, seconds = None, job.estimate
        known = search.database.best(search.known, llvm=versions()["llvm"])
        if not job.has_run and known is not None and known.seconds is not None:
            task = search.database.task_of(known, search.known.target)
            program, seconds = replay(task, known.program), known.seconds
        records = tuple(trial.record for trial in search.trials)
        history = tuple(search.history)
        return Result(
            search.task, program, seconds, records, history, stopped, job.error
        )

    def _raise(self, stopped: str) -> None:
        """There is nothing to give: say why, if there is a reason."""
        if stopped == INTERRUPTED:
            raise KeyboardInterrupt
        errors = [job.error for job in self.jobs if job.error is not None]
        if len(errors) == len(self.jobs):
            raise errors[0]

    def _together(self, found: dict[int, Result], stopped: str) -> Results:
        given: dict[int, tuple[Result, int]] = {}
        for number, job in enumerate(self.jobs):
            for n, place in zip(job.numbers, job.places, strict=True):
                given[n] = found[number], place
        rows, places = zip(*(given[n] for n in sorted(given)), strict=True)
        results = Results(rows, 0.0, tuple(self.history), stopped, places)
        times = [results[n].seconds for n in results.fastest]
        return replace(results, seconds=value(self.objective, times))


@dataclass(frozen=True)
class Plan:
    """What to tune together, to which end. `places` says of every task which of the
    objective's times is its own; of several tasks in a place the fastest counts."""

    tasks: Sequence[Task]
    places: Sequence[int]
    objective: Objective
    chooser: Chooser
    listener: OverviewListener | None = None
    stop: OverviewStop | None = None


def tune_all(
    plan: Plan,
    wishes: Wishes,
    budget: Budget,
    spent: Spent,
    database: Database,
    runner: Runner,
) -> Results:
    """Tune several tasks: what `ansor.tune` does with a list."""
    jobs = []
    of_each = Budget(None, budget.seconds, budget.size)
    is_interrupted = False
    for numbers in _equal(plan.tasks):
        task = plan.tasks[numbers[0]]
        known, decide = database.task(task), wishes.decide
        search = Search(
            task, known, decide, database, runner, of_each, None, None, spent
        )
        search.finalists = FINALISTS
        places = tuple(plan.places[n] for n in numbers)
        believed = None
        try:
            if not is_interrupted:
                wishes.calibrate(task.target)
                believed = estimate(known)
        except KeyboardInterrupt:  # the database may know something all the same
            is_interrupted = True
        bounds = roofline(known), ideal(known)
        jobs.append(Job(search, numbers, places, believed or max(bounds), *bounds))
    _close_hopeless(jobs)
    campaign = Campaign(
        jobs, plan.chooser, plan.objective, budget, spent, plan.listener, plan.stop
    )
    found = campaign.end(INTERRUPTED) if is_interrupted else campaign.run()
    return _renamed(found, plan.tasks)


def _equal(tasks: Sequence[Task]) -> list[tuple[int, ...]]:
    """The numbers of tasks, equal ones together."""
    found: dict[tuple[str, str], list[int]] = {}
    for at, task in enumerate(tasks):
        found.setdefault((task.key, task.target.fingerprint), []).append(at)
    return [tuple(numbers) for numbers in found.values()]


def _close_hopeless(jobs: Sequence[Job]) -> None:
    """End alternatives that are not believed to pay in any place before they begin.
    The first task in a place is never one."""
    firsts: dict[int, Job] = {}
    for job in jobs:
        for place in job.places:
            firsts.setdefault(place, job)
    for job in jobs:
        if not any(_may_replace(job, firsts[place]) for place in job.places):
            job.ended = UNLIKELY


def _may_replace(job: Job, first: Job) -> bool:
    if job is first:
        return True
    works = job.search.known.flops, first.search.known.flops
    return may_pay((job.believed, first.believed), works)


def _renamed(results: Results, tasks: Sequence[Task]) -> Results:
    """With every result for the task as it was given: equal ones have other names."""
    pairs = zip(results, tasks, strict=True)
    own = (one if one.task is task else replace(one, task=task) for one, task in pairs)
    return replace(results, results=tuple(own))


def _alike(tasks: Sequence[Task]) -> list[tuple[int, ...]]:
    """Of each task, the numbers of those that do the same arithmetic at about the same
    size: what speed one of them reaches, another may."""
    found: list[list[int]] = [[] for _ in tasks]
    for one, task in enumerate(tasks):
        for other in range(one):
            flops = sorted((task.flops, tasks[other].flops))
            if not flops[0] or flops[1] > SIZES * flops[0]:
                continue
            if distance(task, tasks[other]) < ALIKE:
                found[one].append(other)
                found[other].append(one)
    return [tuple(sorted(numbers)) for numbers in found]
