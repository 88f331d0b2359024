"""Memory of a network's process: ours, its exported library, and onnxruntime.

    python bench/memory.py                      ResNet-50; writes memory-CPU.json
    python bench/memory.py bert --db FOLDER     another; ONNX files are kept there

Every contender is a process of its own with NumPy in it, which reads the ONNX file and
runs the network a few times. "peak" is the most that was resident, reading and
compiling included; "steady" what is resident after the runs. "plain" is ours without
alternatives, which may need more memory for their constants; "library" a program that
loads what was exported. "workers" is the peak of the largest process that helped
compiling.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import resource
import sys
from collections.abc import Callable, Sequence
from importlib import util
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
RESULTS = HERE / "results"
RUNS = 3
GOAL = 1.2  # times what onnxruntime's process has
ROLES = ("ansor", "plain", "library", "onnxruntime")

Row = dict[str, Any]  # as it is in the file


# -- contenders ------------------------------------------------------------------------


def ours(path: Path, folder: Path, threads: int, alternatives: bool) -> Row:
    import ansor
    from ansor.frontend.model import Model

    model = ansor.from_onnx(path)
    if not alternatives:
        model = Model(model.graph, alternatives=())
    exe = model.compile()
    del model
    given = [np.zeros(x.shape, x.dtype) for x in exe.inputs]
    repeat(lambda: exe(*given))
    found: Row = {"arena": exe.memory.arena, "constants": exe.memory.constants}
    return found | resident()


def export(path: Path, folder: Path, threads: int) -> Row:
    """Makes the library that "library" runs."""
    import ansor

    ansor.from_onnx(path).compile().export(folder, "network")
    return {}


def library(path: Path, folder: Path, threads: int) -> Row:
    code = ctypes.CDLL(str(folder / "libnetwork.so"))
    code.network_workspace_size.restype = ctypes.c_int64
    facts = json.loads((folder / "network.json").read_text())
    size = code.network_workspace_size()
    arena = np.empty(size + 64, np.uint8)
    address = -(-arena.ctypes.data // 64) * 64
    tables = [
        [np.zeros(x["bytes"], np.uint8) for x in facts[kind]]
        for kind in ("inputs", "outputs")
    ]
    inputs, outputs = (
        (ctypes.c_void_p * len(arrays))(*(x.ctypes.data for x in arrays))
        for arrays in tables
    )
    code.ansor_set_threads(threads)
    repeat(lambda: code.network_run(inputs, outputs, ctypes.c_void_p(address)))
    return resident()


def onnxruntime(path: Path, folder: Path, threads: int) -> Row:
    import onnxruntime as ort

    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    session = ort.InferenceSession(
        str(path), options, providers=["CPUExecutionProvider"]
    )
    types = {"tensor(float)": np.float32, "tensor(int64)": np.int64}
    given = {x.name: np.zeros(x.shape, types[x.type]) for x in session.get_inputs()}
    repeat(lambda: session.run(None, given))
    return resident()


CONTENDERS: dict[str, Callable[[Path, Path, int], Row]] = {
    "ansor": lambda *given: ours(*given, alternatives=True),
    "plain": lambda *given: ours(*given, alternatives=False),
    "export": export,
    "library": library,
    "onnxruntime": onnxruntime,
}


def repeat(run: Callable[[], object]) -> None:
    for _ in range(RUNS):
        run()


def resident() -> Row:
    """Bytes of this process, as the kernel counts them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    facts = dict(line.split(":", 1) for line in lines)
    names = {"peak": "VmHWM", "steady": "VmRSS", "private": "RssAnon"}
    found: Row = {k: int(facts[name].split()[0]) * 1024 for k, name in names.items()}
    workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    return found | {"workers": workers}


# -- running ---------------------------------------------------------------------------


def measure(network: str, folder: Path, threads: int) -> Row:
    from models import exported
    from peers.arena import Bench, answer

    bench = Bench(folder, 0, (0,), 1, False, False)
    error = exported(bench, network, 1)
    if error:
        raise SystemExit(f"{network}: no ONNX file: {error}")
    path, place = folder / f"{network}-b1.onnx", folder / f"{network}-exported"
    row: Row = {"network": network, "threads": threads, "contenders": {}}
    for role in roles():
        given = [role, str(path), str(place), str(threads)]
        command = [sys.executable, __file__, "--role", *given]
        if role == "library":
            answer([*command[:3], "export", *command[4:]])
        row["contenders"][role] = answer(command, threads)
    return row | compared(row["contenders"])


def roles() -> list[str]:
    found = [x for x in ROLES if x != "onnxruntime" or util.find_spec(x)]
    if len(found) < len(ROLES):
        print("onnxruntime is left out: it is not installed")
    return found


def compared(contenders: dict[str, Row]) -> Row:
    """Our bytes over those of onnxruntime."""
    peer = contenders.get("onnxruntime", {})
    return {
        "ratios": {
            role: {k: facts[k] / peer[k] for k in ("peak", "steady") if k in facts}
            for role, facts in contenders.items()
            if role != "onnxruntime" and "peak" in peer
        }
    }


def show(row: Row) -> None:
    for role, facts in row["contenders"].items():
        start = f"{row['network']:<16}{row['threads']:>2}  {role:<12}"
        if "peak" not in facts:
            print(f"{start}left out: {str(facts.get('error'))[:90]}")
            continue
        columns = [facts.get(k) for k in ("peak", "steady", "private", "workers")]
        shown = "".join(f"{x / 1e6 if x else 0:>9.0f}" for x in columns)
        ratios = row["ratios"].get(role, {})
        print(f"{start}{shown}{''.join(f'{x:>9.2f}' for x in ratios.values())}")
    sys.stdout.flush()


HEAD = (
    f"{'network':<16}{'th':>2}  {'who':<12}{'peak MB':>9}{'steady':>9}{'private':>9}"
    f"{'workers':>9}{'to ORT':>9}{'to ORT':>9}"
)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    add = parser.add_argument
    add("networks", nargs="*", default=["resnet50"])
    add("--threads", type=int, default=len(os.sched_getaffinity(0)))
    add("--db", type=Path, help="folder for ONNX files and exports; kept")
    add("--output", type=Path, help="the file, instead of results/memory-CPU.json")
    return parser.parse_args()


def main() -> None:
    from models import folder, package_versions

    from ansor import Target

    args = arguments()
    path = args.output or RESULTS / f"memory-{Target('cpu').cpu}.json"
    content: Row = json.loads(path.read_text()) if path.exists() else {}
    content |= {"versions": package_versions(), "goal": GOAL}
    rows: list[Row] = content.setdefault("rows", [])
    print(HEAD)
    with folder(args.db) as place:
        for network in args.networks:
            row = measure(network, place, args.threads)
            show(row)
            keys = ("network", "threads")
            rows[:] = [x for x in rows if any(x[k] != row[k] for k in keys)]
            rows.append(row)
            path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"written to {path.name}")


def contend(role: str, path: str, folder: str, threads: str) -> None:
    """One contender; what it has is one line of JSON."""
    print(json.dumps(CONTENDERS[role](Path(path), Path(folder), int(threads))))


if __name__ == "__main__":
    given: Sequence[str] = sys.argv[1:]
    if given[:1] == ["--role"]:
        contend(*given[1:])
    else:
        main()
