"""A network as a competitor, run by one of the libraries.

    python bench/peers/network.py race KIND NETWORK THREADS BATCH FOLDER [DATABASE]
    python bench/peers/network.py tune NETWORK THREADS BATCH DATABASE SECONDS SEED
    python bench/peers/network.py export NETWORK BATCH FOLDER

Kinds are eager and inductor (torch), onnxruntime, openvino, ours and backend (ours,
through torch.compile). "tune" and "export" print what it took, as one line of JSON;
"export" writes the ONNX file that two of the kinds read.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from protocol import Hello, private_output, serve
from zoo import NETWORKS

TOLERANCE = 1e-4  # of the largest element of what torch gives

Run = Callable[[], Any]  # one call; gives an array or a tensor
Notes = dict[str, object]


def onnx_path(folder: Path, network: str, batch: int) -> Path:
    return folder / f"{network}-b{batch}.onnx"


# -- competitors -----------------------------------------------------------------------


class Setting:
    """A network with its inputs, as all competitors get them."""

    def __init__(
        self, network: str, threads: int, batch: int, folder: Path, database: str
    ) -> None:
        torch.set_num_threads(threads)
        torch.set_grad_enabled(False)
        self.threads, self.database = threads, database or None
        self.module = NETWORKS[network].module()
        self.inputs = NETWORKS[network].example(batch)
        self.path = onnx_path(folder, network, batch)

    @property
    def arrays(self) -> list[Any]:
        return [x.numpy() for x in self.inputs]


def eager(setting: Setting) -> tuple[Run, Notes]:
    return lambda: setting.module(*setting.inputs), {}


def inductor(setting: Setting) -> tuple[Run, Notes]:
    import torch._inductor.config

    torch._inductor.config.freezing = True
    run = torch.compile(setting.module, mode="max-autotune")
    return lambda: run(*setting.inputs), {}


def onnxruntime(setting: Setting) -> tuple[Run, Notes]:
    import onnxruntime as library

    options = library.SessionOptions()
    options.intra_op_num_threads = setting.threads
    options.inter_op_num_threads = 1
    session = library.InferenceSession(
        str(setting.path), options, providers=["CPUExecutionProvider"]
    )
    names = [x.name for x in session.get_inputs()]
    given = dict(zip(names, setting.arrays, strict=True))
    return lambda: session.run(None, given)[0], {"version": library.__version__}


def openvino(setting: Setting) -> tuple[Run, Notes]:
    import openvino as library

    core = library.Core()
    chosen = {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
        "INFERENCE_NUM_THREADS": str(setting.threads),
        "NUM_STREAMS": "1",
    }
    compiled = core.compile_model(str(setting.path), "CPU", chosen)
    request = compiled.create_infer_request()
    given = dict(enumerate(setting.arrays))

    def run() -> Any:
        request.infer(given)
        return request.get_output_tensor(0).data

    return run, {"version": library.__version__}


def ours(setting: Setting) -> tuple[Run, Notes]:
    from ansor import Target, from_torch
    from ansor.codegen import runtime

    runtime.set_threads(setting.threads)
    target = Target("cpu", cores=setting.threads)
    start = time.perf_counter()
    model = from_torch(setting.module, setting.inputs, target=target)
    imported = time.perf_counter()
    exe = model.compile(setting.database)
    notes: Notes = {
        "import_s": imported - start,
        "compile_s": time.perf_counter() - imported,
        "steps": len(exe.steps),
        "tasks": len(model.tasks),
        "tuned": sum(step.unit.is_tuned for step in exe.steps),
        "arena": exe.memory.arena,
    }
    arrays = setting.arrays
    return lambda: exe(*arrays)[0], notes


def backend(setting: Setting) -> tuple[Run, Notes]:
    from ansor.codegen import runtime
    from ansor.frontend.torch.backend import backend as through

    runtime.set_threads(setting.threads)
    options = {"database": setting.database} if setting.database else None
    run = torch.compile(setting.module, backend=through, options=options)
    return lambda: run(*setting.inputs), {}


KINDS = {x.__name__: x for x in (eager, inductor, onnxruntime, openvino, ours, backend)}


def prepare(
    kind: str, network: str, threads: int, batch: int, folder: Path, database: str
) -> tuple[Run, Hello]:
    warnings.simplefilter("ignore")
    setting = Setting(network, threads, batch, folder, database)
    expected = setting.module(*setting.inputs).numpy()
    start = time.perf_counter()
    run, notes = KINDS[kind](setting)
    found = np.asarray(run())
    notes["ready_s"] = time.perf_counter() - start
    scale = float(np.abs(expected).max())
    missed = float(np.abs(found - expected).max()) / scale
    notes["missed"] = missed
    right = found.shape == expected.shape and missed <= TOLERANCE
    return run, Hello(correct=right, notes=notes)


# -- what is done ahead ----------------------------------------------------------------


def tune(
    network: str, threads: int, batch: int, database: str, seconds: float, seed: int
) -> dict[str, object]:
    from ansor import Target, from_torch

    torch.set_grad_enabled(False)
    module, inputs = NETWORKS[network].module(), NETWORKS[network].example(batch)
    model = from_torch(module, inputs, target=Target("cpu", cores=threads))
    start = time.perf_counter()
    found = model.tune(seconds=seconds, database=database, seed=seed)
    return {
        "wall_s": time.perf_counter() - start,
        "trials": found.trials,
        "objective_s": found.seconds,
        "tasks": len(found),
        "stopped": found.stopped,
        "is_complete": found.is_complete,
    }


def export(network: str, batch: int, folder: Path) -> dict[str, object]:
    warnings.simplefilter("ignore")
    module, inputs = NETWORKS[network].module(), NETWORKS[network].example(batch)
    path = onnx_path(folder, network, batch)
    start = time.perf_counter()
    with torch.no_grad():
        torch.onnx.export(module, inputs, path, dynamo=True, verbose=False)
    return {"path": str(path), "wall_s": time.perf_counter() - start}


def main() -> None:
    word, *rest = sys.argv[1:]
    if word == "race":
        kind, network, threads, batch, folder, *more = rest
        database = more[0] if more else ""
        place = Path(folder)
        serve(lambda: prepare(kind, network, int(threads), int(batch), place, database))
        return
    line = private_output()
    if word == "tune":
        network, threads, batch, database, seconds, seed = rest
        facts = tune(
            network, int(threads), int(batch), database, float(seconds), int(seed)
        )
    else:
        network, batch, folder = rest
        facts = export(network, int(batch), Path(folder))
    line.write(json.dumps(facts) + "\n")


if __name__ == "__main__":
    main()
