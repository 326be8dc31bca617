"""Results by segment are those of the segment's queries alone; claims have Holm's correction."""

import itertools
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from tests.refusals import refuses

DATA = rw.synthetic(n_queries=150, n_docs=8, seed=4)
RNG = np.random.default_rng(0)
DEVICE = np.array(["phone", "desktop", "tv"], object)[np.searchsorted([60, 143], np.arange(150), side="right")]
SIDE = np.where(np.arange(150) % 2, "odd", "even")
OLD = DATA.labels + 2.0 * RNG.normal(size=DATA.n_docs)
PHONE = np.repeat(DEVICE == "phone", DATA.sizes)
NEW = OLD + np.where(PHONE, 1.0, -0.3) * DATA.labels
THIRD = OLD + 0.2 * RNG.normal(size=DATA.n_docs)
METRICS = ["ndcg@10", "ap"]
KINDS = {"device": DEVICE, "side": SIDE}


def test_means_are_those_of_the_queries_alone():
    whole = rw.evaluate(NEW, DATA, METRICS, segment=KINDS)
    rows = {(one.segment, one.value, one.metric): one for one in whole.by_segment}
    assert list(rows) == [
        *itertools.product(["device"], ["desktop", "phone", "tv"], METRICS),
        *itertools.product(["side"], ["even", "odd"], METRICS),
    ]
    part = np.flatnonzero(DEVICE == "phone")
    alone = rw.evaluate(NEW[PHONE], DATA.take(part), METRICS)
    one = rows["device", "phone", "ap"]
    assert (one.mean, one.low, one.high) == pytest.approx((alone.mean["ap"], *alone.interval["ap"]))
    assert one.queries == alone.scored["ap"]
    assert whole.mean == rw.evaluate(NEW, DATA, METRICS).mean
    assert [line.split()[:3] for line in whole.tables()[1].text().splitlines()[1:2]] == [
        ["device", "desktop", "ndcg@10"]
    ]
    assert len(whole.to_dict()["segments"]) == 10


def test_a_segment_that_no_metric_scores_has_no_mean():
    evaluation = rw.Evaluation({"ap": [0.1, 0.2, np.nan]}, range(3), segments=["x", "x", "y"])
    assert np.isnan(evaluation.by_segment[1].mean)
    assert "y" in evaluation.to_text()


def test_policies_have_segments():
    drawn = rw.evaluate(NEW, DATA, policy="deterministic", samples=2, segment=KINDS)
    assert [one.value for one in drawn.by_segment] == ["desktop", "phone", "tv", "even", "odd"]


@pytest.mark.parametrize("test", ["fisher", "t"])
def test_pairs_are_tests_of_the_queries_alone(test):
    systems = {"old": OLD, "new": NEW, "third": THIRD}
    comparison = rw.compare(systems, DATA, METRICS, segment=KINDS, test=test)
    plain = rw.compare(systems, DATA, METRICS, test=test)
    assert comparison.pairs == plain.pairs
    assert comparison.segments is not None
    assert len(comparison.segments.pairs) == 2 * 3 * 5
    (one,) = (p for p in comparison.segments.pairs if _is(p, "ap", "new", "old", "phone"))
    part = np.flatnonzero(DEVICE == "phone")
    alone = rw.compare(
        {n: s[PHONE] for n, s in systems.items()}, DATA.take(part), METRICS, test=test, correction="none"
    )
    (other,) = (p for p in alone.pairs if _is(p, "ap", "new", "old"))
    assert (one.difference, one.low, one.high, one.p) == pytest.approx(
        (other.difference, other.low, other.high, other.p_adjusted)
    )
    assert (one.mean, one.mean_against) == pytest.approx((alone.mean["ap"]["new"], alone.mean["ap"]["old"]))
    for metric in METRICS:
        rows = [p for p in comparison.segments.pairs if p.metric == metric]
        tested = sorted((p for p in rows if p.queries >= 10), key=lambda p: p.p)
        assert len(tested) == 3 * 4  # tv has seven queries
        worst = 0.0
        for rank, p in enumerate(tested):
            worst = max(worst, (len(tested) - rank) * p.p)
            assert p.p_adjusted == pytest.approx(min(worst, 1.0))
            sure = "gains" if p.difference > 0.0 else "loses"
            assert p.verdict == (sure if p.p_adjusted < 0.05 else "cannot tell")


def _is(pair, metric, system, against, value=None):
    named = (pair.metric, pair.system, pair.against) == (metric, system, against)
    return named and (value is None or pair.value == value)


