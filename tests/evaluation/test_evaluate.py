"""Evaluations: means, weights, skipped queries, bootstrap intervals and how they print."""

import csv
import math
import re
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import rankwise as rw
from rankwise.base import tables
from rankwise.base.tables import Table, TableCell
from rankwise.metrics import metric

NAN = float("nan")


def sample(n_queries: int = 60, *, ids=None, weights=None, seed: int = 0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 12, n_queries)
    n = int(sizes.sum())
    labels = rng.choice(3, n, p=[0.7, 0.2, 0.1])
    data = rw.RankingDataset.from_sizes(rng.normal(size=(n, 2)), labels, sizes, query_ids=ids, weights=weights)
    return labels + rng.normal(size=n), data


def test_values_are_those_of_the_metric_and_the_mean_is_over_scored_queries():
    scores, data = sample()
    evaluation = rw.evaluate(scores, data, ["ndcg@5", metric("ap")])
    assert evaluation.metrics == ("ndcg@5", "ap")
    for text in evaluation.metrics:
        expected = metric(text)(scores, data.labels, data.offsets)
        np.testing.assert_array_equal(evaluation[text], expected)
        assert evaluation.mean[text] == pytest.approx(np.nanmean(expected), rel=1e-14)
        assert evaluation.scored[text] == np.count_nonzero(~np.isnan(expected)) < data.n_queries


def test_a_query_without_relevant_documents_counts_when_it_has_a_worth():
    data = rw.RankingDataset.from_sizes(np.zeros((3, 1)), [1, 0, 0], [2, 1], weights=[1.0, 3.0])
    scores = [2.0, 1.0, 0.0]
    assert rw.evaluate(scores, data, "ndcg").mean == {"ndcg": 1.0}
    assert rw.evaluate(scores, data, "ndcg(empty=0)").mean == {"ndcg(empty=0)": 0.25}
    assert rw.evaluate(scores, data, "ndcg(empty=1)").mean == {"ndcg(empty=1)": 1.0}


def test_weights():
    weights = np.random.default_rng(1).uniform(0.1, 3.0, 60)
    scores, data = sample(weights=weights)
    evaluation = rw.evaluate(scores, data, "rr")
    scored = ~np.isnan(evaluation["rr"])
    assert evaluation.mean["rr"] == pytest.approx(np.average(evaluation["rr"][scored], weights=weights[scored]))


def test_a_weighted_mean_is_called_so():
    for weights, title in (([1.0, 2.0], "weighted mean"), ([2.0, 2.0], "mean"), (None, "mean")):
        evaluation = rw.Evaluation({"ap": [0.25, 1.0]}, ["a", "b"], weights)
        assert evaluation.table().header[1] == title
        assert evaluation.to_dict().get("weighted", False) == (title != "mean")


def test_weight_two_is_the_query_twice():
    values = np.array([0.2, 0.9, 0.4])
    double = rw.Evaluation({"ap": values}, range(3), [1, 2, 1])
    twice = rw.Evaluation({"ap": values[[0, 1, 1, 2]]}, range(4))
    assert double.mean == pytest.approx(twice.mean)


def test_a_model_is_asked_for_scores():
    scores, data = sample()

    class Constant:
        def predict(self, given):
            assert given is data
            return scores

    assert rw.evaluate(Constant(), data).mean == rw.evaluate(scores, data).mean


def test_metrics_are_found_by_any_spelling():
    scores, data = sample()
    evaluation = rw.evaluate(scores, data, "ndcg@10")
    np.testing.assert_array_equal(evaluation["ndcg(gain=exponential)@10"], evaluation["ndcg@10"])
    np.testing.assert_array_equal(evaluation[metric("ndcg") @ 10], evaluation["ndcg@10"])
    with pytest.raises(KeyError, match="no metric 'ndgc@10': did you mean 'ndcg@10'"):
        evaluation["ndgc@10"]
    with pytest.raises(KeyError, match="no metric 'ap'"):
        evaluation["ap"]


def test_the_interval_is_where_a_multinomial_bootstrap_puts_it():
    rng = np.random.default_rng(2)
    values = rng.beta(2, 3, 300)
    weights = rng.uniform(0.5, 2.0, 300)
    low, high = rw.Evaluation({"ap": values}, range(300), weights, resamples=8000).interval["ap"]
    drawn = rng.integers(0, 300, (8000, 300))
    means = (weights * values)[drawn].sum(1) / weights[drawn].sum(1)
    error = means.std()
    assert [low, high] == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.12 * error)
    assert high - low == pytest.approx(2 * 1.96 * error, rel=0.08)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(3)
    covered = []
    for seed in range(400):
        evaluation = rw.Evaluation({"m": rng.beta(2, 6, 80)}, range(80), level=0.9, resamples=400, seed=seed)
        low, high = evaluation.interval["m"]
        covered.append(low <= 0.25 <= high)
    assert 0.85 < np.mean(covered) < 0.94


