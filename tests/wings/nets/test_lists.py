"""Nets that look at whole lists: features within queries, self-attention, and what must be known to score."""

import itertools
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from sklearn.base import clone

import rankwise as rw
from rankwise.base import arrays
from rankwise.wings.nets.layers import ListAttention, buckets
from rankwise.wings.nets.transforms import Transform, standardized
from tests.rankers.test_contract import same
from tests.refusals import refusal, refuses
from tests.wings.nets.test_neural import ranker

SIZES = [1, 5, 8, 3, 30, 7, 1, 2]
OFFSETS = arrays.offsets_of(SIZES)
LISTS: list[dict[str, Any]] = [
    {"transform": "query"},
    {"transform": "log1p+standardize+query", "batch_norm": "input"},
    {"attention": 4, "dropout": 0.2},
    {"transform": "quantile+query", "attention": 2, "members": 3, "averaging": 0.9, "feature_noise": 0.1},
]


def by_hand(features: Any) -> Any:
    """Mean 0 and deviation 1 within each query, of what is known."""
    found = np.zeros(features.shape)
    for low, high in itertools.pairwise(OFFSETS):
        for column in range(features.shape[1]):
            values = features[low:high, column].astype(np.float64)
            known = ~np.isnan(values)
            if known.any() and np.ptp(values[known]) > 0:
                found[low:high, column][known] = (values[known] - values[known].mean()) / values[known].std()
    return found


def documents() -> Any:
    rng = np.random.default_rng(2)
    features = (rng.normal(size=(OFFSETS[-1], 4)) * [1, 1e-4, 1e4, 1] + [0, 0.1, 3e5, 0]).astype(np.float32)
    features[:, 3] = 0.1  # all the same, and no number of which a mean is exact
    features[rng.random(features.shape) < 0.15] = np.nan
    features[9:14, 0] = np.nan  # nearly a whole list
    return features


def test_features_within_queries_are_those_of_numpy():
    features = documents()
    found = standardized(torch.tensor(features), torch.from_numpy(OFFSETS)).numpy()
    assert np.allclose(found, by_hand(features), atol=2e-3)
    assert not found[:, 3].any()
    transform = Transform(4, "standardize+query")
    transform.fit(features)
    both = transform(torch.tensor(features), torch.from_numpy(OFFSETS)).numpy()
    plain = Transform(4, "standardize")
    plain.fit(features)
    assert np.allclose(both[:, :4], plain(torch.tensor(features)))
    assert np.array_equal(both[:, 4:], found)
    assert (transform.width, plain.width, Transform(4, "query").width) == (8, 4, 4)


@pytest.mark.parametrize("members", [None, 3])
def test_attention_is_that_of_dense_lists_with_masks(members):
    """Against torch's own module, with the same weights, on lists padded to the longest."""
    torch.manual_seed(0)
    ours = ListAttention(16, heads=4, dropout=0.3).eval()
    theirs = torch.nn.MultiheadAttention(16, 4, batch_first=True).eval()
    with torch.no_grad():
        theirs.in_proj_weight.copy_(ours.project.weight)
        theirs.in_proj_bias.copy_(ours.project.bias)
        theirs.out_proj.load_state_dict(ours.join.state_dict())
        values = torch.randn(int(OFFSETS[-1]), members or 1, 16)
        inside = torch.arange(max(SIZES)) < torch.tensor(SIZES)[:, None]
        given = values if members else values[:, 0]
        found = ours(given, torch.from_numpy(OFFSETS)).reshape(values.shape)
        for member in range(members or 1):
            padded = torch.full((len(SIZES), max(SIZES), 16), 7.0)
            padded[inside] = ours.norm(values[:, member])
            expected = theirs(padded, padded, padded, key_padding_mask=~inside, need_weights=False)[0][inside]
            assert torch.allclose(found[:, member], values[:, member] + expected, atol=1e-5)


def test_buckets_hold_every_document_once_and_fill_little_up():
    sizes = np.random.default_rng(0).integers(1, 300, 500)
    found, places = buckets(torch.from_numpy(arrays.offsets_of(sizes)))
    rows, inside = (
        torch.cat([one.flatten() for one in column])
        for column in zip(*((b.rows, b.inside) for b in found), strict=True)
    )
    assert torch.equal(rows[places], torch.arange(sizes.sum()))
    assert inside[places].all()
    assert [bucket.full for bucket in found] == [bool(bucket.inside.all()) for bucket in found]
    assert sum(bucket.inside.numel() for bucket in found) < 1.42 * sizes.sum()


