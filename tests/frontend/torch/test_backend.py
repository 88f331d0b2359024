"""`torch.compile(backend="ansor")`: results are torch's, whatever the program does."""
# ruff: noqa: E402  (torch may be missing)

import logging
import warnings
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata

import pytest

torch = pytest.importorskip("torch")

from torch import nn
from torch.nn import functional as F

from ansor import Database, Model
from ansor.codegen import runtime
from ansor.errors import ModelError
from ansor.frontend.torch import backend as module_under_test
from ansor.frontend.torch.backend import Followed, Region, backend
from ansor.frontend.torch.options import Options
from ansor.frontend.ways import MEMORY

pytestmark = [
    pytest.mark.llvm,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:torch"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.fixture
def regions(monkeypatch):
    """How many operators each compiled region has, as they are made."""
    found = []
    before = Followed._region

    def counted(self, graph, known, name):
        calls = [x for x in graph.nodes if x.op == "call_function"]
        found.append(len(calls))
        return before(self, graph, known, name)

    monkeypatch.setattr(Followed, "_region", counted)
    return found


def same(found, expected):
    flat = torch.utils._pytree.tree_leaves
    for a, b in zip(flat(found), flat(expected), strict=True):
        assert a.dtype == b.dtype
        assert a.shape == b.shape
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def check(function, *inputs, **options):
    """Compile, and compare two calls with torch."""
    fast = torch.compile(function, backend=backend, options=options or None)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        for _ in range(2):
            same(fast(*inputs), function(*inputs))
    return fast


def net():
    return nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64, 3),
    ).eval()


def test_network_is_one_region(regions):
    check(net(), torch.randn(1, 3, 4, 4))
    assert len(regions) == 1


def test_linear_layers_are_not_flattened(regions):
    layer = nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 2)).eval()
    check(layer, torch.randn(2, 3, 4))
    assert regions == [7]  # two of permute, matmul, add each, and gelu


def test_attention_with_a_mask():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    mask = torch.tensor([[False] * 4, [False, False, True, True]])

    def run(x, mask):
        return layer(x, src_key_padding_mask=mask)

    check(run, torch.randn(2, 4, 16), mask)


def test_embedding_and_types_that_mix(regions):
    table = nn.Embedding(9, 4)

    def mixed(tokens, mask):
        x = table(tokens) * mask
        return x.sum(1) / mask.sum(1), tokens + 1, (x > 0).any(-1)

    check(mixed, torch.randint(0, 9, (2, 5)), torch.ones(2, 5, 1, dtype=torch.bool))
    assert len(regions) == 1


def test_unsupported_call_in_the_middle_stays_in_torch(regions, caplog):
    def function(x):
        y = F.relu(x @ x.t()) + 1
        z = torch.linalg.inv(y + 9 * torch.eye(4))
        return (z * 2).exp(), y

    with caplog.at_level(logging.INFO, "ansor.torch"):
        check(function, torch.rand(4, 3))
    assert len(regions) == 2
    assert "stays in torch" in caplog.text


def test_recurrent_layers_run():
    check(nn.GRU(4, 6, batch_first=True).eval(), torch.randn(2, 3, 4))


def test_graph_breaks_are_fine():
    def function(x):
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    check(function, torch.randn(3))


def test_training_runs_in_torch_and_says_so(regions):
    layer = nn.Linear(4, 2)
    fast = torch.compile(layer, backend=backend)
    x = torch.randn(3, 4)
    with pytest.warns(UserWarning, match=r"gradients are needed.*no_grad"):
        fast(x).sum().backward()
    expected = torch.autograd.grad(layer(x).sum(), layer.weight)
    assert torch.allclose(layer.weight.grad, expected[0])
    assert regions == []


@pytest.mark.filterwarnings("ignore:.*gradients are needed")
def test_training_and_inference_in_turn(regions):
    layer = nn.Linear(4, 2)
    fast = torch.compile(layer, backend=backend)
    x = torch.randn(3, 4)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.5)
    for _ in range(4):
        fast(x).square().sum().backward()
        optimiser.step()
        with torch.no_grad():
            same(fast(x), layer(x))
    assert len(regions) == 4  # with constants, again twice, then without


