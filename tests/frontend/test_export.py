"""Exported models run without Python."""

import ctypes
import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from ansor.codegen.elf import Member, archive, data_object
from ansor.errors import ArgumentError, CodegenError
from ansor.frontend import export as exporting
from ansor.frontend.builder import Builder
from ansor.frontend.executor import Executable
from ansor.frontend.export import c_name
from ansor.frontend.units import choose
from ansor.frontend.workshop import compile_all
from ansor.target import Target
from frontend.plans import one_by_one

pytestmark = pytest.mark.llvm
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")


@pytest.fixture(scope="module")
def exe() -> Executable:
    rng = np.random.default_rng(0)
    build = Builder("two layers")
    x = build.input("x", "float32", (8, 48))
    w = build.constant(rng.standard_normal((48, 32), dtype=np.float32), "w")
    v = build.constant(rng.standard_normal((32, 16), dtype=np.float32), "v")
    hidden = build.add("relu", build.add("matmul", x, w))
    target = Target.host()
    plan = one_by_one(build.finish([build.add("matmul", hidden, v), x]), target)
    units = compile_all(choose([x.task for x in plan.subgraphs], None), 0)
    return Executable.link(plan, units, target)


@pytest.fixture(scope="module")
def folder(exe, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("exported")
    exe.export(path, "layers")
    return path


@pytest.fixture
def x() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((8, 48), dtype=np.float32)


@needs_cc
def test_the_example_gives_the_same_results(exe, folder, x):
    x.tofile(folder / "x.bin")
    flags = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
    link = ("liblayers.a", "-lpthread", "-lm", "-o", "main")
    subprocess.run(("cc", *flags, "main.c", *link), cwd=folder, check=True)
    subprocess.run(("./main", "x.bin", "y.bin", "z.bin"), cwd=folder, check=True)
    y, z = (np.fromfile(folder / name, np.float32) for name in ("y.bin", "z.bin"))
    right, same = exe(x)
    np.testing.assert_array_equal(y.reshape(8, 16), right)
    np.testing.assert_array_equal(z.reshape(8, 48), same)


@needs_cc
def test_the_shared_library_gives_the_same_results(exe, folder, x):
    library = ctypes.CDLL(str(folder / "liblayers.so"))
    library.layers_workspace_size.restype = ctypes.c_size_t
    size = library.layers_workspace_size()
    assert size == exe.memory.arena > 0
    y, z = np.empty((8, 16), np.float32), np.empty((8, 48), np.float32)
    inputs = (ctypes.c_void_p * 1)(x.ctypes.data)
    outputs = (ctypes.c_void_p * 2)(y.ctypes.data, z.ctypes.data)
    block = np.empty(size + 64, np.uint8)
    start = block.ctypes.data + -block.ctypes.data % 64
    assert library.layers_run(inputs, outputs, None) == 1
    assert library.layers_run(inputs, outputs, ctypes.c_void_p(start + 8)) == 1
    assert library.layers_run(inputs, outputs, ctypes.c_void_p(start)) == 0
    np.testing.assert_array_equal(y, exe(x)[0])
    np.testing.assert_array_equal(z, x)


def test_the_manifest_says_what_there_is(exe, folder):
    facts = json.loads((folder / "layers.json").read_text())
    assert facts["inputs"] == [
        {"name": "x", "dtype": "float32", "shape": [8, 48], "bytes": 1536}
    ]
    assert [x["operators"] for x in facts["steps"]] == [
        ["matmul"],
        ["relu"],
        ["matmul"],
    ]
    assert facts["weights_bytes"] == exe.memory.constants
    for step in facts["steps"]:
        assert facts["kernels"][step["kernel"]]["program"]["steps"]
    for name, digest in facts["sha256"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest


def test_the_same_model_gives_the_same_files(exe, folder, tmp_path):
    exported = exe.export(tmp_path, "layers")
    for path in exported.files:
        assert path.read_bytes() == (folder / path.name).read_bytes(), path.name


def test_without_a_linker_there_is_an_archive_and_a_note(exe, tmp_path, monkeypatch):
    monkeypatch.setattr(exporting.shutil, "which", lambda name: None)
    exported = exe.export(tmp_path)
    names = [path.name for path in exported.files]
    assert names == ["libtwo_layers.a", "two_layers.h", "two_layers.json", "main.c"]
    assert exported.notes == (
        "no shared library: none of cc, gcc, clang, ld, ld.lld, ld.gold is on the path",
    )


@needs_cc
def test_two_models_link_into_one_program(exe, folder, tmp_path):
    """Kernels that both have are linked once."""
    exe.export(tmp_path, "other")
    (tmp_path / "both.c").write_text(
        '#include "layers.h"\n#include "other.h"\n'
        "int main(void) { return layers_run(0, 0, 0) + other_run(0, 0, 0) != 2; }\n"
    )
    subprocess.run(
        ("cc", f"-I{folder}", "both.c", "libother.a", folder / "liblayers.a",
         "-lpthread", "-lm", "-o", "both"),
        cwd=tmp_path, check=True,
    )  # fmt: skip
    subprocess.run((tmp_path / "both",), check=True)


@pytest.mark.parametrize(
    ("text", "name"),
    [("resnet-50", "resnet_50"), ("50", "model_50"), ("", "model"),
     ("int", "model_int"), ("größe", "gr__e")],
)  # fmt: skip
def test_names_of_models_in_c(text, name):
    assert c_name(text) == name


def test_a_name_must_be_one_in_c(exe, tmp_path):
    with pytest.raises(ArgumentError, match="export as 'a-b': not a name in C"):
        exe.export(tmp_path, "a-b")


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_data_objects_name_their_machine(arch):
    code = data_object("weights", b"abc", arch)
    assert (code[:4], code[18]) == (b"\x7fELF", {"x86_64": 62, "aarch64": 183}[arch])


def test_data_objects_of_other_machines_are_refused():
    with pytest.raises(CodegenError, match="object for 'riscv64': unknown"):
        data_object("weights", b"", "riscv64")


@pytest.mark.skipif(shutil.which("ar") is None, reason="no ar")
def test_archives_are_those_of_ar(tmp_path):
    members = [
        Member(
            "a_long_name_of_a_member.o", data_object("a", b"12345", "x86_64"), ("a",)
        ),
        Member("b.o", data_object("b", b"1", "x86_64"), ("b",)),
    ]
    path = tmp_path / "lib.a"
    path.write_bytes(archive(members))
    listed = subprocess.run(("ar", "t", path), capture_output=True, text=True)
    assert listed.stdout.split() == [x.name for x in members]
    subprocess.run(("ar", "x", path), cwd=tmp_path, check=True)
    assert (tmp_path / "b.o").read_bytes() == members[1].code
