"""Rules of the house that no linter has."""

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MAX_LINES = 500
# Put together here: this file is searched as well.
PATHS = [f"/{top}/" for top in ("work", "tmp", "home", "root")]
HOSTS = [
    f"{name}.{end}"
    for name, end in (
        ("pypi", "org"),
        ("pythonhosted", "org"),
        ("npmjs", "org"),
        ("debian", "org"),
    )
]


def tracked_texts() -> list[tuple[str, str]]:
    """(name, text) of the files git knows or would add; of no other, ignored ones."""
    listing = ("git", "ls-files", "--cached", "--others", "--exclude-standard", "-z")
    done = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not a git checkout")
    files = (ROOT / name for name in sorted(set(done.stdout.split("\0"))) if name)
    texts = (
        (x, x.read_bytes().decode("utf-8", "replace")) for x in files if x.is_file()
    )
    return [(str(path.relative_to(ROOT)), text) for path, text in texts]


def test_no_source_file_is_longer_than_500_lines():
    counts = {x.name: len(x.read_text(encoding="utf-8").splitlines()) for x in SOURCES}
    assert {name: n for name, n in counts.items() if n > MAX_LINES} == {}


def test_imports_are_absolute():
    relative = [
        f"{path.name}:{node.lineno}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


def test_only_settings_reads_the_environment():
    readers = {
        path.name
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv")
    }
    assert readers <= {"settings.py"}


@pytest.mark.parametrize("words", [PATHS, HOSTS], ids=["paths", "hosts"])
def test_no_file_names_a_machine_or_a_registry(words):
    found = [(name, x) for name, text in tracked_texts() for x in words if x in text]
    assert found == []