def test_who_gains_and_who_loses():
    comparison = rw.compare({"old": OLD, "new": NEW}, DATA, segment={"device": DEVICE})
    segments = comparison.segments
    assert segments is not None
    assert segments.verdicts == {
        ("device", "desktop"): "loses", ("device", "phone"): "gains", ("device", "tv"): "cannot tell",
    }  # fmt: skip
    assert segments.sentence == (
        "By ndcg@10, new gains on device phone and loses on device desktop, against old; these queries cannot tell on "
        "device tv."
    )
    assert segments.sentence in comparison.to_text().replace("\n", " ")
    tv = segments.pairs[2]
    assert (tv.value, tv.queries, np.isnan(tv.p_adjusted)) == ("tv", 7, True)
    assert "fewer than 10 queries cannot tell" in comparison.to_markdown()
    assert comparison.to_dict()["segments"]["pairs"][2]["p"] is None
    assert segments.to_frame().height == 3
    nothing = rw.compare({"old": OLD, "same": OLD}, DATA, segment=SIDE).segments
    assert nothing is not None
    assert nothing.sentence == "No segment gains or loses more than chance."


def test_evaluations_keep_their_segments(tmp_path):
    stored = {}
    for name, scores in {"old": OLD, "new": NEW}.items():
        path = rw.results.write_evaluation(rw.evaluate(scores, DATA, segment=KINDS), tmp_path / f"{name}.parquet")
        stored[name] = rw.results.read_evaluation(path)
        assert stored[name].metrics == ("ndcg@10",)
    comparison = rw.compare(stored, segment="device")
    here = rw.compare({"old": OLD, "new": NEW}, DATA, segment={"device": DEVICE})
    assert comparison.segments is not None
    assert here.segments is not None
    assert comparison.segments.pairs[:2] == here.segments.pairs[:2]  # of the third NaN
    assert rw.compare(stored).segments is None


def test_cross_validation_and_frontiers():
    ranker = rw.LightGBMRanker(rounds=2, leaves=4, threads=1, progress=False)
    result = rw.cross_validate(ranker, DATA, 2, segment=KINDS)
    assert result.segments["device"].tolist() == DEVICE.tolist()
    assert len(result.by_segment) == 5
    named = DATA.with_(query_ids=[f"q{query}" for query in range(150)])
    device = dict(zip(np.asarray(named.query_ids).tolist(), DEVICE.tolist(), strict=True))
    pooled = rw.cross_validate(ranker, folds=list(rw.folds(named, 3)), segment={"device": device})
    assert pooled.segments["device"].tolist() == [device[query] for query in pooled.query_ids.tolist()]
    train, valid = rw.split(rw.synthetic(n_queries=60, n_docs=8, goals={"buy": 90}, seed=1), (0.5, 0.5), seed=0)
    side = np.arange(30) % 2
    curve = rw.frontier(ranker, train, valid, ["xendcg", "on(buy, xendcg)"], points=2, folds=2, segment=side)
    assert len(curve.tables()[1].rows) == 2 * 2
    model = curve.models[1]
    alone = rw.evaluate(model, valid.take(np.flatnonzero(side == 0)), "ndcg(label=buy)@10").mean
    assert curve.tables()[1].rows[1][6] == f"{alone['ndcg(label=buy)@10']:.4f}"
    assert len(curve.to_dict()["segments"]) == 2 * 2 * 2


def test_refusals():
    trials = {"a": [0.1, 0.2, 0.3], "b": [0.2, 0.3, 0.4]}
    refuses(lambda: rw.compare(trials, metrics="ap", segment=[1, 2, 3]), what="segments are of queries")
    both: Any = {"judge": OLD, "segment": "device"}
    refuses(lambda: rw.compare({"a": OLD, "b": NEW}, DATA, **both), hint="…segment…")
    refuses(lambda: rw.evaluate(OLD, DATA, **both), what="a judge does not go with a segment")
    refuses(lambda: rw.evaluate(OLD, DATA, segment="device"), what="…segment…")


def test_examine_says_what_segments_can_tell():
    train, test = rw.split(DATA, (0.5, 0.5), seed=0)
    segment = {query: "few" if place < 6 else "many" for place, query in enumerate(np.asarray(test.query_ids).tolist())}
    whole, few, many = rw.examine(train, test=test, segment={"size": segment}).findings[-3:]
    assert few.sentence.startswith("size few cannot tell: 6 queries")
    assert np.isnan(few.size)
    assert many.size > whole.size > 0.0
    assert many.sentence.startswith(f"size many cannot tell differences below {many.size:.3f}, by ")
