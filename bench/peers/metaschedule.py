"""TVM's MetaSchedule as a competitor, run by a Python that has it.

    PYTHON bench/peers/metaschedule.py tune WORKLOAD THREADS WORK TRIALS SEED CPU
    PYTHON bench/peers/metaschedule.py race WORKLOAD THREADS DATA WORK CPU

    python3 -m venv tvm && tvm/bin/pip install apache-tvm==0.25.0.post1 \\
        apache-tvm-ffi==0.1.12 numpy xgboost psutil cloudpickle

"tune" prints what it took, as one line of JSON. Weights are constant for it, too: their
layout is free, so the search may rewrite it, and the rewriting is not timed. All else
is as `tune_tir` does it by default but the limit for building: every new process of its
builders imports TVM's table of intrinsics, which takes 20 seconds on a slow machine; so
with the default of 30 seconds per candidate all of them may fail.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from data import is_right, load
from protocol import Hello, private_output, serve
from tvm import te, topi

try:
    from tvm.s_tir import meta_schedule
    from tvm.s_tir.transform import RemoveWeightLayoutRewriteBlock
except ImportError:  # as it was called before
    from tvm import meta_schedule
    from tvm.tir.transform import RemoveWeightLayoutRewriteBlock

BUILD_SECONDS = 300.0  # for one candidate, the start of its process included

# Side, input and output channels, kernel, stride, padding.
CONVOLUTIONS = {"C2D": (224, 3, 64, 7, 2, 3), "R50a": (56, 64, 64, 3, 1, 1)}


def function(workload: str) -> Any:
    """The module of a workload; its inputs are those of the data, by position."""
    name, _, layout = workload.partition("-")
    if workload == "SFM":
        x = te.placeholder((256, 256), name="X")
        return tvm.IRModule({"main": te.create_prim_func([x, topi.nn.softmax(x)])})
    side, inputs, outputs, kernel, stride, padding = CONVOLUTIONS[name]
    is_last = layout == "nhwc"
    space, window = (side, side), (kernel, kernel)
    x = te.placeholder((1, *space, inputs) if is_last else (1, inputs, *space))
    w = te.placeholder(
        (*window, inputs, outputs) if is_last else (outputs, inputs, *window)
    )
    run = topi.nn.conv2d_nhwc if is_last else topi.nn.conv2d_nchw
    made = te.create_prim_func([x, w, run(x, w, stride, padding, 1)])
    return tvm.IRModule({"main": made.with_attr("layout_free_buffers", [1])})


def target(threads: int, cpu: str) -> Any:
    triple = f"{platform.machine()}-unknown-linux-gnu"
    return tvm.target.Target(
        {"kind": "llvm", "mcpu": cpu, "mtriple": triple, "num-cores": threads}
    )


def tune(
    workload: str, threads: str, work: str, trials: str, seed: str, cpu: str
) -> None:
    line = private_output()
    start = time.perf_counter()
    try:
        meta_schedule.tune_tir(
            function(workload),
            target(int(threads), cpu),
            work,
            int(trials),
            num_trials_per_iter=min(64, int(trials)),
            builder=meta_schedule.builder.LocalBuilder(timeout_sec=BUILD_SECONDS),
            seed=int(seed) + 1,  # it wants one above 0
        )
    except Exception as error:  # the cause is for the table: a peer may do anything
        reason = f"{type(error).__name__}: {error}"
        line.write(json.dumps({"error": reason[:2000]}) + "\n")
        return
    seconds = time.perf_counter() - start
    line.write(json.dumps({"wall_s": seconds, "is_complete": True}) + "\n")


def prepare(
    workload: str, threads: int, path: Path, work: Path, cpu: str
) -> tuple[Callable[[], object], Hello]:
    files = [str(work / f"database_{n}.json") for n in ("workload", "tuning_record")]
    database = meta_schedule.database.JSONDatabase(*files)
    made, machine = function(workload), target(threads, cpu)
    best = meta_schedule.tir_integration.compile_tir(database, made, machine)
    if best is None:
        raise RuntimeError("none of its candidates could be built and run")
    values, expected, allowed = load(path)
    whole = tvm.compile(best.mod, target=machine)["main"]
    arrays = [tvm.runtime.tensor(array) for array in values.values()]
    out = tvm.runtime.tensor(np.full(expected.shape, np.nan, np.float32))
    whole(*arrays, out)
    right = is_right(out.numpy(), expected, allowed)
    fast = RemoveWeightLayoutRewriteBlock(skip_tensor_rewrite=True)(best.mod)
    call = tvm.compile(fast, target=machine)["main"]
    packed = [laid_out(array, n, fast["main"]) for n, array in enumerate(arrays)]
    trials = len(database.get_all_tuning_records())
    notes: dict[str, object] = {"ran": trials, "version": tvm.__version__}
    return lambda: call(*packed, out), Hello(correct=right, notes=notes)


def laid_out(array: Any, number: int, main: Any) -> Any:
    """The argument itself; something of the same size where the layout was rewritten,
    as only the time counts then."""
    shape = [int(n) for n in main.buffer_map[main.params[number]].shape]
    if shape == list(array.shape):
        return array
    values = np.random.default_rng(0).uniform(-1, 1, shape)
    return tvm.runtime.tensor(values.astype(np.float32))


def main() -> None:
    command, workload, threads, *rest = sys.argv[1:]
    if command == "tune":
        tune(workload, threads, *rest)
        return
    path, work, cpu = rest
    serve(lambda: prepare(workload, int(threads), Path(path), Path(work), cpu))


if __name__ == "__main__":
    main()
