"""Similarities of two rankings of data, of runs and of evaluations."""

from itertools import pairwise

import numpy as np
import pytest

import rankwise as rw
from rankwise.wings.similarity.similarity import similarities
from tests.refusals import refusal

RUN = {"q1": {"a": 3.0, "b": 2.0, "c": 1.0}, "q2": {"d": 2.0, "e": 1.0}}
OTHER = {"q2": {"e": 5.0, "d": 4.0}, "q1": {"b": 3.0, "x": 2.0}}
QRELS = {"q1": {"a": 1, "z": 1}, "q2": {"e": 2}}


@pytest.fixture(scope="module")
def data():
    made = rw.synthetic(n_queries=40, n_docs=12, n_features=3, seed=1)
    return made.with_(document_ids=np.array([f"d{row}" for row in range(made.n_docs)]))


def test_scores_of_the_same_lists(data):
    one, other = data.features[:, 0], data.features[:, 1]
    found = rw.metrics.similarity(one, other, data, ["rbo(p=0.8)", "tau", "tau_ap", "overlap@5"])
    assert found.metrics == ("rbo(p=0.8)", "tau", "tau_ap", "overlap@5")
    expected = rw.metrics.similarity_measure("tau")(one, other, data.offsets)
    np.testing.assert_array_equal(found["tau"], expected)
    np.testing.assert_array_equal(found["tau"], rw.metric("kendall")(one, other - other.min(), data.offsets))
    low, high = found.interval["tau"]
    assert low < found.mean["tau"] < high
    strict = np.random.default_rng(0).permutation(data.n_docs)
    same = rw.metrics.similarity(strict, 2.0 * strict, data)
    assert same.mean == pytest.approx(dict.fromkeys(("rbo", "overlap@10", "tau", "tau_ap"), 1.0))
    assert same.interval["rbo"][1] == pytest.approx(1.0)  # by the measure's bounds


def test_the_order_of_rows_does_not_matter(data):
    order = np.concatenate([np.arange(start, end)[::-1] for start, end in pairwise(data.offsets)])
    one, other = (rw.evaluate(data.features[:, column], data) for column in (0, 1))
    shuffled = rw.RankingDataset(
        data.features[order], data.labels[order], data.offsets, query_ids=data.query_ids,
        document_ids=data.document_ids[order],
    )  # fmt: skip
    again = rw.evaluate(shuffled.features[:, 1], shuffled)
    assert rw.metrics.similarity(one, again).mean == pytest.approx(rw.metrics.similarity(one, other).mean)


def test_runs_with_other_documents():
    found = rw.metrics.similarity(RUN, OTHER)
    assert found.metrics == ("rbo", "overlap@10", "tau", "tau_ap")
    assert found.scored == {"rbo": 2, "overlap@10": 2, "tau": 1, "tau_ap": 1}
    assert found["overlap@10"].tolist() == [1 / 3, 1.0]
    assert found["tau"].tolist()[1:] == [-1.0]
    # What qrels add was not retrieved, and does not matter.
    one, other = (rw.evaluate(run, QRELS, "ap") for run in (RUN, OTHER))
    assert rw.metrics.similarity(one, other).mean == pytest.approx(found.mean)
    more = {"q1": RUN["q1"], "q9": {"a": 1.0}}
    alone = rw.metrics.similarity(more, {"q1": RUN["q1"]}, measures="rbo")
    assert alone.scored == {"rbo": 1}
    assert alone.query_ids.tolist() == ["q1", "q9"]


def test_every_two_systems(data):
    evaluations = {name: rw.evaluate(data.features[:, column], data) for column, name in enumerate("abc")}
    found = similarities(evaluations, ["rbo"])
    assert list(found) == [("a", "b"), ("a", "c"), ("b", "c")]
    expected = rw.metrics.similarity(data.features[:, 1], data.features[:, 2], data, "rbo")
    assert found["b", "c"].mean == expected.mean


def test_refusals(data):
    scores = data.features[:, 0]
    with refusal(what="tau is defined for no query of these rankings", hint="rank the same documents…"):
        rw.metrics.similarity({"q": {"a": 1.0, "b": 2.0}}, {"q": {"a": 1.0, "c": 2.0}}, measures="tau")
    with refusal(what="rbo is defined for no query of these rankings", hint="rank the same queries"):
        rw.metrics.similarity({"q": {"a": 1.0}}, {"p": {"a": 1.0}})
    with refusal(what="scores and models need the data that they rank", got="ndarray"):
        rw.metrics.similarity(scores, scores)
    with refusal(what="the evaluation does not know its documents", hint="evaluate scores or runs…"):
        rw.metrics.similarity(rw.Evaluation({"ap": [1.0]}, [1]), rw.Evaluation({"ap": [1.0]}, [1]))
    plain = data.with_(document_ids=None)
    with refusal(what="rankings of other lists are matched by document ids"):
        rw.metrics.similarity(rw.evaluate(scores, plain), rw.evaluate(RUN, QRELS, "ap"))
