"""The loss of a ``CrossEncoder``: the same in any batch, with every column, and refusals that say what to do."""

import copy
import pickle

import numpy as np
import pytest
import torch

import rankwise as rw
from tests.refusals import refusal, refuses
from tests.wings.rerank.texts import RandomLists, gradients

SIZES: tuple[dict[str, int], ...] = (
    {"token_budget": 40},
    {"token_budget": 500},
    {"mini_batch_size": 1},
    {"mini_batch_size": 5},
    {},
)


def value_and_gradient(model, lists, objective="lambdarank", inputs=None, labels=None, **settings):
    model.zero_grad()
    loss = rw.rerank.Loss(model, objective, **settings)
    value = loss(lists.inputs if inputs is None else inputs, lists.labels if labels is None else labels)
    value.backward()
    return value.item(), gradients(model)


@pytest.mark.parametrize("objective", ["lambdarank", "stochastic(xendcg, samples=4)"])
def test_any_mini_batches_give_the_same_loss_and_gradient(cross_encoder, objective):
    lists = RandomLists()
    cross_encoder.eval()  # without dropout, whose masks depend on what stands beside a pair
    found = [value_and_gradient(cross_encoder, lists, objective, **size) for size in SIZES]
    for value, gradient in found[1:]:
        assert value == pytest.approx(found[0][0], rel=1e-5)
        torch.testing.assert_close(gradient, found[0][1], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("objective", ["lambdarank", "listmle", "stochastic(xendcg, samples=4)"])
def test_the_loss_of_a_list_is_the_same_in_any_batch(cross_encoder, objective):
    lists = RandomLists()
    cross_encoder.eval()
    whole = value_and_gradient(cross_encoder, lists, objective)
    batches = ([0], [1], [4, 2], [3])
    parts = [value_and_gradient(cross_encoder, lists.take(batch), objective) for batch in batches]
    shares = [len(batch) / 5 for batch in batches]
    assert sum(share * value for share, (value, _) in zip(shares, parts, strict=True)) == pytest.approx(
        whole[0], rel=1e-5
    )
    together = sum(share * gradient for share, (_, gradient) in zip(shares, parts, strict=True))
    torch.testing.assert_close(together, whole[1], atol=1e-5, rtol=1e-4)


def test_the_loss_is_that_of_the_scores_that_the_model_predicts(cross_encoder):
    lists = RandomLists()
    cross_encoder.eval()
    scores = cross_encoder.predict(lists.pairs, activation_fn=torch.nn.Identity())
    expected = rw.objective("lambdarank")(scores.astype(float), lists.flat_labels.numpy(), lists.offsets).value.mean()
    assert value_and_gradient(cross_encoder, lists)[0] == pytest.approx(expected, rel=1e-5)
    with torch.no_grad():
        assert rw.rerank.Loss(cross_encoder, "lambdarank")(lists.inputs, lists.labels).item() == pytest.approx(expected)


def test_random_numbers_are_new_at_each_step_and_fixed_where_gradients_are_off(cross_encoder):
    lists = RandomLists()
    loss = rw.rerank.Loss(cross_encoder.eval(), "stochastic(xendcg, samples=2)", seed=4)
    first, second = (loss(lists.inputs, lists.labels).item() for _ in range(2))
    assert first != second
    assert rw.rerank.Loss(cross_encoder, loss.objective, seed=4)(lists.inputs, lists.labels).item() == first
    with torch.no_grad():
        assert len({loss(lists.inputs, lists.labels).item() for _ in range(2)}) == 1


def test_columns_are_read_by_position(cross_encoder):
    lists = RandomLists()
    cross_encoder.eval()
    scores = cross_encoder.predict(lists.pairs, activation_fn=torch.nn.Identity()).astype(float)
    random = np.random.default_rng(1)
    teacher = [random.normal(size=len(some)) for some in lists.documents]
    chances = [random.uniform(0.1, 1, len(some)) for some in lists.documents]
    weights = [1.0, 2.0, 0.0, 3.0, 1.0]
    mixed = "0.5*distil + 0.5*lambdarank"
    inputs = [*lists.inputs, [row.tolist() for row in teacher]]
    value, _ = value_and_gradient(cross_encoder, lists, mixed, inputs)  # what the objective reads has no need of a name
    labels = lists.flat_labels.numpy()
    taught = rw.objective(mixed)(scores, labels, lists.offsets, teacher_scores=np.concatenate(teacher)).value
    assert value == pytest.approx(taught.mean(), rel=1e-4)

    inputs = [*lists.inputs, weights, chances, lists.queries]
    columns = ("weight", "propensities", "query_id")
    value, _ = value_and_gradient(cross_encoder, lists, "lambdarank", inputs, columns=columns)
    debiased = rw.objective("lambdarank")(scores, labels, lists.offsets, document_weights=1 / np.concatenate(chances))
    assert value == pytest.approx(np.average(debiased.value, weights=weights), rel=1e-4)


def test_one_column_needs_no_brackets(cross_encoder):
    lists = RandomLists()
    cross_encoder.eval()
    loss = rw.rerank.Loss(cross_encoder, "lambdarank", columns="weight")
    assert loss.columns == ("weight",)
    plain = rw.rerank.Loss(cross_encoder, "lambdarank")(lists.inputs, lists.labels).item()
    assert loss([*lists.inputs, [1.0] * 5], lists.labels).item() == pytest.approx(plain)


def test_labels_may_be_on_a_device(cross_encoder, monkeypatch):
    """Where NumPy cannot read them, and whence all come back at once."""
    lists = RandomLists()
    cross_encoder.eval()
    plain = value_and_gradient(cross_encoder, lists)[0]
    back, cpu = [], torch.Tensor.cpu

    def bring(tensor):
        back.append(len(tensor))
        return cpu(tensor)

    monkeypatch.setattr(torch.Tensor, "cpu", bring)
    monkeypatch.setattr(torch.Tensor, "__array__", lambda *_, **__: pytest.fail("on a device"))
    loss = rw.rerank.Loss(cross_encoder, "lambdarank")
    assert loss(lists.inputs, lists.labels).item() == pytest.approx(plain)
    assert back[0] == len(lists.pairs)
    assert loss(lists.inputs, [row.bfloat16() for row in lists.labels]).item() == pytest.approx(plain)


def test_distillation_needs_no_labels(cross_encoder):
    lists = RandomLists()
    inputs = [*lists.inputs, [torch.rand(len(some)).tolist() for some in lists.documents]]
    loss = rw.rerank.Loss(cross_encoder, "distil")
    assert loss(inputs, None).item() > 0
    with refusal(what="lambdarank learns from labels"):
        rw.rerank.Loss(cross_encoder, "lambdarank")(lists.inputs, None)
    with refusal(what="distil + lambdarank learns from labels"):
        rw.rerank.Loss(cross_encoder, "distil + lambdarank")(inputs, None)


def test_prompts_reach_the_tokenizer(cross_encoder):
    lists = RandomLists(longest=5)
    loss = rw.rerank.Loss(cross_encoder.eval(), "lambdarank")
    plain, prompted = (loss(lists.inputs, lists.labels, prompt=prompt).item() for prompt in (None, "which city is it "))
    pairs = [("which city is it " + query, document) for query, document in lists.pairs]
    scores = cross_encoder.predict(pairs, activation_fn=torch.nn.Identity()).astype(float)
    expected = rw.objective("lambdarank")(scores, lists.flat_labels.numpy(), lists.offsets).value.mean()
    assert prompted == pytest.approx(expected, rel=1e-5) != plain


def test_features_without_rows_are_computed_for_each_mini_batch(cross_encoder, monkeypatch):
    """As those of images and of texts that are packed one behind the other."""
    lists = RandomLists()
    cross_encoder.eval()
    expected = value_and_gradient(cross_encoder, lists)
    plain = cross_encoder.preprocess

    def packed(pairs, **settings):
        features = plain(pairs, **settings)
        if len(pairs) == len(lists.pairs):
            features["cu_seq_lens_q"] = torch.nn.functional.pad(features["attention_mask"].sum(1).cumsum(0), (1, 0))
            features["input_ids"] = features["input_ids"].reshape(1, -1)
        return features

    monkeypatch.setattr(cross_encoder, "preprocess", packed)
    found = value_and_gradient(cross_encoder, lists, token_budget=100)
    assert found[0] == pytest.approx(expected[0], rel=1e-5)
    torch.testing.assert_close(found[1], expected[1], atol=1e-5, rtol=1e-4)


def test_settings_are_in_model_cards_and_copies(cross_encoder):
    loss = rw.rerank.Loss("0.5*distil + 0.5*lambdarank", mini_batch_size=8, seed=3)
    bound = copy.deepcopy(loss(cross_encoder))
    assert bound.get_config_dict() == {
        "objective": "0.5*distil + 0.5*lambdarank",
        "columns": ["teacher_scores"],
        "mini_batch_size": 8,
        "seed": 3,
    }
    assert "rankwise" in bound.citation
    assert "mini_batch_size=8" in repr(bound)
    assert repr(loss) == "Loss(0.5*distil + 0.5*lambdarank)"
    assert "Burges" in rw.rerank.Loss(cross_encoder, "lambdarank").citation


def test_losses_with_and_without_a_model_are_losses(cross_encoder):
    unbound, bound = rw.rerank.Loss("lambdarank", seed=3), rw.rerank.Loss(cross_encoder, "lambdarank", seed=3)
    assert isinstance(unbound, rw.rerank.Loss)
    assert isinstance(bound, rw.rerank.Loss)
    assert not isinstance(unbound, torch.nn.Module)  # so that trainers bind it
    assert isinstance(bound, torch.nn.Module)
    assert list(bound.children()) == [cross_encoder]
    assert "_extra_state" in bound.state_dict()
    assert repr(bound).startswith("Loss(\n  objective='lambdarank'")
    for loss in (unbound, bound):
        copied = pickle.loads(pickle.dumps(loss))  # noqa: S301 (made here)
        assert (type(copied), repr(copied.objective), copied.seed) == (type(loss), "lambdarank", 3)


def test_errors_name_the_column_and_the_list(cross_encoder):
    lists = RandomLists()
    loss = rw.rerank.Loss(cross_encoder, "lambdarank")
    with refusal(what="the data must have the columns query, documents, in this order, and labels", got="3 columns…"):
        loss([*lists.inputs, lists.labels], lists.labels)
    with refusal(what="each query must have a list of documents, at least one", where="list number 1 of a batch"):
        loss([["a", "b"], [["c"], []]], [torch.ones(1), torch.ones(0)])
    with refusal(what="each query must have a list of documents, at least one", got="'a document'"):
        loss([["a"], ["a document"]], [torch.ones(1)])
    with refusal(what="labels must be as many as the documents of a query", where="list number 2 of a batch"):
        loss(lists.inputs, [*lists.labels[:2], torch.ones(1), *lists.labels[3:]])
    with refusal(what="labels must be one list for each query", got="4 lists for 5 queries"):
        loss(lists.inputs, lists.labels[:4])
    refuses(lambda: loss(lists.inputs, torch.ones(5)), what="each list must have a list of labels", got="one label…")
    with refusal(what="weight must be one value for each query"):
        rw.rerank.Loss(cross_encoder, "lambdarank", columns=["weight"])([*lists.inputs, [1.0]], lists.labels)
    with refusal(what="a loss needs an objective", got="CrossEncoder", hint="…rw.rerank.Loss(model,…"):
        rw.rerank.Loss(cross_encoder)
    with refusal(what="a loss is bound to a CrossEncoder that gives one score", hint="…of(score, inputs…"):
        rw.rerank.Loss(torch.nn.Linear(2, 1), "lambdarank")
    refuses(lambda: rw.rerank.Loss("lambdarnk"), what="unknown objective")
