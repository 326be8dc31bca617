"""Members of a net are nets of their own, with the weights that the shared matrices and their vectors make."""

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

import rankwise as rw
from rankwise.models.schema import Schema
from rankwise.wings.nets.model import NetModel
from rankwise.wings.nets.presets import NetSettings
from tests.rankers.test_contract import losses, same
from tests.rankers.training.learners import learner_of
from tests.refusals import refusal, refuses
from tests.wings.nets.test_neural import ranker


def alone(net: Any, member: int, settings: NetSettings) -> Any:
    """A plain net with the effective weights of one member."""
    plain: Any = NetModel(Schema(12), settings)
    plain.transform.load_state_dict(net.transform.state_dict())
    with torch.no_grad():
        for ours, theirs in zip(plain.body[:-1], net.body[:-1], strict=True):
            if hasattr(theirs, "before"):
                ours.weight.copy_(theirs.after[member][:, None] * theirs.weight * theirs.before[member])
                ours.bias.copy_(theirs.bias[member])
        plain.body[-1].weight.copy_(net.body[-1].weight[member][None])
    return plain.eval()


@pytest.mark.parametrize("objective", ["softmax_ce", "stochastic(approx_ndcg)"])
def test_members_are_nets_of_their_own_weights(objective, data):
    model = ranker(objective, hidden=(16, 8), members=5, epochs=3, transform=NetSettings().transform).fit(data)
    features = torch.tensor(data.features)
    with torch.no_grad():
        found = model.model_.members(features)
        apart = [alone(model.model_, member, NetSettings(hidden=(16, 8), dropout=0.0))(features) for member in range(5)]
        assert torch.allclose(found, torch.stack(apart, dim=1), atol=1e-5)
        assert torch.allclose(model.model_(features), torch.stack(apart).mean(0), atol=1e-5)
    assert not torch.allclose(found[:, 0], found[:, 1], atol=1e-2)
    assert np.allclose(model.predict(data), model.model_.score(data.features))


def test_a_step_lowers_the_mean_of_the_members_losses(data):
    """One step of gradient descent, against autograd on the mean of the losses of the members as single nets."""
    weights = np.where(np.arange(data.n_queries) % 3 == 0, 2.5, 1.0)
    lists = data.with_(weights=weights)
    settings: Any = {"members": 3, "optimizer": "sgd", "batch_queries": 999, "epochs": 1}
    start, after = (ranker(learning_rate=rate, **settings).fit(lists) for rate in (1e-30, 0.05))
    net: Any = start.model_.train()
    net.zero_grad()
    loss = rw.torch_loss("softmax_ce")
    scores = net.members(torch.tensor(data.features))
    total = sum(loss(one, data.labels, data.offsets, weights=weights) for one in scores.T) / 3
    total.backward()
    assert start.history_["loss"][0] == pytest.approx(float(total.detach()), rel=1e-5)
    for (name, before), now in zip(net.named_parameters(), after.model_.parameters(), strict=True):
        assert torch.allclose(now, before - 0.05 * before.grad, atol=1e-6), name


@pytest.mark.parametrize(
    "objective", ["lambdarank", "bounded(approx_ndcg)", "plrank", "stochastic(xendcg) + 0.1*ranknet"]
)
def test_members_learn_with_any_objective(objective, data):
    model = ranker(objective, members=3).fit(data)
    before, after = losses(objective, data, model.predict(data))
    assert after < before


def test_members_are_saved_cloned_bagged_and_explained(data, valid, tmp_path):
    model = ranker(members=4, epochs=3, dropout=0.2, averaging=0.9).fit(data, valid)
    assert same(rw.load(model.save(tmp_path / "model")), model, valid)
    assert same(clone(model).fit(data, valid), model, valid)
    assert np.allclose(model.explain(valid).sum(axis=1), model.predict(valid))
    assert np.allclose(model.scorer()(valid.features), model.predict(valid), atol=1e-6)
    bag = rw.bagged(ranker(members=4, epochs=2), folds=2).fit(data)
    assert same(rw.load(bag.save(tmp_path / "bag")), bag, valid)


def test_the_preset_is_what_the_code_of_the_paper_starts_from(data):
    learner: Any = learner_of(rw.NeuralRanker(preset="tabm", threads=1, device="cpu"), data)
    shapes = [tuple(layer.weight.shape) for layer in learner.module.body if hasattr(layer, "weight")]
    assert shapes == [(512, 12), (512, 512), (512, 512), (32, 512)]
    made = learner.optimizer(learner.module.parameters())
    assert (type(made).__name__, made.defaults["lr"], made.defaults["weight_decay"]) == ("AdamW", 0.002, 0.0003)
    assert learner.module.transform.quantiles is not None


def test_what_members_cannot_be(data):
    with refusal(what="members of a net share its hidden layers…", got="members=2, hidden=(16,) and batch…"):
        ranker(members=2, batch_norm=True).fit(data)
    with refusal(got="members=2, hidden=() and batch_norm='off'", hint="set hidden=(64,)…"):
        ranker(members=2, hidden=()).fit(data)
    refuses(lambda: ranker(members=0).fit(data), what="members must be a whole number of at least 1", got="0")
    older = ranker(members=2, epochs=1).fit(data)
    refuses(lambda: ranker(epochs=1).fit(data, init_model=older), what="init_model must be a net of the same layers")
