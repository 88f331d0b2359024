"""Measuring on a Dask cluster: each device times one candidate at a time.

    dask scheduler
    dask worker tcp://scheduler:8786 --nthreads 1 --resources "ansor=1"

    runner = DaskRunner("tcp://scheduler:8786")
    ansor.tune(task, trials=64, runner=runner)

Workers need `ansor` and are of the task's target. Candidates and outcomes travel as
JSON text; Dask itself runs what its peers send, so use TLS between machines
(`security=distributed.Security(...)`), or a network that you trust.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import cache, lru_cache
from typing import Any

from ansor.errors import AnsorError, MeasureError
from ansor.measure.builder import Asker, Candidate, candidate_of
from ansor.measure.identity import host, versions
from ansor.measure.limits import Limits
from ansor.measure.local import LocalRunner
from ansor.measure.runner import FOREVER, Closing, Incumbent, Measured, Ranked
from ansor.measure.sampling import Sampling
from ansor.records.outcome import (
    Failed,
    Outcome,
    Timed,
    outcome_from_data,
    outcome_to_data,
)
from ansor.te.task import Task

CONNECT_SECONDS = 10
PATIENCE = 30.0  # seconds without a device, after which we do not wait any more


class DaskRunner(Closing):
    """Measures on the workers of a cluster that offer the resource `resource`.

    `cluster` is an address or a `distributed.Client`. A candidate whose worker is lost
    is given to another one by the scheduler, as often as its setting
    `allowed-failures` says; then its outcome has cause "lost".
    """

    def __init__(
        self,
        cluster: Any,
        *,
        resource: str = "ansor",
        limits: Limits = Limits(),  # noqa: B008 - frozen
        sampling: Sampling = Sampling(),  # noqa: B008 - frozen
        seed: int = 0,
        security: Any = None,
    ) -> None:
        self._resource = resource
        self._settings = json.dumps(
            {"limits": asdict(limits), "sampling": asdict(sampling), "seed": seed}
        )
        self._asker = Asker()
        self._distributed = _distributed()
        self._is_mine = isinstance(cluster, str)
        self._client = self._connect(cluster, security) if self._is_mine else cluster
        try:
            self._devices()
        except MeasureError:
            self.close()
            raise

    def measure(
        self,
        task: Task,
        candidates: Sequence[Candidate],
        incumbent: Incumbent | None = None,
        until: float = FOREVER,
    ) -> Iterator[Measured]:
        """One outcome per candidate, as they come."""
        beside = ""
        if incumbent is not None:
            request = self._asker.request(task, incumbent.candidate)
            times = {"seconds": incumbent.seconds, "best": incumbent.best}
            beside = json.dumps({"request": request, **times})
        jobs = {}
        for at, candidate in enumerate(candidates):
            request = self._asker.request(task, candidate)
            job: dict[str, object] = {"request": request, "beside": beside}
            jobs[self._submit(measure_here, job)] = at
        try:
            ends = until if incumbent is not None else FOREVER
            for future in self._finished(list(jobs), ends):
                yield (found := _measured(jobs[future], future))
                if isinstance(found.outcome, Timed) and time.monotonic() >= until:
                    return
        finally:
            self._client.cancel([future for future in jobs if not future.done()])

    def rank(
        self, task: Task, candidates: Sequence[Candidate], until: float = FOREVER
    ) -> Ranked:
        """All on one device, side by side."""
        requests = [self._asker.request(task, x) for x in candidates]
        future = self._submit(rank_here, {"requests": requests})
        if not list(self._finished([future], until)):
            self._client.cancel([future])
            return Ranked((), None)
        try:
            answer = json.loads(future.result())
        except Exception as error:  # whatever the cluster raises for a lost worker
            failed = _lost(error)
            return Ranked((failed,) * len(candidates), None)
        if "error" in answer:
            raise MeasureError(*answer["error"])
        outcomes = tuple(map(outcome_from_data, answer["outcomes"]))
        return Ranked(outcomes, answer["winner"])

    def close(self) -> None:
        """Let go of the cluster; a client that was handed in stays open."""
        if self._is_mine and self._client is not None:
            self._client.close()
        self._client = None

    def _connect(self, address: str, security: Any) -> Any:
        try:
            return self._distributed.Client(
                address, timeout=CONNECT_SECONDS, security=security
            )
        except (OSError, TimeoutError, ValueError) as error:
            raise MeasureError(
                f"Dask cluster {address!r}",
                f"cannot be reached: {error}",
                "start `dask scheduler`, check the address, or measure locally",
            ) from error

    def _devices(self) -> list[str]:
        workers = self._client.scheduler_info(n_workers=-1)["workers"]
        found = [
            name
            for name, facts in workers.items()
            if facts.get("resources", {}).get(self._resource, 0) >= 1
        ]
        if not found:
            raise MeasureError(
                f"Dask cluster with {len(workers)} workers",
                f"none offers the resource {self._resource!r}",
                f'start one: dask worker ADDRESS --resources "{self._resource}=1"',
            )
        return found

    def _submit(self, function: Any, job: dict[str, object]) -> Any:
        if self._client is None:
            raise MeasureError("this runner", "is closed", "make a new DaskRunner(…)")
        return self._client.submit(
            function,
            self._settings,
            json.dumps(job),
            resources={self._resource: 1},
            pure=False,
        )

    def _finished(self, futures: list[Any], until: float) -> Iterator[Any]:
        """Futures as they finish; an error if there is no device left to wait for."""
        left = set(futures)
        while left and (rest := until - time.monotonic()) > 0:
            try:
                done = self._distributed.wait(
                    list(left),
                    timeout=min(PATIENCE, rest),
                    return_when="FIRST_COMPLETED",
                ).done
            except TimeoutError:
                self._devices()  # raises if none is left
                continue
            yield from done
            left -= done


def _measured(at: int, future: Any) -> Measured:
    try:
        answer = json.loads(future.result())
    except Exception as error:  # whatever the cluster raises for a lost worker
        return Measured(at, _lost(error))
    if "error" in answer:
        raise MeasureError(*answer["error"])
    return Measured(
        at,
        outcome_from_data(answer["outcome"]),
        answer["verified"],
        answer["spent"],
        answer["checking"],
        answer["host"],
        answer["versions"],
    )


def _lost(error: Exception) -> Outcome:
    return Failed("run", "lost", f"{type(error).__name__}: {error}")


# -- on a worker -----------------------------------------------------------------------

_ALONE = threading.Lock()  # one candidate at a time, however many threads there are


def measure_here(settings: str, job: str) -> str:
    """Measure one candidate in this process's own pool."""
    asked = json.loads(job)
    with _ALONE:
        try:
            task, candidate = candidate_of(asked["request"])
            beside = _incumbent(asked["beside"])
            (found,) = _pool(settings).measure(task, [candidate], beside)
        except AnsorError as error:
            return json.dumps({"error": list(error.args)})
    return json.dumps(
        {
            "outcome": outcome_to_data(found.outcome),
            "verified": found.verified,
            "spent": found.spent,
            "checking": found.checking,
            "host": host(),
            "versions": versions(),
        }
    )


