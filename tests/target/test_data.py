"""Targets as data: there and back, and what is refused."""

import copy
import json
import math
from random import Random

import pytest

from ansor.errors import TargetError
from ansor.target import Target, detect
from ansor.target.cpus import CPUS
from ansor.target.data import target_from_data, target_to_data
from ansor.target.gpus import GPUS

MUTATIONS = 1000
N1 = Target("aarch64", cpu="neoverse-n1", cores=4)
GPU = Target("cuda", arch="sm_90")


def there_and_back(target):
    text = json.dumps(target_to_data(target), allow_nan=False)
    back = target_from_data(json.loads(text))
    assert json.dumps(target_to_data(back), allow_nan=False) == text
    return back


@pytest.mark.parametrize("name", CPUS)
def test_cpus_come_back(name):
    target = Target("cpu", cpu=name, cores=3)
    back = there_and_back(target)
    assert back == target
    assert back.fingerprint == target.fingerprint


@pytest.mark.parametrize("name", GPUS)
def test_gpus_come_back(name):
    target = Target("cuda", arch=name)
    assert there_and_back(target) == target


@pytest.mark.llvm
def test_this_machine_comes_back():
    assert there_and_back(Target("cpu")) == Target("cpu")


def test_a_target_that_was_changed_comes_back():
    target = Target(
        *("cpu", "", "haswell", "+avx,+avx2,-fma"),
        vector_bits=128,
        cache_bytes=(1, 2, 3),
    )
    assert there_and_back(target) == target


def test_reading_does_not_ask_the_machine(monkeypatch):
    data = target_to_data(N1)
    for name in ("arch", "cpu_name", "features", "caches", "cores", "triple"):
        monkeypatch.delattr(detect, name)
    assert target_from_data(data) == N1


REFUSED = {
    "no dictionary": ("cpu", "target data: 'cpu' is not a dictionary"),
    "another version": (
        {"version": 0},
        "target data: version 0 is unknown\n  hint: this release reads version 1",
    ),
    "kind": (
        {"kind": "x86_64"},
        "target data, kind: 'x86_64' is unknown\n  hint: use one of cpu, cuda",
    ),
    "arch": (
        {"arch": "nvptx64"},
        "target data, arch: 'nvptx64' is none of a cpu\n"
        "  hint: use one of x86_64, aarch64",
    ),
    "no name": (
        {"cpu": ""},
        "target data, cpu: '' is not a name\n  hint: it has no spaces",
    ),
    "features": (
        {"features": "+neon,sve"},
        "target data, features: 'sve' is not a switch\n"
        '  hint: use "+avx2,-fma" and the like',
    ),
    "no features": (
        {"features": ""},
        "target data, features: there are none\n  hint: name the baseline's",
    ),
    "cores": (
        {"cores": 0},
        f"target data, cores: 0 is out of range\n  hint: use 1 to {2**53}",
    ),
    "cores of a float": (
        {"cores": 4.0},
        "target data, cores: 4.0 is not an integer",
    ),
    "two caches": (
        {"cache_bytes": [1, 2]},
        "target data, cache_bytes: 2 sizes\n  hint: give those of L1d, L2, L3",
    ),
    "an empty cache": (
        {"cache_bytes": [1, 2, 0]},
        "target data, cache_bytes: a cache of a cpu has 0 bytes",
    ),
    "a width it lacks": (
        {"vector_bits": 512},
        "target 'neoverse-n1': vector_bits=512 is not a width it has\n  hint: use 128",
    ),
    "a cpu with a gpu": (
        {"gpu": target_to_data(GPU)["gpu"]},
        "target data, gpu: a cpu has no limits of a GPU",
    ),
    "part of a gpu": (
        {"gpu": {"arch": "sm_90"}},
        "target data, gpu: field 'multiprocessors' is missing\n  hint: its fields are "
        "arch, multiprocessors, shared_bytes, warp, max_threads, registers, "
        "thread_registers",
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_refused(case):
    change, message = case
    data = {**target_to_data(N1), **change} if isinstance(change, dict) else change
    with pytest.raises(TargetError) as caught:
        target_from_data(data)
    assert str(caught.value) == message


def test_whatever_the_data_a_target_or_a_target_error():
    r = Random(3)
    junk = [None, True, 0, -1, 1, 2**80, 0.5, math.nan, "", "cpu", "+", [], {}, [1] * 3]
    for _ in range(MUTATIONS):
        data = copy.deepcopy(target_to_data(r.choice((N1, GPU))))
        holder = data["gpu"] if data["gpu"] and r.random() < 0.4 else data
        holder[r.choice(list(holder))] = r.choice(junk)
        try:
            target = target_from_data(data)
        except TargetError:
            continue
        assert there_and_back(target) == target
