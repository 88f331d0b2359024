"""A search space of your own: one rule, three constraints, no change of the package.

    python examples/space.py [N]

A rule says which structures a stage may have; what it leaves open are knobs. Rules of
yours are asked first, and a stage that one of them takes is tiled by no other. What
follows tiling (copies of operands in loop order, parallel loops) works on your sketches
as on any other. Constraints then restrict whatever the rules have made.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

import ansor
from ansor.schedule import Annotate, Knob, Reorder, Split
from ansor.space import NoParallel, Sketch, Vectorized, at_most


@dataclass(frozen=True)
class Panels:
    """Panels of B that stay in the L1 cache while all rows of A pass by.

        j.0 | k.0 | i.0 | k.1 | i.1 j.1

    i.1 x j.1 is a tile in registers, k.1 x j.1 the panel. Two sketches: the steps of
    k.1 run one by one, or a few of them in an unrolled loop k.2.
    """

    stage: str

    def matches(self, sketch: Sketch, stage: str) -> bool:
        return stage == self.stage and sketch.is_untouched(stage)

    def apply(self, sketch: Sketch, stage: str) -> Iterator[Sketch]:
        panel = Knob(f"{stage}.k.1", (32, 64, 128, 256))
        few = Knob(f"{stage}.k.2", (2, 4))
        yield self.tiled(sketch, "one by one", (panel,))
        yield self.tiled(sketch, "unrolled", (panel, few))

    def tiled(self, sketch: Sketch, what: str, inside_k: tuple[Knob, ...]) -> Sketch:
        name = self.stage
        lanes = sketch.task.target.lanes("float32")
        rows = Knob(f"{name}.i.1", (2, 4, 6, 8))
        columns = Knob(f"{name}.j.1", (lanes, 2 * lanes, 3 * lanes))
        steps = tuple(f"k.{level}" for level in range(1, len(inside_k) + 1))
        return sketch.by(  # the first argument is its name in the trace
            f"panels of {name}, {what}",
            Split(name, "i", (rows,)),
            Split(name, "j", (columns,)),
            Split(name, "k", inside_k),
            Reorder(name, ("j.0", "k.0", "i.0", *steps, "i.1", "j.1")),
            *(Annotate(name, loop, "unroll") for loop in (*steps[1:], "i.1")),
            Annotate(name, "j.1", "vectorize"),
        )


def matmul(n: int) -> ansor.Task:
    A = ansor.placeholder((n, n), name="A")
    B = ansor.placeholder((n, n), name="B")
    return ansor.Task(ansor.ops.matmul(A, B, name="C"), target="cpu")


def main() -> None:
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 509  # a prime: tiles need not divide
    task = matmul(n)
    usual = ansor.sketches(task)
    mine = ansor.sketches(
        task,
        rules=[Panels("C")],
        constraints=[
            at_most("k.1", 64),  # the panel is at most 64 rows of B
            NoParallel(),  # one core, whatever the rules say
            Vectorized("j"),  # drop what does not vectorise j
        ],
    )
    print(f"{len(usual)} sketches by the built-in rules, {len(mine)} by mine:")
    for sketch in mine:
        print(f"  {'; '.join(sketch.trace)}")
    sketch = mine[0]
    print(f"\nthe first one:\n{sketch}\n")

    points = sketch.sample(3, seed=0)  # within the registers and caches of the target
    for point in points:
        print(dict(zip((k.name for k in sketch.knobs), map(int, point), strict=True)))

    kernel = ansor.build(task, program=sketch.program(points[0]))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((n, n), dtype=np.float32) for _ in range(2))
    np.testing.assert_allclose(kernel(a, b), a @ b, rtol=1e-3, atol=1e-3)
    print("\nverified against NumPy")


if __name__ == "__main__":
    main()
