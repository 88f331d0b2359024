"""Targets: this machine, and machines by name."""

import pickle
import platform
import subprocess
import sys
from dataclasses import replace

import pytest

from ansor.errors import TargetError
from ansor.target import Target
from ansor.target.cpus import ALIASES, CPUS, FEATURES
from ansor.target.gpus import GPUS

EVERY = [
    Target("cpu"),
    Target("cpu", cores=4, cpu="skylake-avx512"),
    Target("aarch64", cpu="neoverse-n1"),
    Target("x86_64"),
    Target("cuda"),
    Target("cuda", arch="sm_80"),
]


def message(*arguments: object, **keywords: object) -> str:
    with pytest.raises(TargetError) as caught:
        Target(*arguments, **keywords)
    return str(caught.value)


@pytest.mark.parametrize("target", EVERY, ids=str)
class TestTargetIsAValue:
    def test_survives_pickling(self, target):
        copy = pickle.loads(pickle.dumps(target))
        assert copy == target
        assert hash(copy) == hash(target)
        assert copy.fingerprint == target.fingerprint

    def test_replacing_nothing_changes_nothing(self, target):
        assert replace(target) == target

    def test_replacing_cores_keeps_the_rest(self, target):
        fewer = replace(target, cores=3)
        assert fewer.cores == 3
        assert replace(fewer, cores=target.cores) == target

    def test_fingerprint_is_one_line(self, target):
        assert "\n" not in target.fingerprint

    def test_repr_builds_it_again(self, target):
        from ansor.target.gpus import Gpu

        assert eval(repr(target), {"Target": Target, "Gpu": Gpu}) == target


def test_the_host_runs_its_own_target():
    assert Target.host().is_host


def test_the_host_is_complete():
    host = Target.host()
    assert host.kind == "cpu"
    assert host.cores >= 1
    assert host.vector_bits in (128, 256, 512)
    assert host.line_bytes in (32, 64, 128, 256)
    assert 0 < host.cache_bytes[0] <= host.cache_bytes[1] <= host.cache_bytes[2]
    assert host == Target("cpu")


def test_another_instruction_set_is_not_the_host():
    other = "x86_64" if platform.machine() in ("aarch64", "arm64") else "aarch64"
    assert not Target(other).is_host


def test_a_cpu_with_features_this_machine_lacks_is_not_the_host():
    host = Target.host()
    unlikely = {"x86_64": "+amx-fp8", "aarch64": "+sme2p1"}[host.arch]
    assert not replace(host, features=f"{host.features},{unlikely}").is_host


@pytest.mark.parametrize(
    ("cpu", "bits", "registers", "fma", "masks", "amx"),
    [
        ("nehalem", 128, 16, False, False, False),
        ("haswell", 256, 16, True, False, False),
        ("znver3", 256, 16, True, False, False),
        ("skylake-avx512", 512, 32, True, True, False),
        ("znver5", 512, 32, True, True, False),
        ("sapphirerapids", 512, 32, True, True, True),
        ("generic", 128, 32, True, False, False),
        ("neoverse-v1", 128, 32, True, False, False),
    ],
)
def test_a_named_cpu_has_its_units(cpu, bits, registers, fma, masks, amx):
    target = Target("cpu", cpu=cpu)
    assert target.vector_bits == bits
    assert target.vector_registers == registers
    assert (target.has_fma, target.has_masks, target.amx) == (fma, masks, amx)


def test_avx512_hidden_by_a_hypervisor_leaves_256_bits():
    row = set(CPUS["skylake-avx512"].features)
    features = ",".join(sorted(f"+{x}" for x in row if not x.startswith("avx512")))
    target = Target("x86_64", cpu="skylake-avx512", features=features, vector_bits=256)
    assert (target.vector_registers, target.has_masks) == (16, False)


def test_narrower_vectors_can_be_asked_for():
    assert Target("cpu", cpu="skylake-avx512", vector_bits=256).lanes("float32") == 8


