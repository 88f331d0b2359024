"""Whole modules through `torch.export`: the graph's values are those of torch."""
# ruff: noqa: E402  (torch may be missing)

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn import functional as F

import ansor
from ansor.errors import ModelError, UnsupportedError
from ansor.frontend.interpret import interpret
from ansor.frontend.torch.program import graph_of
from ansor.frontend.torch.values import inverse, memory_order, to_array, to_tensor


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def check(module, *inputs, atol=1e-5):
    module = module.eval()
    graph = graph_of(module, inputs)
    graph.check()
    with torch.no_grad():
        expected = torch.utils._pytree.tree_leaves(module(*inputs))
    found = interpret(graph, [to_array(x) for x in inputs])
    assert len(found) == len(expected)
    for array, tensor in zip(found, expected, strict=True):
        np.testing.assert_allclose(array, to_array(tensor), rtol=1e-4, atol=atol)
    return graph


class Function(nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def convolutions():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, groups=8),
        nn.Hardswish(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8, 5),
        nn.Softmax(-1),
    )


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(4, 4, 3, padding=1)
        self.second = nn.Conv2d(4, 4, 1)

    def forward(self, x):
        return F.relu(x + self.second(F.silu(self.first(x))))


class Words(nn.Module):
    """An encoder of a transformer that takes tokens and a mask."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(11, 16)
        self.places = nn.Parameter(torch.randn(6, 16))
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.norm = nn.LayerNorm(16)

    def forward(self, tokens, mask):
        x = self.words(tokens) + self.places[: tokens.shape[1]]
        x = self.layer(x, src_key_padding_mask=mask)
        return self.norm(x), x.mean(1)


MODULES = {
    "convolutions": (convolutions(), (torch.randn(2, 3, 12, 12),)),
    "residual": (Residual(), (torch.randn(1, 4, 6, 6),)),
    "perceptron": (
        nn.Sequential(nn.Linear(7, 9), nn.GELU(), nn.Linear(9, 3), nn.LogSoftmax(1)),
        (torch.randn(4, 7),),
    ),
    "words": (
        Words(),
        (torch.randint(0, 11, (2, 5)), torch.arange(10).reshape(2, 5) % 5 > 3),
    ),
    "up": (
        nn.Sequential(nn.ConvTranspose2d(4, 2, 4, 2, 1), nn.Upsample(scale_factor=2)),
        (torch.randn(1, 4, 3, 3),),
    ),
    "pools": (
        nn.Sequential(nn.AvgPool1d(3, 2, 1), nn.AdaptiveAvgPool1d(4), nn.MaxPool1d(2)),
        (torch.randn(2, 3, 20),),
    ),
    "bilinear": (
        nn.Upsample(scale_factor=1.5, mode="bilinear"),
        (torch.randn(1, 2, 4, 6),),
    ),
    "group": (
        nn.Sequential(nn.Conv1d(4, 6, 3), nn.GroupNorm(2, 6), nn.ELU()),
        (torch.randn(2, 4, 9),),
    ),
    "recurrent": (nn.GRU(4, 6, batch_first=True), (torch.randn(2, 3, 4),)),
    "shuffle": (nn.PixelShuffle(2), (torch.randn(1, 8, 3, 3),)),
}


@pytest.mark.parametrize("name", MODULES)
def test_module_gives_what_torch_gives(name):
    module, inputs = MODULES[name]
    check(module, *inputs)


def test_linear_layers_stay_whole():
    graph = check(nn.Linear(4, 3), torch.randn(2, 5, 4))
    assert [node.op for node in graph.nodes] == ["matmul", "add"]


def test_batch_norm_is_a_product_and_a_sum():
    graph = check(nn.BatchNorm2d(3), torch.randn(2, 3, 4, 4))
    assert [node.op for node in graph.nodes] == ["multiply", "add"]


def test_attention_stays_whole():
    def attend(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    graph = check(Function(attend), *(torch.randn(2, 2, 5, 8) for _ in range(3)))
    ops = [node.op for node in graph.nodes]
    assert ops == ["transpose", "matmul", "multiply", "where", "softmax", "matmul"]


def test_parameters_are_constants_over_the_same_memory():
    module = nn.Linear(4, 3)
    graph = graph_of(module, (torch.randn(2, 4),))
    arrays = graph.constants.values()
    assert any(np.shares_memory(x, to_array(module.weight)) for x in arrays)
    assert [x.name for x in graph.inputs] == ["input"]


def test_nested_outputs_are_listed_in_order():
    def nested(x, y):
        return {"a": x + y, "b": [x * y, (x - y,)]}

    check(Function(nested), torch.randn(3), torch.randn(3))


def test_input_that_is_given_back():
    check(Function(lambda x, y: (x, x + y, x)), torch.randn(3), torch.randn(3))


def test_halves_stay_halves():
    module = nn.Linear(8, 4).to(torch.bfloat16).eval()
    x = torch.randn(2, 8).to(torch.bfloat16)
    graph = graph_of(module, (x,))
    (found,) = interpret(graph, [to_array(x)])
    expected = module(x).detach().float().numpy()
    np.testing.assert_allclose(found.astype(np.float32), expected, atol=2e-2)
    assert graph.outputs[0].dtype == "bfloat16"


def test_exported_programs_are_taken_as_they_are():
    program = torch.export.export(nn.Linear(4, 3), (torch.randn(2, 4),))
    assert str(graph_of(program).outputs[0]) == "%add: float32[2, 3]"


def test_unsupported_operators_are_named():
    with pytest.raises(UnsupportedError, match=r"aten\.nonzero\.default"):
        graph_of(Function(lambda x: torch.nonzero(x).sum()), (torch.randn(3),))


def test_modules_that_change_themselves_are_refused():
    module = nn.BatchNorm1d(4).train()
    with pytest.raises(UnsupportedError, match="call eval"):
        graph_of(module, (torch.randn(2, 4),))


def test_modules_that_cannot_be_exported_are_refused():
    def uncertain(x):
        return x + 1 if x.sum() > 0 else x - 1

    with pytest.raises(ModelError, match="export of Function"):
        graph_of(Function(uncertain), (torch.randn(3),))


@pytest.mark.llvm
def test_from_torch_compiles():
    module = convolutions().eval()
    x = torch.randn(1, 3, 12, 12)
    model = ansor.from_torch(module, (x,))
    (found,) = model.compile(workers=0)(x.numpy())
    np.testing.assert_allclose(found, module(x).detach().numpy(), rtol=1e-4, atol=1e-5)


# -- tensors and arrays ----------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.bool])
def test_tensors_and_arrays_share_memory(dtype):
    tensor = torch.randn(3, 4).to(dtype)
    array = to_array(tensor)
    back = to_tensor(array)
    assert back.data_ptr() == tensor.data_ptr()
    assert back.dtype == dtype
    assert torch.equal(back, tensor)


def test_memory_order_is_that_of_strides():
    x = torch.randn(2, 3, 4, 5)
    assert memory_order(x) == (0, 1, 2, 3)
    assert memory_order(x.to(memory_format=torch.channels_last)) == (0, 2, 3, 1)
    assert memory_order(x.permute(3, 0, 2, 1)) == (1, 3, 2, 0)
    assert memory_order(x[:, ::2]) is None
    assert memory_order(x[:1].expand(2, 3, 4, 5)) is None
    turned = x.permute(3, 0, 2, 1)
    assert turned.permute(memory_order(turned)).is_contiguous()
    assert inverse((2, 0, 1)) == (1, 2, 0)
