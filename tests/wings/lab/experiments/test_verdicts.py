"""Does it hold here? What verdicts say, against tests that are computed by hand."""

import json
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
import pytest
from numpy.typing import NDArray
from scipy import stats

from rankwise.wings.lab.experiments import summary
from rankwise.wings.lab.experiments.comparisons import contrast, curve_contrast
from rankwise.wings.lab.experiments.results import Results
from rankwise.wings.lab.experiments.schema import CURVES, QUERIES
from rankwise.wings.lab.experiments.verdicts import Verdict, verdicts
from rankwise.wings.lab.papers import claims as paper_claims
from rankwise.wings.lab.papers.claims import claims, figures
from rankwise.wings.lab.report.summary import agreement
from tests.refusals import refuses

NAMES = ("LambdaMART", "XE-NDCG")
GROWING = [0.0, 0.2, 0.4, 0.6]


def made(gaps: dict[tuple[str, float, str], Any], *, queries: int = 2, methods: Any = NAMES, **spec: Any) -> Results:
    """Results in which the second method is better by these gaps: data, level, metric -> a gap per trial (and query).

    Trials of the protocol "folds" test other queries each; all others the same.
    """
    metrics = list(dict.fromkeys(metric for _, _, metric in gaps))
    spec = {
        "protocol": "trials",
        "published": "bruch2021.figure2",
        "treatment": "flips",
        "split": [0.6, 0.2, 0.2],
    } | spec
    spec |= {"name": "x", "decide": metrics[0], "methods": dict.fromkeys(methods, "")}
    rows = []
    for data, level in dict.fromkeys((data, level) for data, level, _ in gaps):
        values = np.stack([_by_query(gaps[data, level, metric], queries) for metric in metrics])
        for trial in range(values.shape[1]):
            for query in range(queries):
                name = f"{trial}-{query}" if spec["protocol"] == "folds" else f"{query}"
                base = 0.4 + 0.01 * trial + 0.1 * query - 0.05 * level
                for method, factor in zip(methods, (0.0, 1.0), strict=True):
                    found = (base + factor * values[:, trial, query]).tolist()
                    rows.append((data, level, trial, method, name, 5, 2, 1.0, *found))
    frame = pl.DataFrame(rows, schema=[*QUERIES, *metrics], orient="row")
    return Results(spec=spec, queries=frame, published=figures(spec["published"]))


def _by_query(gaps: Any, queries: int) -> NDArray[np.float64]:
    values = np.asarray(gaps, dtype=np.float64)
    return values if values.ndim == 2 else np.repeat(values[:, None], queries, axis=1)


def corrected(values: Any, overlap: float) -> float:
    """The p-value of Nadeau and Bengio's test, from the formula."""
    n = len(values)
    t = np.mean(values) / np.sqrt(np.var(values, ddof=1) * (1 / n + overlap))
    return float(2 * stats.t.sf(abs(t), n - 1))


def stepped_down(p: list[float]) -> list[float]:
    """Holm's correction, one p-value at a time: the k-th smallest of m, times m − k + 1, never falling."""
    found = [0.0] * len(p)
    least = 0.0
    for k, i in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        least = max(least, min(1.0, (len(p) - k) * p[i]))
        found[i] = least
    return found


def judged(results: Results) -> list[Verdict]:
    return [one for one in verdicts(results) if one.verdict != "not tested"]


# Sure, and on which side.


@pytest.mark.parametrize(
    ("gaps", "word"),
    [
        ([0.10, 0.11, 0.09, 0.10, 0.105], "agrees"),
        ([-0.10, -0.11, -0.09, -0.10, -0.105], "disagrees"),
        ([0.10, -0.08, 0.05, -0.02, 0.01], "open (same direction)"),
        ([-0.10, 0.08, -0.05, 0.02, -0.01], "open (other direction)"),
        ([0.01, 0.03, 0.0, 0.02, 0.015], "open (same direction)"),  # t = 3 of 4 degrees; after the correction 1.84
        ([-0.01, -0.03, 0.0, -0.02, -0.015], "open (other direction)"),
        ([0.0, 0.0, 0.0], "open"),
    ],
)
def test_only_what_survives_the_correction_is_sure_on_either_side(gaps, word):
    def results(data: str = "mine", methods: tuple[str, ...] = ("ListNet", "LambdaMART")) -> Results:
        return made({(data, 0.0, "ndcg@5"): gaps}, methods=methods, published="bruch2021.table1")

    found = verdicts(results())
    assert [(one.better, one.worse, one.verdict) for one in found] == [("LambdaMART", "ListNet", word)]
    assert found[0].difference == pytest.approx(np.mean(gaps))
    assert (found[0].published_on, found[0].same_data) == ("mslr-web30k, yahoo-set1", False)
    own = verdicts(results("yahoo-set1"))[0]
    assert (own.published_on, own.same_data) == ("yahoo-set1", True)
    # The order in which the methods are described does not matter.
    named = results()
    turned = Results(spec=named.spec | {"methods": {"LambdaMART": "", "ListNet": ""}}, queries=named.queries)
    again = verdicts(turned)[0]
    assert again.verdict == word
    assert (again.difference, again.low) == pytest.approx((found[0].difference, found[0].low), abs=1e-12)


