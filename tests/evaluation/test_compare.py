"""Comparisons: pairing, the decision that marks tell, tables, frames, plots."""

import json
import math
import re
import xml.etree.ElementTree as ET
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import rankwise as rw
from rankwise.statistics import significance
from rankwise.statistics.verdict import Finding, gain
from tests.refusals import refusal, refuses

NAN = float("nan")
RNG = np.random.default_rng(0)
N = 80
IDS = np.array([f"q{i}" for i in range(N)])
BASE = RNG.uniform(0.2, 0.7, N)
VALUES = {"base": BASE, "same": BASE + RNG.normal(0, 0.05, N), "good": BASE + 0.05 + RNG.normal(0, 0.1, N)}


def evaluation(values, ids=IDS, **options):
    return rw.Evaluation({"ndcg@10": values}, ids, **options)


@pytest.fixture(scope="module")
def comparison():
    return rw.compare({name: evaluation(values) for name, values in VALUES.items()})


RUN = {f"q{q}": {f"d{d}": float(d) for d in range(4)} for q in range(6)}
OTHER_RUN = {f"q{q}": {f"d{d}": -float(d) for d in range(1, 9)} for q in range(6)}
QRELS = {f"q{q}": {"d1": 1, "d2": 2, "d3": 0} for q in range(6)}


def graded(**changed):
    """Qrels of which some queries were graded anew."""
    return {query: changed.get(query, grades) for query, grades in QRELS.items()}


@pytest.mark.parametrize(
    ("qrels", "named"),
    [
        (graded(q3={"d1": 1, "d2": 1}), ["'new' than in 'old' for 1 of 6 queries", "query 'q3'"]),
        (graded(q3={"d1": 2, "d2": 1}), ["for 1 of 6 queries"]),  # the same grades, of other documents
        (graded(q0={"d1": 1}, q5={"d7": 1}), ["for 2 of 6 queries", "query 'q0' and others"]),
    ],
)
def test_evaluations_by_other_labels_are_not_compared(qrels, named, tmp_path):
    old, new = rw.evaluate(RUN, QRELS, "ndcg@10"), rw.evaluate(OTHER_RUN, qrels, "ndcg@10")
    stored = [
        rw.results.read_evaluation(rw.results.write_evaluation(one, tmp_path / f"{n}.parquet"))
        for n, one in enumerate((old, new))
    ]
    for pair in ((old, new), stored, (stored[0], new)):
        with refusal(what="systems to be compared must be evaluated by the same labels") as error:
            rw.compare(dict(zip(("old", "new"), pair, strict=True)))
        assert all(words in str(error.value) for words in named)


@pytest.mark.filterwarnings("ignore:.*were judged")
def test_evaluations_by_the_same_labels_are_compared(tmp_path):
    qrels = graded(q1={"d2": 2, "d1": 1, "d9": 0})  # neither order nor what is not relevant counts
    old, new = rw.evaluate(RUN, QRELS, "ndcg@10"), rw.evaluate(OTHER_RUN, qrels, "ndcg@10")
    assert "Not checked" not in str(rw.compare({"old": old, "new": new}))
    data = rw.trec.join(RUN, QRELS)[1]
    unnamed = rw.evaluate(data.labels, data.with_(document_ids=None, judged=None), "ndcg@10")
    rw.compare({"old": old, "unnamed": unnamed})  # without ids the grades alone are compared
    with refusal(got="…for 6 of 6 queries"):
        rw.compare({"old": old, "unnamed": rw.evaluate(data.labels, data.with_(labels=2 * data.labels))})
    single = data.with_(labels=np.float32(0.1 * data.labels))  # as a Parquet file may keep them
    rw.compare(
        {
            "one": rw.evaluate(data.labels, single),
            "two": rw.evaluate(-data.labels, data.with_(labels=0.1 * data.labels)),
        }
    )
    path = rw.results.write_evaluation(new, tmp_path / "new.parquet")
    kept = rw.results.read_evaluation(path)
    assert kept.metrics == ("ndcg@10",)
    assert np.array_equal(kept.label_digests["labels"], new.label_digests["labels"])
    pl.read_parquet(path).drop("digest of labels").write_parquet(path)  # as earlier versions wrote it
    text = " ".join(str(rw.compare({"old": old, "new": rw.results.read_evaluation(path)})).split())
    assert "Not checked: by which labels new was evaluated" in text


