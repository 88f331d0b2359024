"""What a task may take before anything of it was measured."""

from __future__ import annotations

from itertools import islice
from math import inf, isfinite

import numpy as np

from ansor.cost.analytic import seconds
from ansor.cost.machine import Machine
from ansor.space.derive import derive
from ansor.target.calibrate import load
from ansor.te.task import Task

SKETCHES = 2  # those with the fewest unusual choices
NESTS = 8  # of a sketch that is enough alone: the more there are, the longer it takes
POINTS = 64  # of each
SLOW = 1e9  # operations or bytes per second, where there is no model
DOUBT = 1.15  # times longer that an alternative may seem to take, to be tried still
LESS = 0.5  # of the arithmetic: worth a trial whatever the model believes


def estimate(task: Task) -> float:
    """Seconds of the best of a few points, by the analytic model.

    It takes some hundredths of a second and is a few percent above what `ansor.build`
    finds, which looks at more: good enough to tell tasks that matter from others.

    >>> import ansor
    >>> A, B = ansor.placeholder((256, 256)), ansor.placeholder((256, 256))
    >>> 1e-6 < estimate(ansor.Task(ansor.ops.matmul(A, B))) < 1
    True
    """
    if task.target.kind != "cpu":
        return _plain(task)
    rng = np.random.default_rng(0)
    best = inf
    nests = 0
    for sketch in islice(derive(task), SKETCHES):
        points = sketch.sample(POINTS, rng)
        if len(points):
            best = min(best, float(seconds(sketch, points).min()))
        nests += len(sketch.plan.nests)
        if nests >= NESTS and isfinite(best):
            break
    return best if isfinite(best) else _plain(task)


def may_pay(seconds: tuple[float, float], flops: tuple[float, float]) -> bool:
    """True if an alternative may turn out faster than what it would replace, by the
    beliefs about both and their arithmetic."""
    return seconds[0] <= DOUBT * seconds[1] or flops[0] <= LESS * flops[1]


def ideal(task: Task) -> float:
    """Seconds of the arithmetic at the peak of all cores, if it were float32. Not a
    bound: conditions may spare some of it. 0 if the machine was never measured."""
    if task.target.kind != "cpu" or load(task.target.fingerprint) is None:
        return 0.0
    machine = Machine.of(task.target)
    return task.flops / machine.peak / machine.cores


def _plain(task: Task) -> float:
    buffers = (*task.dag.inputs, *task.dag.outputs)
    return max(task.flops, sum(buffer.bytes for buffer in buffers), 1) / SLOW