def test_p_values_are_corrected_for_shared_data_and_for_their_number_by_hand():
    rng = np.random.default_rng(3)
    keys = [(data, level, "ndcg@5") for data in ("one", "two") for level in GROWING]
    gaps = {key: rng.normal(mean, 0.01, 8) for key, mean in zip(keys, np.linspace(0.0, 0.03, 8), strict=True)}
    found = judged(made(gaps))
    values: list[NDArray[np.float64]] = []
    for data in ("one", "two"):
        own = np.stack([gaps[data, level, "ndcg@5"] for level in GROWING])
        values += [*own, np.polyfit(GROWING, own, 1)[0] * 0.6]
    p = stepped_down([corrected(one, 0.2 / 0.6) for one in values])
    assert [one.p_adjusted for one in found] == pytest.approx(p, rel=1e-9)
    assert [one.difference for one in found] == pytest.approx([one.mean() for one in values])
    assert [one.verdict in ("agrees", "disagrees") for one in found] == [one < 0.05 for one in p]
    # Alone, some would be sure that are not sure among ten.
    alone = [corrected(one, 0.2 / 0.6) < 0.05 for one in values]
    assert sum(alone) > sum(one < 0.05 for one in p) > 0


def test_of_folds_both_the_test_over_folds_and_that_over_queries_must_be_sure():
    rng = np.random.default_rng(5)
    level = (0.0, "ndcg@5")
    # Folds disagree, so that queries alone would be sure of what five folds are not.
    apart = np.array([0.05, -0.03, 0.04, 0.0, 0.03])[:, None] + rng.normal(0, 0.01, (5, 40))
    alike = 0.03 + rng.normal(0, 0.02, (5, 40))
    for protocol, overlap in (("folds", 1 / 3), ("ratings", 0.2 / 0.72)):
        for gaps, word in ((apart, "open (same direction)"), (alike, "agrees")):
            one = judged(made({("mine", *level): gaps}, queries=40, protocol=protocol))[0]
            by_query = gaps.ravel() if protocol == "folds" else gaps.mean(axis=0)
            p = [corrected(gaps.mean(axis=1), overlap), stats.ttest_1samp(by_query, 0.0).pvalue]
            assert p[1] < 0.05  # queries alone are sure in each case
            assert one.p_adjusted == pytest.approx(max(p))
            assert (one.verdict, one.covers) == (word, "splits, queries")
            assert one.difference == pytest.approx(gaps.mean())
            low, high = stats.ttest_1samp(by_query, 0.0).confidence_interval(0.95)
            assert one.low is not None
            assert one.high is not None
            assert one.low <= low < high <= one.high
            assert (one.low > 0.0) == (one.verdict == "agrees")


def test_folds_that_are_gone_round_again_count_once():
    first, again = [0.02, 0.03, 0.01, 0.04, 0.02], [0.03, 0.02, 0.02, 0.03, 0.03]
    twice = made({("mine", 0.0, "ndcg@5"): first + again}, protocol="ratings")
    found = contrast(twice, "mine", [0.0], "ndcg@5", "XE-NDCG", "LambdaMART")
    assert found is not None
    assert found.tests["splits"].freedom == 4
    assert found.tests["splits"].p == pytest.approx(corrected((np.array(first) + again) / 2, 0.2 / 0.72))


@pytest.mark.parametrize(("protocol", "trials", "covers"), [("runs", 4, "draws"), ("trials", 1, "queries")])
def test_what_one_split_shows_is_sure_of_that_split_alone(protocol, trials, covers):
    gaps = 0.05 + np.random.default_rng(1).normal(0, 0.005, (trials, 30))
    for sign, word in ((1, "agrees on this split"), (-1, "disagrees on this split")):
        results = made({("mine", 0.0, "ndcg@5"): sign * gaps}, queries=30, protocol=protocol)
        one = judged(results)[0]
        assert (one.verdict, one.covers) == (word, covers)
        units = gaps.mean(axis=1) if covers == "draws" else gaps[0]
        assert one.p_adjusted == pytest.approx(stats.ttest_1samp(units, 0.0).pvalue)
        notes = " ".join(summary.verdict_table(results).notes)  # type: ignore[union-attr]
        assert {"draws": "what is drawn in training, and nothing else", "queries": "test queries, and nothing else"}[
            covers
        ] in notes


