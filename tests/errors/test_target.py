"""One misuse of targets per case, full message compared."""

import pytest

import ansor
from ansor import Target

B = ansor.compute((4,), lambda i: i, name="B")


CASES = {
    "unknown kind": (
        lambda: Target("tpu"),
        "target 'tpu': unknown\n  hint: use one of 'cpu', 'cuda', 'x86_64', 'aarch64'",
    ),
    "kind of another type": (
        lambda: Target(3),
        "target 3: unknown\n  hint: use one of 'cpu', 'cuda', 'x86_64', 'aarch64'",
    ),
    "unknown target of a task": (
        lambda: ansor.Task(B, target="gpu"),
        "target 'gpu': unknown\n  hint: use one of 'cpu', 'cuda', 'x86_64', 'aarch64'",
    ),
    "unknown arch": (
        lambda: Target("cpu", arch="riscv"),
        "arch 'riscv' of a cpu: unknown\n  hint: use one of x86_64, aarch64",
    ),
    "cpu of another arch": (
        lambda: Target("aarch64", cpu="haswell"),
        "cpu 'haswell': is x86_64, not aarch64\n"
        "  hint: use one of generic, cortex-a72, cortex-a76, neoverse-n1, "
        "neoverse-n2, neoverse-v1, neoverse-v2, apple-m1",
    ),
    "cores as text": (
        lambda: Target("cpu", cpu="haswell", cores="4"),
        "target 'haswell': cores='4' is not an integer",
    ),
    "no cores": (
        lambda: Target("cpu", cpu="haswell", cores=-1),
        "target 'haswell': cores=-1 is below 1",
    ),
    "vectors too wide": (
        lambda: Target("cpu", cpu="haswell", vector_bits=512),
        "target 'haswell': vector_bits=512 is not a width it has\n  hint: use 128, 256",
    ),
    "vectors of an odd width": (
        lambda: Target("cpu", cpu="haswell", vector_bits=100),
        "target 'haswell': vector_bits=100 is not a width it has\n  hint: use 128, 256",
    ),
    "unknown gpu": (
        lambda: Target("cuda", arch="sm_1"),
        "cuda arch 'sm_1': unknown\n"
        "  hint: use one of sm_70, sm_75, sm_80, sm_86, sm_87, sm_89, sm_90, sm_100, "
        "sm_120",
    ),
    "lanes of an unknown dtype": (
        lambda: Target("cpu", cpu="haswell").lanes("float8"),
        "lanes of dtype 'float8': unknown dtype",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_message(case):
    misuse, message = case
    with pytest.raises(ansor.TargetError) as caught:
        misuse()
    assert str(caught.value) == message