@pytest.mark.parametrize("settings", LISTS)
def test_scores_of_a_list_depend_on_that_list_alone(settings, data, valid, monkeypatch):
    model = ranker(hidden=(16, 8), epochs=2, **settings).fit(data)
    assert model.needs_lists
    scores = model.predict(valid)
    monkeypatch.setattr(arrays, "BLOCK", 300)  # many blocks, and batches of other lists
    assert np.allclose(model.predict(valid), scores, atol=1e-5)
    for query in (0, 3):
        rows = slice(*valid.offsets[query : query + 2])
        assert np.allclose(model.predict(valid.take([query])), scores[rows], atol=1e-5)
        assert np.allclose(model.scorer()(valid.features[rows]), scores[rows], atol=1e-5)
    order = np.lexsort((np.random.default_rng(0).random(valid.n_docs), np.repeat(np.arange(25), valid.sizes)))
    shuffled = rw.RankingDataset(valid.features[order], valid.labels[order], valid.offsets)
    assert np.allclose(model.predict(shuffled), scores[order], atol=1e-5)
    alone = rw.RankingDataset.from_sizes(valid.features, valid.labels, np.ones(valid.n_docs, int))
    assert not np.allclose(model.predict(alone), scores, atol=1e-2)


@pytest.mark.parametrize("settings", LISTS)
def test_nets_of_lists_learn_are_saved_cloned_and_bagged(settings, data, valid, tmp_path):
    model = ranker(hidden=(16, 8), epochs=3, **settings).fit(data, valid)
    assert model.score(valid) == max(model.history_["ndcg@10"])
    loaded: Any = rw.load(model.save(tmp_path / "model"))
    assert same(loaded, model, valid)
    assert loaded.settings == model.settings
    assert same(clone(model).fit(data, valid), model, valid)
    bag = rw.bagged(ranker(hidden=(16, 8), epochs=1, **settings), folds=2).fit(data)
    assert bag.needs_lists
    assert same(rw.load(bag.save(tmp_path / "bag")), bag, valid)
    assert np.allclose(bag.predict(valid), np.mean([one.predict(valid) for one in bag.members_], axis=0))


def test_features_within_queries_show_what_documents_alone_do_not():
    """A document is relevant that lies near the middle of its list, wherever the list lies."""
    rng = np.random.default_rng(0)
    middles = rng.normal(0.0, 50.0, 150)
    noise = rng.normal(size=(150, 8))
    labels = (np.abs(noise) < np.median(np.abs(noise), axis=1, keepdims=True)).ravel()
    lists = rw.RankingDataset.from_sizes((middles[:, None] + noise).reshape(-1, 1), labels, [8] * 150)
    train, test = rw.split(lists, (0.6, 0.4), seed=0)
    within, alone = (ranker(transform=kind).fit(train) for kind in ("query", "standardize"))
    assert rw.evaluate(within, test).mean["ndcg@10"] > rw.evaluate(alone, test).mean["ndcg@10"] + 0.1


def test_queries_are_known_from_data_sets_tables_and_ids(data, valid):
    names = [f"f{column}" for column in range(12)]
    model = ranker(attention=2, epochs=1).fit(data.with_(feature_names=names))
    valid = valid.with_(feature_names=names)
    scores = model.predict(valid)
    ranked = model.rank(valid.features, group=valid.sizes)
    assert np.allclose(ranked["score"], model.rank(valid)["score"])
    assert np.array_equal(model.rank(valid.features, qid=valid.qids())["row"], model.rank(valid)["row"])
    assert model.score(valid.features, valid.labels, qid=valid.qids()) == model.score(valid)
    drawn = model.sample_rankings(valid.features, 2, group=valid.sizes)
    assert drawn.shape == (2, valid.n_docs)
    table = pl.DataFrame(valid.features, schema=names)
    assert np.allclose(model.predict(table.with_columns(qid=valid.qids())), scores, atol=1e-6)
    assert np.array_equal(model.rank(table.with_columns(qid=valid.qids()))["row"], model.rank(valid)["row"])
    refuses(lambda: model.predict(table), what="the table has no such column for the query", got="'qid'")


def test_scores_without_lists_are_refused(data, valid, tmp_path):
    model = ranker(attention=2, epochs=1).fit(data)
    bag = rw.bagged(ranker(transform="query", epochs=1), folds=2).fit(data)
    for one in (model, bag):
        with refusal(
            what="a NeuralRanker looks at whole lists, and must know which documents belong together",
            hint="…RankingDataset…",
        ):
            one.predict(valid.features)
        with refusal(what="what a feature adds …is not known of nets that look at whole lists"):
            one.explain(valid)
        np.testing.assert_array_equal(one.scorer()(valid), one.predict(valid))
    for kind in ("onnx", "elasticsearch"):
        with refusal(what="…this net looks at whole lists", hint="train with attention=0…"):
            rw.export(model, tmp_path / "net", kind, names=[f"f{j}" for j in range(12)])


def test_what_attention_cannot_be(data):
    with refusal(what="…share the first hidden layer…", got="attention=3 and hidden=(16,)"):
        ranker(attention=3).fit(data)
    refuses(lambda: ranker(attention=1, hidden=()).fit(data), got="attention=1 and hidden=()")
    refuses(lambda: ranker(attention=-1).fit(data), what="attention must be a whole number of at least 0")
    refuses(lambda: ranker(transform="query+quantile").fit(data), what="unknown transform", got="'query+quantile'")