def test_cross_validations_by_other_labels_are_not_compared():
    data = rw.synthetic(n_queries=40, n_docs=8, seed=0)
    changed = data.labels.copy()
    changed[data.offsets[7]] += 1.0
    ranker = rw.LightGBMRanker(rounds=2, leaves=3, threads=1)
    one = rw.cross_validate(ranker, data, folds=2)
    assert np.array_equal(one.label_digests["labels"], rw.evaluate(data.labels, data).label_digests["labels"])
    with refusal(got="…for 1 of 40 queries"):
        rw.compare({"one": one, "other": rw.cross_validate(ranker, data.with_(labels=changed), folds=2)})


def test_documents_that_were_never_judged_are_said(tmp_path):
    judged = {"old": {f"q{q}": {"d1": 3.0, "d2": 2.0, "d3": 1.0} for q in range(6)}}
    judged["new"] = {query: {"x": 9.0, "y": 8.0, **row} for query, row in judged["old"].items()}
    with pytest.warns(UserWarning, match="100% of the first 4 documents of old were judged, but 50% of new's"):
        compared = rw.compare(judged, QRELS, ["ndcg@4", "ap"])
    assert [row[-1] for row in compared.table().rows] == ["1.0000", "0.5000"]
    assert compared.table().header[-1] == "judged@4"
    assert compared.to_frame().select("judged", "judged_against").rows() == [(0.5, 1.0)] * 2
    assert compared.to_dict()["judged"]["new"] == {"cutoff": 4, "mean": 0.5}
    assert "may come from them and not" in " ".join(str(compared).split())
    assert compared.to_latex().count("judged@4") == 2
    new = rw.evaluate(judged["new"], QRELS, "ap")  # a metric without a cutoff: the first ten
    assert new.table().header[-1] == "judged@10"
    assert new.summary()["judged"].to_list() == [0.6]
    assert new.to_dict()["judged"] == {"cutoff": 10, "mean": 0.6}
    kept = rw.results.read_evaluation(rw.results.write_evaluation(new, tmp_path / "new.parquet"))
    assert kept.judged == new.judged
    scores, data = rw.trec.join(judged["new"], QRELS)
    assert rw.evaluate(scores, data.with_(judged=None)).judged is None  # every document is judged


def test_the_same_share_of_judged_documents_is_no_warning():
    runs = {"old": RUN, "new": {query: {**row, "d1": 9.0} for query, row in RUN.items()}}
    assert [row[-1] for row in rw.compare(runs, QRELS).table().rows] == ["0.7500", "0.7500"]
    asked = rw.compare(runs, QRELS, ["ap", "judged@10"]).table()
    assert asked.header == ("", "system", "ap", "judged@10")  # once
    assert rw.evaluate(RUN, QRELS, ["ap", "judged@10"]).table().header[-1] == "skipped"
    data = rw.synthetic(n_queries=20, seed=0)
    assert "judged" not in str(rw.compare({"a": data.features[:, 0], "b": data.features[:, 1]}, data))


def test_every_number_of_a_pair(comparison):
    rows = {(row["system"], row["against"]): row for row in comparison.to_frame().to_dicts()}
    assert list(rows) == [("same", "base"), ("good", "base"), ("good", "same")]
    differences = VALUES["good"] - VALUES["base"]
    row, theirs = rows["good", "base"], stats.ttest_rel(VALUES["good"], VALUES["base"])
    assert row["difference"] == pytest.approx(differences.mean())
    assert (row["low"], row["high"]) == pytest.approx(tuple(theirs.confidence_interval(0.95)))
    assert row["p_t"] == pytest.approx(theirs.pvalue)
    assert row["p_wilcoxon"] == pytest.approx(stats.wilcoxon(differences, method="approx").pvalue)
    assert row["p_fisher"] == pytest.approx(theirs.pvalue, abs=0.002)
    assert row["p_corrected_t"] is None
    assert row["effect_size"] == pytest.approx(differences.mean() / differences.std(ddof=1))
    assert row["wins"] == (differences > 0).sum()
    assert row["wins"] + row["ties"] + row["losses"] == N
    adjusted = significance.holm([row["p_fisher"] for row in rows.values()])
    assert [row["p_adjusted"] for row in rows.values()] == pytest.approx(adjusted.tolist())
    assert [row["significant"] for row in rows.values()] == [False, True, True]