@pytest.mark.parametrize(
    ("dtype", "lanes"),
    [("float64", 8), ("float32", 16), ("bfloat16", 32), ("int8", 64), ("bool", 64)],
)
def test_lanes_follow_the_stored_size(dtype, lanes):
    assert Target("x86_64", cpu="znver4").lanes(dtype) == lanes


def test_arch_is_found_from_the_cpu():
    assert Target("cpu", cpu="neoverse-v2").arch == "aarch64"
    assert Target("x86_64", cpu="haswell").triple == "x86_64-unknown-linux-gnu"


def test_an_alias_is_the_cpu_it_stands_for():
    assert Target("cpu", cpu="graviton2") == Target("cpu", cpu="neoverse-n1")


def test_features_are_sorted_and_known():
    for row in CPUS.values():
        names = [x[1:] for x in Target("cpu", cpu=row.name).features.split(",")]
        assert names == sorted(names)
        assert set(names) <= set(FEATURES[row.arch])
    assert set(ALIASES.values()) <= set(CPUS)


def test_fingerprints_of_different_machines_differ():
    named = {Target("cpu", cpu=x).fingerprint for x in CPUS}
    cores = {Target("cpu", cpu="haswell", cores=n).fingerprint for n in (2, 4)}
    gpus = {Target("cuda", arch=x).fingerprint for x in GPUS}
    assert len(named | cores | gpus) == len(CPUS) + 2 + len(GPUS)


def test_a_gpu_carries_its_limits():
    target = Target("cuda", arch="sm_90")
    assert (target.arch, target.cpu) == ("nvptx64", "sm_90")
    assert target.gpu is not None
    assert (target.gpu.warp, target.gpu.max_threads) == (32, 1024)
    assert target.lanes("float32") == 4


def test_unknown_kind():
    assert message("gpu") == (
        "target 'gpu': unknown\n  hint: use one of 'cpu', 'cuda', 'x86_64', 'aarch64'"
    )


def test_unknown_cpu_lists_the_known_ones():
    text = message("cpu", cpu="pentium")
    assert text.startswith(
        "cpu 'pentium': unknown\n  hint: use one of nehalem, haswell,"
    )
    assert "neoverse-n1" in text


def test_cpu_of_another_instruction_set():
    assert message("aarch64", cpu="haswell").startswith(
        "cpu 'haswell': is x86_64, not aarch64\n  hint: use one of generic, "
    )


def test_unknown_arch():
    assert message("cpu", arch="riscv64") == (
        "arch 'riscv64' of a cpu: unknown\n  hint: use one of x86_64, aarch64"
    )


def test_unknown_cuda_arch():
    assert message("cuda", arch="sm_1").startswith("cuda arch 'sm_1': unknown\n  hint:")


def test_vectors_wider_than_the_cpu_has():
    assert message("cpu", cpu="haswell", vector_bits=512) == (
        "target 'haswell': vector_bits=512 is not a width it has\n  hint: use 128, 256"
    )


def test_cores_below_one():
    assert message("cpu", cpu="haswell", cores=-1) == (
        "target 'haswell': cores=-1 is below 1"
    )


def test_lanes_of_an_unknown_dtype():
    with pytest.raises(TargetError) as caught:
        Target("x86_64").lanes("float3")
    assert str(caught.value) == "lanes of dtype 'float3': unknown dtype"


@pytest.mark.llvm
def test_llvm_knows_every_cpu_and_feature():
    """LLVM only warns on standard error about a name it does not know."""
    program = """if True:
        from llvmlite import binding
        from ansor.target import Target
        from ansor.target.cpus import CPUS, FEATURES
        binding.initialize_all_targets()
        binding.initialize_all_asmprinters()
        for name, row in CPUS.items():
            target = Target("cpu", cpu=name)
            features = ",".join("+" + x for x in FEATURES[row.arch])
            made = binding.Target.from_triple(target.triple)
            made.create_target_machine(cpu=name, features=features)
    """
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
