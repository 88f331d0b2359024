"""Other load, read from a made-up /proc."""

import os
from pathlib import Path

import pytest

from ansor.measure import load
from ansor.measure.load import Watch

TICKS = os.sysconf("SC_CLK_TCK") * (os.cpu_count() or 1)


class Proc:
    def __init__(self, path: Path) -> None:
        self.path = path

    def waits(self, thread: int, nanoseconds: int) -> None:
        folder = self.path / "self" / "task" / str(thread)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "schedstat").write_text(f"123456789 {nanoseconds} 42\n")

    def steals(self, ticks: int) -> None:
        numbers = f"cpu  10 0 20 30 4 0 5 {ticks} 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n"
        (self.path / "stat").write_text(numbers)

    def ends(self, thread: int) -> None:
        folder = self.path / "self" / "task" / str(thread)
        (folder / "schedstat").unlink()
        folder.rmdir()


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proc:
    monkeypatch.setattr(load, "_TICK", 0.0)
    made = Proc(tmp_path)
    made.waits(7, 1_000_000)
    made.steals(100)
    return made


def test_nothing_happened(proc: Proc) -> None:
    with Watch(proc.path) as watch:
        assert watch() == 0.0


def test_the_longest_wait_of_a_thread_counts_once(proc: Proc) -> None:
    proc.waits(8, 0)
    with Watch(proc.path) as watch:
        proc.waits(7, 3_000_000)
        proc.waits(8, 5_000_000)
        assert watch() == pytest.approx(5e-3)
        assert watch() == 0.0


def test_threads_come_and_go(proc: Proc) -> None:
    with Watch(proc.path) as watch:
        proc.waits(9, 4_000_000)
        assert watch() == pytest.approx(4e-3)
        proc.ends(9)
        assert watch() == 0.0
        proc.waits(7, 2_000_000)
        assert watch() == pytest.approx(1e-3)


def test_stolen_ticks_are_shared_by_the_cores(proc: Proc) -> None:
    with Watch(proc.path) as watch:
        proc.steals(104)
        assert watch() == pytest.approx(4 / TICKS)


def test_without_files_nothing_is_known(tmp_path: Path) -> None:
    with Watch(tmp_path / "nowhere") as watch:
        assert watch() >= 0.0


def test_without_delays_switches_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    switches = iter([10, 13])

    class Usage:
        @property
        def ru_nivcsw(self) -> int:
            return next(switches)

    monkeypatch.setattr(load.resource, "getrusage", lambda who: Usage())
    assert Watch(tmp_path)() == pytest.approx(3e-4)


@pytest.mark.parametrize("text", ["", "1", "a b c", "1 -5 2", "\xff\xfe 2"])
def test_files_that_say_something_else_are_no_load(proc: Proc, text: str) -> None:
    (proc.path / "self" / "task" / "7" / "schedstat").write_text(text)
    (proc.path / "stat").write_text(text)
    with Watch(proc.path) as watch:
        assert watch() >= 0.0


def test_closed_files_are_no_load(proc: Proc) -> None:
    watch = Watch(proc.path)
    watch.close()
    proc.waits(7, 9_000_000)
    watch()
    watch.close()


def test_this_machine_can_be_watched() -> None:
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    with Watch() as watch:
        assert watch() >= 0.0
    if before:
        assert len(os.listdir("/proc/self/fd")) == before