def test_intervals_do_not_depend_on_the_order_of_queries_or_on_threads():
    ids = np.array([f"q{i}" for i in range(3000)])
    scores, data = sample(3000, ids=ids, weights=np.random.default_rng(0).uniform(0.5, 2, 3000))
    turn = np.random.default_rng(1).permutation(3000)
    turned_scores = np.concatenate([scores[data.offsets[q] : data.offsets[q + 1]] for q in turn])
    with rw.use_threads(1):
        first = rw.evaluate(scores, data, ["ndcg@5", "rr"], resamples=201)
        intervals = first.interval
    with rw.use_threads(4):
        second = rw.evaluate(turned_scores, data.take(turn), ["ndcg@5", "rr"], resamples=201)
        assert second.interval == intervals
    assert second.mean == first.mean
    assert rw.evaluate(scores, data, "rr", resamples=201, seed=1).interval["rr"] != intervals["rr"]
    assert first.resampled().shape == (201, 2)


def test_a_metric_has_the_same_interval_whatever_stands_beside_it():
    scores, data = sample()
    together = rw.evaluate(scores, data, ["ndcg@5", "rr"]).interval
    assert rw.evaluate(scores, data, "rr").interval["rr"] == together["rr"]


@pytest.mark.parametrize("queries", [3, 5, 9])
def test_the_interval_of_few_queries_covers_the_truth_as_often_as_it_says(queries):
    rng = np.random.default_rng(4)
    covered = []
    for _ in range(600):
        evaluation = rw.Evaluation({"m": rng.beta(4, 4, queries)}, range(queries), resamples=10)
        low, high = evaluation.interval["m"]
        covered.append(low <= 0.5 <= high)
    assert 0.92 < np.mean(covered) < 0.98  # resampling three queries covers it in three of four cases


def test_intervals_of_few_queries_are_students_within_the_range_of_the_metric():
    values, weights = [0.9, 1.0, 0.6, NAN], [1.0, 1.0, 1.0, 5.0]
    evaluation = rw.Evaluation({"ap": values, "dcg": values, "own": values}, range(4), weights)
    theirs = stats.ttest_1samp(values[:3], 0.0).confidence_interval(0.95)
    assert evaluation.interval["own"] == pytest.approx(tuple(theirs))
    assert evaluation.interval["dcg"] == pytest.approx(tuple(theirs))
    assert evaluation.interval["ap"] == pytest.approx((theirs.low, 1.0))
    assert "Fewer than 10 queries: the interval is Student's" in repr(evaluation)
    two = rw.Evaluation({"ap": [0.5, 1.0, 0.2]}, range(3), [1.0, 1.0, 0.0])  # of which two count
    assert np.isnan(two.interval["ap"]).all()
    assert two.to_dict()["metrics"]["ap"]["low"] is None
    assert "Fewer than 3 queries: no interval." in repr(two)
    ten = rw.Evaluation({"ap": [0.5] * 9 + [1.0]}, range(10))
    assert "Fewer than" not in repr(ten)


@pytest.mark.parametrize("weights", [None, [1.0] * 7 + [0.0, 1.0]])
def test_values_without_spread_have_an_interval_nevertheless(weights):
    same, most = [1.0] * 9, [1.0] * 6 + [0.0, 1.0, NAN]
    evaluation = rw.Evaluation({"hit@1": same, "rr": most, "dcg@5": same, "num_q": same}, range(9), weights)
    counted = 9 if weights is None else 8
    exact = stats.binomtest(counted, counted).proportion_ci(0.95, method="exact")
    assert evaluation.interval["hit@1"] == pytest.approx(tuple(exact))  # it was [1, 1]
    seven = stats.binomtest(counted - 2, counted - 1).proportion_ci(0.95, method="exact")
    assert evaluation.interval["rr"] == pytest.approx(tuple(seven))
    assert np.isnan(evaluation.interval["dcg@5"]).all()
    assert evaluation.summary()["low"].null_count() == 1
    assert evaluation.interval["num_q"] == (1.0, 1.0)  # by definition
    notes = " ".join(evaluation.table().notes)
    assert "every query (hit@1): the interval allows" in notes
    assert "every query (dcg@5): no interval" in notes
    many = rw.Evaluation({"hit@1": [1.0] * 40}, range(40))
    assert many.interval["hit@1"] == pytest.approx(tuple(stats.binomtest(40, 40).proportion_ci(0.95)))
    inside = rw.compare({"a": many, "b": many})
    assert inside.pairs[0].high == -inside.pairs[0].low == pytest.approx(2 * 0.5 * (1 - 0.025 ** (1 / 40)))
    assert inside.interval["hit@1"]["a"] == many.interval["hit@1"]


