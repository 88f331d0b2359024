"""What the user sets from outside: the only file that reads environment variables."""

import os
from pathlib import Path

from ansor.errors import TargetError


def thread_limit() -> int | None:
    """The most threads a kernel may use (`ANSOR_THREADS`); None where none is set."""
    text = os.environ.get("ANSOR_THREADS", "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise TargetError(
            f"ANSOR_THREADS={text!r}",
            "not a positive integer",
            "set it to the number of threads a kernel may use, or unset it",
        )
    return int(text)


def cache_dir() -> Path:
    """Where measured facts about machines are kept. It need not exist yet.

    `ANSOR_CACHE_DIR` as it is, else `XDG_CACHE_HOME`/ansor, else ~/.cache/ansor.
    """
    if own := os.environ.get("ANSOR_CACHE_DIR"):
        return Path(own).expanduser()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared) / "ansor"
    return Path.home() / ".cache" / "ansor"


def worker_environment() -> dict[str, str]:
    """The environment of processes that measure: maths libraries stay on one thread."""
    single = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(single, "1")}