@pytest.mark.filterwarnings("ignore:.*gradients are needed")
def test_inputs_that_require_gradients_run_without_them():
    x = torch.randn(3, requires_grad=True)
    check(lambda x: x * 2 + 1, x)
    fast = torch.compile(lambda x: (x * 3).sum(), backend=backend)
    fast(x).backward()
    assert torch.equal(x.grad, torch.full((3,), 3.0))


def test_parameters_that_change_are_seen():
    layer = nn.Linear(4, 2)
    fast = check(layer, torch.randn(3, 4))
    x = torch.randn(3, 4)
    with torch.no_grad():
        for _ in range(4):
            layer.weight.mul_(2)
            same(fast(x), layer(x))
        layer.weight.data = torch.randn(2, 4)
        same(fast(x), layer(x))


def test_parameters_may_be_inputs():
    layer = nn.Linear(4, 2)
    fast = check(layer, torch.randn(3, 4), freeze=False)
    x = torch.randn(3, 4)
    with torch.no_grad():
        layer.weight.data.mul_(2)
        same(fast(x), layer(x))


def test_changes_in_place():
    def function(x, y):
        x.add_(y)
        y[:, 0] = 5
        z = x * 2
        z.relu_()
        return z

    fast = torch.compile(function, backend=backend)
    a, b = torch.randn(3, 4), torch.randn(3, 4)
    c, d = a.clone(), b.clone()
    same(fast(a, b), function(c, d))
    same((a, b), (c, d))


def test_buffers_that_change():
    norm = nn.BatchNorm1d(4)  # in training: statistics move
    other = nn.BatchNorm1d(4)
    x = torch.randn(5, 4)
    fast = torch.compile(norm, backend=backend)
    with torch.no_grad():
        for _ in range(2):
            same(fast(x), other(x))
    same(dict(norm.named_buffers()), dict(other.named_buffers()))


def test_shapes_may_differ(regions):
    fast = torch.compile(lambda x: F.softmax(x * 2, -1), backend=backend)
    with torch.no_grad():
        for rows in (2, 3, 4, 3, 2):
            x = torch.randn(rows, 5)
            same(fast(x), F.softmax(x * 2, -1))
    assert 3 <= len(regions) <= 4


def test_too_many_shapes_run_in_torch(monkeypatch, regions):
    monkeypatch.setattr(module_under_test, "SHAPES", 2)
    fast = torch.compile(lambda x: x * 2 + 1, backend=backend, dynamic=True)

    def run():
        for rows in (2, 3, 4, 5, 4):
            x = torch.randn(rows, 5)
            same(fast(x), x * 2 + 1)

    with pytest.warns(UserWarning, match="more than 2 shapes") as warned:
        run()
    assert len(warned) == 1
    assert len(regions) == 2


