"""Two passes give the loss and the gradient of the full graph, whatever the model draws, casts or checkpoints."""

import contextlib
import copy

import pytest
import torch

import rankwise as rw
from rankwise.wings.rerank import passes
from rankwise.wings.rerank.batches import MiniBatchSize, mini_batches
from tests.refusals import refusal
from tests.wings.rerank.texts import RandomLists, gradients

OBJECTIVES = ("lambdarank", "listnet", "0.5*approx_ndcg + 0.5*softmax_ce", "stochastic(xendcg, samples=4)")


def both_ways(model, score, encoded, objective, **size):
    """Loss and gradients by two passes, and those of the whole graph over the same mini-batches."""
    features, lists = encoded
    found = []
    for whole in (False, True):
        other = copy.deepcopy(model).train()
        torch.manual_seed(3)
        if whole:
            batches = mini_batches(features, len(lists.pairs), MiniBatchSize(**size))
            scores = batches.unsorted(torch.cat([score(other, batch) for batch in batches]).float())
            value = rw.torch_loss(objective, seed=7)(scores, lists.flat_labels, lists.offsets)
        else:
            loss = rw.rerank.Loss(objective, seed=7, **size)
            value = loss.of(lambda batch, model=other: score(model, batch), features, lists.flat_labels, lists.offsets)
        after = torch.rand(1)  # random numbers go on in step
        value.backward()
        found.append((value.item(), gradients(other), after, torch.rand(1)))
    return found


def same(found, tolerance=1e-5):
    (value, gradient, after, behind), (whole_value, whole_gradient, whole_after, whole_behind) = found
    assert whole_gradient.abs().max() > 1e-3
    assert value == pytest.approx(whole_value, abs=tolerance)
    torch.testing.assert_close(gradient, whole_gradient, atol=tolerance, rtol=tolerance)
    assert after == whole_after
    assert behind == whole_behind


def classifier(cross_encoder):
    return cross_encoder[0].model


def scored(model, batch):
    return model(**batch).logits[:, 0]


@pytest.fixture
def encoded(cross_encoder):
    lists = RandomLists()
    return cross_encoder.tokenizer(lists.pairs, padding=True, truncation=True, return_tensors="pt"), lists


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("size", [{"token_budget": 90}, {"mini_batch_size": 4}, {}])
def test_gradients_are_those_of_the_full_graph_with_dropout_on(cross_encoder, encoded, objective, size):
    same(both_ways(classifier(cross_encoder), scored, encoded, objective, **size))