def test_text(comparison):
    head, base, same, good, *legend = comparison.to_text().splitlines()
    assert head.split() == ["system", "ndcg@10"]
    assert base == f"a  base    {BASE.mean():.4f}"
    assert same == f"b  same    {VALUES['same'].mean():.4f}"
    assert good == f"c  good    {VALUES['good'].mean():.4f}ᵃᵇ"
    assert " ".join(legend).strip() == (
        "A raised letter: significantly better than that system. Fisher's randomization test, two-sided, "
        "paired by query (80 queries), α = 0.05, Holm's correction over the 3 pairs of each metric."
    )
    assert repr(comparison) == comparison.to_text()
    assert "win/tie/loss" in comparison.to_text(pairs=True)
    assert "<sup>ab</sup>" in comparison._repr_html_()


def test_a_gain_in_words_counts_wins_ties_and_losses():
    one, other = (
        [0.5, 0.5, 0.6, 0.4, 0.3, 0.3],
        [0.5, 0.5, 0.5, 0.3, 0.4, 0.4],
    )  # better on two queries and worse on two
    two = rw.compare({"other": rw.Evaluation({"ap": other}, range(6)), "one": rw.Evaluation({"ap": one}, range(6))})
    for better, worse in (("one", "other"), ("other", "one")):
        assert str(gain(two, "ap", better, worse)).endswith("better on 2, equal on 2 and worse on 2 of 6 queries")
    trials = rw.compare({"other": [0.5, 0.5, 0.5], "one": [0.6, 0.7, 0.4]}, metrics="ap")
    assert str(gain(trials, "ap", "one", "other")).endswith("better on 2, equal on 0 and worse on 1 of 3 trials")
    assert str(gain(trials, "ap", "other", "one")).endswith("better on 1, equal on 0 and worse on 2 of 3 trials")


def test_markdown_and_latex(comparison):
    best = f"{VALUES['good'].mean():.4f}"
    assert f"| c | good | **{best}**ᵃᵇ |" in comparison.to_markdown()
    assert rf"c & good & \textbf{{{best}}}$^{{ab}}$ \\" in comparison.to_latex()
    assert "effect" in comparison.to_markdown(pairs=True)
    assert comparison.to_latex(pairs=True).count(r"\toprule") == 2


def test_names_are_escaped():
    two = rw.compare({"a_b": evaluation(BASE), "50%": evaluation(VALUES["good"])})
    assert r"a\_b" in two.to_latex()
    assert r"50\%" in two.to_latex()


def test_plain_data(comparison):
    plain = json.loads(json.dumps(comparison.to_dict(), allow_nan=False))
    assert plain["systems"] == ["base", "same", "good"]
    assert plain["mean"]["ndcg@10"]["base"] == pytest.approx(BASE.mean())
    assert plain["interval"]["ndcg@10"]["base"] == pytest.approx(list(evaluation(BASE).interval["ndcg@10"]))
    assert len(plain["pairs"]) == 3
    assert plain["test"] == "fisher"
    same = rw.compare({"a": evaluation(BASE), "b": evaluation(BASE + 0.25)})
    json.dumps(same.to_dict(), allow_nan=False)  # an infinite effect size is written as null


def test_baseline_tests_only_its_pairs():
    systems = {name: evaluation(values) for name, values in VALUES.items()}
    found = rw.compare(systems, baseline="same")
    assert [(one.system, one.against) for one in found.pairs] == [("base", "same"), ("good", "same")]
    assert "Only pairs with the baseline, same, were tested." in found.legend()


def test_each_test_can_decide_and_the_correction_can_be_left_out():
    systems = {name: evaluation(values) for name, values in VALUES.items()}
    for test, name in {"t": "Student's paired t-test,", "wilcoxon": "Wilcoxon's", "fisher": "Fisher's"}.items():
        found = rw.compare(systems, test=test, correction="none")
        assert name in found.legend()
        assert "no correction for many comparisons" in found.legend()
        assert [one.p_adjusted for one in found.pairs] == [getattr(one, f"p_{test}") for one in found.pairs]


