"""What every test may use: golden texts, hypothesis profiles, skips by need."""

import importlib.util
import os
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ansor.target.gpus import device

GOLDEN = Path(__file__).parent / "golden"
IN_CI = bool(os.environ.get("CI"))

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("dev", deadline=None, max_examples=50)
settings.load_profile("ci" if IN_CI else "dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden",
        action="store_true",
        help="write the texts that `golden` tests produce to tests/golden",
    )
    parser.addoption(
        "--points",
        type=int,
        default=1000,
        help="points drawn of every sketch by the slow tests of the search space",
    )
    parser.addoption(
        "--vector-bits",
        type=int,
        default=0,
        help="width of the vectors of the CPU target there, if not the machine's",
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--update-golden") and IN_CI:
        raise pytest.UsageError("--update-golden: golden files are not written in CI")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip, and so report, what this machine has no means to run."""
    missing = {
        "llvm": importlib.util.find_spec("llvmlite") is None and "needs llvmlite",
        "cuda": device() is None and "needs a CUDA device",
    }
    for item in items:
        for marker, reason in missing.items():
            if reason and item.get_closest_marker(marker):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the tests of the search space have covered, a line for each workload."""
    total: dict[str, Counter[str]] = {}
    for report in (r for rows in terminalreporter.stats.values() for r in rows):
        found = dict(getattr(report, "user_properties", ()))
        if getattr(report, "when", "") == "call" and "workload" in found:
            numbers = {k: v for k, v in found.items() if k != "workload"}
            total.setdefault(found["workload"], Counter()).update(numbers)
    if total:
        terminalreporter.section("search space")
        rows = list(total.values())
        total["all"] = Counter()
        for row in rows:
            total["all"].update(row)
    for name, row in total.items():
        text = ", ".join(f"{value:.0f} {what}" for what, value in row.items())
        terminalreporter.write_line(f"{name}: {text}")


class Golden(str):
    """Expected text; under --update-golden it takes on whatever it is compared with.

    A `str`, so that a failed `==` shows pytest's line diff.
    """

    path: Path
    update: bool

    def __new__(cls, path: Path, update: bool) -> "Golden":
        missing = f"no golden file {path.name}: run pytest --update-golden and read it"
        text = path.read_text(encoding="utf-8") if path.exists() else missing
        self = super().__new__(cls, text.removesuffix("\n"))
        self.path, self.update = path, update
        return self

    def __eq__(self, other: object) -> bool:
        if not self.update or not isinstance(other, str):
            return super().__eq__(other)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(other + "\n", encoding="utf-8")
        return True

    __hash__ = str.__hash__


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    """The text this test expects: tests/golden/<test file>/<test name>.txt."""
    path = GOLDEN / request.path.stem / f"{request.node.name}.txt"
    return Golden(path, request.config.getoption("--update-golden"))
