"""Large constants stay in their files, once, and nobody can write to them."""

import mmap
import os
import re
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")

import onnx
from onnx import numpy_helper, parser

import ansor
from ansor.errors import ModelError
from ansor.frontend import pages
from ansor.frontend.builder import Builder
from ansor.frontend.interpret import interpret
from ansor.frontend.model import Model
from ansor.frontend.onnx.model import to_graph
from ansor.frontend.pages import give_back, make_room, mapped_file
from ansor.frontend.passes import optimise

WIDTH = 640  # 1.6 MB of weights
X = np.random.default_rng(1).standard_normal((1, WIDTH), dtype=np.float32)


def weights(count=2):
    rng = np.random.default_rng(0)
    shape = (WIDTH, WIDTH)
    return [rng.standard_normal(shape, dtype=np.float32) / 25 for _ in range(count)]


def save(path, arrays, external=False, prefix=""):
    """A model that multiplies by transposed weights, one after the other."""
    steps = [
        f"x{n + 1} = Gemm <transB = 1> (x{n}, w{n}, b)" for n in range(len(arrays))
    ]
    proto = parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]>'
        f"g{prefix} (float[1, {WIDTH}] x0) => (float[1, {WIDTH}] x{len(arrays)}) "
        f"{{ {'; '.join(steps)} }}".replace("; ", " ")
    )
    named = {f"w{n}": x for n, x in enumerate(arrays)}
    named["b"] = np.ones(WIDTH, np.float32)
    for name, array in named.items():
        proto.graph.initializer.append(numpy_helper.from_array(array, name))
    onnx.save(proto, path, save_as_external_data=external, location=f"{path.name}.data")
    return path


def expected(arrays):
    y = X
    for w in arrays:
        y = y @ w.T + 1
    return y


@pytest.fixture(params=["inside", "external"])
def path(request, tmp_path):
    return save(tmp_path / "m.onnx", weights(), request.param == "external")


def test_large_tensors_are_mapped_and_others_read(path):
    constants = to_graph(path).constants
    mapped = {x for x in constants if mapped_file(constants[x])}
    assert {"w0", "w1"} <= mapped
    assert "b" not in mapped
    assert not any(x.flags.writeable for x in constants.values())
    for name, array in zip(("w0", "w1"), weights(), strict=True):
        assert np.array_equal(constants[name], array)


@pytest.mark.parametrize("prefix", ["", "a", "ab", "abc"])
def test_tensors_at_any_place_of_a_file(tmp_path, prefix):
    path = save(tmp_path / "m.onnx", weights(1), prefix=prefix)
    (y,) = Model(to_graph(path)).compile(workers=0)(X)
    np.testing.assert_allclose(y, expected(weights(1)), rtol=1e-4, atol=1e-4)


def test_transposed_weights_are_views_until_they_are_packed(path):
    graph = optimise(to_graph(path))
    large = [x for x in graph.constants.values() if x.nbytes >= pages.LARGE]
    assert len(large) == 2
    assert all(mapped_file(x) for x in large)


@pytest.mark.llvm
def test_a_compiled_model_holds_its_own_weights_only(path):
    model = ansor.from_onnx(path)
    exe = model.compile(workers=0)  # what is compiled is known from now on
    size = WIDTH * WIDTH * 4
    tracemalloc.start()
    try:
        exe = model.compile(workers=0)
        del model
        exe(X)
        now, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not any(mapped_file(x) for x in exe.constants.values())
    assert 2 * size <= exe.memory.constants <= now
    assert now < exe.memory.constants + exe.memory.arena + 500_000
    assert peak < exe.memory.constants + exe.memory.arena + 1.5 * size
    np.testing.assert_allclose(exe(X)[0], expected(weights()), rtol=1e-4, atol=1e-3)


@pytest.mark.llvm
def test_a_compiled_model_does_not_need_the_file(path):
    exe = ansor.from_onnx(path).compile(workers=0)
    for file in path.parent.iterdir():
        os.truncate(file, 0)
    np.testing.assert_allclose(exe(X)[0], expected(weights()), rtol=1e-4, atol=1e-3)


def test_a_file_that_was_written_to_is_an_error(path):
    model = ansor.from_onnx(path)
    file = max(path.parent.iterdir(), key=lambda x: x.stat().st_size)
    facts = file.stat()
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns + 1_000_000))
    with pytest.raises(ModelError, match="written to since the model was read"):
        interpret(model.graph, [X])
    with pytest.raises(ModelError, match="written to since the model was read"):
        model.compile()


