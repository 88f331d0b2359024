"""Worker processes, seen from the process that searches."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from dataclasses import dataclass, field

from ansor.errors import MeasureError
from ansor.measure import wire
from ansor.measure.zygote import MESSAGE_BYTES
from ansor.target.settings import worker_environment

OUTPUT_BYTES = 1 << 16  # of a worker's error output that is kept
START_SECONDS = 60.0

# Ends of a worker that mean something; other positive ones are the kernel's doing.
EXIT_MEMORY = 113
EXIT_SILENT = 114

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from ansor.measure.zygote import main; main(int(sys.argv[1]))"
)


class ZygoteLost(Exception):
    """The process that workers come from is gone."""


@dataclass(frozen=True)
class End:
    """How a worker ended: by a signal, by itself with a status, or by our hand."""

    signal: int | None
    status: int | None
    by_itself: bool  # not by our hand
    output: str  # the tail of what it wrote to its error output

    @property
    def signal_name(self) -> str:
        assert self.signal is not None
        try:
            return signal.Signals(self.signal).name
        except ValueError:
            return f"signal {self.signal}"


@dataclass(eq=False)
class Worker:
    """One worker: at most one job at a time, which must be answered by `deadline`."""

    role: str
    pid: int
    connection: socket.socket
    errors: int  # descriptor of what it writes to its error output
    reader: wire.Reader = field(default_factory=wire.Reader)
    ticket: str = ""  # a reply must show it
    stage: str = ""
    deadline: float = float("inf")
    jobs: int = 0
    is_closed: bool = False

    def send(self, header: wire.Header, payload: bytes, seconds: float) -> None:
        """Hand over a job; raises OSError if the worker cannot take it."""
        self.ticket = secrets.token_hex(8)
        self.jobs += 1
        self.deadline = time.monotonic() + seconds
        self.connection.settimeout(seconds)
        self.connection.sendall(wire.pack({**header, "ticket": self.ticket}, payload))

    def receive(self) -> list[tuple[wire.Header, bytes]]:
        """Frames that are complete now; waits for something to come. Sets `is_closed`
        if the worker closed its end."""
        try:
            data = self.connection.recv(1 << 20)
        except ConnectionError:
            data = b""
        self.is_closed = not data
        frames = list(self.reader.feed(data))
        if any(header.get("ticket") != self.ticket for header, _ in frames):
            raise wire.WireError("a reply without its ticket")
        return frames


class Zygote:
    """Starts workers. Everything it started ends with it, and it with this process."""

    def __init__(self) -> None:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._process = subprocess.Popen(
                # No bytecode: workers may write little, and would leave half a file.
                [sys.executable, "-I", "-B", "-c", _START, str(theirs.fileno()),
                 json.dumps(sys.path)],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=worker_environment(),
                start_new_session=True,  # Ctrl-C is for us, not for them
            )  # fmt: skip
        except OSError as error:
            mine.close()
            raise MeasureError(
                "start of a worker process", str(error), "free memory or processes"
            ) from error
        finally:
            theirs.close()
        self._control = mine
        self._control.settimeout(START_SECONDS)
        self._is_ready = False
        self._asked = 0

    def spawn(
        self,
        role: str,
        *,
        descriptors: tuple[int, ...] = (),
        bytes_: int | None = None,
        limit_output: bool = True,
    ) -> Worker:
        """A new worker of this role, ready for jobs."""
        mine, theirs = socket.socketpair()
        errors = os.memfd_create("ansor-errors")
        request: dict[str, object] = {
            "role": role,
            "bytes": bytes_,
            "output": OUTPUT_BYTES if limit_output else None,
        }
        try:
            reply = self._ask(request, (theirs.fileno(), errors, *descriptors))
        except ZygoteLost:
            mine.close()
            os.close(errors)
            raise
        finally:
            theirs.close()
        pid = reply["pid"]
        assert isinstance(pid, int)
        return Worker(role, pid, mine, errors)

    def end(self, worker: Worker, grace: float = 0.0) -> End:
        """Let a worker end by itself for so many seconds, then kill it with all it
        started, and say how it ended."""
        try:
            reply = self._ask({"reap": worker.pid, "grace": grace})
        except ZygoteLost:
            reply = {"status": int(signal.SIGKILL), "by_itself": True}
        worker.connection.close()
        output = _tail(worker.errors)
        os.close(worker.errors)
        status, by_itself = reply["status"], bool(reply["by_itself"])
        assert isinstance(status, int)
        if os.WIFSIGNALED(status):
            return End(os.WTERMSIG(status), None, by_itself, output)
        return End(None, os.WEXITSTATUS(status), by_itself, output)

    def close(self) -> None:
        """End it and everything it started; safe to call twice."""
        self._control.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _ask(
        self, request: dict[str, object], descriptors: tuple[int, ...] = ()
    ) -> dict[str, object]:
        try:
            if not self._is_ready:
                self._answer()
                self._is_ready = True
            self._asked += 1
            text = json.dumps({**request, "number": self._asked}).encode()
            assert len(text) <= MESSAGE_BYTES, request
            socket.send_fds(self._control, [text], descriptors)
            while (reply := self._answer()).get("number") != self._asked:
                pass  # to a question that was interrupted
            return reply
        except OSError as error:
            raise ZygoteLost(f"the process that starts workers: {error}") from error

    def _answer(self) -> dict[str, object]:
        data = self._control.recv(MESSAGE_BYTES)
        if data:
            reply: dict[str, object] = json.loads(data)
            return reply
        raise ZygoteLost(self._last_words())

    def _last_words(self) -> str:
        stream = self._process.stderr
        self._process.kill()
        text = b"" if stream is None or stream.closed else stream.read()
        return text.decode(errors="replace")[-2000:].strip() or "it ended silently"


def _tail(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    data = os.pread(descriptor, 2000, max(0, size - 2000))
    return " ".join(data.decode(errors="replace").split())
