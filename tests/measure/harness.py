"""Loop programs compiled and checked in processes of their own, as workers do it."""

import ctypes
import faulthandler
import json
import os
import resource
import select
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ansor.codegen import llvm, runtime
from ansor.codegen.arrays import Parameter, address, empty
from ansor.codegen.emit import emit
from ansor.codegen.kernel import Prepared
from ansor.ir.stmt import Function
from ansor.measure import check
from ansor.measure.check import Verdict
from ansor.measure.problem import Problem
from ansor.target import Target
from ansor.te.dag import DAG

SECONDS = 60.0  # that a child may take
REFUSED = 77  # exit status of a child whose program cannot be compiled


@dataclass(frozen=True)
class Candidate:
    """Loop functions, the main one first, for the arguments of a DAG."""

    functions: tuple[Function, ...]
    dag: DAG
    target: Target

    @property
    def prepared(self) -> tuple[Prepared, ...]:
        return tuple(
            Prepared(f.parameters[0].name, f.parameters[1], f.name)
            for f in self.functions[1:]
        )


def machine_code(candidate: Candidate) -> tuple[bytes, tuple[str, ...]]:
    """The object code of a candidate, and the functions in it."""
    text = emit(candidate.functions, candidate.target)
    with llvm.LOCK:
        module = llvm.parse(text, candidate.target)
        machine = llvm.machine(candidate.target)
        llvm.optimise(module, machine)
        exports = llvm.functions(module)
        code = llvm.emit_object(module, machine)
        llvm.close(module)
    return code, exports


class Loaded:
    """A candidate as machine code; `checked` says which scratch memory it uses."""

    def __init__(self, candidate: Candidate, checked: bool = True) -> None:
        self.candidate = candidate
        own = check.checked_imports() if checked else {}
        imports = {**runtime.addresses(), **own}
        code, exports = machine_code(candidate)
        with llvm.LOCK:
            self.code = llvm.load(code, exports, imports)

    def function(self, name: str, arity: int) -> Callable[..., None]:
        types = [ctypes.c_void_p] * arity
        return ctypes.CFUNCTYPE(None, *types)(self.code.addresses[name])

    def check(self, problem: Problem, poison: int = 0, at: str = "end") -> Verdict:
        return check.check(
            problem, self.call, self.candidate.prepared, self.pack, poison, at
        )

    def call(self, addresses: Sequence[int]) -> None:
        main = self.candidate.functions[0]
        self.function(main.name, len(addresses))(*addresses)

    def pack(self, entry: str, source: int, block: int) -> None:
        self.function(entry, 2)(source, block)

    def recheck(self, problem: Problem, calls: int) -> Verdict:
        """What several calls in a row leave behind, as when they are timed."""
        dag = self.candidate.dag
        addresses = list(problem.timing_arguments())
        names = [buffer.name for buffer in dag.inputs]
        blocks = []
        for row in self.candidate.prepared:
            blocks.append(block := empty(Parameter.of("kernel", row.packed)))
            at = names.index(row.name)
            self.pack(row.entry, addresses[at], address(block))
            addresses[at] = address(block)
        outputs = [empty(Parameter.of("kernel", x)) for x in dag.outputs]
        for _ in range(calls):
            self.call([*addresses, *map(address, outputs)])
        return check.recheck(problem, outputs)


def once(candidate: Candidate, problem: Problem) -> tuple[str, Verdict]:
    """The check that every candidate gets: which part found a fault, and the fault."""
    return "first", Loaded(candidate).check(problem)


def thorough(candidate: Candidate, problem: Problem) -> tuple[str, Verdict]:
    """All that a finalist goes through."""
    loaded = Loaded(candidate)
    verdict = loaded.check(problem)
    if not verdict.ok:
        return "first", verdict
    verdict = Loaded(candidate, checked=False).recheck(problem, calls=20)
    if not verdict.ok:
        return "after timing", verdict
    return "second", loaded.check(problem, poison=1, at="start")


def forked(
    work: Callable[[Candidate, Problem], tuple[str, Verdict]],
    candidate: Candidate,
    problem: Problem,
) -> tuple[str, Verdict]:
    """`work` in a child; a crash is a verdict, too. None of "refused" is run at all."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        _child(work, candidate, problem, writing)
    os.close(writing)
    try:
        ready, _, _ = select.select([reading], [], [], SECONDS)
        reply = os.read(reading, 1 << 16) if ready else b""
    finally:
        os.close(reading)
    if not ready:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return "crash", Verdict(False, signal.Signals(os.WTERMSIG(status)).name)
    if os.WEXITSTATUS(status):
        refused = os.WEXITSTATUS(status) == REFUSED
        found = "refused" if refused else "exit"
        return found, Verdict(False, f"exit status {os.WEXITSTATUS(status)}")
    stage, ok, message = json.loads(reply)
    return stage, Verdict(ok, message)


def _child(
    work: Callable[[Candidate, Problem], tuple[str, Verdict]],
    candidate: Candidate,
    problem: Problem,
    writing: int,
) -> None:
    """Never returns."""
    status = REFUSED
    try:
        faulthandler.disable()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        stage, verdict = work(candidate, problem)
        os.write(writing, json.dumps([stage, verdict.ok, verdict.message]).encode())
        status = 0
    finally:
        os._exit(status)
