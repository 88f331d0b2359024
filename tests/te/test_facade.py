"""The package's front door."""

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import ansor
import ansor.te

MODULES = [m.name for m in pkgutil.walk_packages(ansor.te.__path__, "ansor.te.")]


def test_every_public_name_loads_and_has_a_docstring():
    for name in ansor.__all__:
        if not name.startswith("__"):
            assert getattr(ansor, name).__doc__, name
    assert set(dir(ansor)) == set(ansor.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = ansor.nonsense


def test_importing_loads_nothing_heavy():
    code = "import ansor, sys; print({'numpy', 'llvmlite', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stderr


def test_every_public_operator_has_an_example():
    from ansor import ops

    for name in ops.__all__:
        assert ">>>" in (getattr(ops, name).__doc__ or ""), name


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    assert doctest.testmod(importlib.import_module(name)).failed == 0