def test_pairing_goes_by_id_not_by_place(comparison):
    turn = np.random.default_rng(1).permutation(N)
    systems = {name: evaluation(values) for name, values in VALUES.items()}
    systems["good"] = evaluation(VALUES["good"][turn], IDS[turn])
    assert rw.compare(systems).pairs == comparison.pairs
    turned = rw.compare({name: evaluation(values[turn], IDS[turn]) for name, values in VALUES.items()})
    for one, other in zip(turned.pairs, comparison.pairs, strict=True):
        assert one == other


def test_queries_skipped_in_either_are_left_out():
    first, second = BASE.copy(), VALUES["good"].copy()
    first[:3], second[2:5] = NAN, NAN
    found = rw.compare({"a": evaluation(first), "b": evaluation(second)})
    rest = rw.compare({"a": evaluation(first[5:], IDS[5:]), "b": evaluation(second[5:], IDS[5:])})
    assert found.pairs == rest.pairs
    assert "(75 queries)" in found.legend()
    assert found.differences("b", "a").size == 75


def test_where_nothing_is_significant_a_sentence_says_so(comparison):
    without = rw.compare({name: evaluation(VALUES[name]) for name in ("base", "same")})
    assert not without.pairs[0].significant
    for text in (without.to_text(), without.to_markdown(), without.to_latex()):
        assert "No difference is significant." in text
        assert "No difference" not in comparison.to_text()


def test_weighted_means_are_called_weighted(comparison):
    for weights, weighted in ((np.arange(N) + 1.0, True), (np.full(N, 2.0), False), (None, False)):
        found = rw.compare({name: evaluation(VALUES[name], weights=weights) for name in VALUES})
        assert ("Means are weighted by the weights of queries." in found.to_text()) == weighted


def test_weights_count():
    weights = np.random.default_rng(2).uniform(0.5, 2.0, N)
    found = rw.compare({"a": evaluation(BASE, weights=weights), "b": evaluation(VALUES["good"], weights=weights)})
    assert found.mean["ndcg@10"]["b"] == pytest.approx(np.average(VALUES["good"], weights=weights))
    assert found.pairs[0].difference == pytest.approx(np.average(VALUES["good"] - BASE, weights=weights))


def test_scores_and_models_are_evaluated_on_the_data():
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, 400)
    data = rw.RankingDataset.from_sizes(rng.normal(size=(400, 1)), labels, [10] * 40)
    scores = labels + rng.normal(size=400)

    class Model:
        def predict(self, data):
            return data.features[:, 0]

    found = rw.compare({"noise": Model(), "scores": scores, "list": scores.tolist()}, data, ["ndcg@5", "rr"])
    assert found.metrics == ("ndcg@5", "rr")
    assert found.mean["rr"]["scores"] == pytest.approx(rw.evaluate(scores, data, "rr").mean["rr"])
    assert found.mean["rr"]["list"] == found.mean["rr"]["scores"]
    assert [one.significant for one in found.pairs[:3]] == [True, True, False]
    mixed = rw.compare({"noise": Model(), "ready": rw.evaluate(scores, data, ["ap", "ndcg@10"])}, data)
    assert mixed.metrics == ("ndcg@10",)


TRIALS = {"old": [0.40, 0.42, 0.39, 0.41, 0.43], "new": [0.42, 0.43, 0.42, 0.42, 0.46]}


def test_trials_of_plain_means():
    found = rw.compare(TRIALS, metrics="ndcg@10", split=(0.6, 0.2, 0.2))
    (one,) = found.pairs
    differences = np.subtract(TRIALS["new"], TRIALS["old"])
    assert one.p_t == pytest.approx(stats.ttest_rel(TRIALS["new"], TRIALS["old"]).pvalue)
    statistic = differences.mean() / math.sqrt(differences.var(ddof=1) * (1 / 5 + 0.2 / 0.6))
    assert one.p_corrected_t == pytest.approx(2 * stats.t.sf(statistic, 4))
    assert one.p_corrected_t is not None
    assert one.p_corrected_t > 1.5 * one.p_t
    assert one.p_adjusted == one.p_corrected_t
    assert one.p_fisher == 2 / 32  # all five the same way, exactly
    half = stats.t.ppf(0.975, 4) * differences.mean() / statistic
    assert (one.low, one.high) == pytest.approx((differences.mean() - half, differences.mean() + half))
    assert (
        "correction of Nadeau and Bengio (test/train = 0.333), two-sided, paired by trial (5 trials)" in found.legend()
    )
    assert "p corrected t" in found.to_text(pairs=True)


