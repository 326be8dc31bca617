"""Nets on a device: nobody waits for it within an epoch, features are there or on their way, and it measures itself.

Without a GPU the CPU stands for one: device kernels run in Triton's interpreter, and buffers are copied one by one.
"""

from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import rankwise as rw
from rankwise.models.torch.state import seed_torch
from rankwise.models.torch.weights import Averages
from rankwise.objectives import prepared
from rankwise.wings.nets import inputs
from rankwise.wings.nets.inputs import Streaming
from rankwise.wings.nets.model import optimizer
from rankwise.wings.nets.presets import OPTIMIZERS, NetSettings
from tests.rankers.training.learners import learner_of
from tests.refusals import refuses

pytest.importorskip("triton", reason="device kernels are written in Triton, which is made for Linux alone")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
NET: dict[str, Any] = {"hidden": (8,), "epochs": 3, "batch_queries": 7, "threads": 1, "device": "cpu"}


@pytest.fixture(autouse=True)
def masked_lanes():
    with np.errstate(all="ignore"):
        yield


@pytest.fixture(scope="module")
def parts() -> tuple[rw.RankingDataset, ...]:
    return rw.split(rw.synthetic(n_queries=40, n_docs=12, seed=3), (0.7, 0.3), seed=1)


@pytest.fixture
def as_device(monkeypatch):
    """Return settings of a net on a device in whose memory so many numbers have room; the CPU stands for one."""

    def pretend(room):
        monkeypatch.setattr(prepared, "KERNEL_DEVICES", {DEVICE})
        monkeypatch.setattr(inputs, "STREAMING_DEVICES", {DEVICE})
        monkeypatch.setattr(inputs, "room", lambda device: room)
        return {"device": DEVICE}

    return pretend


