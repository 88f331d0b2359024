"""Files that nobody has checked."""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

from ansor.errors import ModelError
from ansor.frontend.onnx.model import to_graph
from onnx_hostile import CRAFTED, external
from onnx_mutants import models, mutants

TESTS = Path(__file__).parents[2]
SECONDS = 10
MEMORY = 1 << 30  # bytes


@pytest.mark.parametrize("name", CRAFTED)
def test_crafted_files_end_in_a_typed_error(name, tmp_path):
    make, part = CRAFTED[name]
    given = make(tmp_path)
    begin = time.process_time()
    with pytest.raises(ModelError) as caught:
        to_graph(given)
    assert time.process_time() - begin < SECONDS
    assert part in str(caught.value)
    assert len(str(caught.value)) < 1000


def test_there_are_at_least_sixty():
    assert len(CRAFTED) >= 60


def peak(names: Sequence[str], folder: Path) -> int:
    """Bytes that a process needs which converts these, one after the other."""
    paths = json.dumps([str(TESTS), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, paths, folder, json.dumps(names)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout) * 1024


MEASURE = """
import json, pathlib, resource, sys
sys.path[:0] = json.loads(sys.argv[1])
from ansor.errors import ModelError
from ansor.frontend.onnx.model import to_graph
from onnx_hostile import CRAFTED
for number, name in enumerate(json.loads(sys.argv[3])):
    folder = pathlib.Path(sys.argv[2], str(number))
    folder.mkdir()
    try:
        to_graph(CRAFTED[name][0](folder))
    except ModelError:
        pass
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_large_constants_need_little_memory(tmp_path):
    greedy = ("node: 4 TiB", "node: expand", "node: tile", "fold: products")
    assert peak([*greedy, "fold: sums", "bytes: sparse, huge"], tmp_path) < MEMORY


@pytest.mark.slow
def test_crafted_files_need_little_memory(tmp_path):
    assert peak(list(CRAFTED), tmp_path) < MEMORY


def test_external_data_inside_the_folder_is_read(tmp_path):
    path = external(tmp_path, location="sub/data", offset="8", length="8")
    (path.parent / "sub").mkdir()
    (path.parent / "sub" / "real").write_bytes(np.arange(8, dtype="f4").tobytes())
    (path.parent / "sub" / "data").symlink_to("real")
    graph = to_graph(path)
    assert graph.constants["w"].tolist() == [2, 3]


@pytest.mark.parametrize("name", models())
def test_what_mutants_are_made_of_is_valid(name):
    to_graph(models()[name]).check()


def outcomes(count: int, seed: int) -> dict[str, int]:
    """How often mutants convert and are refused; anything else is raised."""
    found = {"converted": 0, "refused": 0}
    for name, data in mutants(count, seed):
        begin = time.process_time()
        try:
            to_graph(data).check()
            found["converted"] += 1
        except ModelError:
            found["refused"] += 1
        assert time.process_time() - begin < SECONDS, name
    return found


def test_mutated_files_convert_or_end_in_a_typed_error():
    assert min(outcomes(300, seed=0).values()) > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_mutated_files_convert_or_end_in_a_typed_error():
    assert min(outcomes(5000, seed=1).values()) > 0