@pytest.mark.parametrize(
    ("mean", "spread", "word"),
    [
        (0.0, 0.0005, "agrees"),
        (0.002, 0.0005, "agrees"),  # surely apart, and surely by less than matters
        (0.0, 0.02, "open"),  # not apart, but nobody knows: the test is weak
        (0.004, 0.004, "open"),
        (0.03, 0.005, "disagrees"),
        (-0.03, 0.005, "disagrees"),
    ],
)
def test_methods_are_level_only_where_the_interval_says_so(mean, spread, word):
    noise = np.linspace(-1, 1, 10)
    gaps = mean + spread * noise / noise.std(ddof=1)
    names = ("CrossEntropy", "E[CrossEntropy]")
    results = made({("mine", 0.0, "ndcg@5"): gaps}, methods=names, published="bruch2020.figure3")
    (one,) = judged(results)
    assert (one.published_significant, one.verdict) == (False, word)
    error = spread * np.sqrt(1 / 10 + 1 / 3)
    sides = [stats.t.sf((0.005 + side * mean) / error, 9) for side in (1, -1)]  # two one-sided tests
    apart, within = stepped_down([corrected(gaps, 1 / 3), min(1.0, 2 * max(sides))])
    assert one.p_adjusted == pytest.approx(apart if word == "disagrees" else within)
    assert "E[CrossEntropy] ≈ CrossEntropy" in summary.verdict_table(results).text()  # type: ignore[union-attr]


def test_trials_that_share_data_are_not_taken_for_more_than_they_are():
    # No method is better, but all trials of an experiment share what their common data do to the difference.
    rng, shared = np.random.default_rng(7), 1 / 3
    plain, ours = [], []
    for _ in range(150):
        gaps = 0.01 * (np.sqrt(shared) * rng.normal() + rng.normal(size=20))
        plain.append(stats.ttest_1samp(gaps, 0.0).pvalue < 0.05)
        (one,) = judged(made({("mine", 0.0, "ndcg@5"): gaps}, published="bruch2021.figure1", queries=1))
        ours.append(not one.verdict.startswith("open"))
    assert np.mean(plain) > 0.3
    assert np.mean(ours) < 0.1


# Contrasts over levels.


def test_interactions_are_the_slope_of_the_paired_difference():
    rng = np.random.default_rng(11)
    levels = [0.0, 0.1, 0.3, 0.7]
    gaps = {("mine", level, "ndcg@5"): 0.02 * level + rng.normal(0, 0.002, 6) for level in levels}
    results = made(gaps)
    found = contrast(results, "mine", levels, "ndcg@5", "XE-NDCG", "LambdaMART")
    assert found is not None
    slopes = np.polyfit(levels, np.stack([gaps["mine", level, "ndcg@5"] for level in levels]), 1)[0]
    assert found.difference == pytest.approx(0.7 * slopes.mean())
    assert found.tests["splits"].p == pytest.approx(corrected(slopes, 1 / 3))
    (row,) = [one for one in judged(results) if one.level is None]
    assert (row.says, row.levels) == ("LambdaMART falls faster than XE-NDCG as noise grows", tuple(levels))
    half = stats.t.ppf(0.975, 5) * 0.7 * np.std(slopes, ddof=1) * np.sqrt(1 / 6 + 1 / 3)
    assert (row.low, row.high) == pytest.approx((found.difference - half, found.difference + half))


def test_interactions_of_folds_are_taken_per_query():
    rng = np.random.default_rng(13)
    levels = [1.0, 2.0, 3.0]
    gaps = {("mine", level, "ndcg@5"): 0.01 * level + rng.normal(0, 0.01, (5, 12)) for level in levels}
    found = contrast(made(gaps, queries=12, protocol="folds"), "mine", levels, "ndcg@5", "XE-NDCG", "LambdaMART")
    assert found is not None
    slopes = np.polyfit(levels, np.stack([one.ravel() for one in gaps.values()]), 1)[0] * 2.0
    assert found.tests["queries"].p == pytest.approx(stats.ttest_1samp(slopes, 0.0).pvalue)
    assert found.tests["splits"].p == pytest.approx(corrected(slopes.reshape(5, 12).mean(axis=1), 1 / 3))