@lru_cache(maxsize=4)
def _incumbent(text: str) -> Incumbent | None:
    """The same object for the same text, so that its code is built once."""
    if not text:
        return None
    data = json.loads(text)
    anchor = candidate_of(data["request"])[1]
    return Incumbent(anchor, data["seconds"], data["best"])


def rank_here(settings: str, job: str) -> str:
    """Rank candidates in this process's own pool."""
    requests = json.loads(job)["requests"]
    with _ALONE:
        try:
            both = [candidate_of(request) for request in requests]
            ranked = _pool(settings).rank(both[0][0], [x for _, x in both])
        except AnsorError as error:
            return json.dumps({"error": list(error.args)})
    outcomes = [outcome_to_data(x) for x in ranked.outcomes]
    return json.dumps({"outcomes": outcomes, "winner": ranked.winner})


@cache
def _pool(settings: str) -> LocalRunner:
    """For the life of the worker process: the next candidate finds it warm."""
    values = json.loads(settings)
    return LocalRunner(
        limits=Limits(**values["limits"]),
        sampling=Sampling(**values["sampling"]),
        seed=values["seed"],
    )


def _distributed() -> Any:
    try:
        import distributed
    except ImportError as error:
        raise MeasureError(
            "measuring on a Dask cluster",
            "the package distributed is missing",
            "pip install 'ansor[dask]'",
        ) from error
    return distributed
