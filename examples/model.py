"""A whole network: from PyTorch, tuned, checked, timed beside torch.

    python examples/model.py [SECONDS]

The network runs at once, with programs that a model chooses; tuning goes where its
latency falls most. What was measured is kept in a file: a second run with the same
`database` compiles the tuned network and measures nothing.
"""

import sys
import tempfile
from pathlib import Path

import torch
from demo import race
from torch import Tensor, nn

import ansor


class Block(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.second = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(x + self.norms[1](self.second(y)))


def network(channels: int = 64, classes: int = 10) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, channels, 5, stride=2, padding=2),
        nn.ReLU(),
        Block(channels),
        Block(channels),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, classes),
    ).eval()


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0
    torch.manual_seed(0)
    module, x = network(), torch.randn(1, 3, 64, 64)
    model = ansor.from_torch(module, (x,))
    print(model)
    for task, weight in model.tasks:
        print(f"  {weight} x {task.flops / 1e6:.1f} million operations")

    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "tuning.db"  # in earnest: a file that stays
        untuned = model.compile()
        found = model.tune(seconds=seconds, database=database)
        print(f"{found.trials} programs measured")
        tuned = model.compile(database=database)

    array = x.numpy()
    with torch.no_grad():
        expected = module(x).numpy()
        worst = abs(tuned(array)[0] - expected).max() / abs(expected).max()
        print(f"differs from torch by {worst:.1e} of the largest result")
        if not worst < 1e-4:
            raise SystemExit("the result is WRONG")
        times = race(
            {
                "torch": lambda: module(x),
                "untuned": lambda: untuned(array),
                "tuned": lambda: tuned(array),
            }
        )
    for name, best in times.items():
        print(f"{name:<10}{1e3 * best:8.3f} ms")


if __name__ == "__main__":
    main()
