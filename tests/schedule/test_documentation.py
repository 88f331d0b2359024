"""The page of the steps, and that it is up to date."""

import importlib.util
import sys
from pathlib import Path

import pytest

import ansor.schedule
from ansor.schedule import STEPS

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def tool():
    path = ROOT / "tools" / "document_steps.py"
    spec = importlib.util.spec_from_file_location("document_steps", path)
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "document_steps", module)
        spec.loader.exec_module(module)
        yield module


def test_the_page_is_up_to_date(tool):
    """Run tools/document_steps.py after a change of a docstring."""
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page()


@pytest.mark.parametrize("name", [*STEPS, "layout-rewrite"])
def test_every_step_shows_before_and_after(tool, name):
    (entry,) = (entry for entry in tool.entries() if entry.name == name)
    assert entry.summary.endswith(".")
    assert "==>" in entry.picture
    assert entry.call.endswith(")")


PUBLIC = [name for name in ansor.schedule.__all__ if name not in ("STEPS", "Step")]


@pytest.mark.parametrize("name", PUBLIC)
def test_public_names_have_examples(name):
    assert ">>> " in getattr(ansor.schedule, name).__doc__
