"""Training-serving skew: planted differences are seen, and others are not; losses by hand."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.wings.serve.skew import _by_query, _index
from tests.cli.running import run
from tests.refusals import refusal, refuses

NAMES = [f"f{k}" for k in range(5)]


def lists(seed: int, n_queries: int = 150, level: float = 0.0, start: int = 0) -> rw.RankingDataset:
    """Features with levels of their own in each query; the first two rank documents, the last is of few values."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(8, 30, n_queries)
    n_docs = sizes.sum()
    rows = rng.normal(size=(n_docs, 5)) + np.repeat(rng.normal(level, 2, (n_queries, 5)), sizes, axis=0)
    rows[:, 4] = rng.integers(0, 3, n_docs)
    within = rows - np.repeat(np.add.reduceat(rows, np.r_[0, np.cumsum(sizes)[:-1]]) / sizes[:, None], sizes, axis=0)
    labels = np.clip(np.round(within[:, 0] + 0.7 * within[:, 1] + 1), 0, 4)
    ids: Any = {"query_ids": np.arange(start, start + n_queries), "document_ids": np.arange(n_docs)}
    return rw.RankingDataset.from_sizes(rows, labels, sizes, feature_names=NAMES, **ids)


def column(frame, name: str) -> dict[str, float]:
    return dict(zip(frame["feature"], frame[name], strict=True))


@pytest.fixture(scope="module")
def train() -> rw.RankingDataset:
    return lists(0)


@pytest.fixture(scope="module")
def model(train: rw.RankingDataset):
    return rw.LightGBMRanker("xendcg", rounds=15, leaves=8, min_documents=5, threads=1).fit(train)


def test_other_queries_are_no_skew_within_queries(train):
    frame = rw.data.compare_features(train, lists(1, start=1000)).frame
    assert max(column(frame, "psi").values()) < 0.02
    shifted = rw.data.compare_features(train, lists(2, level=3.0, start=1000)).frame
    assert max(column(shifted, "psi").values()) < 0.02
    levels = column(shifted, "psi_levels")
    assert min(levels[name] for name in NAMES[:4]) > 0.5
    assert levels["f4"] < 0.1


def test_planted_differences_are_found(train):
    served = lists(1, start=1000)
    rows = served.features.copy()
    rows[:, 0] *= 3.0  # another unit
    rows[:, 1] += 5.0  # an offset, which does not change orders
    rows[np.arange(len(rows)) % 4 == 0, 2] = np.nan
    rows[:, 4] = np.minimum(rows[:, 4], 1.0)  # a value that is not logged any more
    frame = rw.data.compare_features(train, served.with_(features=rows)).frame
    psi, levels, missing = (column(frame, name) for name in ("psi", "psi_levels", "missing_served"))
    assert psi["f0"] > 0.25
    assert psi["f4"] > 0.25
    assert max(psi["f1"], psi["f2"], psi["f3"]) < 0.02
    assert levels["f1"] > 1.0
    assert missing == pytest.approx({"f0": 0, "f1": 0, "f2": 0.25, "f3": 0, "f4": 0}, abs=1e-3)
    assert set(frame["feature"][:3]) == {"f0", "f1", "f4"}


def test_features_that_are_not_served_come_first(train):
    rows = train.features[:, [4, 2, 1, 0]] * np.array([1, 1, 1, 9], np.float32)
    frame = rw.data.compare_features(train, train.with_(features=rows, feature_names=["f4", "f2", "f1", "f0"])).frame
    assert frame["feature"].to_list() == ["f3", "f0", "f1", "f2", "f4"]


def test_single_documents_tell_nothing_within_queries(train):
    n_docs = train.n_docs
    alone = rw.RankingDataset(train.features, train.labels, np.arange(n_docs + 1), feature_names=NAMES)
    assert np.isnan(rw.data.compare_features(train, alone).frame["psi"].to_numpy()).all()
    both = rw.concatenate([train.with_(query_ids=None, document_ids=None), alone])
    assert max(column(rw.data.compare_features(train, both).frame, "psi").values()) < 1e-3