def test_numbers_that_change(regions):
    """Dynamo makes inputs of them, and of what is computed from them."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        fast = torch.compile(lambda x, s: (x * s + 1) ** 2, backend=backend)
        for scale in (1.0, 2.5, 3, 0.25, 7.5):
            x = torch.randn(3)
            same(fast(x, scale), (x * scale + 1) ** 2)
    assert len(regions) <= 5


def test_numbers_that_are_looked_at():
    def function(x, times):
        for _ in range(times):
            x = torch.tanh(x) * 1.5
        return x + int(x.sum().item())

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        fast = torch.compile(function, backend=backend)
        for times in (1, 2, 3):
            x = torch.randn(5)
            same(fast(x, times), function(x, times))


def test_threads_may_call_at_once():
    layer = net()
    fast = torch.compile(layer, backend=backend)

    def work(seed):
        generator = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            for rows in (1, 2, 3, 1, 2, 3):
                x = torch.randn(rows, 3, 4, 4, generator=generator)
                same(fast(x), layer(x))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(8)))


VIEWS = {
    "turned": lambda x: x.t(),
    "part": lambda x: x[1:, ::2],
    "wide": lambda x: x[:, :1].expand(3, 7),
    "turned result": lambda x: (x + 1).t(),
    "part of a result": lambda x: (x + 1)[:, 1:],
    "wide result": lambda x: (x + 1)[:, :1].expand(3, 7),
    "input": lambda x: (x, x + 1),
    "nothing new": lambda x: x.reshape(12),
    "both": lambda x: (x.t(), x.t() * 2),
    "two of one": lambda x: [(y := x + 1).view(12), y, y.t()],
    "views of one": lambda x: [(y := x + 1)[1:], y[:, 1:]],
}


@pytest.mark.parametrize("name", VIEWS)
def test_views(name):
    function = VIEWS[name]
    x = torch.randn(3, 4)
    check(function, x)
    fast = torch.compile(function, backend=backend)
    found, expected = fast(x), function(x)
    flat = torch.utils._pytree.tree_leaves
    for a, b in zip(flat(found), flat(expected), strict=True):
        assert a.stride() == b.stride()
        assert (a.data_ptr() == x.data_ptr()) == (b.data_ptr() == x.data_ptr())
    assert shared(flat(found)) == shared(flat(expected))


def shared(tensors):
    """Which of them lie in the memory of which other."""
    places = [x.untyped_storage().data_ptr() for x in tensors]
    return [places.index(place) for place in places]


def test_layouts_of_inputs():
    layer = nn.Conv2d(3, 4, 3).eval()
    x = torch.randn(1, 3, 6, 6)
    for laid in (x, x.to(memory_format=torch.channels_last), x[:, :, ::2], x.mT):
        check(layer, laid)


def test_constants_alone():
    check(lambda x: (torch.arange(3) + torch.ones(3), x), torch.randn(2))


def test_options_are_checked():
    with pytest.raises(ModelError, match="option 'second': is unknown"):
        Options.read({"second": 3})
    with pytest.raises(ModelError, match="wrong type"):
        Options.read({"seconds": "3"})
    with pytest.raises(ModelError, match="wrong type"):
        Options.read({"trials": True})
    for name in ("seconds", "trials"):
        with pytest.raises(ModelError, match="not above 0"):
            Options.read({name: -1})


def test_budgets_mean_tuning():
    assert not Options.read(None).wants_tuning
    assert not Options.read({"database": "x.db"}).wants_tuning
    assert Options.read({"trials": 3}).wants_tuning
    assert not Options.read({"trials": 3, "tune": False}).wants_tuning
    assert Options.read({"tune": True}).budget == (60.0, None)
    assert Options.read({"trials": 3}).budget == (None, 3)


def test_database_that_is_not_there_means_untuned(tmp_path):
    fast = torch.compile(
        lambda x: x + 1, backend=backend, options={"database": str(tmp_path / "t.db")}
    )
    with pytest.warns(UserWarning, match="there is no database"):
        same(fast(torch.zeros(3)), torch.ones(3))


def test_tuning_uses_the_budget(monkeypatch, tmp_path):
    asked = {}

    def tune(self, **given):
        asked.update(given)
        Database(given["database"]).close()

    monkeypatch.setattr(Model, "tune", tune)
    place = str(tmp_path / "t.db")
    check(lambda x: x + 1, torch.randn(3), seconds=2, database=place)
    usual = {"seconds": 2, "trials": None, "database": place, "memory": MEMORY}
    assert asked == usual


def test_failure_runs_in_torch_with_one_warning(monkeypatch):
    def broken(self, *tensors):
        raise RuntimeError("no such luck")

    monkeypatch.setattr(module_under_test, "lower", broken)
    fast = torch.compile(lambda x: x * 2 + 1, backend=backend)
    x = torch.randn(3)
    with pytest.warns(UserWarning, match="runs in torch instead: no such luck"):
        same(fast(x), x * 2 + 1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        same(fast(x), x * 2 + 1)


def test_region_takes_tensors_without_copies(monkeypatch):
    taken = []
    before = Region.__call__

    def watched(self, *tensors):
        taken.extend(x.data_ptr() for x in tensors)
        return before(self, *tensors)

    monkeypatch.setattr(Region, "__call__", watched)
    x = torch.randn(3)
    check(lambda x: x + 1, x)
    assert set(taken) == {x.data_ptr()}


def test_threads_are_those_of_torch():
    before = torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            torch._dynamo.reset()
            check(lambda x: x * 3, torch.randn(2))
            assert runtime.threads() == count
    finally:
        torch.set_num_threads(before)


def test_entry_point_is_declared():
    found = metadata.entry_points(group="torch_dynamo_backends", name="ansor")
    if not found:
        pytest.skip("the package is not installed")
    (entry,) = found
    assert entry.load() is backend
