"""What unjudged documents could change: against enumeration of every label, and by pencil."""

import itertools
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.base.stream import Stream
from rankwise.statistics.hole_verdicts import unchecked
from rankwise.statistics.holes import Lists
from rankwise.statistics.verdict import Finding

pytestmark = pytest.mark.filterwarnings("ignore:.*were judged")
RNG = np.random.default_rng(0)


def lists_of(data: rw.RankingDataset, *scores: Any) -> Lists:
    lists = Lists.of([rw.evaluate(one, data, "dcg") for one in scores])
    assert lists is not None
    return lists


def small() -> tuple[rw.RankingDataset, np.ndarray]:
    """Twenty queries of six documents, of which four at most are holes, and two systems."""
    judged = np.tile([1, 1, 0, 0, 0, 0], 20) | (RNG.random(120) < 0.2)
    labels = np.where(np.tile([1, 0, 0, 0, 0, 0], 20), 2.0, judged * RNG.integers(0, 3, 120))
    data = rw.RankingDataset.from_sizes(np.zeros((120, 1)), labels, [6] * 20, judged=judged)
    return data, RNG.normal(size=(2, 120))


@pytest.mark.parametrize("name", ["dcg@3", "precision@3", "rbp", "ndcg@4", "ndcg", "ap", "rr", "err@5", "recall@3"])
def test_extremes_by_enumeration(name: str):
    data, scores = small()
    metric, lists = rw.metric(name), lists_of(data, *scores)
    low, high = lists.extremes(metric, 0, 1)
    found, enumerated = [], []
    for q in range(data.n_queries):
        rows = slice(6 * q, 6 * q + 6)
        holes = np.flatnonzero(data.judged[rows] == 0)  # type: ignore[index]
        differences = []
        for grades in itertools.product([0.0, 2.0], repeat=holes.size):
            labels = data.labels[rows].copy()
            labels[holes] = grades
            one, other = (float(metric(score[rows], labels, [0, 6])[0]) for score in scores)
            differences.append(one - other)
        assert min(differences) - 1e-12 <= low[q] <= high[q] <= max(differences) + 1e-12
        found.append(high[q] - low[q])
        enumerated.append(max(differences) - min(differences))
    if name in ("dcg@3", "precision@3", "rbp"):  # sums over documents
        assert found == pytest.approx(enumerated)
    assert sum(found) > 0.95 * sum(enumerated)


def test_holes_are_filled_as_judged_documents_at_their_depth():
    labels, judged = np.zeros((8, 4)), np.ones((8, 4), int)
    labels[:3, 0], judged[4:, 0] = 1, 0  # first: 3 of 4 judged ones are relevant
    labels[:, 1], judged[4, 2] = 1, 0  # second and third are one depth
    data = rw.RankingDataset.from_sizes(np.zeros((32, 1)), labels.ravel(), [4] * 8, judged=judged.ravel())
    lists = lists_of(data, np.tile([4.0, 3.0, 2.0, 1.0], 8))
    mean = np.mean([*lists.filled(Stream(1))], axis=0).reshape(8, 4)
    assert mean[4:, 0].tolist() == [0.75] * 4
    assert mean[4, 2] == pytest.approx(1 / 6 + 5 / 6 * 8 / 15, abs=2 / 32)  # 1 in its query, 8 of 15 in all
    known = judged == 1
    assert mean[known].tolist() == labels[known].tolist()


def runs() -> tuple[dict[str, dict[str, dict[str, float]]], dict[str, dict[str, int]]]:
    """Two systems that are about as good; judged is what the first ranks among its first eight."""
    found: dict[str, dict[str, dict[str, float]]] = {"a": {}, "b": {}}
    qrels = {}
    for q in range(30):
        labels = RNG.choice(3, 30, p=[0.7, 0.2, 0.1])
        for system in found.values():
            scores = labels + 1.5 * RNG.normal(size=30)
            system[f"q{q}"] = {f"d{d}": float(scores[d]) for d in np.argsort(-scores)[:20]}
        pool = sorted(found["a"][f"q{q}"], key=lambda name: -found["a"][f"q{q}"][name])[:8]
        qrels[f"q{q}"] = {name: int(labels[int(name[1:])]) for name in pool}
    return found, qrels


