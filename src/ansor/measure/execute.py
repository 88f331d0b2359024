"""Running, inside a worker: object code is loaded, checked, timed, and freed."""

from __future__ import annotations

import ctypes
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import cast

import numpy as np

from ansor.codegen import arrays, engine, runtime, timing
from ansor.codegen.arrays import Parameter
from ansor.codegen.kernel import Prepared
from ansor.errors import CodegenError
from ansor.measure import check
from ansor.measure.builder import Built
from ansor.measure.check import Verdict
from ansor.measure.load import Watch
from ansor.measure.problem import Layout, Problem
from ansor.measure.rank import rank
from ansor.measure.sampling import Clock, Run, Samples, Sampling, sample
from ansor.measure.wire import Header
from ansor.records.outcome import Failed, Outcome, Timed, outcome_to_data
from ansor.te.data import dag_from_data

Reply = tuple[Header, bytes]
SLOW = 0.25  # seconds: a call this slow, and far from the best, is not repeated
TOO_SLOW = 2.0  # seconds: nor is this one, whatever the best


def preload() -> None:
    """Compile what every worker needs."""
    timing.preload()
    np.median(np.ones(1))  # imports more of NumPy when first called
    check.checked_imports()


@dataclass(frozen=True)
class Known:
    """Seconds of the fastest so far and of the anchor, if there is one."""

    best: float = math.inf
    anchor: float = math.inf

    @property
    def is_any(self) -> bool:
        return self.best < math.inf


class Bench:
    """The arrays of one task and the incumbent, against which candidates are timed."""

    def __init__(self, memory: int) -> None:
        self.memory = memory
        self.load = Watch()
        self.watch: Watch | None = None
        self.clock: Clock = time.perf_counter
        self.anchor: Timing | None = None

    def work(self, header: Header, payload: bytes) -> Iterator[Reply]:
        """One job."""
        kind = header["kind"]
        if kind == "run":
            yield from self._run(header, payload)
        elif kind == "rank":
            yield from self._rank(header, payload)
        elif kind == "anchor":
            self.anchor = self._timing(Built.read(header["built"], payload))
            yield {}, b""
        else:
            self._open(header)
            yield {}, b""

    def _open(self, header: Header) -> None:
        dag = dag_from_data(header["dag"])
        layout, threads = header["layout"], header["threads"]
        assert isinstance(layout, dict)
        assert isinstance(threads, int)
        self.problem = Problem.open(self.memory, cast(Layout, layout), dag)
        self.seed = header["seed"]
        runtime.set_threads(threads)
        if threads == 1:  # its own time on a core, whatever else runs there
            self.watch, self.clock = None, time.thread_time
        else:
            self.watch, self.clock = self.load, time.perf_counter

    def _timing(self, built: Built) -> Timing:
        return Timing(built, self.problem, self.clock)

    def _run(self, header: Header, payload: bytes) -> Iterator[Reply]:
        """Check, time, and check again what may become the best."""
        built = Built.read(header["built"], payload)
        try:
            code = engine.load_object(_object(built), check.checked_imports())
            code.address(built.name)
        except CodegenError as error:
            yield _failed("load", "refused", str(error))
            return
        yield {"stage": "check"}, b""
        start = time.perf_counter()
        verdict, once = self._check(built, code, poison=0, at="end")
        if not verdict.ok:
            yield _failed("check", "wrong", verdict.message)
            return
        checking = time.perf_counter() - start
        yield {"stage": "run"}, b""
        known = _known(header)
        outcome = self._time(built, _settings(header), known, once)
        start = time.perf_counter()
        if isinstance(outcome, Timed) and outcome.estimate < known.best:
            again, _ = self._check(built, code, poison=1, at="start")
            if not again.ok:
                outcome = Failed("check", "wrong", again.message)
        checking += time.perf_counter() - start
        reply: Header = {
            "outcome": outcome_to_data(outcome),
            "verified": _verified(verdict, self.seed),
            "checking": checking,
        }
        yield reply, b""

    def _check(
        self, built: Built, code: engine.Compiled, poison: int, at: str
    ) -> tuple[Verdict, float]:
        """What the first call left behind, and how long it took."""
        entry = _function(code.address(built.name), len(self.problem.dag.arguments))
        spent = [0.0]

        def call(addresses: Sequence[int]) -> None:
            start = self.clock()
            entry(*addresses)
            spent[0] = self.clock() - start

        def pack(name: str, source: int, block: int) -> None:
            _function(code.address(name), 2)(source, block)

        verdict = check.check(
            self.problem, call, built.prepared, pack, poison=poison, at=at
        )
        return verdict, spent[0]

    def _time(
        self, built: Built, settings: Sampling, known: Known, once: float
    ) -> Outcome:
        hopeless = once > max(SLOW, 3 * known.best)
        if hopeless or once > TOO_SLOW:
            return Timed((once,), stopped=hopeless)
        timed = self._timing(built)
        found = self._sampled(timed, settings, known)
        if found.anchor and found.estimate < known.best:
            # Chance has helped what seems to be the best: only a second look is fair.
            found = self._sampled(timed, settings, known)
        again = check.recheck(self.problem, timed.outputs)
        if not again.ok:
            message = f"right when called once, not after many calls: {again.message}"
            return Failed("run", "wrong", message)
        return found

    def _sampled(self, timed: Timing, settings: Sampling, known: Known) -> Timed:
        anchor = self.anchor if known.is_any else None
        found = sample(
            timed.run,
            anchor=None if anchor is None else anchor.run,
            best=known.best if known.is_any else None,
            lead=1.0 if anchor is None else known.best / known.anchor,
            settings=settings,
            watch=self.watch,
        )
        return _timed(found, known.anchor)

    def _rank(self, header: Header, payload: bytes) -> Iterator[Reply]:
        """Paired timing of several; those whose second check fails are left out."""
        entries, lengths = header["built"], header["lengths"]
        assert isinstance(entries, list)
        assert isinstance(lengths, list)
        ends = np.cumsum([0, *lengths])
        codes = [payload[a:b] for a, b in pairwise(ends)]
        everyone = [Built.read(x, c) for x, c in zip(entries, codes, strict=True)]
        wrong: dict[int, str] = {}
        for at, built in enumerate(everyone):
            yield {"stage": "check", "at": at}, b""
            checked = engine.load_object(_object(built), check.checked_imports())
            verdict, _ = self._check(built, checked, poison=1, at="start")
            if not verdict.ok:
                wrong[at] = verdict.message
        yield {"stage": "run"}, b""
        yield self._ranked(header, everyone, wrong), b""

    def _ranked(
        self, header: Header, everyone: Sequence[Built], wrong: dict[int, str]
    ) -> Header:
        left = [at for at in range(len(everyone)) if at not in wrong]
        outcomes: list[Outcome | None] = [None] * len(everyone)
        for at, message in wrong.items():
            outcomes[at] = Failed("check", "wrong", message)
        winner = None
        if left:
            seed = header["seed"]
            assert isinstance(seed, int)
            timings = [self._timing(everyone[at]) for at in left]
            result = rank(
                [timing.run for timing in timings],
                settings=_settings(header),
                rng=np.random.default_rng(seed),
                watch=self.watch,
            )
            for place, at in enumerate(left):
                outcomes[at] = _side_by_side(result.seconds, place, result.fastest)
            winner = left[result.winner]
        data = [outcome_to_data(x) for x in outcomes if x is not None]
        return {"outcomes": data, "winner": winner}