def test_trials_of_evaluations_and_dictionaries_say_the_same():
    evaluations = {name: [evaluation([mean, mean], [0, 1]) for mean in means] for name, means in TRIALS.items()}
    dictionaries = {name: [{"ndcg@10": mean} for mean in means] for name, means in TRIALS.items()}
    plain = rw.compare(TRIALS, metrics="ndcg@10")
    assert rw.compare(evaluations).pairs == pytest.approx(plain.pairs)
    assert rw.compare(dictionaries).pairs == plain.pairs
    assert plain.pairs[0].p_corrected_t is None
    assert "Trials that share data make this test too sure: split=" in plain.legend()
    assert plain.legend(hint=False).endswith("Trials that share data make this test too sure.")
    paper = rw.compare(TRIALS, metrics="ndcg@10", test="t", split=(0.6, 0.2, 0.2))  # a paper's test beside ours
    assert paper.legend().endswith("make this test too sure; intervals of differences allow for them.")
    low, high = plain.interval["ndcg@10"]["old"]
    expected = stats.ttest_1samp(TRIALS["old"], 0).confidence_interval()
    assert (low, high) == pytest.approx(tuple(expected))


def test_many_systems_are_numbered():
    rng = np.random.default_rng(4)
    systems = {f"s{i}": evaluation(BASE + i + rng.normal(0, 0.01, N)) for i in range(27)}
    found = rw.compare(systems, baseline="s0", test="t")
    assert found.table().rows[26][2].marks == "1"  # type: ignore[union-attr]
    assert "A raised number" in found.legend()
    assert "¹" in found.to_text()


