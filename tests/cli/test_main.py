"""The command itself: help, exit codes, and what importing it costs others."""

import subprocess
import sys

import pytest
from click.testing import CliRunner

import ansor
from ansor.cli.main import cli
from ansor.cli.operators import OPERATORS
from ansor.te.workloads import MORE, WORKLOADS


def run(*words):
    command = [sys.executable, "-m", "ansor", *words]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.parametrize("command", [[], *([name] for name in cli.commands)])
def test_help_has_an_example(command):
    text = CliRunner().invoke(cli, [*command, "--help"], prog_name="ansor").stdout
    assert "Example" in text
    assert f"\n    ansor {' '.join(command)}" in text


def test_help_of_a_task_lists_operators_and_workloads():
    text = CliRunner().invoke(cli, ["sketches", "--help"]).stdout
    assert "conv2d n=1 c h w o k stride=1 pad=0 " in text
    assert all(name in text for name in (*OPERATORS, "GMM512", "CBR-nhwc", "gather"))


def test_names_of_operators_and_workloads_differ():
    names = [*OPERATORS, *WORKLOADS, *MORE]
    assert len({name.lower() for name in names}) == len(names)


def test_it_runs_as_a_module():
    done = run("--version")
    assert (done.returncode, done.stdout) == (
        0,
        f"ansor, version {ansor.__version__}\n",
    )


def test_errors_go_to_stderr_with_exit_code_1():
    done = run("sketches", "matmul", "3")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "ansor: error: matmul: no size n, k given\n  hint: sizes are matmul m n k\n"
    )


def test_misuse_of_the_command_itself_is_exit_code_2():
    assert CliRunner().invoke(cli, ["sketches"]).exit_code == 2
    assert CliRunner().invoke(cli, ["sketch"]).exit_code == 2


def test_importing_the_package_loads_no_shell():
    program = "import ansor, sys; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert loaded.isdisjoint({"click", "rich", "numpy"})


WORDS = {
    "conv1d": "2 3 8 5 3",
    "conv2d": "2 3 7 9 5 3",
    "conv3d": "1 2 4 5 6 3 2",
    "depthwise_conv2d": "2 3 7 9 3",
    "conv2d_transpose": "1 3 4 4 5 4 --stride 2 --pad 1",
    "pool": "2 3 8 8 2",
}
LAYOUTS = [
    (name, layout)
    for name, row in OPERATORS.items()
    for layout in (("NC{}", "n{}c") if "layout" in row.sizes else ("",))
]


@pytest.mark.parametrize(("name", "layout"), LAYOUTS)
def test_every_operator_can_be_made(name, layout):
    row = OPERATORS[name]
    words = WORDS.get(name, " ".join("5" for _ in row.sizes)).split()
    if layout:
        space = str(row.sizes["layout"])[2:]
        words += ["--layout", layout.format(space)]
    assert row.make(words).dtype == "float32"
    assert row.make(words, dtype="float64").dtype == "float64"
