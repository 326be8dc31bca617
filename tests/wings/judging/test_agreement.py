"""Agreement of a judge with people, against scikit-learn and against what was planted."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats
from sklearn.metrics import cohen_kappa_score

import rankwise as rw
from rankwise.judging import Agreement, agreement
from tests import shared
from tests.refusals import refusal

PAGE = """\
people \\ judge  0  1  2
0               1  2  0
1               0  3  0
2               0  0  1

7 documents of 3 queries have both grades. Left out: 0 graded by people alone, 1 by the
judge alone.
"""


def qrels(grades: np.ndarray[Any, Any], queries: np.ndarray[Any, Any]) -> pl.DataFrame:
    documents = [f"d{number}" for number in range(grades.size)]
    return pl.DataFrame({"query": queries, "document": documents, "grade": grades})


def drawn(n_queries: int, seed: int) -> tuple[Any, Any, Any]:
    """Return queries of 1 to 8 documents, people's grades and those of a judge that is right half of the time."""
    rng = np.random.default_rng(seed)
    queries = np.repeat(np.arange(n_queries), rng.integers(1, 9, n_queries))
    people = rng.choice([0, 1, 3], size=queries.size)
    judge = np.where(rng.random(queries.size) < 0.5, people, rng.choice([0, 1, 2], size=queries.size))
    return queries, people, judge


def estimate(found: Agreement, part: str, name: str) -> dict[str, Any]:
    return found.to_frame().filter(part=part, name=name).row(0, named=True)


@pytest.mark.parametrize("seed", range(3))
def test_kappa_is_scikit_learns_and_its_interval_leaves_out_queries(seed: int):
    queries, people, judge = drawn(12, seed)
    found = agreement(qrels(people, queries), qrels(judge, queries))
    for name, weights in (("unweighted", None), ("quadratic weights", "quadratic")):

        def kappa(rows: Any, weights: str | None = weights) -> float:
            return float(cohen_kappa_score(people[rows], judge[rows], labels=[0, 1, 2, 3], weights=weights))

        row = estimate(found, "kappa", name)
        assert row["value"] == pytest.approx(kappa(slice(None)), abs=1e-12)
        without = np.array([kappa(queries != query) for query in range(12)])
        half = stats.t.ppf(0.975, 11) * np.sqrt(11 / 12 * ((without - without.mean()) ** 2).sum())
        assert (row["low"], row["high"]) == pytest.approx((row["value"] - half, row["value"] + half), abs=1e-12)
    assert found.kappa == estimate(found, "kappa", "unweighted")["value"]
    counted = [[int(((people == a) & (judge == b)).sum()) for b in found.grades] for a in found.grades]
    assert found.confusion.tolist() == counted


def test_calibration_is_the_mean_of_people_with_clustered_intervals():
    queries, people, judge = drawn(30, 5)
    found = agreement(qrels(people, queries), qrels(judge, queries), level=0.9)
    for grade in np.unique(judge):
        row, rows = estimate(found, "calibration", str(grade)), judge == grade
        assert row["value"] == pytest.approx(people[rows].mean(), abs=1e-12)
        # The textbook's ratio estimator, with queries as clusters.
        residuals = np.array([(people - row["value"])[rows & (queries == q)].sum() for q in np.unique(queries[rows])])
        error = np.sqrt(residuals.size / (residuals.size - 1) * (residuals**2).sum()) / rows.sum()
        half = stats.t.ppf(0.95, residuals.size - 1) * error
        if half < 1e-12:  # people agree in all of these queries, which shows no spread, and no certainty
            assert np.isnan([row["low"], row["high"]]).all()
            continue
        assert (row["low"], row["high"]) == pytest.approx((row["value"] - half, row["value"] + half), abs=1e-12)
        assert row["queries"] == residuals.size


def test_grades_that_agree_everywhere_have_no_interval_of_zero_width():
    queries, people, _ = drawn(30, 5)
    found = agreement(qrels(people, queries), qrels(people, queries))
    assert found.kappa == 1.0
    assert np.isnan(found.to_frame().select("low", "high").to_numpy()).all()


def runs_of_two_systems(favoured: bool) -> tuple[Any, Any, dict[str, Any]]:
    """Two equally good systems, and a judge who raises what system b ranks first, or what either does."""
    rng = np.random.default_rng(11)
    people: dict[str, dict[str, int]] = {}
    judge: dict[str, dict[str, int]] = {}
    runs: dict[str, dict[str, dict[str, float]]] = {"a": {}, "b": {}}
    for query in range(60):
        grades = rng.permutation([0, 0, 0, 1, 2, 0])
        people[f"q{query}"] = {f"d{k}": int(grade) for k, grade in enumerate(grades)}
        judge[f"q{query}"] = dict(people[f"q{query}"])
        for name, run in runs.items():
            order = rng.permutation(6)
            run[f"q{query}"] = {f"d{k}": 6.0 - place for place, k in enumerate(order)}
            if name == "b" or not favoured:
                judge[f"q{query}"][f"d{order[0]}"] = 2
    return people, judge, runs