def test_a_trial_counts_only_with_all_its_levels_and_both_methods():
    gaps = {("mine", level, "ndcg@5"): [0.01, 0.02, 0.04, 0.03] for level in (0.0, 1.0)}
    results = made(gaps)
    lost = (pl.col("level") == 1.0) & (pl.col("trial") == 2) & (pl.col("method") == "XE-NDCG")
    short = Results(spec=results.spec, queries=results.queries.filter(~lost))
    found = contrast(short, "mine", [0.0, 1.0], "ndcg@5", "XE-NDCG", "LambdaMART")
    alone = contrast(short, "mine", [0.0], "ndcg@5", "XE-NDCG", "LambdaMART")
    assert found is not None
    assert alone is not None
    assert (found.tests["splits"].freedom, alone.tests["splits"].freedom) == (2, 3)
    assert contrast(short, "mine", [0.5], "ndcg@5", "XE-NDCG", "LambdaMART") is None


def test_the_lead_on_binary_labels_is_held_against_that_on_graded_ones():
    graded, binary = [0.05, 0.055, 0.052, 0.049, 0.051], [0.02, 0.022, 0.021, 0.019, 0.02]
    gaps = {("mine", 0.0, "ndcg@5"): graded, ("mine", 1.0, "ndcg@5"): binary}
    names = ("ListNet", "LambdaMART")
    found = verdicts(made(gaps, methods=names, published="bruch2019.table1", treatment="binarize"))
    assert [(one.level, one.verdict) for one in found] == [(0.0, "agrees"), (1.0, "agrees"), (None, "agrees")]
    assert found[2].says == "LambdaMART's lead over ListNet is smaller on binary labels"
    assert found[2].difference == pytest.approx(np.mean(graded) - np.mean(binary))
    turned = dict(zip(gaps, (binary, graded), strict=True))
    assert verdicts(made(turned, methods=names, published="bruch2019.table1"))[2].verdict == "disagrees"
    only = {key: values for key, values in gaps.items() if key[1] == 1.0}
    assert len(verdicts(made(only, methods=names, published="bruch2019.table1"))) == 1


# Learning curves.


def with_curves(results: Results, paths: dict[tuple[int, str], tuple[list[int], Any]]) -> Results:
    rows = [
        ("mine", 0.0, trial, method, step, "valid ndcg@5", float(value))
        for (trial, method), (steps, values) in paths.items()
        for step, value in zip(steps, values, strict=True)
    ]
    return replace(results, curves=pl.DataFrame(rows, schema=CURVES, orient="row"))


def test_curves_are_compared_by_their_mean_over_rounds_and_by_their_change():
    rng = np.random.default_rng(17)
    full, short = list(range(1, 31)), list(range(1, 21))  # LambdaMART stops early, and keeps its last value
    paths: dict[tuple[int, str], Any] = {}
    means, slopes = [], []
    for trial in range(6):
        ahead = 0.5 + 0.002 * rng.normal(size=30) + 0.01 * rng.normal()
        behind = 0.45 + 0.001 * np.arange(20) + 0.002 * rng.normal(size=20)
        paths |= {(trial, "XE-NDCG"): (full, ahead), (trial, "LambdaMART"): (short, behind)}
        gap = ahead - np.concatenate([behind, np.full(10, behind[-1])])
        means.append(gap.mean())
        slopes.append(np.polyfit(full, gap, 1)[0] * 29)
    results = with_curves(made({("mine", 0.0, "ndcg@5"): [0.01] * 6}), paths)
    mean = curve_contrast(results, "mine", 0.0, "valid ndcg@5", "XE-NDCG", "LambdaMART")
    change = curve_contrast(results, "mine", 0.0, "valid ndcg@5", "XE-NDCG", "LambdaMART", change=True)
    for found, values in ((mean, means), (change, slopes)):
        assert found is not None
        assert found.rounds == (1, 30)
        assert found.difference == pytest.approx(np.mean(values))
        assert found.tests["splits"].p == pytest.approx(corrected(values, 1 / 3))
    figure = replace(results, spec=results.spec | {"published": "bruch2021.figure1"})
    table = summary.verdict_table(figure)
    assert table is not None
    assert [row[1] for row in table.rows] == ["0", "rounds 1 to 30"]
    assert table.rows[1][-1] == "agrees"  # the lead falls from .05 to .03
    assert verdicts(figure)[1].difference == pytest.approx(-np.mean(slopes))