def png_size(path):
    header = path.read_bytes()[:24]
    assert header[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(header[16:20]), int.from_bytes(header[20:24])


def texts(path):
    """What an SVG says, glyph groups being named by comments; here text is kept as text."""
    return " ".join(ET.fromstring(path.read_text()).itertext())  # noqa: S314


def test_plot_of_differences(comparison, tmp_path):
    assert comparison.plot(tmp_path / "all.png") == tmp_path / "all.png"
    width, height = png_size(tmp_path / "all.png")
    assert width > 1000
    assert height > 500
    comparison.plot(tmp_path / "one.svg", system="good", against="base")
    again = comparison.plot(tmp_path / "two.svg", system="good", against="base")
    assert again.read_bytes() == (tmp_path / "one.svg").read_bytes()


def test_plot_says_what_it_shows(comparison, tmp_path, monkeypatch):
    from rankwise.statistics.figures import drawing as plots

    monkeypatch.setitem(plots._STYLE, "svg.fonttype", "none")
    said = texts(comparison.plot(tmp_path / "one.svg", system="base", against="good"))
    row = next(one for one in comparison.pairs if (one.system, one.against) == ("good", "base"))
    assert "base − good" in said
    assert f"better on {row.losses} queries" in said  # turned round
    assert f"worse on {row.wins} queries" in said
    assert f"mean −{row.difference:.4f} [−{row.high:.4f}, −{row.low:.4f}]" in said
    assert "queries, sorted by difference (n = 80)" in said
    assert "difference in ndcg@10" in said
    untested = rw.compare({name: evaluation(values) for name, values in VALUES.items()}, baseline="base")
    assert "(not tested)" in texts(untested.plot(tmp_path / "un.svg", system="good", against="same"))
    assert "same − base" in texts(untested.plot(tmp_path / "vs.svg"))
    means = texts(comparison.plot_means(tmp_path / "means.svg"))
    assert "95% interval over resampled queries" in means
    assert "good  (c)" in means


def test_plots_of_trials_and_of_no_difference(tmp_path):
    trials = rw.compare(TRIALS, metrics="ndcg@10")
    trials.plot(tmp_path / "trials.pdf")
    trials.plot_means(tmp_path / "trials.png")
    rw.compare({"a": evaluation(BASE), "b": evaluation(BASE)}).plot(tmp_path / "same.png")
    assert all(path.stat().st_size > 1000 for path in tmp_path.iterdir())
    assert len(list(tmp_path.iterdir())) == 3


def test_plots_never_overwrite_unasked(comparison, tmp_path):
    path = tmp_path / "plot.png"
    path.write_text("precious")
    for draw in (comparison.plot, comparison.plot_means):
        with refusal(FileExistsError, what="…exists already and is kept"):
            draw(path)
        assert path.read_text() == "precious"
    comparison.plot(path, force=True)
    assert png_size(path)[0] > 0
    with refusal(what="unknown system", got="'goood'", hint="did you mean 'good'"):
        comparison.plot(tmp_path / "x.png", system="goood")
    refuses(lambda: comparison.plot(tmp_path / "x.png", metric="ap"), what="unknown metric", got="'ap'")


E = evaluation(BASE)
TWO = {"a": E, "b": E}
compare: Any = rw.compare
REFUSALS = {
    "compare needs at least two systems by name: got 1. Hint: pass a dictionary": lambda: compare({"a": E}),
    "compare needs at least two systems by name: got list": lambda: compare([E, E]),
    "need the data that they are evaluated on: got ndarray at system 'b'": lambda: compare({"a": E, "b": BASE}),
    "either all systems have trials or none has: got 'a' without, 'b' with": lambda: compare({"a": E, "b": [E, E]}),
    "must have the same queries: got query 'q0' in 'a' but not in 'b'": lambda: compare(
        {"a": E, "b": evaluation(BASE, [f"{name}x" for name in IDS])}
    ),
    "same queries: got query 'q0' in 'b' but not in 'a'. Hint: evaluate all systems on the same queries": lambda: (
        compare({"a": evaluation(BASE[1:], IDS[1:]), "b": E})
    ),
    "same queries: got query 'q0' in 'a' but not in 'b'. Hint": lambda: compare(
        {"a": E, "b": evaluation(BASE, range(N))}
    ),
    "same query weights: got other weights in 'b' than in 'a'": lambda: compare(
        {"a": E, "b": evaluation(BASE, weights=np.arange(N) + 1.0)}
    ),
    "have no metric in common": lambda: compare({"a": E, "b": rw.Evaluation({"ap": BASE}, IDS)}),
    "a was not evaluated by a metric asked for: got ndcg@5. Hint: did you mean 'ndcg@10'": lambda: compare(
        TWO, metrics="ndcg@5"
    ),
    "unknown baseline: got 'c'": lambda: compare(TWO, baseline="c"),
    "unknown correction: got 'bonferroni'": lambda: compare(TWO, correction="bonferroni"),
    "unknown test: got 'z'": lambda: compare(TWO, test="z"),
    "level must be a number in (0, 1): got 1": lambda: compare(TWO, level=1),
    "the corrected t-test needs trials and the proportions": lambda: compare(TWO, test="corrected_t"),
    "test of the trials that are compared: got (0.5, 0.5) for pairs by query": lambda: compare(TWO, split=(0.5, 0.5)),
    "test of the trials that are compared: got (1.0,)": lambda: compare(TRIALS, metrics="ap", split=(1.0,)),
    "plain numbers per trial need the one metric that they are of: 'old'": lambda: compare(TRIALS),
    "same number of trials: got {'a': 2, 'b': 1}": lambda: compare({"a": [0.1, 0.2], "b": [0.1]}, metrics="ap"),
    "at least two pairs that count: got 1": lambda: compare({"a": [0.1], "b": [0.2]}, metrics="ap"),
    "the mean of ap must be finite: got nan at trial 1 of system 'a'": lambda: compare(
        {"a": [0.1, NAN], "b": [0.2, 0.3]}, metrics="ap"
    ),
    "no metric in common: got": lambda: compare({"a": [{"ap": 1.0}, {"rr": 1.0}], "b": [{"ap": 1.0}] * 2}),
}


@pytest.mark.parametrize("sentence", REFUSALS)
def test_refusals(sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        REFUSALS[sentence]()


def test_a_lead_that_its_interval_does_not_bear_out_is_no_lead():
    """Trials that share their data: the plain t-test finds the difference, the corrected interval holds 0."""
    gaps = [0.01 + 0.012 * one for one in (-1.4, -1.0, -0.6, -0.3, 0.0, 0.1, 0.3, 0.6, 1.0, 1.3)]
    systems = {"a": [{"ap": 0.5 + gap} for gap in gaps], "b": [{"ap": 0.5}] * 10}
    shared = rw.compare(systems, test="t", split=(0.6, 0.2, 0.2))
    (pair,) = shared.pairs
    assert pair.significant
    assert pair.low < 0 < pair.high
    assert Finding.of(shared, "ap").close == ["b"]
    assert Finding.of(rw.compare(systems, test="t"), "ap").beaten == ["b"]


def test_a_lead_over_trials_that_share_data_must_be_sure_among_all_pairs():
    noise = np.array([0.3, -1.2, 0.8, 1.1, -1.0, 0.4, -0.9, 0.5])
    systems = {
        "a": [0.5] * 8,
        "b": (0.5 + 0.001 * np.roll(noise, 3)).tolist(),
        "c": (0.5 + 0.018 + 0.01 * noise).tolist(),
    }
    found = rw.compare({name: [{"ap": one} for one in means] for name, means in systems.items()}, split=(0.6, 0.2, 0.2),
                       test="t")  # fmt: skip
    leads = [pair for pair in found.pairs if pair.system == "c"]
    assert all(pair.significant and pair.low > 0.0 for pair in leads)  # each on its own, and by the plain test
    p = sorted(pair.p_corrected_t for pair in found.pairs if pair.p_corrected_t is not None)
    assert 0.05 / 3 < p[0] < 0.05
    assert Finding.of(found, "ap").beaten == []
    assert gain(found, "ap", "c", "a").p == pytest.approx(3 * p[0], abs=1e-3)


def test_columns_have_titles():
    comparison = rw.compare(
        {
            "one": rw.Evaluation({"ap": [0.1, 0.5, 0.3], "ndcg@10": [0.2, 0.4, 0.6]}, [1, 2, 3]),
            "two": rw.Evaluation({"ap": [0.2, 0.4, 0.5], "ndcg@10": [0.3, 0.5, 0.6]}, [1, 2, 3]),
        }
    )
    for titles in (["MAP", "n_DCG"], {"ndcg(gain=exponential)@10": "n_DCG", "ap": "MAP"}):
        latex = comparison.to_latex(titles=titles, pairs=True)
        assert " & system & MAP & n\\_DCG \\\\" in latex
        assert "n\\_DCG & two & one" in latex
        assert "| system | MAP | n\\_DCG |" in comparison.to_markdown(titles=titles)
        assert re.search(r"system +MAP +n_DCG", comparison.to_text(titles=titles))
    assert comparison.table(titles={"ap": "MAP"}).header == ("", "system", "MAP", "ndcg@10")
    one = rw.Evaluation({"ap": [0.1, 0.5, 0.3]}, [1, 2, 3])
    assert one.table(titles="MAP").rows[0][0] == "MAP"
    with refusal(what="give one title for each metric", got="1 titles for ap, ndcg@10", hint="titles…"):
        comparison.table(titles=["MAP"])
    with refusal(what="a title is for a metric of the table", got="'rr'", hint="choose one of ap, ndcg@10"):
        comparison.table(titles={"rr": "MRR"})


def test_systems_that_ranked_other_candidates_are_not_compared_in_silence():
    values = {"ap": [0.5, 0.6, 0.7]}
    drawn = rw.Evaluation(values, range(3), candidates="1 drawn item")
    whole = rw.Evaluation(values, range(3), candidates="the full catalogue")
    with pytest.warns(UserWarning, match="cannot be compared: a: 1 drawn item; b: the full catalogue"):
        text = rw.compare({"a": drawn, "b": whole}).to_text()
    assert "Candidates of a: 1 drawn item." in text
    assert rw.compare({"a": whole, "b": whole}).to_dict()["candidates"] == dict.fromkeys("ab", "the full catalogue")


def test_candidates_are_kept_in_files(tmp_path):
    whole = rw.Evaluation({"ap": [0.5, 0.6]}, range(2), candidates="the full catalogue")
    assert (
        rw.results.read_evaluation(rw.results.write_evaluation(whole, tmp_path / "a.parquet")).candidates
        == "the full catalogue"
    )
