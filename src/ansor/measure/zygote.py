"""The process that workers are forked from: everything loaded, nothing running.

A worker that has to import NumPy and LLVM takes half a second to start; one forked
from here takes milliseconds, so that a crash costs next to nothing. This process has a
single thread and does nothing else: it forks on request, reports how children ended,
and ends with everything below it when the other end of its connection closes.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path

MESSAGE_BYTES = 1 << 16
_PARENT_DEATH_SIGNAL = 1  # of prctl
_DESCRIPTORS = 4  # that come with a request, at most


def main(connection: int) -> None:
    """Serve requests that come through the socket with this descriptor."""
    control = socket.socket(fileno=connection)
    _preload()
    control.send(json.dumps({"ready": os.getpid()}).encode())
    children: set[int] = set()
    try:
        while _serve(control, children):
            pass
    finally:
        for pid in children:
            _kill(pid)
        for pid in children:
            os.waitpid(pid, 0)


def _serve(control: socket.socket, children: set[int]) -> bool:
    """One request; False at the end."""
    data, descriptors, _, _ = socket.recv_fds(control, MESSAGE_BYTES, _DESCRIPTORS)
    if not data:
        return False
    request = json.loads(data)
    if "reap" in request:
        pid = int(request["reap"])
        by_itself = _ends_within(pid, float(request["grace"]))
        _kill(pid)  # what it started, too
        _, status = os.waitpid(pid, 0)
        children.discard(pid)
        reply = {"pid": pid, "status": status, "by_itself": by_itself}
    else:
        pid = _fork(control, request, descriptors)
        children.add(pid)
        reply = {"pid": pid}
    for descriptor in descriptors:
        os.close(descriptor)
    control.send(json.dumps({**reply, "number": request["number"]}).encode())
    return True


def _ends_within(pid: int, seconds: float) -> bool:
    """Whether a child ends by itself before so many seconds are over."""
    end = time.monotonic() + seconds
    kinds = os.WEXITED | os.WNOHANG | os.WNOWAIT
    while os.waitid(os.P_PID, pid, kinds) is None:
        if time.monotonic() >= end:
            return False
        time.sleep(0.001)
    return True


def _preload() -> None:
    """Import and compile all that workers share."""
    from ansor.codegen import runtime
    from ansor.measure import worker

    runtime.addresses()
    worker.preload()


def _fork(
    control: socket.socket, request: dict[str, object], descriptors: Sequence[int]
) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setpgid(0, 0)
        _die_with(parent)
        control.close()
        _enter(request, descriptors)
    except BaseException:
        traceback.print_exc()  # into what the parent reads if we end
    finally:
        os._exit(1)


def _enter(request: dict[str, object], descriptors: Sequence[int]) -> None:
    """Become a worker. Nothing that it prints can be taken for a reply."""
    from ansor.measure import worker

    connection, errors, *rest = descriptors
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    os.dup2(errors, 2)
    os.close(nothing)
    os.close(errors)
    _limit(request)
    worker.serve(str(request["role"]), socket.socket(fileno=connection), rest)
    os._exit(0)


def _limit(request: dict[str, object]) -> None:
    """Bytes are counted from here: the address space of this process is not small."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    room = request.get("bytes")
    if isinstance(room, int):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        used = pages * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + room, used + room))
    output = request.get("output")
    if isinstance(output, int):
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (output, output))


def _die_with(parent: int) -> None:
    ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)


def _kill(pid: int) -> None:
    """A child and its group. Its number is not given to another before it is reaped."""
    for kill in (os.killpg, os.kill):  # it may not have a group of its own yet
        with contextlib.suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]))
