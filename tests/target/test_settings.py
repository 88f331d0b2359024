"""Environment variables, and their defaults."""

from pathlib import Path

import pytest

from ansor.errors import TargetError
from ansor.target import settings


def test_no_limit_of_threads_by_default(monkeypatch):
    monkeypatch.delenv("ANSOR_THREADS", raising=False)
    assert settings.thread_limit() is None


def test_thread_limit(monkeypatch):
    monkeypatch.setenv("ANSOR_THREADS", " 4 ")
    assert settings.thread_limit() == 4


@pytest.mark.parametrize("text", ["0", "-1", "two", "1.5"])
def test_a_thread_limit_must_be_positive(monkeypatch, text):
    monkeypatch.setenv("ANSOR_THREADS", text)
    with pytest.raises(TargetError) as caught:
        settings.thread_limit()
    assert str(caught.value) == (
        f"ANSOR_THREADS={text!r}: not a positive integer\n"
        "  hint: set it to the number of threads a kernel may use, or unset it"
    )


def test_cache_dir_from_most_to_least_specific(monkeypatch, tmp_path):
    monkeypatch.setenv("ANSOR_CACHE_DIR", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "shared"))
    assert settings.cache_dir() == tmp_path / "own"
    monkeypatch.delenv("ANSOR_CACHE_DIR")
    assert settings.cache_dir() == tmp_path / "shared" / "ansor"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert settings.cache_dir() == Path.home() / ".cache" / "ansor"