def test_documents_that_were_served_twice(train, model):
    rows = np.repeat(np.arange(train.n_docs), 2)
    twice = rw.RankingDataset.from_sizes(
        train.features[rows],
        train.labels[rows],
        2 * train.sizes,
        feature_names=NAMES,
        query_ids=train.query_ids,
        document_ids=train.document_ids[rows],
    )
    assert rw.data.compare_features(train, twice, model).frame["loss"].to_list() == [0.0] * 5
    features = twice.features.copy()
    features[5, 0] = 7.0
    with refusal(what="a document was served twice with different features", got="document 2", hint="…query…"):
        rw.data.compare_features(train, twice.with_(features=features), model)


def test_losses_are_those_of_data_with_one_feature_replaced(train, model):
    rng = np.random.default_rng(5)
    served = train.take(rng.permutation(train.n_queries)[:100])
    rows = served.features.copy()
    rows[:, 1] = -rows[:, 1]
    rows[:, 3] = 0.0  # of which the model has hardly any use
    compared = rw.data.compare_features(train, served.with_(features=rows), model, metric="ndcg@5")
    loss, low, high = (column(compared.frame, name) for name in ("loss", "low", "high"))
    replaced = served.features.copy()
    replaced[:, 1] = -replaced[:, 1]
    both = rw.evaluate(model, served, "ndcg@5"), rw.evaluate(model, served.with_(features=replaced), "ndcg@5")
    assert loss["f1"] == pytest.approx(both[0].mean["ndcg@5"] - both[1].mean["ndcg@5"])
    assert 0.02 < low["f1"] < loss["f1"] < high["f1"]
    assert [loss[name] for name in ("f0", "f2", "f4")] == [0.0, 0.0, 0.0]
    assert abs(loss["f3"]) < 0.02
    assert compared.frame["feature"][0] == "f1"
    assert "ndcg@5 lost" in repr(compared)
    assert "of 100 queries that both have" in " ".join(repr(compared).split())


def test_documents_that_were_not_logged_keep_their_features(train, model):
    """Half of the documents of each query, in another order: what is swapped is equal, so that nothing is lost."""
    keep = np.flatnonzero(np.arange(train.n_docs) % 2)
    qids = train.qids()[keep]
    served = rw.RankingDataset.from_qids(
        train.features[keep][::-1],
        train.labels[keep],
        qids[::-1],
        document_ids=train.document_ids[keep][::-1],
        feature_names=NAMES,
    )
    frame = rw.data.compare_features(train, served, model).frame
    assert set(frame["loss"]) == {0.0}


def test_a_model_that_adds_init_scores_finds_them(train):
    start = train.with_(init_scores=train.features[:, 0])
    ranker = rw.LightGBMRanker("xendcg", rounds=3, leaves=4, threads=1).fit(start)
    served = train.with_(features=train.features * np.float32(-1))
    frame = rw.data.compare_features(start, served, ranker).frame
    assert max(frame["loss"].to_list()) > 0.0


def test_columns_are_matched_by_name(train):
    served = lists(1, start=1000)
    changed = served.with_(features=served.features[:, [3, 1, 0]], feature_names=["f3", "new", "f0"])
    compared = rw.data.compare_features(train, changed)
    missing = column(compared.frame, "missing_served")
    assert missing == {"f0": 0.0, "f1": 1.0, "f2": 1.0, "f3": 0.0, "f4": 1.0}
    psi = column(compared.frame, "psi")
    assert max(psi["f0"], psi["f3"]) < 0.02
    assert np.isnan(psi["f1"])
    assert "Only the served data have new." in repr(compared)


def test_categories_are_compared_by_their_shares():
    rng = np.random.default_rng(0)
    data = []
    for chances in ([0.5, 0.3, 0.2], [0.5, 0.3, 0.2], [0.1, 0.2, 0.7]):
        codes = rng.choice(3, size=3000, p=chances)[:, None]
        data.append(rw.RankingDataset.from_sizes(codes, np.zeros(3000), np.full(100, 30), categorical=[0]))
    assert rw.data.compare_features(data[0], data[1]).frame["psi"][0] < 0.01
    p, q = np.array([0.5, 0.3, 0.2]), np.array([0.1, 0.2, 0.7])
    assert rw.data.compare_features(data[0], data[2]).frame["psi"][0] == pytest.approx(
        ((p - q) * np.log(p / q)).sum(), rel=0.1
    )