def relevant(scores: Any, labels: Any, offsets: Any) -> Any:
    """Relevance of the first document."""
    return [labels[a:b][np.argmax(scores[a:b])] for a, b in itertools.pairwise(offsets)]


def test_a_verdict_that_depends_on_holes_is_none():
    systems, qrels = runs()
    metrics: list[Any] = ["ndcg(empty=0)@10", "bpref(empty=0)", relevant]
    found = rw.compare(systems, qrels, metrics)
    pair, bpref, own = found.pairs
    assert (pair.verdict, pair.significant, pair.unsettled) == ("unjudged", False, True)
    assert pair.p_adjusted < 0.05
    assert pair.filled_difference is not None
    assert abs(pair.filled_difference) < abs(pair.difference) / 2
    assert pair.lowest is not None
    assert pair.highest is not None
    assert pair.lowest <= pair.difference < pair.filled_difference < pair.highest
    assert bpref.filled_difference is None
    assert own.filled_difference is not None  # a function, too
    text = " ".join(found.to_text(pairs=True).split())
    assert "A raised ?:" in text
    assert "were never judged (a: " in text
    assert "could change in bpref(empty=0)." in text
    assert found.table().rows[0][2].marks == "?"  # type: ignore[union-attr]
    assert "$^{?}$" in found.to_latex()
    assert "No difference is significant" not in text
    assert {"verdict", "filled_difference", "lowest", "highest"} <= set(found.to_frame().columns)
    assert found.to_dict()["pairs"][0]["verdict"] == "unjudged"
    turned = rw.compare({"b": systems["b"], "a": systems["a"]}, qrels, metrics[:1]).pairs[0]
    assert turned.filled_difference == pytest.approx(-pair.filled_difference)
    assert (turned.lowest, turned.highest) == pytest.approx((-pair.highest, -pair.lowest))
    files = rw.compare({name: without_rankings(run, qrels) for name, run in systems.items()})
    assert unchecked(files) == ["ap"]
    assert "could change in ap." in " ".join(str(files).split())


def without_rankings(run: Any, qrels: Any) -> rw.Evaluation:
    one = rw.evaluate(run, qrels, "ap(empty=0)")
    return rw.Evaluation({"ap": one["ap(empty=0)"]}, one.query_ids, judged=one.judged)


def test_no_finding_rests_on_a_verdict_that_depends_on_holes():
    systems, qrels = runs()
    found = Finding.of(rw.compare(systems, qrels, "ndcg(empty=0)@10"), "ndcg(empty=0)@10")
    assert (found.beaten, found.close, found.unsettled) == ([], ["b"], ("b",))
    assert found.headline() == "who is ahead depends on documents that were never judged"


def test_complete_judgements_change_nothing():
    systems, _ = runs()
    qrels = {q: {f"d{d}": int(d % 7 == 0) for d in range(30)} for q in systems["a"]}
    pair = rw.compare(systems, qrels, "ap").pairs[0]
    assert pair.filled_difference == pytest.approx(pair.difference)
    assert (pair.lowest, pair.highest) == pytest.approx((pair.difference, pair.difference))
    assert pair.verdict in ("better", "worse", "unclear")
    assert pair.significant == (pair.verdict != "unclear")


def test_rows_in_another_order_are_joined_by_ids():
    data, scores = small()
    named = data.with_(document_ids=np.tile([f"d{i}" for i in range(6)], 20), query_ids=np.arange(20))
    turned = named.take(np.arange(20)[::-1])
    one, other = rw.evaluate(scores[0], named, "ap"), rw.evaluate(scores[1].reshape(20, 6)[::-1].ravel(), turned, "ap")
    lists, plain = Lists.of([one, other]), lists_of(data, *scores)
    assert lists is not None
    for metric in map(rw.metric, ("ndcg@3", "ap(ties=row)")):
        low, high = plain.extremes(metric, 0, 1)
        again = lists.extremes(metric, 0, 1)
        assert again[0] == pytest.approx(low)
        assert again[1] == pytest.approx(high)
