"""Columns that metrics read: one that only a test knows, wherever data are measured, and those of arrays and parts."""

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import rankwise as rw
from rankwise import check
from rankwise.data import columns
from rankwise.data.columns import COLUMNS, DataColumn
from rankwise.language import registry
from rankwise.metrics import Reward
from tests.cli.running import run
from tests.refusals import refusal, refuses

FRESHNESS = DataColumn(
    name="freshness",
    text="days since the document was written",
    check=lambda values, data: check.document_values("freshness", values, data.offsets, data.query_ids),
    role="age",
)
TREES: dict[str, Any] = {"rounds": 5, "leaves": 4, "min_documents": 2, "threads": 1}


@dataclass(frozen=True)
class Fresh(rw.Metric):
    """The freshness of the first document."""

    name = "fresh"
    reads = ("labels", "freshness")

    def values(self, scores: Any, labels: Any, offsets: Any, freshness: Any) -> Any:
        firsts = [start + np.argmax(scores[start:end]) for start, end in itertools.pairwise(offsets)]
        return freshness[firsts]


@dataclass(frozen=True, kw_only=True, repr=False)
class FreshGain(Reward):
    """A column as the gain of a metric with a kernel."""

    name: ClassVar[str] = "fresh_gain"
    reads: ClassVar[tuple[str, ...]] = ("freshness",)


def with_freshness(n_queries: int = 40) -> rw.RankingDataset:
    plain = rw.synthetic(n_queries=n_queries, n_docs=12, n_features=4, seed=3)
    changes: Any = {"freshness": np.random.default_rng(1).uniform(size=plain.n_docs)}
    return plain.with_(**changes)


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> rw.RankingDataset:
    """Data with a column that is one row of the table, added while the test runs."""
    monkeypatch.setattr(columns, "COLUMNS", (*COLUMNS, FRESHNESS))
    return with_freshness()


def first_values(scores: Any, data: Any) -> Any:
    lists = itertools.pairwise(data.offsets)
    return np.array([data.freshness[start + np.argmax(scores[start:end])] for start, end in lists])


def test_evaluate_and_compare(data):
    one, other = data.features[:, 0], data.features[:, 1]
    found = rw.evaluate(one, data, [Fresh(), "ndcg@10"])
    np.testing.assert_array_equal(found["fresh"], first_values(one, data))
    expected = Reward(cutoff=3)(one, data.labels, data.offsets, document_rewards=data.freshness)
    np.testing.assert_array_equal(FreshGain(cutoff=3).of(one, data), expected)
    compared = rw.compare({"one": one, "other": other}, data, Fresh()).pairs[0]
    assert compared.difference == pytest.approx((first_values(other, data) - first_values(one, data)).mean())
    np.testing.assert_array_equal(
        Fresh()(one, data.labels, data.offsets, freshness=data.freshness), first_values(one, data)
    )
    drawn = rw.evaluate(one, data, Fresh(), policy="plackett_luce", samples=3)
    assert 0.0 < drawn.mean["fresh"] < 1.0
    # Evaluations by other values are not compared.
    older = rw.evaluate(one, data.with_(freshness=data.freshness[::-1]), Fresh())
    refuses(lambda: rw.compare({"one": rw.evaluate(one, data, Fresh()), "other": older}), got="…freshness…")


def test_training_stops_by_it(data):
    train, valid = rw.split(data, (0.6, 0.4), seed=1)
    ranker = rw.LightGBMRanker("xendcg", metrics=(Fresh(), FreshGain(cutoff=3)), **TREES).fit(train, valid)
    assert ranker.best_round_ == int(np.argmax(ranker.history_["fresh"])) + 1
    assert ranker.score(valid) == first_values(ranker.predict(valid), valid).mean()
    folds = rw.cross_validate(ranker, data, 2, metrics=Fresh())
    assert folds["fresh"].shape == (data.n_queries,)
    assert np.isin(folds["fresh"], data.freshness).all()
    blend = rw.blended([rw.LightGBMRanker("xendcg", **TREES), 0], folds=2, metrics=Fresh()).fit(train)
    assert blend.weights_.metric == "fresh"


def test_clicks_are_measured_with_their_columns(data):
    train, valid = (rw.clicks.simulate_clicks(part, model="position") for part in rw.split(data, (0.6, 0.4), seed=1))
    ranker = rw.LightGBMRanker("xendcg", metrics=FreshGain(cutoff=3), debias=True, **TREES).fit(train, valid)
    assert valid.propensities is not None
    clicked = np.flatnonzero(valid.labels > 0)
    queries = np.searchsorted(valid.offsets, clicked, side="right") - 1
    expected = np.average(
        FreshGain(cutoff=3).of(ranker.predict(valid), valid)[queries], weights=1 / valid.propensities[clicked]
    )
    assert ranker.history_["debiased(fresh_gain@3)"][ranker.best_round_ - 1] == pytest.approx(expected)