def test_medians_of_queries_and_the_index_by_hand():
    values = np.array([1.0, 5.0, np.nan, 3.0, np.nan, 2.0, 2.0])
    within, medians = _by_query(values, np.array([0, 4, 5, 7]))
    np.testing.assert_array_equal(medians, [3.0, np.nan, 2.0])
    np.testing.assert_array_equal(within, [-2.0, 2.0, np.nan, 0.0, np.nan, 0.0, 0.0])
    flat, lower = np.full(1000, 7.0), np.full(1000, 6.0)
    p, q = np.array([0.5, 1000.5, 0.5]) / 1001.5, np.array([1000.5, 0.5, 0.5]) / 1001.5
    assert _index(flat, lower) == pytest.approx(((p - q) * np.log(p / q)).sum())
    assert _index(flat, flat) == 0.0


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"query_ids": None}, {"what": "…matched by the ids of queries and documents", "got": "data without ids"}),
        ({"query_ids": np.arange(-150, 0)}, {"what": "training and served data have no document in common"}),
        ({"feature_names": list("abcde")}, {"what": "…share no feature", "got": "'f0' and 'a'"}),
    ],
)
def test_data_that_cannot_be_compared(change, fields, train, model):
    refuses(lambda: rw.data.compare_features(train, train.with_(**change), model), **fields)


def test_the_command(train, model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rw.data.write_parquet(train, "train.parquet")
    model.save("model")
    records = []
    for query, document, row in zip(
        train.qids().tolist(), train.document_ids.tolist(), train.features * 2, strict=True
    ):
        entry = [{"name": name, "value": float(value)} for name, value in zip(NAMES, row, strict=True)]
        hit = {"_id": str(document), "fields": {"_ltrlog": [{"log": entry}]}}
        records.append({"query_id": query, "hits": {"hits": [hit]}})
    Path("served.jsonl").write_text("\n".join(map(json.dumps, records)))
    text = run("data", "skew", "train.parquet", "served.jsonl", "--model", "model").stdout
    assert "ndcg@10 lost" in text
    document = json.loads(run("data", "skew", "train.parquet", "train.parquet", "--json").stdout)
    assert [row["psi"] for row in document["features"]] == [0.0] * 5


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda rows: rows, None),
        (lambda rows: rows + np.array([0, 0, 0.01, 0, 0], np.float32), None),
        (lambda rows: rows * np.array([9, 1, 1, 1, 1], np.float32), "f0: PSI in queries"),
        (lambda rows: rows + np.array([0, 0, 0, 99, 0], np.float32), "f3: PSI of levels"),
        (lambda rows: np.where(np.arange(len(rows))[:, None] % 5 == 0, np.nan, rows), "f4: PSI of missing values"),
        (lambda rows: rows * np.array([-1, 1, 1, 1, 1], np.float32), "ndcg@10 loses"),
    ],
)
def test_strict_ends_with_exit_code_3_where_features_differ_too_much(
    change, sentence, train, model, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    rw.data.write_parquet(train, "train.parquet")
    rw.data.write_parquet(train.with_(features=change(train.features)), "served.parquet")
    model.save("model")
    words = ("data", "skew", "train.parquet", "served.parquet", "--model", "model")
    assert run(*words).exit_code == 0
    ended = run(*words, "--strict", code=0 if sentence is None else 3)
    alarms = [line for line in ended.stderr.splitlines() if line.startswith("alarm: ")]
    assert any(sentence in line for line in alarms) if sentence else not alarms


def test_chance_alone_raises_no_alarm():
    """Of 40 samples, small ones among them, of the same population; one alarm in a hundred would be by design."""
    alarms = [
        rw.data.compare_features(lists(seed, size), lists(seed + 100, other, start=1000)).alarms
        for seed, (size, other) in enumerate([(30, 30), (100, 40), (150, 150), (60, 400)] * 10)
    ]
    assert sum(map(bool, alarms)) <= 1


def test_losses_that_are_all_the_same_have_an_interval_nevertheless(train):
    moved = train.with_(features=train.features + np.array([0, 0, 0, 1, 0], np.float32))
    compared = rw.data.compare_features(train, moved, lambda features: features[:, 0], metric="ndcg@10")
    loss, low, high = (column(compared.frame, name)["f3"] for name in ("loss", "low", "high"))
    assert loss == 0.0
    assert high == -low == pytest.approx(1.0 - 0.025 ** (1.0 / train.n_queries), rel=0.1)  # of those that are scored