class Timing:
    """Loaded code with arrays of its own to be timed with."""

    def __init__(self, built: Built, problem: Problem, clock: Clock) -> None:
        self._code = engine.load_object(_object(built))  # freed with this object
        outputs = problem.dag.outputs
        self.outputs = [_zeros(Parameter.of(built.name, x)) for x in outputs]
        self._blocks: list[np.ndarray] = []
        addresses = list(problem.timing_arguments())
        names = [x.name for x in problem.dag.inputs]
        for row in built.prepared:
            at = names.index(row.name)
            addresses[at] = self._pack(row, addresses[at])
        addresses += [arrays.address(x) for x in self.outputs]
        self.run: Run = timing.caller(self._code.address(built.name), addresses, clock)

    def _pack(self, row: Prepared, source: int) -> int:
        block = _zeros(Parameter.of(row.name, row.packed))
        self._blocks.append(block)
        target = arrays.address(block)
        _function(self._code.address(row.entry), 2)(source, target)
        return target


def _object(built: Built) -> engine.Object:
    return engine.Object(built.code, built.exports)


def _function(address: int, arity: int) -> Callable[..., None]:
    return ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * arity)(address)


def _zeros(parameter: Parameter) -> np.ndarray:
    """Memory that is there: the first touch of a page is not to be timed."""
    block = arrays.empty(parameter)
    block[...] = 0
    return block


def _settings(header: Header) -> Sampling:
    values = header["sampling"]
    assert isinstance(values, dict)
    return Sampling(**values)


def _known(header: Header) -> Known:
    given = header.get("known")
    return Known(*given) if isinstance(given, list) else Known()


def _timed(found: Samples, known: float) -> Timed:
    return Timed(
        found.seconds,
        anchor=found.anchor,
        anchor_seconds=known if found.anchor else None,
        disturbed=found.disturbed,
        stopped=found.stopped,
    )


def _side_by_side(seconds: Sequence[Sequence[float]], at: int, fastest: int) -> Timed:
    """One of several that were timed in rounds, relative to the fastest of them."""
    mine = tuple(seconds[at])
    beside = tuple(seconds[fastest][: len(mine)])
    return Timed(mine, anchor=beside, anchor_seconds=float(np.median(seconds[fastest])))


def _failed(stage: str, cause: str, message: str) -> Reply:
    return {"outcome": outcome_to_data(Failed(stage, cause, message))}, b""


def _verified(verdict: Verdict, seed: object) -> str:
    return f"seed {seed}, largest error {verdict.worst:.3g} of what is allowed"
