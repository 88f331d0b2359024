"""The networks of the benchmarks as modules of torch: random weights, fixed seed.

python bench/zoo.py            their names, parameters and inputs
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn

SEED = 0


@dataclass(frozen=True)
class Network:
    """`make()` gives the module; `inputs(batch)` what it is called with."""

    name: str
    make: Callable[[], nn.Module]
    inputs: Callable[[int], tuple[Tensor, ...]]

    def module(self) -> nn.Module:
        """For inference, with statistics that are not those of a new network."""
        torch.manual_seed(SEED)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = self.make().eval()
        for weight in made.parameters():
            if weight.dim() > 1 and not weight.any():
                nn.init.normal_(weight, std=0.02)  # results would be zero
        for one in made.modules():
            if isinstance(one, nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d):
                nn.init.uniform_(one.weight, 0.8, 1.2)
                nn.init.uniform_(one.bias, -0.1, 0.1)
                nn.init.uniform_(one.running_mean, -0.1, 0.1)
                nn.init.uniform_(one.running_var, 0.8, 1.2)
        return made

    def example(self, batch: int = 1) -> tuple[Tensor, ...]:
        torch.manual_seed(SEED + 1)
        return self.inputs(batch)


def vision(name: str) -> Callable[[], nn.Module]:
    """A network of torchvision, whose compiled operators are not needed."""

    def make() -> nn.Module:
        _declare_operators()
        import torchvision.models as models

        found: nn.Module = models.get_model(name, weights=None)
        return found

    return make


def _declare_operators() -> None:
    """torchvision refers to operators that a build for another torch cannot load."""
    for name in ("nms", "qnms"):
        try:
            torch.library.define(
                f"torchvision::{name}",
                "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
            )
        except RuntimeError:  # it is there already
            return


def images(*shape: int) -> Callable[[int], tuple[Tensor, ...]]:
    return lambda batch: (torch.randn(batch, *shape),)


def tokens(length: int, vocabulary: int) -> Callable[[int], tuple[Tensor, ...]]:
    return lambda batch: (torch.randint(0, vocabulary, (batch, length)),)


class Generator(nn.Module):
    """DCGAN: a vector of noise to an image of 64 by 64."""

    def __init__(self, noise: int = 100, width: int = 64) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        channels = [noise, width * 8, width * 4, width * 2, width]
        for n, (into, out) in enumerate(pairwise(channels)):
            stride, padding = (1, 0) if n == 0 else (2, 1)
            layers += [
                nn.ConvTranspose2d(into, out, 4, stride, padding, bias=False),
                nn.BatchNorm2d(out),
                nn.ReLU(),
            ]
        layers += [nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh()]
        self.layers = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        found: Tensor = self.layers(x)
        return found


class Hidden(nn.Module):
    """A network of transformers that takes tokens and gives its last hidden state."""

    def __init__(self, network: nn.Module, **options: object) -> None:
        super().__init__()
        self.network = network
        self.options = options

    def forward(self, given: Tensor) -> Tensor:
        found: Tensor = self.network(given, **self.options).last_hidden_state
        return found


def bert() -> nn.Module:
    _declare_operators()  # transformers loads torchvision, if it is there
    from transformers import BertConfig, BertModel

    return Hidden(BertModel(BertConfig(), add_pooling_layer=False))


def gpt2() -> nn.Module:
    _declare_operators()
    from transformers import GPT2Config, GPT2Model

    return Hidden(GPT2Model(GPT2Config()), use_cache=False)


NETWORKS: dict[str, Network] = {
    network.name: network
    for network in (
        Network("resnet50", vision("resnet50"), images(3, 224, 224)),
        Network("mobilenet_v2", vision("mobilenet_v2"), images(3, 224, 224)),
        Network("r3d_18", vision("r3d_18"), images(3, 16, 112, 112)),
        Network("dcgan", Generator, images(100, 1, 1)),
        Network("bert", bert, tokens(128, 30522)),
        Network("vit_b_16", vision("vit_b_16"), images(3, 224, 224)),
        Network("gpt2", gpt2, tokens(128, 50257)),
        Network("efficientnet_b0", vision("efficientnet_b0"), images(3, 224, 224)),
    )
}
FIVE = ("resnet50", "mobilenet_v2", "r3d_18", "dcgan", "bert")  # those of the goals


def main() -> None:
    for network in NETWORKS.values():
        count = sum(x.numel() for x in network.module().parameters())
        shapes = ", ".join(str(list(x.shape)) for x in network.example())
        print(f"{network.name:<18}{count / 1e6:8.1f} M parameters  {shapes}")


if __name__ == "__main__":
    main()
