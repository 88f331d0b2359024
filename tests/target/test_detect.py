"""Detection, on files like those of Linux."""

import os
from pathlib import Path

import pytest

from ansor.target import detect
from ansor.target.cpus import CPUS, FEATURES, widest_vector

XEON = "fpu sse4_2 fma avx f16c avx2 avx512f avx512dq avx512bw avx512vl avx512_vnni"
NEOVERSE = "fp asimd evtstrm aes crc32 atomics fphp asimdhp lrcpc asimddp"


def write_cache(root: Path, index: int, **values: str) -> None:
    folder = root / f"index{index}"
    folder.mkdir()
    for name, value in values.items():
        (folder / name).write_text(value + "\n")


def test_caches_are_read_and_instructions_left_out(tmp_path):
    line = {"coherency_line_size": "64"}
    write_cache(tmp_path, 0, level="1", type="Data", size="48K", **line)
    write_cache(tmp_path, 1, level="1", type="Instruction", size="32K", **line)
    write_cache(tmp_path, 2, level="2", type="Unified", size="2048K", **line)
    write_cache(tmp_path, 3, level="3", type="Unified", size="105M", **line)
    assert detect.sys_caches(tmp_path) == ((48 << 10, 2 << 20, 105 << 20), 64)


def test_no_files_give_common_sizes(tmp_path):
    assert detect.sys_caches(tmp_path) == (detect.FALLBACK_CACHE, 64)


def test_a_machine_without_l3_ends_at_l2(tmp_path):
    write_cache(tmp_path, 0, level="1", type="Data", size="32K")
    write_cache(tmp_path, 1, level="2", type="Unified", size="1M")
    assert detect.sys_caches(tmp_path)[0] == (32 << 10, 1 << 20, 1 << 20)


def test_a_damaged_file_is_passed_over(tmp_path):
    write_cache(tmp_path, 0, level="?", type="Data", size="32K")
    write_cache(tmp_path, 1, level="2", type="Unified", size="")
    assert detect.sys_caches(tmp_path)[0] == detect.FALLBACK_CACHE


@pytest.mark.parametrize(
    ("key", "flags", "arch", "bits", "cpu"),
    [
        ("flags\t\t", XEON, "x86_64", 512, "cascadelake"),
        ("Features\t", NEOVERSE, "aarch64", 128, "neoverse-n1"),
    ],
)
def test_features_of_cpuinfo(tmp_path, monkeypatch, key, flags, arch, bits, cpu):
    path = tmp_path / "cpuinfo"
    path.write_text(f"processor\t: 0\n{key}: {flags}\n\nprocessor\t: 1\n")
    monkeypatch.setattr(detect, "CPUINFO", path)
    found = detect.features.__wrapped__(arch)
    assert found == frozenset(CPUS[cpu].features)
    assert widest_vector(arch, found) == bits


def test_no_cpuinfo_has_no_flags(tmp_path):
    assert detect.proc_flags(tmp_path / "nothing") == frozenset()


@pytest.mark.llvm
def test_llvm_answers_where_there_is_no_cpuinfo(tmp_path, monkeypatch):
    monkeypatch.setattr(detect, "CPUINFO", tmp_path / "nothing")
    found = detect.features.__wrapped__(detect.arch())
    assert found <= set(FEATURES[detect.arch()])
    assert found & {"neon", "sse4.2"}


def test_cores_are_those_of_the_affinity_mask(monkeypatch):
    monkeypatch.delenv("ANSOR_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    assert detect.cores() == 3


def test_the_thread_limit_caps_the_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5}, raising=False)
    monkeypatch.setenv("ANSOR_THREADS", "2")
    assert detect.cores() == 2
    monkeypatch.setenv("ANSOR_THREADS", "64")
    assert detect.cores() == 3


def test_every_feature_of_the_kernel_is_one_of_ours():
    known = {name for row in FEATURES.values() for name in row}
    assert set(detect.PROC_NAMES) <= known