def test_trials_with_the_same_mean_are_not_sure_of_it():
    compared = rw.compare({"a": [0.5] * 4, "b": [0.6] * 4}, metrics="ndcg@10")
    assert (compared.pairs[0].p_t, compared.pairs[0].p_fisher) == (0.125, 0.125)
    low, high = compared.interval["ndcg@10"]["a"]
    assert low < 0.3
    assert high > 0.7
    assert compared.pairs[0].low < 0.0 < compared.pairs[0].high


@given(st.lists(st.floats(0, 1), min_size=10, max_size=16), st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_an_interval_lies_within_the_values(values, resamples):
    evaluation = rw.Evaluation({"m": values}, range(len(values)), resamples=resamples)
    low, high = evaluation.interval["m"]
    same = np.ptp(values) <= 1e-12 * max(values)
    assert np.isnan([low, high]).all() if same else min(values) - 1e-12 <= low <= high <= max(values) + 1e-12
    assert evaluation.mean["m"] == pytest.approx(math.fsum(values) / len(values))


def test_frames():
    evaluation = rw.Evaluation({"ap": [0.5, NAN, 1.0], "rr": [1.0, 0.0, 0.5]}, ["a", "b", "c"], [1.0, 2.0, 1.0])
    frame = evaluation.to_frame()
    assert frame.columns == ["query", "weight", "ap", "rr"]
    assert frame.rows() == [("a", 1.0, 0.5, 1.0), ("b", 2.0, None, 0.0), ("c", 1.0, 1.0, 0.5)]
    summary = evaluation.summary()
    assert summary["metric"].to_list() == ["ap", "rr"]
    assert summary["mean"].to_list() == [0.75, 0.375]
    assert summary.select("scored", "skipped").rows() == [(2, 1), (3, 0)]
    assert summary.schema["low"] == pl.Float64
    plain = evaluation.to_dict()
    assert plain["queries"] == 3
    assert plain["metrics"]["ap"]["mean"] == 0.75
    assert set(plain["metrics"]["rr"]) == {"mean", "low", "high", "scored", "skipped"}


def test_frame_without_ids_numbers_the_queries():
    scores, data = sample(3)
    assert rw.evaluate(scores, data, "ndcg(empty=0)").to_frame()["query"].to_list() == [0, 1, 2]


def test_it_prints_as_a_table_and_shows_in_notebooks():
    evaluation = rw.Evaluation({"ap": [0.5, 0.5, NAN], "ndcg@10": [0.25, 0.25, 0.25]}, range(3), level=0.9)
    assert repr(evaluation) == (
        "metric     mean  90% interval      scored  skipped\n"
        "ap       0.5000  –                      2        1\n"
        "ndcg@10  0.2500  [0.0921, 0.7237]       3        0\n\n"
        "Fewer than 3 queries: no interval.\n\n"
        "The same value on every query (ndcg@10): the interval allows for other values, not seen\n"
        "in so few."
    )


def test_evaluations_are_frozen():
    evaluation = rw.Evaluation({"ap": np.array([0.5, 1.0])}, range(2))
    with pytest.raises(ValueError, match="read-only"):
        evaluation["ap"][0] = 1.0
    with pytest.raises(AttributeError):
        evaluation.seed = 1  # type: ignore[misc]


def test_what_was_passed_stays_writable():
    values = np.array([0.5, 1.0])
    rw.Evaluation({"ap": values}, range(2))
    values[0] = 0.0


def spoilt(scores, value, row):
    return np.where(np.arange(scores.size) == row, value, scores)


REFUSALS: dict[str, Any] = {
    "scores must be one number per document: got shape (": lambda s, d: rw.evaluate(s[:-1], d),
    "scores must be finite: got nan at row 3 (query 'q0')": lambda s, d: rw.evaluate(spoilt(s, np.nan, 3), d),
    "scores must be finite: got inf at row 0 (query 'q0')": lambda s, d: rw.evaluate(spoilt(s, np.inf, 0), d),
    "ndcg@10 scores no query: got 60 queries without a": lambda s, d: rw.evaluate(s, d.with_(labels=np.zeros(s.size))),
    "an evaluation needs at least one metric. Hint: for example": lambda s, d: rw.evaluate(s, d, []),
    "unknown metric: got 'ndgc'": lambda s, d: rw.evaluate(s, d, "ndgc"),
    "level must be a number in (0, 1): got 1.0": lambda s, d: rw.evaluate(s, d, level=1.0),
    "resamples must be a whole number of at least 1: got 0": lambda s, d: rw.evaluate(s, d, resamples=0),
    "seed must be a whole number of at least 0: got -1": lambda s, d: rw.evaluate(s, d, seed=-1),
    "values of ap must be one number per query: got shape (1,)": lambda s, d: rw.Evaluation({"ap": [0.1]}, ["a", "b"]),
    "values of ap must be finite: got inf at query 'b'": lambda s, d: rw.Evaluation({"ap": [0.1, np.inf]}, ["a", "b"]),
    "query ids must all be different": lambda s, d: rw.Evaluation({"ap": [0.1, 0.2]}, ["a", "a"]),
    "2 queries without a relevant document (or of weight 0)": lambda s, d: rw.Evaluation(
        {"ap": [NAN, 0.2]}, ["a", "b"], [1.0, 0.0]
    ),
}


@pytest.mark.parametrize("sentence", REFUSALS)
def test_refusals(sentence):
    scores, data = sample(ids=[f"q{i}" for i in range(60)])
    with pytest.raises(ValueError, match=re.escape(sentence)):
        REFUSALS[sentence](scores, data)


TABLE = Table(
    header=("", "system", "m_1"),
    rows=(
        ("a", "x|y_z", TableCell("0.5", "bc")),
        ("b", "50% & <more>", TableCell("−0.6", best=True)),
        ("c", "日本", "–"),
    ),
    align="llr",
    notes=("A note.",),
)


def test_table_as_text_lines_up_also_with_marks_and_wide_letters():
    assert TABLE.text() == (
        "   system           m_1\na  x|y_z          0.5ᵇᶜ\nb  50% & <more>  −0.6  \n".replace("  \n", "\n")
        + "c  日本             –\n"
        + "\nA note."
    )


def test_table_as_markdown_and_latex_and_html_escapes():
    assert TABLE.markdown().splitlines()[2:4] == ["| a | x\\|y\\_z | 0.5ᵇᶜ |", "| b | 50% & \\<more\\> | **−0.6** |"]
    latex = TABLE.latex()
    assert r"a & x|y\_z & 0.5$^{bc}$ \\" in latex
    assert r"b & 50\% \& $<$more$>$ & \textbf{$-$0.6} \\" in latex
    assert r" & system & m\_1 \\" in latex
    assert latex.startswith("% A note.\n\\begin{tabular}{llr}\n\\toprule")
    assert "50% &amp; &lt;more&gt;" in TABLE.html()
    assert "<sup>bc</sup>" in TABLE.html()
    assert "<b>−0.6</b>" in TABLE.html()


def test_long_notes_are_wrapped():
    text = Table(header=("x",), rows=(("1",),), align="l", notes=("word " * 60,)).text()
    assert max(map(len, text.splitlines())) <= 88


def test_numbers():
    assert tables.number(-1e-9) == "0.0000"
    assert tables.number(1e-9, signed=True) == "0.0000"
    assert tables.number(0.1, signed=True) == "+0.1000"
    assert tables.probability(NAN) == tables.interval(NAN, 1.0) == "–"
    assert tables.labels(3) == ["a", "b", "c"]
    assert tables.labels(30)[28:] == ["29", "30"]
    assert tables.raised(tables.join_marks(["2", "13"])) == "²˒¹³"


@pytest.mark.parametrize("text", ["=1", "+a", "-a", "@SUM(A1)", "\t=1", "\r=1", "-1+2", "-", "=", "+", "-2.5.1", "-e5"])
def test_csv_makes_no_formula_of_text(text):
    frame = pl.DataFrame({"a": [text, "x"], text: pl.Series([text, None], dtype=pl.Categorical), "n": [-1.5, 2.0]})
    rows = list(csv.reader(tables.as_csv(frame).splitlines(keepends=True)))
    assert rows == [["a", f"'{text}", "n"], [f"'{text}", f"'{text}", "-1.5"], ["x", "", "2.0"]]


@pytest.mark.parametrize("text", ["a", "", "a=1", "-1", "+2.5", "-.5", "-1e-5", "'=1"])
def test_csv_leaves_other_text_alone(text):
    assert next(csv.reader(tables.as_csv(pl.DataFrame({"a": [text]})).split("\n")[1:])) == [text]


def test_many_queries_are_resampled_in_random_groups_of_the_same_spread():
    n_queries = 60_000
    rng = np.random.default_rng(0)
    values = np.sort(rng.random(n_queries))  # by id: neighbours are alike, and must not be resampled together
    values[rng.random(n_queries) < 0.3] = np.nan
    ids, mixed = np.arange(n_queries), rng.permutation(n_queries)
    low, high = rw.Evaluation({"ap": values}, ids, resamples=300).interval["ap"]
    assert rw.Evaluation({"ap": values[mixed]}, ids[mixed], resamples=300).interval["ap"] == (low, high)
    scored = values[~np.isnan(values)]
    assert high - low == pytest.approx(2 * 1.96 * scored.std() / np.sqrt(scored.size), rel=0.15)
    assert low < scored.mean() < high
