"""Padded batches, and CUDA graphs of them, train a net as batches without padding do."""

import copy

import pytest

torch = pytest.importorskip("torch")

from rankwise.models.schema import Schema  # noqa: E402
from rankwise.wings.nets.capture import CapturedNet, padded_rows  # noqa: E402
from rankwise.wings.nets.model import NetModel  # noqa: E402
from rankwise.wings.nets.presets import NetSettings  # noqa: E402

GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
NETS = [
    NetSettings(hidden=(8, 4), dropout=0.0),
    NetSettings(hidden=(8, 4), dropout=0.0, batch_norm="all", batch_norm_momentum=0.3),
    NetSettings(hidden=(8,), dropout=0.0, members=3),
]


def stepped(forward, backward, net, batches):
    """Scores, gradients and buffers of a net after some passes."""
    scores = []
    for batch in batches:
        net.zero_grad()
        result = forward(batch)
        backward(result, torch.linspace(-1, 1, result.numel(), device=batch.device).reshape(result.shape))
        scores.append(result.detach().clone())
    return [*scores, *(one.grad.clone() for one in net.parameters()), *(one.clone() for one in net.buffers())]


def batches(*sizes, device="cpu"):
    chance = torch.Generator().manual_seed(3)
    return [torch.randn((size, 5), generator=chance).to(device) for size in sizes]


def test_batches_are_padded_by_less_than_an_eighth_to_few_sizes():
    sizes = [padded_rows(count) for count in range(64, 5000)]
    assert all(count <= size < count * 1.13 for count, size in zip(range(64, 5000), sizes, strict=True))
    assert len(set(sizes)) < 60


@pytest.mark.parametrize("settings", NETS)
def test_padding_has_no_part_in_scores_gradients_and_statistics(settings):
    torch.manual_seed(1)
    net = NetModel(Schema(5), settings).train()
    other = copy.deepcopy(net)
    captured = CapturedNet(net)
    found = stepped(captured, captured.backward, net, batches(70, 9, 69))
    expected = stepped(other.members_of, torch.autograd.backward, other, batches(70, 9, 69))
    for ours, theirs in zip(found, expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_statistics_of_padded_batches_are_in_single_precision_whatever_the_net_is_in():
    net = NetModel(Schema(5), NETS[1]).train()
    other = copy.deepcopy(net)
    with torch.autocast("cpu", torch.bfloat16):
        for batch in batches(70, 9):
            CapturedNet(net)(batch)
            other.members_of(batch)
    for ours, theirs in zip(net.buffers(), other.buffers(), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-2, atol=1e-3)  # layers between them are in bf16


@GPU
@pytest.mark.parametrize("settings", [*NETS, NetSettings(hidden=(8, 4), dropout=0.4, batch_norm="all")])
def test_a_graph_computes_what_its_layers_compute_one_by_one(settings, monkeypatch):
    torch.manual_seed(1)
    net = NetModel(Schema(5), settings).cuda().train()
    other, results = copy.deepcopy(net), []
    for which, graphs in ((net, 64), (other, 0)):
        monkeypatch.setattr("rankwise.wings.nets.capture._GRAPHS", graphs)
        torch.cuda.manual_seed(7)
        captured = CapturedNet(which)
        results.append(stepped(captured, captured.backward, which, batches(70, 9, 69, 71, device="cuda")))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)
