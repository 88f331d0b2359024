"""Memory between guards: what is outside cannot be touched, or is found."""

import ctypes
import os
import signal

import numpy as np
import pytest

from ansor.errors import ArgumentError
from ansor.measure.memory import PAGE, Guarded


def touch(address: int, write: bool) -> int:
    """The signal that ends a child which reads or writes this byte; 0 if none does."""
    pid = os.fork()
    if not pid:
        signal.signal(signal.SIGSEGV, signal.SIG_DFL)
        byte = ctypes.c_uint8.from_address(address)
        if write:
            byte.value = 1
        os._exit(byte.value & 0)
    _, status = os.waitpid(pid, 0)
    return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0


@pytest.mark.parametrize("nbytes", [1, 12, PAGE - 4, PAGE, PAGE + 4, 5 * PAGE + 36])
def test_an_array_at_the_end_touches_the_upper_guard(nbytes):
    with Guarded(nbytes, "end") as memory:
        assert touch(memory.address + nbytes, write=False) == signal.SIGSEGV
        assert touch(memory.address + nbytes - 1, write=True) == 0


@pytest.mark.parametrize("nbytes", [1, 12, PAGE, 5 * PAGE + 36])
def test_an_array_at_the_start_touches_the_lower_guard(nbytes):
    with Guarded(nbytes, "start") as memory:
        assert memory.address % PAGE == 0
        assert touch(memory.address - 1, write=False) == signal.SIGSEGV
        assert touch(memory.address, write=True) == 0


def test_guards_are_as_long_as_the_array():
    with Guarded(1 << 20) as memory:
        for distance in (0, 1 << 19, (1 << 20) - 1):
            at = memory.address + memory.nbytes + distance
            assert touch(at, write=True) == signal.SIGSEGV


@pytest.mark.parametrize(("at", "offset", "damage"), [
    ("end", -1, (1, 0)), ("end", -8, (1, 0)), ("start", 36, (0, 1)),
    ("start", 100, (0, 1)),
])  # fmt: skip
def test_a_write_into_the_slack_is_found(at, offset, damage):
    with Guarded(36, at) as memory:
        assert memory.damage() == (0, 0)
        ctypes.c_uint8.from_address(memory.address + offset).value = 7
        assert memory.damage() == damage
        memory.fill(b"x")
        assert memory.damage() == (0, 0)


def test_what_is_read_in_the_slack_is_nan():
    with Guarded(36, "start") as memory:
        for kind in (np.float16, np.float32, np.float64):
            size = np.dtype(kind).itemsize
            place = memory.address + -(-36 // size) * size
            block = (ctypes.c_uint8 * size).from_address(place)
            assert np.isnan(np.frombuffer(block, kind)).all()


def test_alignment_may_leave_slack_on_the_guarded_side():
    with Guarded(100, "end", alignment=64) as memory:
        assert memory.address % 64 == 0
        ctypes.c_uint8.from_address(memory.address + 100).value = 1
        assert memory.damage() == (0, 1)
        assert touch(memory.address + 128, write=False) == signal.SIGSEGV


def test_huge_alignment():
    with Guarded(5 << 20, "start", alignment=1 << 21) as memory:
        assert memory.address % (1 << 21) == 0
        memory.advise_huge()
        memory.fill(b"\x01")
        assert memory.array().all()
        assert touch(memory.address - 1, write=False) == signal.SIGSEGV


def test_sealed_memory_can_only_be_read():
    with Guarded(64) as memory:
        memory.fill(b"abc")
        memory.seal()
        assert bytes(memory.array()[:6]) == b"abcabc"
        assert not memory.array().flags.writeable
        assert touch(memory.address, write=True) == signal.SIGSEGV


@pytest.mark.parametrize("nbytes", [1, 2, 3, 7, 1000])
def test_fill_repeats_its_pattern(nbytes):
    with Guarded(nbytes) as memory:
        memory.fill(b"abc")
        assert bytes(memory.array()) == (b"abc" * nbytes)[:nbytes]
        assert memory.damage() == (0, 0)


def test_pages_of_a_file_are_shared_and_read_only():
    fd = os.memfd_create("test")
    os.write(fd, b"x" * PAGE + b"y" * PAGE)
    with Guarded(10, "end", fd=fd, offset=PAGE) as memory:
        assert bytes(memory.array()) == b"y" * 10
        assert touch(memory.address, write=True) == signal.SIGSEGV
        assert touch(memory.address + 10, write=False) == signal.SIGSEGV
    os.close(fd)


def test_nothing_is_left_mapped():
    def mapped() -> int:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[0])

    Guarded(1 << 20).close()
    before = mapped()
    for _ in range(64):
        memory = Guarded(1 << 22, alignment=1 << 21)
        memory.close()
        memory.close()
    assert mapped() - before < 4096  # pages; one block with its guards has 3072


def test_an_unknown_place_is_an_error():
    with pytest.raises(ArgumentError, match="middle"):
        Guarded(8, "middle")