def test_the_command_line(data, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    rw.register("fresh", Fresh)
    parts = rw.split(data, (0.6, 0.4), seed=1)
    train, valid = (rw.data.write_parquet(part, tmp_path / f"{len(part)}.parquet") for part in parts)
    run("train", train, "--valid", valid, "-m", "fresh", "--rounds", "2", "-o", tmp_path / "trained")
    model = rw.load(tmp_path / "trained")
    assert list(model.history_) == ["loss", "fresh"]
    said = json.loads(run("evaluate", valid, tmp_path / "trained", "-m", "fresh", "--json").stdout)
    assert said["rankings"]["trained"]["metrics"]["fresh"]["mean"] == model.score(parts[1])


def test_columns_that_are_missing_or_unknown(data):
    scores = data.features[:, 0]
    with refusal(what="fresh reads freshness", got="data without freshness", hint="set freshness=…"):
        rw.evaluate(scores, data.with_(freshness=None), Fresh())
    refuses(lambda: Fresh()([1.0], [1], [0, 1], freshness=[np.nan]), what="freshness must be finite", got="nan")
    with refusal(TypeError, what="fresh has no argument 'freshnes'", hint="did you mean 'freshness'"):
        Fresh()([1.0], [1], [0, 1], freshnes=[1.0])

    class Misspelt(Fresh):
        name = "misspelt"
        reads = ("labels", "freshnes")

    with refusal(what="a metric reads columns of a data set", got="'freshnes'", hint="did you mean 'freshness'"):
        rw.evaluate(scores, data, Misspelt())


def test_accepted_columns_may_be_absent():
    class Known(rw.Metric):
        name = "known"
        accepts = ("judged",)

        def values(self, scores: Any, labels: Any, offsets: Any, judged: Any = None) -> Any:
            return np.full(len(offsets) - 1, -1.0 if judged is None else judged.sum())

    data = rw.RankingDataset(np.empty((2, 0)), [1, 0], [0, 2])
    assert Known().of([1.0, 0.0], data).tolist() == [-1.0]
    assert Known().of([1.0, 0.0], data.with_(judged=[1, 0])).tolist() == [1.0]
    assert Known()([1.0, 0.0], [1, 0], [0, 2], [1, 1], weights=[1.0]).tolist() == [2.0]  # weights are not read


def test_aspects_are_arrays_and_parts_of_data():
    data = rw.synthetic(n_queries=30, n_docs=10, n_features=3, seed=2)
    even = np.arange(data.n_docs) % 2 == 0
    aspects = {"even": data.labels * even, "odd": data.labels * ~even}
    ids = [f"d{row}" for row in range(data.n_docs)]
    data, scores = data.with_(more_labels=aspects, document_ids=ids), data.features[:, 0]
    for text in ("alpha_ndcg@5", "precision_ia@3", "err_ia(aspects=(odd, even))", "ndcg(label=odd)@5"):
        metric = rw.metric(text)
        values = metric.of(scores, data)
        called = metric(scores, data.labels, data.offsets, more_labels=aspects, document_ids=ids)
        np.testing.assert_array_equal(called, values)
        rows = slice(0, data.offsets[7])
        np.testing.assert_array_equal(metric.of(scores[rows], data.take(slice(7))), values[:7])
    blend = rw.blended([0, 1], folds=2, metrics="alpha_ndcg@5").fit(data)
    expected = [rw.metric("alpha_ndcg@5").of(sign * data.features[:, 0], data) for sign in (1.0, -1.0)]
    assert blend.weights_.alone[0] == pytest.approx(max(np.nanmean(one) for one in expected), abs=0.1)


def test_validation_sees_unjudged_documents():
    plain = rw.synthetic(n_queries=40, n_docs=15, seed=3)
    judged = np.where(plain.labels > 0, 1, np.arange(plain.n_docs) % 2)
    train, valid = rw.split(plain.with_(judged=judged), (0.6, 0.4), seed=1)
    ranker = rw.LightGBMRanker("xendcg", metrics="bpref", **TREES).fit(train, valid)
    expected = rw.evaluate(ranker, valid, "bpref").mean["bpref"]
    assert ranker.score(valid) == expected == max(ranker.history_["bpref"])
    assert expected != rw.evaluate(ranker, valid.with_(judged=None), "bpref").mean["bpref"]


def test_a_name_in_the_place_of_a_tuple_of_names_is_refused():
    class Cost(rw.Metric):
        name = "cost"
        reads = "positions"  # type: ignore[assignment]

        def values(self, scores: Any, labels: Any, offsets: Any, **columns: Any) -> Any:
            return np.zeros(offsets.size - 1)

    with refusal(what="reads of a metric must be a tuple of names", got="'positions'", hint='write reads = ("pos…'):
        rw.metric(Cost())


def test_a_call_of_its_own_is_refused():
    """Measurements call ``values``, and would pass it by."""
    with refusal(what="a metric is measured by its method values", got="Louder.__call__", hint="define values…"):

        class Louder(rw.metrics.NDCG):
            def __call__(self, *arguments: Any, **columns: Any) -> Any:
                return 2 * super().__call__(*arguments, **columns)
