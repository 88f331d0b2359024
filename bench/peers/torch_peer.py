"""PyTorch as a competitor, eager or compiled.

    python bench/peers/torch_peer.py eager WORKLOAD THREADS DATA
    python bench/peers/torch_peer.py compiled WORKLOAD THREADS DATA

All forms of the workload are tried, and the fastest one competes. "compiled" is
`torch.compile(mode="max-autotune")` with freezing: weights are constants, which are
laid out when it compiles.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from data import is_right, load
from definitions import Form, forms
from protocol import Hello, look, serve
from torch import Tensor

LOOKS = 4  # at each form of a workload


class Operator(torch.nn.Module):
    """A form with its weights as constants."""

    def __init__(self, form: Form) -> None:
        super().__init__()
        self.function = form.function
        self.weights = torch.nn.ParameterList(
            torch.nn.Parameter(w, requires_grad=False) for w in form.weights
        )

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs, *self.weights)


def compiled(form: Form) -> Callable[[], Tensor]:
    import torch._dynamo
    import torch._inductor.config

    torch._inductor.config.freezing = True
    torch._dynamo.reset()
    run = torch.compile(Operator(form).eval(), mode="max-autotune")
    return partial(run, *form.inputs)


def eager(form: Form) -> Callable[[], Tensor]:
    return partial(form.function, *form.inputs, *form.weights)


def prepare(
    kind: str, workload: str, threads: int, path: Path
) -> tuple[Callable[[], object], Hello]:
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    inputs, expected, allowed = load(path)
    arrays = {name: torch.from_numpy(array) for name, array in inputs.items()}
    known = [x for x in forms(workload, arrays) if kind == "eager" or not x.is_eager]
    found: dict[str, Callable[[], Tensor]] = {}
    failed: dict[str, str] = {}
    for form in known:
        try:
            call = eager(form) if kind == "eager" else compiled(form)
            result = form.restore(call())
        except Exception as error:  # one form may not compile: the others still compete
            failed[form.name] = f"{type(error).__name__}: {error}"[:500]
            continue
        if is_right(result.numpy(), expected, allowed):
            found[form.name] = call
        else:
            failed[form.name] = "the result is not that of the reference"
    if not found:
        raise RuntimeError("; ".join(f"{name}: {why}" for name, why in failed.items()))
    tried = {name: 1e6 * seconds for name, seconds in compared(found).items()}
    best = min(tried, key=lambda name: tried[name])
    notes: dict[str, object] = {"form": best, "forms_us": tried, "failed": failed}
    return found[best], Hello(correct=True, notes=notes)


def compared(calls: dict[str, Callable[[], Tensor]]) -> dict[str, float]:
    """Seconds of one call of each, the least of a few looks in turn."""
    looks = LOOKS if len(calls) > 1 else 1
    found = [{name: look(call) for name, call in calls.items()} for _ in range(looks)]
    return {name: min(row[name] for row in found) for name in calls}


def main() -> None:
    kind, workload, threads, path = sys.argv[1:]
    serve(lambda: prepare(kind, workload, int(threads), Path(path)))


if __name__ == "__main__":
    main()