class Waits(TorchDispatchMode):
    """Counts operations whose result, or its size, the host has to know before it can go on."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        name, given = function.name().partition(".")[0], dict(kwargs or {})
        by_mask = name == "aten::index" and any(
            isinstance(one, torch.Tensor) and one.dtype == torch.bool for one in tree_leaves(args[1])
        )
        unknown = name == "aten::repeat_interleave" and given.get("output_size") is None
        if by_mask or unknown or name in ("aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select"):
            self.found.append(name)
        return function(*args, **given)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"members": 3},
        {"attention": 2, "transform": "quantile+query"},
        {"batch_norm": "all", "precision": "bf16", "objective": "stochastic(lambdarank, samples=2)"},
    ],
)
def test_no_step_waits_for_the_device(parts, settings, monkeypatch):
    """Neither with features on the device, nor with those that are copied there; sums are read once, as a list."""
    monkeypatch.setattr(inputs, "STREAMING_DEVICES", {"cpu"})
    for room in (0, 10**9):
        monkeypatch.setattr(inputs, "room", lambda device, room=room: room)
        # Adam and AdaGrad look at the number of their steps, which on a CPU is a tensor.
        learner = learner_of(rw.NeuralRanker(**NET | settings | {"optimizer": "sgd"}), parts[0])
        with Waits() as waits:
            learner.round(parts[0].stream(0).at(0))
        assert waits.found == []


def test_no_step_of_a_factorization_waits_either():
    ratings = rw.recommend.synthetic_ratings(n_users=30, n_items=40, n_ratings=10, seed=1)
    ranker = rw.recommend.FactorizationRanker(
        "softmax_ce", optimizer="sgd", factors=4, batch_users=8, threads=1, device="cpu"
    )
    lists = ratings.dataset(2, seed=1)
    learner = learner_of(ranker, lists)
    with Waits() as waits:
        learner.round(lists.stream(0).at(0))
    assert waits.found == []


@pytest.mark.parametrize("settings", [{}, {"transform": "quantile+query", "feature_noise": 0.1}, {"attention": 2}])
def test_a_model_is_the_same_wherever_its_features_are(parts, settings, as_device, monkeypatch):
    train, valid = parts
    plain = rw.NeuralRanker(**NET | settings).fit(train, valid)
    monkeypatch.setattr(inputs, "STREAMING_DEVICES", {"cpu"})
    for room in (0, train.n_docs * train.n_features, 10**9):  # nothing on the device, the training data, all
        monkeypatch.setattr(inputs, "room", lambda device, room=room: room)
        found = rw.NeuralRanker(**NET | settings).fit(train, valid)
        assert found.history_ == plain.history_
        np.testing.assert_array_equal(found.predict(valid), plain.predict(valid))


def test_features_are_copied_while_the_batch_before_is_computed(parts, monkeypatch):
    told = []

    def telling(word, function):
        def called(*given):
            told.append(word)
            return function(*given)

        return called

    monkeypatch.setattr(Streaming, "begin", telling("copy", Streaming.begin))
    monkeypatch.setattr(torch.optim.SGD, "step", telling("step", torch.optim.SGD.step))
    monkeypatch.setattr(inputs, "STREAMING_DEVICES", {"cpu"})
    monkeypatch.setattr(inputs, "room", lambda device: 0)
    rw.NeuralRanker(**NET | {"epochs": 1, "optimizer": "sgd"}).fit(parts[0])
    assert told == ["copy", "step"] * 4


def test_rows_of_any_matrix_are_brought_by_two_buffers(tmp_path):
    import scipy.sparse

    plain = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
    np.save(tmp_path / "features.npy", plain)
    mapped = np.load(tmp_path / "features.npy", mmap_mode="r")
    for features in (
        plain,
        rw.RankingDataset(plain, np.zeros(50), [0, 50]).features,
        mapped,
        scipy.sparse.csr_array(plain),
    ):
        streaming = Streaming(features, torch.device("cpu"))
        for rows in (slice(3, 9), np.array([7, 7, 0]), slice(0, 50), np.arange(49, 0, -3)):
            first, second = streaming.begin(rows), streaming.begin(slice(10, 20))
            np.testing.assert_array_equal(streaming.arrived(first), plain[rows])
            np.testing.assert_array_equal(streaming.arrived(second), plain[10:20])
        assert len({streaming.begin(slice(0, 2)).rows.data_ptr() for _ in range(6)}) == 2


def test_half_of_what_is_free_on_a_device_is_left_to_others(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (8_000, 10_000))
    assert inputs.room(torch.device("cuda", 0)) * 4 == 4_000


@pytest.mark.parametrize(
    "settings", [{"objective": "approx_ndcg"}, {"objective": "softmax_ce", "precision": "bf16", "members": 2}]
)
def test_a_net_is_trained_and_measured_by_device_kernels(parts, settings, as_device):
    train, valid = parts
    chosen = NET | settings | {"dropout": 0.0, "epochs": 2, "metrics": ("ndcg@10", "ap@5")}  # a GPU draws other masks
    here = rw.NeuralRanker(**chosen).fit(train, valid)
    chosen |= as_device(room=0)
    there = rw.NeuralRanker(**chosen).fit(train, valid)
    coarse = DEVICE == "cuda" and "precision" in settings  # the GPU and the CPU round half precision in other places
    np.testing.assert_allclose(there.history_["loss"], here.history_["loss"], rtol=0.02 if coarse else 1e-5)
    np.testing.assert_allclose(there.predict(valid), here.predict(valid), atol=0.05 if coarse else 1e-3)
    again = rw.NeuralRanker(**chosen).fit(train, valid)
    assert again.history_ == there.history_
    found = rw.evaluate(there, valid, ["ndcg@10", "ap@5"]).mean
    assert found == {name: there.history_[name][there.best_round_ - 1] for name in found}


def test_a_bag_of_nets_on_a_device_collects_scores(parts, as_device):
    settings = NET | {"dropout": 0.0, "epochs": 1, "batch_queries": 99}
    here = rw.bagged(rw.NeuralRanker(**settings), folds=2).fit(parts[1])
    settings |= as_device(room=10**9)
    there = rw.bagged(rw.NeuralRanker(**settings), folds=2).fit(parts[1])
    np.testing.assert_allclose(there.history_["ndcg@10"], here.history_["ndcg@10"], atol=1e-3)


def test_a_net_that_diverges_on_a_device_says_so(parts, as_device):
    net = rw.NeuralRanker(**NET | as_device(room=10**9) | {"learning_rate": 1e30, "optimizer": "sgd", "hidden": (8, 8)})
    refuses(lambda: net.fit(parts[0]), what="scores must be finite", got="a loss of nan", hint="…learning rate…")


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_are_fused_on_a_gpu_where_torch_has_that(name):
    parameters = [torch.nn.Parameter(torch.ones(3))]
    there, here = (
        optimizer(NetSettings(optimizer=name), torch.device(device))(parameters) for device in ("cuda", "cpu")
    )
    assert bool(there.defaults.get("fused")) == (name != "adagrad")
    assert not here.defaults.get("fused")


def test_generators_of_gpus_that_are_not_trained_on_are_left_alone(parts, monkeypatch):
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: pytest.fail("seeded"))
    rw.NeuralRanker(**NET).fit(*parts)


def test_seeding_and_averaging_on_a_device_are_those_of_torch():
    with torch.random.fork_rng():
        torch.manual_seed(2**40 + 5)
        expected = torch.rand(3)
        seed_torch(torch.device("cpu"), 2**40 + 5)
        assert torch.equal(torch.rand(3), expected)
        net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Linear(4, 1))
        averages, by_hand = Averages(net, 0.7), [one.detach().clone() for one in net.parameters()]
        for steps in (1, 2, 3):
            for own, one in zip(by_hand, net.parameters(), strict=True):
                one.data += torch.randn_like(one)
                own.lerp_(one.detach(), (1 - 0.7) / (1 - 0.7**steps))
            averages.step()
        assert all(torch.equal(*pair) for pair in zip(averages.weights.values(), by_hand, strict=True))