def test_without_the_random_state_gradients_differ(cross_encoder, encoded, monkeypatch):
    """The test above would fail if masks were drawn anew."""
    monkeypatch.setattr(passes, "rng_restored", lambda _: contextlib.nullcontext())
    found = both_ways(classifier(cross_encoder), scored, encoded, "lambdarank", mini_batch_size=4)
    assert (found[0][1] - found[1][1]).abs().max() > 1e-2


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")  # torch, of the first pass
@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing_changes_nothing(cross_encoder, encoded, reentrant):
    model = classifier(cross_encoder)
    plain = both_ways(model, scored, encoded, "lambdarank", mini_batch_size=8)
    model.gradient_checkpointing_enable({"use_reentrant": reentrant})
    if reentrant:
        model.enable_input_require_grads()
    found = both_ways(model, scored, encoded, "lambdarank", mini_batch_size=8)
    same(found)
    torch.testing.assert_close(found[0][1], plain[0][1], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("inside", [False, True], ids=["backward outside", "backward inside"])
def test_the_second_pass_has_the_precision_of_the_first(cross_encoder, encoded, inside):
    """Autocast ends before ``backward()``, and casts of the first pass have no graph."""
    features, lists = encoded
    found = []
    for whole in (False, True):
        model = copy.deepcopy(classifier(cross_encoder)).train()
        torch.manual_seed(3)
        with torch.autocast("cpu", torch.bfloat16):
            if whole:
                batches = mini_batches(features, len(lists.pairs), MiniBatchSize(mini_batch_size=4))
                scores = torch.cat([scored(model, batch) for batch in batches])
                assert scores.dtype == torch.bfloat16
                value = rw.torch_loss("listnet")(batches.unsorted(scores).float(), lists.flat_labels, lists.offsets)
            else:
                loss = rw.rerank.Loss("listnet", mini_batch_size=4)
                value = loss.of(lambda batch, model=model: scored(model, batch), *_all(encoded))
                assert value.dtype == torch.float32
            if inside:
                value.backward()
        if not inside:
            value.backward()
        found.append((value.item(), gradients(model)))
    assert found[0][0] == pytest.approx(found[1][0], abs=1e-6)
    assert found[1][1].abs().max() > 1e-2
    difference = (found[0][1] - found[1][1]).norm() / found[1][1].norm()
    assert difference < 0.02  # bf16 adds up in another order


def _all(encoded):
    features, lists = encoded
    return features, lists.flat_labels, lists.offsets


def test_the_value_may_be_scaled_added_and_accumulated_before_backward(cross_encoder, encoded):
    model = classifier(cross_encoder).eval()
    loss = rw.rerank.Loss("lambdarank", mini_batch_size=4)

    def value():
        return loss.of(lambda batch: scored(model, batch), *_all(encoded))

    value().backward()
    once = gradients(model)
    model.zero_grad()
    first, second = value(), value()  # two steps before the first backward pass
    (first / 4).backward()
    (second * 0.75).backward()
    torch.testing.assert_close(gradients(model), once, atol=1e-6, rtol=1e-5)
    model.zero_grad()
    (0.5 * value() + 0.5 * value()).backward()
    torch.testing.assert_close(gradients(model), once, atol=1e-6, rtol=1e-5)
    with torch.no_grad():
        assert not value().requires_grad


def test_a_compiled_model_has_the_same_gradient(cross_encoder, encoded):
    """Slow: torch imports its compiler."""
    model = classifier(cross_encoder).eval()
    compiled = torch.compile(model, backend="eager", dynamic=True)
    loss = rw.rerank.Loss("lambdarank", mini_batch_size=8)
    found = []
    for one in (model, compiled):
        model.zero_grad()
        loss.of(lambda batch, one=one: one(**batch), *_all(encoded), model=one).backward()
        found.append(gradients(model))
    torch.testing.assert_close(*found, atol=1e-5, rtol=1e-5)


class SavedBytes:
    """How many bytes of activations a graph holds, at its largest; what is freed counts no longer."""

    def __init__(self):
        self.now = self.most = 0
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, lambda saved: saved.tensor)

    def pack(self, tensor):
        return _Saved(tensor.detach(), self)


class _Saved:
    def __init__(self, tensor, count):
        self.tensor, self.count, self.size = tensor, count, tensor.numel() * tensor.element_size()
        count.now += self.size
        count.most = max(count.most, count.now)

    def __del__(self):
        self.count.now -= self.size


def most_saved(model, tokenizer, n_docs, **size):
    lists = RandomLists((n_docs, 5), longest=12)
    features = tokenizer(lists.pairs, padding="max_length", max_length=32, truncation=True, return_tensors="pt")
    features["attention_mask"].fill_(1)  # all of one length
    saved = SavedBytes()
    with saved.hooks:
        loss = rw.rerank.Loss("lambdarank", **size)
        value = loss.of(lambda batch: scored(model, batch), features, lists.flat_labels, lists.offsets)
        assert saved.now < 64 * n_docs  # the first pass keeps nothing but scores
        value.backward()
    return saved.most


def test_memory_of_the_backward_pass_does_not_grow_with_the_list(cross_encoder):
    model, tokenizer = classifier(cross_encoder).train(), cross_encoder.tokenizer
    small, large = (most_saved(model, tokenizer, n, mini_batch_size=4) for n in (8, 120))
    whole = most_saved(model, tokenizer, 120, mini_batch_size=200)
    assert large < 1.02 * small
    assert whole > 20 * large


def test_outputs_that_are_not_one_score_per_pair_are_rejected():
    loss = rw.rerank.Loss("lambdarank", mini_batch_size=2)
    weight = torch.ones(1, requires_grad=True)
    for wrong in (lambda batch: torch.ones(len(batch), 2) * weight, lambda batch: len(batch)):
        with refusal(what="a model must give one score for each pair"):
            loss.of(wrong, ["a", "b"], [1, 0], [0, 2])
    with refusal(what="a model must give one score for each pair", got="1 scores for 3 pairs"):
        rw.rerank.Loss("lambdarank", mini_batch_size=9).of(lambda _: weight, "abc", [1, 0, 0], [0, 3])
    with refusal(what="offsets must cover every row: begin with 0 and end with the number of rows"):
        loss.of(lambda batch: batch, ["a", "b"], [1, 0], [0, 3])
    with refusal(what="there must be at least one document to score"):
        rw.rerank.two_passes(lambda batch: batch, [], lambda scores: scores.sum())
