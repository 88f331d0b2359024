"""The calibration of this machine."""

from dataclasses import replace

import pytest

from ansor.codegen import calibrate as module
from ansor.codegen.calibrate import accumulators, calibrate, kernels, sizes
from ansor.codegen.engine import assembly
from ansor.errors import CodegenError
from ansor.target import Target
from ansor.target.calibrate import load

pytestmark = pytest.mark.llvm


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ANSOR_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(module, "SAMPLE_SECONDS", 1e-4)
    monkeypatch.setattr(module, "SAMPLES", 2)


@pytest.mark.usefixtures("quick")
def test_figures_are_measured_stored_and_found_again(monkeypatch):
    target = Target("cpu")
    measured = calibrate(target)
    assert load(target.fingerprint) == measured
    monkeypatch.setattr(module, "_measure", None)  # a second measurement would fail
    assert calibrate(target) == measured


@pytest.mark.usefixtures("quick")
def test_figures_are_plausible():
    measured = calibrate(Target("cpu"), refresh=True)
    assert 1e9 < measured.peak_flops_per_core < 1e12
    assert 1e8 < measured.dram_bandwidth < measured.l1_bandwidth < 1e13
    assert 0 < measured.fork_join_seconds < 0.1


@pytest.mark.usefixtures("quick")
def test_figures_are_given_even_if_they_cannot_be_stored(cache):
    cache.write_text("a file where the folder should be")
    assert calibrate(Target("cpu")).peak_flops_per_core > 0


@pytest.mark.parametrize("cpu", ["nehalem", "haswell", "skylake-avx512", "neoverse-n1"])
def test_the_chains_stay_in_registers(cpu):
    """Between the labels of the loop there is arithmetic, and no access to memory."""
    target = Target("cpu", cpu=cpu)
    text = assembly(kernels(target), target)
    body = text[text.index("peak:") : text.index("read:")]
    fused = {"x86_64": "vfmadd", "aarch64": "fmla"}[target.arch]
    assert "Spill" not in body
    if target.has_fma:
        assert body.count(f"\t{fused}") % accumulators(target) == 0


def test_sizes_grow_from_level_to_level():
    for cpu in ("haswell", "neoverse-n1", "cortex-a72", "emeraldrapids"):
        l1, l2, l3, dram = sizes(Target("cpu", cpu=cpu))
        assert l1 < l2 < l3 < dram


def test_another_machine_cannot_be_calibrated():
    host = Target("cpu")
    other = Target("x86_64" if host.arch == "aarch64" else "aarch64")
    for target in (other, Target("cuda", arch="sm_70"), replace(other, cores=2)):
        with pytest.raises(CodegenError) as caught:
            calibrate(target)
        assert str(caught.value) == (
            f"calibration of {target}: this machine cannot run its code\n"
            "  hint: calibrate on the machine itself, or use Target('cpu')"
        )
