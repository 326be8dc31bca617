"""Gates: one-sided bounds against a pencil and SciPy, few queries that differ, segments, and false passes."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats

import rankwise as rw
from rankwise.statistics.evaluation import JudgedShare
from rankwise.statistics.gate import MeanDifference, checked
from rankwise.statistics.segments import compared
from rankwise.statistics.significance import t_test
from tests.refusals import refuses


def gated(differences, margin=0.01, metric="ap", weights=None, **options):
    ids, base = range(len(differences)), np.full(len(differences), 0.5)
    values = {"old": base, "new": base + np.asarray(differences)}
    systems = {name: rw.Evaluation({metric: one}, ids, weights) for name, one in values.items()}
    return rw.compare(systems, test="t", **options).gate(margin)


@pytest.mark.parametrize("margin", [0.001, 0.0035, 0.0045, 0.02])
def test_without_tails_it_is_students_one_sided_test(margin):
    differences = np.tile([0.01, -0.01], 12) - 0.0005
    (found,) = gated(differences, margin).checks
    test = stats.ttest_1samp(differences, -margin, alternative="greater")
    assert (found.verdict == "passes") == (test.pvalue < 0.05)
    low = stats.ttest_1samp(differences, 0.0, alternative="greater").confidence_interval(0.95).low
    high = stats.ttest_1samp(differences, 0.0, alternative="less").confidence_interval(0.95).high
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    error = differences.std(ddof=1) / math.sqrt(24)
    assert found.smallest_margin == pytest.approx(error * (stats.t.ppf(0.95, 23) + stats.t.ppf(0.8, 23)))
    assert (found.queries, found.different) == (24, 24)


@pytest.mark.parametrize(
    ("shift", "verdict", "code"), [(0.0, "passes", 0), (-0.05, "fails", 3), (-0.02, "cannot tell", 4)]
)
def test_the_three_verdicts(shift, verdict, code):
    gate = gated(np.tile([0.01, -0.01], 12) + shift, 0.02)
    assert (gate.verdict, gate.exit_code) == (verdict, code)
    assert gate.to_dict()["verdict"] == verdict
    words = {"passes": "new is not worse", "fails": "new is worse", "cannot tell": "These queries cannot tell"}
    assert gate.sentence.startswith(words[verdict])


@pytest.mark.parametrize(("queries", "verdict"), [(298, "cannot tell"), (299, "passes")])
def test_equal_systems_allow_for_what_was_not_seen(queries, verdict):
    gate = gated(np.zeros(queries))
    (found,) = gate.checks
    assert gate.verdict == verdict
    assert (
        found.low == pytest.approx(-(1.0 - 0.05 ** (1.0 / queries))) == -found.high
    )  # .95^n of queries without a loss
    assert ("no query differs" in gate.sentence) == (verdict == "cannot tell")


def test_few_queries_that_differ_have_clopper_and_pearsons_bounds():
    differences = np.zeros(500)
    differences[:6], differences[6:9] = 0.3, -0.01
    (found,) = gated(differences).checks
    of_losses, of_wins = (stats.binomtest(k, 500).proportion_ci(0.9, "exact").high for k in (3, 6))
    assert (found.low, found.high) == (pytest.approx(-of_losses), pytest.approx(of_wins))
    assert (found.verdict, found.different, found.reason) == ("cannot tell", 9, "only 9 queries differ")
    assert found.smallest_margin == pytest.approx(of_losses)


def test_what_is_not_known_cannot_tell():
    unbounded, one = gated(np.zeros(5000), metric="dwell time"), np.full(200, np.nan)
    assert unbounded.verdict == "cannot tell"
    assert math.isnan(unbounded.checks[0].low)
    one[:2] = 0.0
    systems = {name: rw.Evaluation({"ap": one}, range(200)) for name in ("a", "b")}
    segment = np.where(np.arange(200) < 1, "one", np.where(np.arange(200) < 2, "other", "none"))
    gate = rw.compare(systems).gate(0.01, segment=segment)
    assert [(check.value, check.queries, check.verdict) for check in gate.checks[1:]] == [
        (value, count, "cannot tell") for value, count in (("none", 0), ("one", 1), ("other", 1))
    ]
    assert math.isnan(gate.smallest_margin)
    assert '"smallest_margin": null' in gate.to_json()


def test_the_same_difference_everywhere():
    (found,) = gated(np.full(60, -0.004), 0.01).checks
    unseen = 1.0 - 0.05 ** (1 / 60)
    assert found.low == pytest.approx(-0.004 - unseen * (1.0 - 0.004))
    assert (found.verdict, found.reason) == ("cannot tell", "the difference is the same on every query")


def test_weights_count():
    rng = np.random.default_rng(0)
    differences = rng.normal(scale=0.02, size=80)
    weights = rng.integers(1, 4, 80).astype(float)
    plain, same, weighted = (gated(differences, weights=w).checks[0] for w in (None, np.full(80, 3.0), weights))
    assert (plain.low, plain.smallest_margin) == (pytest.approx(same.low), pytest.approx(same.smallest_margin))
    assert weighted.difference == pytest.approx(np.average(differences, weights=weights))
    assert weighted.low != plain.low
    kept = np.where(np.arange(80) < 40, 1.0, 0.0)
    half, zero = gated(differences[:40]).checks[0], gated(differences, weights=kept).checks[0]
    assert (half.low, half.queries) == (pytest.approx(zero.low), zero.queries)


def test_long_tails_widen_the_side_that_they_are_on():
    rng = np.random.default_rng(1)
    values = -rng.exponential(size=50) * (rng.random(50) < 0.4) * 0.2
    left, right = (checked(one, None, "ap", 0.05, 0.95) for one in (values, -values))
    assert (left["low"], left["high"]) == (pytest.approx(-right["high"]), pytest.approx(-right["low"]))
    mean = t_test(values)
    low, high = mean.interval(0.9)
    assert left["low"] < low - 0.1 * mean.error
    assert left["high"] >= high
    assert MeanDifference.of(values).test.freedom < 49


def test_false_passes_at_the_margin_where_few_queries_lose():
    rng = np.random.default_rng(2)
    population = np.where(rng.random(20_000) < 0.1, rng.normal(-0.05, 0.15, 20_000), 0.0)
    margin, passed, student = -population.mean(), 0, 0
    for _ in range(1000):
        drawn = rng.choice(population, 300)
        passed += checked(drawn, None, "ap", margin, 0.95)["verdict"] == "passes"
        student += t_test(drawn).interval(0.9)[0] > -margin
    assert passed <= 70  # 5% and three standard errors
    assert student > passed


def test_every_segment_must_pass():
    rng = np.random.default_rng(3)
    market = np.repeat(["de", "fr", "it"], 100)
    differences = rng.normal(scale=0.01, size=300) - np.where(market == "fr", 0.03, 0.0)
    systems = {
        name: rw.Evaluation({"ap": 0.5 + one, "rr": 0.5 - one}, range(300), segments={"market": market})
        for name, one in (("old", 0.0 * differences), ("new", differences))
    }
    comparison = rw.compare(systems, segment="market")
    gate = comparison.gate(0.015)
    assert [(one.segment, one.value, one.verdict) for one in gate.checks] == [
        ("", "", "passes"), ("market", "de", "passes"), ("market", "fr", "fails"), ("market", "it", "passes"),
    ]  # fmt: skip
    assert (gate.verdict, gate.system, gate.against) == ("fails", "new", "old")
    assert gate.sentence == "new is worse than old by more than 0.015: ap on market fr."
    assert rw.compare(systems).gate(0.015).verdict == "passes"  # which hides it
    assert rw.compare(systems).gate(0.015, segment="market").checks == gate.checks  # as evaluations know them
    assert comparison.gate(0.04).verdict == "passes"
    assert comparison.gate(0.015, metric="rr").verdict == "passes"
    both = comparison.gate(0.015, metric=["rr", "ap"])
    assert (len(both.checks), both.verdict) == (8, "fails")
    assert comparison.gate(0.015, system="old", against="new").verdict == "passes"
    titled = comparison.gate(0.015, metric="rr").table(titles=["MAP", "MRR"])
    assert {row[0] for row in titled.rows} == {"MRR"}
    failed = comparison.gate(0.015).table(titles={"ap": "MAP"})
    assert failed.notes[0].endswith("0.015: MAP on market fr.")
    assert "passed in 80% of cases" in gate.to_text()


def test_refusals():
    three = {name: rw.Evaluation({"ap": np.linspace(0.0, 1.0, 30)}, range(30)) for name in "abc"}
    comparison = rw.compare(three)
    refuses(lambda: comparison.gate(-0.01), what="…margin…")
    what = "no difference is as large as the margin"  # meant as percent: it would pass always
    refuses(lambda: comparison.gate(1, system="b"), what=what, got="1 for ap", hint="…0.01 for one point of 100")
    refuses(lambda: comparison.gate(0.01), what="a gate is for one system", got="b, c")
    refuses(lambda: comparison.gate(0.01, system="a"), what="a gate needs two systems")
    refuses(lambda: comparison.gate(0.01, system="d"), got="'d'")
    refuses(lambda: comparison.gate(0.01, system="b", metric="rr"), got="'rr'")
    refuses(lambda: comparison.gate(0.01, system="b", metric=[]), what="a gate needs a metric")
    trials = rw.compare({"a": [0.1, 0.2, 0.3], "b": [0.2, 0.3, 0.4]}, metrics="ap")
    refuses(lambda: trials.gate(0.01), what="a gate goes by queries", got="pairs by trial")
    refuses(
        lambda: rw.compare(three, level=0.4).gate(0.01, system="b"), what="…one-sided, must be a number in (0.5, 1)"
    )
    assert rw.compare(three, baseline="c").gate(0.9, system="b").against == "c"


def test_what_depends_on_unjudged_documents_cannot_tell():
    rng = np.random.default_rng(4)
    market = np.repeat(["de", "fr"], 60)
    plain = np.array([np.full(120, 0.5), 0.5 + rng.normal(0.02, 0.03, 120)])
    filled = plain - np.array([np.zeros(120), np.where(market == "fr", 0.06, 0.0)])
    systems = {name: rw.Evaluation({"ap": row}, range(120)) for name, row in zip(("old", "new"), plain, strict=True)}
    comparison = rw.compare(systems, segment={"market": market}, test="t")
    paired = replace(comparison.paired, filled={"ap": filled})
    unsettled = replace(comparison, paired=paired)
    assert [one.verdict for one in comparison.gate(0.01).checks] == ["passes"] * 3
    checks = unsettled.gate(0.01).checks
    assert [one.verdict for one in checks] == ["cannot tell", "passes", "cannot tell"]
    assert checks[0].reason == "it depends on documents that were never judged"
    values = {name: {"ap": row, "bpref": row} for name, row in zip(("old", "new"), plain, strict=True)}
    share = JudgedShare(10, 0.7)
    stored = rw.compare({name: rw.Evaluation(one, range(120), judged=share) for name, one in values.items()})
    gate = stored.gate(0.01)  # of values without rankings
    assert (gate.verdict, gate.unchecked, gate.to_dict()["unchecked"]) == ("passes", ("ap",), ["ap"])
    assert gate.table().notes[-1] == "Not checked: what documents that were never judged could change in ap."
    assert unsettled.gate(0.01).unchecked == ()
    labels = {"market": market.astype(object)}
    said = [compared(one, labels, partial(rw.compare, correction="none", test="t")) for one in (comparison, unsettled)]
    assert [one.verdict for one in said[0].pairs] == ["gains", "gains"]
    assert [(one.verdict, one.unsettled) for one in said[1].pairs] == [("gains", False), ("cannot tell", True)]
    told = "By ap, whether new gains or loses on market fr, against old, depends on documents that were never judged."
    assert said[1].sentence.endswith(told)
