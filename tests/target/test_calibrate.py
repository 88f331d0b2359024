"""Stored calibrations: found again, or not at all."""

import json

import pytest

from ansor.errors import TargetError
from ansor.target import calibrate
from ansor.target.calibrate import Calibration

SPEEDS = Calibration(160e9, 300e9, 90e9, 40e9, 20e9, 3e-6)


@pytest.fixture(autouse=True)
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("ANSOR_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_what_was_stored_is_loaded():
    calibrate.store("machine", SPEEDS)
    assert calibrate.load("machine") == SPEEDS


def test_nothing_stored_is_none():
    assert calibrate.load("machine") is None


def test_another_machine_has_its_own(cache):
    calibrate.store("machine", SPEEDS)
    assert calibrate.load("other") is None


def test_storing_leaves_one_file(cache):
    for _ in range(3):
        calibrate.store("machine", SPEEDS)
    assert len(list(cache.iterdir())) == 1


@pytest.mark.parametrize(
    "damage",
    [
        lambda stored: "",
        lambda stored: "[]",
        lambda stored: "{}",
        lambda stored: json.dumps(stored)[:-9],
        lambda stored: json.dumps(stored | {"version": calibrate.VERSION + 1}),
        lambda stored: json.dumps(stored | {"target": "other"}),
        lambda stored: json.dumps(stored | {"speeds": {}}),
        lambda stored: json.dumps(stored).replace("160000000000.0", "0"),
        lambda stored: json.dumps(stored).replace("160000000000.0", '"160"'),
    ],
    ids=range(9),
)
def test_a_file_that_cannot_be_trusted_counts_as_none(damage):
    path = calibrate.store("machine", SPEEDS)
    path.write_text(damage(json.loads(path.read_text())))
    assert calibrate.load("machine") is None


def test_speeds_are_positive():
    with pytest.raises(TargetError) as caught:
        Calibration(160e9, 300e9, 90e9, 40e9, 0.0, 3e-6)
    assert str(caught.value) == (
        "calibration dram_bandwidth=0.0: not a positive number"
    )


def test_a_calibration_reads_well():
    assert str(SPEEDS) == (
        "160.0 GFLOP/s per core; "
        "L1 / L2 / L3 / memory 300.0 / 90.0 / 40.0 / 20.0 GB/s; "
        "fork and join 3.0 us"
    )