def test_a_judge_who_favours_a_system_is_found():
    people, judge, runs = runs_of_two_systems(favoured=True)
    found = agreement(people, judge, runs)
    row = estimate(found, "favour", "b over a")
    assert row["low"] > 0.0
    assert row["p"] < 0.05
    assert "The judge favours b over a (p <0.001, Holm)." in repr(found)
    people_only, judge_only = (
        rw.evaluate(runs["b"], one)["ndcg@10"] - rw.evaluate(runs["a"], one)["ndcg@10"] for one in (people, judge)
    )
    assert row["value"] == pytest.approx((judge_only - people_only).mean(), abs=1e-12)
    test = stats.ttest_1samp(judge_only - people_only, 0.0)
    assert row["p"] == pytest.approx(test.pvalue, rel=1e-9)
    assert (row["low"], row["high"]) == pytest.approx(test.confidence_interval(0.95), abs=1e-12)
    lenient = estimate(found, "leniency", "b")
    expected = rw.evaluate(runs["b"], judge).mean["ndcg@10"] - rw.evaluate(runs["b"], people).mean["ndcg@10"]
    assert lenient["value"] == pytest.approx(expected, abs=1e-12)


def test_a_judge_who_is_lenient_to_both_favours_none():
    people, judge, runs = runs_of_two_systems(favoured=False)
    found = agreement(people, judge, runs, metric="precision@1")
    assert estimate(found, "leniency", "a")["low"] > 0.0
    assert "These queries do not show that the judge favours a system." in repr(found)


def test_only_documents_that_both_graded_count():
    """What the judge alone has graded would look like leniency to the system that found it."""
    people = {f"q{k}": {"d1": 1, "d2": 0} for k in range(5)}
    judge = {f"q{k}": {"d1": 1, "d2": 0, "d3": 1} for k in range(5)}
    run = {f"q{k}": {"d3": 3.0, "d1": 2.0, "d2": 1.0} for k in range(5)}
    found = agreement(people, judge, {"one": run}, metric="ap")
    assert estimate(found, "leniency", "one")["value"] == 0.0
    assert found.basis == (
        "10 documents of 5 queries have both grades. Left out: 0 graded by people alone, 5 by the judge alone."
    )


def test_documents_that_were_pooled_and_not_judged_do_not_count():
    found = agreement({"q": {"a": 1, "b": -1, "c": 0}}, {"q": {"a": 1, "b": 1, "c": -1}})
    assert found.confusion.tolist() == [[1]]
    assert np.isnan(found.kappa)  # both have one grade only: nothing to agree on
    row = estimate(found, "calibration", "1")
    assert (row["value"], row["queries"]) == (1.0, 1)
    assert np.isnan(row["low"])


def test_the_page_and_the_figure(tmp_path: Path):
    people = {"a": {"d1": 2, "d2": 0, "d3": 1}, "b": {"d1": 0, "d2": 1}, "c": {"d1": 1, "d2": 0}}
    judge = {"a": {"d1": 2, "d2": 1, "d3": 1}, "b": {"d1": 0, "d2": 1}, "c": {"d1": 1, "d2": 1, "d9": 2}}
    systems = {"x": {q: {"d1": 2.0, "d2": 1.0} for q in "abc"}, "y": {q: {"d2": 1.0} for q in "abc"}}
    found = rw.judging.agreement(people, judge, systems)
    assert repr(found).startswith(PAGE)
    assert found.plot(tmp_path / "judge.svg").read_text().startswith("<?xml")
    rw.judging.agreement(people, judge).plot(tmp_path / "alone.png")


def test_what_cannot_be_compared_is_rejected():
    with refusal(what="people and the judge have graded no document in common"):
        agreement({"q": {"a": 1}}, {"Q": {"a": 1}})
    scores = {"q": {f"d{k}": k / 20 for k in range(20)}}
    with refusal(what="at most 12 different grades are compared", got="20", hint="turn the scores…"):
        agreement(scores, scores)
    with refusal(about="new", what="ndcg@10 scores no query"):
        agreement({"q": {"a": 0}}, {"q": {"a": 1}}, {"new": {"q": {"a": 1.0}}})
    with refusal(about="new", what="run and qrels have no query in common"):
        agreement({"q": {"a": 1}}, {"q": {"a": 1}}, {"new": {"p": {"a": 1.0}}})


def test_a_real_weak_judge_is_better_than_chance_and_far_from_people():
    """MQ2008's prob, cut at one half, beside people's judgments."""
    data = rw.read_letor(shared.data("mq2008/Fold1/test.txt.gz"))
    assert data.relevance_probabilities is not None
    columns = {"query": data.qids(), "document": data.document_ids}
    people = pl.DataFrame({**columns, "grade": (data.labels > 0).astype(float)})
    judge = pl.DataFrame({**columns, "grade": (data.relevance_probabilities > 0.5).astype(float)})
    found = agreement(people, judge)
    row = estimate(found, "kappa", "unweighted")
    assert 0.0 < row["low"] < row["high"] < 1.0
    assert estimate(found, "calibration", "0")["high"] < estimate(found, "calibration", "1")["low"]