def test_rounds_that_were_not_kept_do_not_count_for_less():
    paths: dict[tuple[int, str], Any] = {}
    for trial, ahead in enumerate((0.1, 0.2)):
        for method, values in (("XE-NDCG", [0.5 + ahead] * 4), ("LambdaMART", [0.5, 0.5, 0.5, 0.5 + ahead])):
            paths[trial, method] = ([1, 2, 3, 103], values)
    results = with_curves(made({("mine", 0.0, "ndcg@5"): [0.01] * 2}), paths)
    found = curve_contrast(results, "mine", 0.0, "valid ndcg@5", "XE-NDCG", "LambdaMART")
    assert found is not None
    assert found.difference == pytest.approx(0.15 * 3 / 103)
    change = curve_contrast(results, "mine", 0.0, "valid ndcg@5", "XE-NDCG", "LambdaMART", change=True)
    line = np.polyfit([1, 2, 3, 103], [0.15, 0.15, 0.15, 0.0], 1, w=np.sqrt([1, 1, 1, 100]))
    assert change is not None
    assert change.difference == pytest.approx(line[0] * 102)


def test_one_curve_of_each_method_is_no_test():
    steps = [1, 2, 3]
    paths = {(0, "XE-NDCG"): (steps, [0.5, 0.6, 0.7]), (0, "LambdaMART"): (steps, [0.4, 0.5, 0.7])}
    results = with_curves(made({("mine", 0.0, "ndcg@5"): [0.01]}, published="bruch2021.figure1"), paths)
    assert [(one.data, one.verdict) for one in verdicts(results)] == [
        ("mine", "open (same direction)"),  # one trial, with the same difference on each of a few queries
        ("mine", "not tested"),
    ]
    assert "needs two trials" in summary.verdict_table(results).notes[-1]  # type: ignore[union-attr]


# What is shown.


def test_tables_say_whose_data_they_are_what_is_not_in_print_and_what_cannot_be_tested():
    gaps = {("mine", level, "ndcg@5"): [0.01, 0.02, 0.015] for level in GROWING}
    results = made(gaps, alpha=0.01)
    table = summary.verdict_table(results)
    assert table is not None
    text = table.text()
    assert text.count("other data: mslr-web30k, yahoo-set1") == 5
    assert "0 to 0.6" in text
    assert "Curves without published numbers" in " ".join(table.notes)
    assert "for 5 statements" in " ".join(table.notes)  # the one that is not tested is no part of the family
    row = table.rows[-1]
    assert (row[0], row[-1]) == ("–", "not tested")
    assert "more so on Yahoo!" in row[3]  # type: ignore[operator]
    page = results.to_markdown()
    assert "LambdaMART falls faster than XE-NDCG as noise grows" in page
    assert "99% interval" in page
    assert "95%" not in page
    plain = json.loads(json.dumps(results.to_dict()))["verdicts"]
    assert [one["verdict"] for one in plain][-1] == "not tested"
    assert plain[-2]["levels"] == GROWING
    (said,) = agreement(results)
    assert said.startswith("The paper's 6 statements, here: 1 × not tested, ")


def test_statements_stand_for_what_figures_would_claim(monkeypatch):
    level = [one for one in claims("bruch2020.table1") if one.subject[2] == {"CrossEntropy", "E[CrossEntropy]"}]
    assert [(one.metric, one.significant) for one in level] == [
        ("ndcg@1", False),
        ("ndcg@5", False),
        ("ndcg@10", False),
    ]
    wrong = {"t": {"source": "s", "claims": [{"kind": "slope", "data": ["d"], "metrics": ["ap"]}]}}
    monkeypatch.setattr(paper_claims, "_paper", lambda _: wrong)
    refuses(lambda: claims("bruch2019.t"), what="unknown kind of claim", got="'slope'")


def test_trials_that_are_all_the_same_have_an_interval_nevertheless():
    """The share of differences that were not seen in n trials is below 1 − (α/2)^(1/n)."""
    results = made({("d", 0.0, "ndcg@10"): [0.1] * 5, ("d", 1.0, "ndcg@10"): [0.2] * 5})
    unseen = 1.0 - 0.025 ** (1.0 / 5.0)
    for levels, difference, most in (([0.0], 0.1, 1.0), ([0.0, 1.0], 0.1, 2.0)):
        found = contrast(results, "d", levels, "ndcg@10", NAMES[1], NAMES[0])
        assert found is not None
        expected = (difference - unseen * (difference + most), difference + unseen * (most - difference))
        assert found.interval(0.95) == pytest.approx(expected)
    cell = summary._cell(np.full(5, 0.5), "ndcg@10", NAMES[0], None, 0.05)
    assert cell.text == f"0.5000 ± {unseen / 2:.4f}"
    assert summary._cell(np.full(5, 0.5), "dwell time", NAMES[0], None, 0.05).text == "0.5000 ± –"
