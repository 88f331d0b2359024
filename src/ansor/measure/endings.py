"""How a worker ended, as an outcome of the candidate it worked on."""

from __future__ import annotations

import signal

from ansor.measure.process import EXIT_MEMORY, EXIT_SILENT, End
from ansor.records.outcome import Failed

_NO_MEMORY = ("out of memory", "bad_alloc", "Cannot allocate memory", "MemoryError")
_OUT_OF_BOUNDS = (
    "arrays stand between guard pages and inputs are read-only, so an access out of "
    "bounds ends like this"
)


def overdue(stage: str, seconds: float) -> Failed:
    """It did not answer in time, and was killed."""
    return Failed(stage, "timeout", f"still running after {seconds:g} s, the limit")


def garbled(stage: str, reason: str) -> Failed:
    """What it sent was no answer, and it was killed."""
    return Failed(stage, "silent", f"its connection carried something else: {reason}")


def ended(stage: str, end: End) -> Failed:
    """It closed its connection. Cause "lost" if that was no fault of the candidate."""
    if end.status == EXIT_MEMORY or any(x in end.output for x in _NO_MEMORY):
        return Failed(stage, "memory", _with_output("more memory than the limit", end))
    if end.status == EXIT_SILENT or (
        end.signal == signal.SIGKILL and not end.by_itself
    ):
        return Failed(stage, "silent", "closed its descriptors")
    if end.signal == signal.SIGKILL:
        return Failed(stage, "lost", "something else killed the worker")
    if end.signal is None:
        message = f"ended the process with status {end.status}"
        return Failed(stage, "exit", _with_output(message, end))
    message = f"ended by {end.signal_name}"
    if stage == "check" and end.signal in (signal.SIGSEGV, signal.SIGBUS):
        message += f" ({_OUT_OF_BOUNDS})"
    return Failed(stage, "crash", _with_output(message, end))


def _with_output(message: str, end: End) -> str:
    return f"{message}: {end.output}" if end.output else message
