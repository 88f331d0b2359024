"""`ansor sketches`, from the words on the command line to what is printed."""

import json
from math import prod

import pytest
from click.testing import CliRunner

from ansor import space
from ansor.cli.main import cli

# Small, so that deriving takes no time; nothing here depends on the rules.
MATMUL = ("matmul", "16", "12", "8", "--target", "x86_64", "--cpu", "haswell")
SHAPES = "A: float32[16, 8]\nB: float32[8, 12]\nmatmul: float32[16, 12]\n"


@pytest.fixture
def ansor():
    """Run `ansor sketches …`."""
    return lambda *words: CliRunner().invoke(cli, ["sketches", *words])


def lines(result):
    assert result.exit_code == 0, result.output
    return [line.rstrip() for line in result.stdout.splitlines()]


def as_json(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def failure(result):
    assert result.exit_code == 1
    assert result.stdout == ""
    return result.stderr.removeprefix("ansor: error: ").rstrip()


def test_json_describes_every_sketch(ansor):
    for row in as_json(ansor(*MATMUL, "--json")):
        assert list(row) == ["trace", "knobs", "steps", "loops"]
        assert all(isinstance(rule, str) for rule in row["trace"])
        assert all(isinstance(step, str) for step in row["steps"])
        for name, candidates in row["knobs"].items():
            assert name
            assert all(isinstance(x, int) and x > 0 for x in candidates)
        assert isinstance(row["loops"], str)


def test_the_table_has_one_line_per_sketch_that_tells_rules_and_sizes(ansor):
    rows = as_json(ansor(*MATMUL, "--json"))
    printed = lines(ansor(*MATMUL, "--quiet"))
    assert len(printed) == len(rows)
    for number, (line, row) in enumerate(zip(printed, rows, strict=True), 1):
        first, knobs, points, *_ = line.split()
        assert (int(first), int(knobs)) == (number, len(row["knobs"]))
        size = prod(map(len, row["knobs"].values()))
        assert float(points.replace(",", "")) == pytest.approx(size, rel=0.01)
        assert line.endswith("; ".join(row["trace"]))


def test_the_task_stands_above_the_table_and_the_count_below(ansor):
    text = ansor(*MATMUL).stdout
    assert text.startswith(SHAPES)
    assert "on cpu haswell" in text
    count = len(as_json(ansor(*MATMUL, "--json")))
    assert f"\n{count} sketch" in text


def test_limit_shows_the_first_and_says_how_many_are_left(ansor, monkeypatch):
    found = space.sketches
    monkeypatch.setattr(space, "sketches", lambda task: found(task)[:1] * 3)
    everything = as_json(ansor(*MATMUL, "--json"))
    assert as_json(ansor(*MATMUL, "--json", "--limit", "2")) == everything[:2]
    text = ansor(*MATMUL, "--limit", "2").stdout
    assert "\n3 sketches, " in text
    assert text.endswith("; 1 not shown\n")


def test_full_prints_the_loop_nests(ansor):
    (row,) = as_json(ansor(*MATMUL, "--json", "--limit", "1"))
    text = ansor(*MATMUL, "--full", "--limit", "1", "--quiet").stdout
    assert text.startswith("# sketch 1: ")
    assert text.endswith(row["loops"] + "\n")
    assert all(f"#   {rule}\n" in text for rule in row["trace"])


def test_brackets_in_a_trace_are_not_markup(ansor, monkeypatch):
    class Fake:
        trace = ("tile [i, j]",)
        knobs = steps = ()

    monkeypatch.setattr(space, "sketches", lambda task: [Fake()])
    assert lines(ansor(*MATMUL, "--quiet")) == ["1  0  1  tile [i, j]"]
    assert ansor(*MATMUL).stdout.endswith("\n1 sketch, 1 points\n")


@pytest.mark.parametrize(
    "words",
    [
        "conv2d --n 1 --c 4 --h 7 --w 9 --o 5 --k 3 --pad 1",
        "conv2d --c 4 --h=7 --w=9 --o 5 --k 3 --pad=1 --batch 1",
        "conv2d 1 4 7 9 5 3 --pad 1",
    ],
)
def test_sizes_stand_in_order_or_have_names(ansor, words):
    text = ansor(*words.split(), "--target", "x86_64", "--limit", "1").stdout
    assert text.startswith("X: float32[1, 4, 7, 9]\n")
    assert "\nconv2d: float32[1, 5, 7, 9]\n" in text


def test_a_workload_by_its_name(ansor):
    text = ansor("NRM", "--batch", "3", "--target", "x86_64", "--limit", "1").stdout
    assert text.startswith("X: float32[3, 256, 256]\n")


def test_another_machine(ansor):
    words = ("softmax", "8", "9", "--target", "aarch64", "--cpu", "neoverse-n1")
    text = ansor(*words, "--cores", "4", "--limit", "1").stdout
    assert "\non cpu neoverse-n1 (aarch64), 4 cores, 128-bit vectors\n" in text


SOURCE = """
import neighbour
import ansor

A = ansor.placeholder((neighbour.SIZE,), name="A")
tensor = ansor.compute(A.shape, lambda i: A[i] * 2.0, name="B")
both = [tensor, ansor.compute(A.shape, lambda i: A[i] * 3.0, name="C")]
task = ansor.Task(tensor, "x86_64")
number = 3

def function():
    return tensor

def broken():
    return 1 / 0
"""


@pytest.fixture
def mine(tmp_path):
    """A file of the user's, which imports one beside it."""
    (tmp_path / "neighbour.py").write_text("SIZE = 12\n")
    (tmp_path / "mine.py").write_text(SOURCE)
    return tmp_path / "mine.py"


@pytest.mark.parametrize("name", ["tensor", "task", "both", "function"])
def test_a_task_tensor_or_function_in_a_file(ansor, mine, name):
    text = ansor(f"{mine}:{name}", "--limit", "1").stdout
    assert text.startswith("A: float32[12]\n")
    assert ("C: float32[12]" in text) == (name == "both")


def test_mistakes_in_a_file(ansor, mine):
    assert failure(ansor(f"{mine}:broken")) == (
        f"{mine}:15: ZeroDivisionError: division by zero"
    )
    assert failure(ansor(f"{mine}:nothing")) == (
        f"{mine}:nothing: mine.py has no 'nothing'"
    )
    assert failure(ansor(f"{mine}:number")).startswith(
        f"{mine}:number: is of type int\n  hint: it has to be a Task, a tensor"
    )
    assert failure(ansor(f"{mine}x.py:task")) == (
        f"{mine}x.py:task: there is no such file"
    )
    assert "  hint: leave --target out" in failure(
        ansor(f"{mine}:task", "--target", "cpu")
    )
    assert failure(ansor(str(mine))).endswith(
        f"  hint: name a task, tensor or function in it: {mine}:my_task"
    )
    mine.write_text("1 +\n")
    assert failure(ansor(f"{mine}:x")) == f"{mine}:1: SyntaxError: invalid syntax"


MISTAKES = {
    "matmul 3 4": "matmul: no size k given\n  hint: sizes are matmul m n k",
    "matmul 3 4 5 6": (
        "matmul … 6: there is no such size\n  hint: sizes are matmul m n k"
    ),
    "matmul 3 4 --q 5": (
        "matmul … --q: there is no such size\n  hint: sizes are matmul m n k"
    ),
    "matmul 3 --m 4": (
        "matmul … --m: the size is given twice\n  hint: sizes are matmul m n k"
    ),
    "matmul 3 4 five": "matmul: size k: 'five' is not an integer",
    "matmul 3 4 --k": "matmul: size k: '' is not an integer",
    "matmul 3 4 5 --batch 2": (
        "--batch 2: matmul has no batch\n  hint: sizes are matmul m n k"
    ),
    "batch_matmul 3 4 5 6 --batch 2": (
        "--batch 2: --b says it, too\n  hint: sizes are batch_matmul b m n k"
    ),
    "matmul 0 4 5": "placeholder 'A': shape (0, 5): extent 0 is less than 1",
    "conv2d 1 3 7 7 5 3 --groups 0": (
        "conv2d: 0 groups do not divide 3 inputs, 5 outputs"
    ),
    "conv2d 1 3 7 7 5 3 --layout CHWN": (
        "conv2d: unknown layout 'CHWN'\n  hint: use 'NCHW' or 'NHWC'"
    ),
    "NRM 3": "NRM 3: NRM takes no sizes",
    "NRM --dtype int8": "--dtype int8: NRM has its own dtype",
    "NRM --target tpu": (
        "target 'tpu': unknown\n  hint: use one of 'cpu', 'cuda', 'x86_64', 'aarch64'"
    ),
}


@pytest.mark.parametrize("words", MISTAKES)
def test_mistakes(ansor, words):
    assert failure(ansor(*words.split())) == MISTAKES[words]


@pytest.mark.parametrize(
    ("word", "meant"),
    [("matmull", "matmul"), ("c2d", "C2D-nchw"), ("Softmax", "softmax"), ("???", "")],
)
def test_an_unknown_operator_gets_the_nearest_and_all(ansor, word, meant):
    message = failure(ansor(word, "3"))
    hint = f"did you mean {meant}? operators are " if meant else "operators are "
    assert message.startswith(
        f"operator {word!r}: unknown\n  hint: {hint}matmul, dense, batch_matmul, "
    )