def test_files_may_be_replaced_and_removed(path):
    graph = to_graph(path)
    save(path.parent / "new.onnx", weights()[::-1], external=True)
    for file in list(path.parent.glob("m.onnx*")):
        file.unlink()
    np.testing.assert_allclose(
        interpret(graph, [X])[0], expected(weights()), rtol=1e-4, atol=1e-3
    )
    os.replace(path.parent / "new.onnx", path)
    (found,) = interpret(graph, [X])
    np.testing.assert_allclose(found, expected(weights()), rtol=1e-4, atol=1e-3)


def test_no_more_files_are_mapped_than_there_may_be(tmp_path, monkeypatch):
    path = save(tmp_path / "m.onnx", weights(), external=True)
    monkeypatch.setattr("ansor.frontend.onnx.external.MOST_MAPPED", 0)
    constants = to_graph(path).constants
    assert not any(mapped_file(x) for x in constants.values())
    assert np.array_equal(constants["w1"], weights()[1])


def test_pages_that_are_given_back_come_again(tmp_path):
    data = np.arange(3 * mmap.PAGESIZE, dtype=np.uint8)
    (tmp_path / "data").write_bytes(data.tobytes())
    with open(tmp_path / "data", "rb") as file:
        mapped = pages.MappedFile.of(file.fileno(), tmp_path / "data")
    whole = mapped.span(0, len(data))
    for view in (whole, whole[7:9000:3], whole[5000:100:-1], whole[:0]):
        give_back(view)
        assert np.array_equal(whole, data)
    with pytest.raises(ValueError, match="read-only"):
        whole[0] = 1
    give_back(np.zeros(3))


# -- constants of graphs ---------------------------------------------------------------


def test_views_of_constants_are_not_copied():
    build = Builder()
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    w = build.constant(array, "w")
    moved = build.add("transpose", w, axes=(2, 0, 1))
    part = build.add("slice", moved, starts=(1, 0, 0), stops=(3, 2, 3), steps=(1, 1, 2))
    for value in (w, moved, part):
        assert np.shares_memory(build.constants[value.name], array)
    assert np.array_equal(
        build.constants[part.name], array.transpose(2, 0, 1)[1:3, :, ::2]
    )
    negative = build.constants[build.add("negative", moved).name]
    assert negative.flags.c_contiguous
    assert not np.shares_memory(negative, array)


def test_constants_cannot_be_written_to():
    build = Builder()
    array = np.ones(3, np.float32)
    w = build.constant(array, "w")
    graph = build.finish([w, build.add("negative", w)])
    for known in graph.constants.values():
        with pytest.raises(ValueError, match="read-only"):
            known[0] = 2
    array[0] = 1  # its owner can


def test_parameters_are_shared_with_torch():
    torch = pytest.importorskip("torch")
    module = torch.nn.Linear(64, 32).eval()
    graph = ansor.from_torch(module, (torch.zeros(1, 64),)).graph
    weight = module.weight.detach().numpy()
    shared = [x for x in graph.constants.values() if np.shares_memory(x, weight)]
    assert shared
    assert not any(x.flags.writeable for x in shared)
    exe = Model(graph).compile(workers=0)
    assert exe.memory.constants < 1.2 * (64 * 32 + 32) * 4


# -- this process ----------------------------------------------------------------------


@pytest.mark.llvm
def test_llvm_works_after_its_pages_were_given_back():
    ansor.build(_scaled(2.0))
    make_room()
    kernel = ansor.build(_scaled(3.0))
    assert kernel(np.ones(8, np.float32)).tolist() == [3.0] * 8


def _scaled(factor):
    x = ansor.placeholder((8,), name="x")
    return ansor.Task(ansor.compute((8,), lambda i: x[i] * factor, name="y"))


def test_only_what_is_as_in_its_file_is_given_back():
    library = re.compile("libc")
    ranges = list(pages._untouched(library))
    assert ranges
    flags = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, rights, *_ = line.split()
        start, stop = (int(x, 16) for x in span.split("-"))
        flags[start, stop] = rights
    assert all("w" not in flags.get(where, "r") for where in ranges)
