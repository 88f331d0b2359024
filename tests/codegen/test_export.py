"""Exported kernels, used from C."""

import hashlib
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from ansor.codegen.export import C_TYPES, header
from ansor.codegen.kernel import Build, Prepared, make_kernel
from ansor.errors import ArgumentError
from ansor.ir.dtypes import DTYPES
from ansor.ir.expr import Buffer
from ansor.target.target import Target
from codegen.texts import ADD, DOUBLE, PACKED

pytestmark = pytest.mark.llvm

HOST = Target.host()
CC = shutil.which("cc")
needs_cc = pytest.mark.skipif(CC is None, reason="needs a C compiler")


def double(name, target=HOST):
    shape = tuple(Buffer(x, (1000,), "float32") for x in "AC")
    return make_kernel(name, DOUBLE.replace("NAME", name), target, shape)


def packed():
    shape = [Buffer(name, (4,), "float32") for name in "AWC"]
    rows = [Prepared("W", Buffer("W.packed", (4,), "float32", "packed"), "rotate")]
    return make_kernel("sum", PACKED, HOST, shape, prepared=rows)


def run_c(folder, source, *objects, flags=("-std=c99", "-Wall", "-Werror")):
    (folder / "main.c").write_text(source)
    program = folder / "main"
    subprocess.run(
        [CC, *flags, "main.c", *objects, "-o", str(program), "-lpthread", "-lm"],
        cwd=folder,
        check=True,
    )
    return subprocess.run(
        [str(program)], check=True, capture_output=True, text=True, timeout=60
    ).stdout.split()


def test_every_dtype_has_a_type_in_c():
    assert set(C_TYPES) == set(DTYPES)


@needs_cc
def test_two_kernels_in_one_program(tmp_path):
    for name in ("twice", "again"):
        double(name).export(tmp_path)
    source = """
#include <stdio.h>
#include "twice.h"
#include "again.h"
static float a[1000], b[1000], c[1000];
int main(void) {
  for (int i = 0; i < 1000; ++i) a[i] = i;
  ansor_set_threads(3);
  for (int n = 0; n < 1000; ++n) { twice(a, b); again(b, c); }
  for (int i = 0; i < 1000; ++i) printf("%g\\n", c[i]);
  printf("%d\\n", (int)ansor_get_threads());
  return 0;
}
"""
    *values, threads = run_c(tmp_path, source, "twice.o", "again.o")
    assert [float(x) for x in values] == [4.0 * i for i in range(1000)]
    assert threads == "3"


@needs_cc
def test_shared_library(tmp_path):
    double("twice").export(tmp_path)
    library = tmp_path / "libtwice.so"
    subprocess.run(
        [CC, "-shared", "-o", library, tmp_path / "twice.o", "-lpthread"], check=True
    )
    program = f"""
import ctypes, numpy as np
a, c = np.ones(1000, np.float32), np.zeros(1000, np.float32)
ctypes.CDLL({str(library)!r}).twice(ctypes.c_void_p(a.ctypes.data),
                                    ctypes.c_void_p(c.ctypes.data))
assert (c == 2).all()
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@needs_cc
def test_prepared_input(tmp_path):
    packed().export(tmp_path)
    source = """
#include <stdio.h>
#include "sum.h"
int main(void) {
  float a[4] = {0, 1, 2, 3}, w[4] = {10, 20, 30, 40}, c[4];
  static float block[16 + 4];
  float *aligned = (float *)(((uintptr_t)block + 63) / 64 * 64);
  rotate(w, aligned);
  sum(a, aligned, c);
  for (int i = 0; i < 4; ++i) printf("%g ", c[i]);
  return 0;
}
"""
    assert run_c(tmp_path, source, "sum.o") == ["10", "21", "32", "43"]


def test_header(tmp_path):
    packed().export(tmp_path)
    text = (tmp_path / "sum.h").read_text()
    assert "void rotate(const float *W, float *packed);" in text
    assert "void sum(const float *A, const float *W, float *C);" in text
    assert "A: float32[4], in" in text
    assert 'extern "C"' in text


def test_manifest_and_same_bytes(tmp_path):
    kernel = double("twice")
    kernel.export(tmp_path / "one")
    kernel.export(str(tmp_path / "two"))
    for suffix in (".o", ".h", ".json"):
        first, second = (tmp_path / x / f"twice{suffix}" for x in ("one", "two"))
        assert first.read_bytes() == second.read_bytes()
    facts = json.loads((tmp_path / "one" / "twice.json").read_text())
    code = (tmp_path / "one" / "twice.o").read_bytes()
    assert facts["sha256"] == hashlib.sha256(code).hexdigest()
    assert facts["inputs"] == [{"name": "A", "dtype": "float32", "shape": [1000]}]
    assert facts["target"]["triple"] == HOST.triple


def test_export_for_another_machine(tmp_path):
    target = Target("x86_64" if HOST.arch == "aarch64" else "aarch64")
    shape = tuple(Buffer(x, (3, 4), "float32") for x in "ABC")
    make_kernel("add", ADD, target, shape).export(tmp_path)
    machine = int.from_bytes((tmp_path / "add.o").read_bytes()[18:20], "little")
    assert machine == {"x86_64": 62, "aarch64": 183}[target.arch]


def test_arguments_are_not_keywords():
    names = [Buffer(x, (4,), "float32") for x in ("int", "class", "A")]
    text = header(Build("sum", PACKED, HOST, tuple(names)))
    assert "void sum(const float *int_, const float *class_, float *A);" in text


def test_bound_kernels_are_not_exported(tmp_path):
    kernel = packed().bind(W=np.zeros(4, np.float32))
    with pytest.raises(ArgumentError, match="inputs are bound: W"):
        kernel.export(tmp_path)
