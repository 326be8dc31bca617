"""Runs, qrels and a judge: how they are joined, what is printed, and what is refused."""

from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from tests.refusals import refusal, refuses

N = 60
RNG = np.random.default_rng(0)
LABELS = RNG.choice(3, (N, 12), p=[0.6, 0.3, 0.1])
GRADES = np.where(RNG.random((N, 12)) < 0.25, RNG.integers(0, 3, (N, 12)), LABELS)
NEW, OLD = (LABELS + noise * RNG.normal(size=(N, 12)) for noise in (1.0, 2.0))


def nested(values, queries=range(N)):
    return {f"q{q}": {f"d{d}": values[q, d].item() for d in range(12)} for q in queries}


RUNS = {"old": nested(OLD), "new": nested(NEW)}
HUMAN, JUDGE = nested(LABELS, range(0, N, 2)), nested(GRADES)


def table(values, name, queries=range(N)):
    rows = [(f"q{q}", f"d{d}", values[q, d].item()) for q in queries for d in range(12)]
    return pl.DataFrame(rows, schema=["query", "document", name], orient="row")


def test_the_mean_is_that_of_ppi_over_queries():
    from ppi_py import ppi_mean_pointestimate

    result = rw.evaluate(RUNS["new"], HUMAN, ["ndcg@5", "ap"], judge=JUDGE)
    offsets = np.arange(0, 12 * N + 1, 12)
    for mean, name in zip(result.means, ("ndcg(empty=0)@5", "ap(empty=0)"), strict=True):
        y, f = (rw.metric(name)(NEW.ravel(), labels.ravel().astype(float), offsets) for labels in (LABELS, GRADES))
        assert mean.metric == name
        assert mean.value == pytest.approx(ppi_mean_pointestimate(y[::2], f[::2], f[1::2]).item(), abs=1e-9)
        assert mean.judge == pytest.approx(f.mean())
        assert mean.low < mean.fixed_low < mean.value < mean.fixed_high < mean.high
        assert (mean.labels, mean.p) == (30, None)
    assert (result.unit, result.n_queries) == ("query", N)


def test_every_form_of_runs_labels_and_judge_gives_the_same(tmp_path):
    expected = rw.compare(RUNS, HUMAN, judge=JUDGE).to_frame()
    runs = {"old": table(OLD, "score"), "new": table(NEW, "score").to_pandas()}
    human, judge = table(LABELS, "grade", range(0, N, 2)), table(GRADES, "grade")
    assert rw.compare(runs, human, judge=judge.to_pandas()).to_frame().equals(expected)
    human.write_csv(tmp_path / "human.csv")
    judge.write_csv(tmp_path / "judge.csv")
    for name, frame in {"human": human, "judge": judge}.items():
        lines = [f"{query} 0 {document} {grade}\n" for query, document, grade in frame.sample(fraction=1.0).rows()]
        (tmp_path / f"{name}.txt").write_text("".join(lines))
    for labels in ("human.csv", "human.txt"):
        for grades in ("judge.csv", "judge.txt"):
            result = rw.compare(RUNS, tmp_path / labels, judge=str(tmp_path / grades))
            assert result.to_frame().equals(expected)
    both = judge.rename({"grade": "llm"}).join(human, on=["query", "document"], how="left")
    assert rw.compare(RUNS, both, judge="llm").to_frame().equals(expected)


def test_a_data_set_has_a_grade_of_the_judge_for_each_document():
    judged = np.tile([1, 0], N // 2).repeat(12).astype(np.int8)
    labels, sizes = np.where(judged == 1, LABELS.ravel(), 0), np.full(N, 12)
    data = rw.RankingDataset.from_sizes(np.zeros((N * 12, 1)), labels, sizes, judged=judged)
    result = rw.compare({"old": OLD.ravel(), "new": NEW.ravel()}, data, judge=GRADES.ravel())
    by_runs = rw.compare(RUNS, HUMAN, judge=JUDGE)
    assert result.means[0].value == pytest.approx(by_runs.means[0].value, abs=1e-6)  # runs are in single precision
    assert result.means[0].high == pytest.approx(by_runs.means[0].high, abs=1e-6)
    with refusal(what="every query has human labels, and the judge can add nothing", got="60"):
        rw.evaluate(NEW.ravel(), data.with_(judged=None), judge=GRADES.ravel())
    with refusal(what="a judge goes with queries of equal weight, and sampled documents with runs"):
        rw.evaluate(NEW.ravel(), data.with_(weights=np.arange(1.0, N + 1)), judge=GRADES.ravel())


def test_pairs_are_corrected_for_their_number_and_a_baseline_has_its_own():
    systems = RUNS | {"third": nested(OLD + NEW)}
    three = rw.compare(systems, HUMAN, judge=JUDGE, correction="none")
    holm = rw.compare(systems, HUMAN, judge=JUDGE)
    assert [(one.system, one.against) for one in three.means] == [("new", "old"), ("third", "old"), ("third", "new")]
    plain = [one.p for one in three.means]
    assert [one.p for one in holm.means] == pytest.approx(rw_holm(plain))
    based = rw.compare(systems, HUMAN, judge=JUDGE, baseline="new")
    assert [(one.system, one.against) for one in based.means] == [("old", "new"), ("third", "new")]
    assert based.means[0].value == pytest.approx(-three.means[0].value)


def rw_holm(p):
    from rankwise.statistics.significance import holm

    return holm(p).tolist()


def test_what_is_printed_says_what_labels_are_worth_and_what_was_assumed():
    text = " ".join(repr(rw.compare(RUNS, HUMAN, judge=JUDGE)).split())
    assert "30 labelled queries, worth " in text
    assert " without the judge; the judge alone says +0." in text
    assert "the corrected difference is +0." in text
    assert "of which these 60 queries are a sample" in text
    assert "taken to be drawn at random" in text
    assert "Humans judged" not in text
    part = {query: dict(list(row.items())[:6]) for query, row in HUMAN.items()}
    assert "Humans judged 5" in repr(rw.evaluate(RUNS["new"], part, judge=JUDGE))
    assert rw.evaluate(RUNS["new"], HUMAN, judge=JUDGE).to_dict()["means"][0]["labels"] == 30


def test_queries_that_a_run_lacks_are_counted():
    result = rw.evaluate({query: row for query, row in RUNS["new"].items() if query != "q1"}, HUMAN, judge=JUDGE)
    assert result.n_queries == N - 1
    assert "Left out: 1 query of the judge" in repr(result)


REFUSED = {
    "judge must have graded the queries of human labels: got 30 not": (HUMAN, nested(GRADES, range(1, N, 2))),
    "at least 10 queries: got 9": (nested(LABELS, range(9)), JUDGE),
    "no query in common": ({"x": {"y": 1}}, {"x": {"y": 1}}),
    "Hint: set sampled='probability'": (table(LABELS, "grade").with_columns(probability=0.5), JUDGE),
}


@pytest.mark.parametrize("message", REFUSED)
def test_labels_that_tell_nothing_are_refused(message):
    human, judge = REFUSED[message]
    with pytest.raises(ValueError, match=message):
        rw.evaluate(RUNS["new"], human, judge=judge)


def test_few_labels_are_warned_of_and_settings_that_mean_nothing_refused():
    with pytest.warns(UserWarning, match="only 12 queries have human labels"):
        rw.evaluate(RUNS["new"], nested(LABELS, range(12)), judge=JUDGE)
    for settings in ({"test": "t"}, {"split": (0.5, 0.5)}):
        with refusal(hint="pass judge=…; leave test, split and segment out"):
            rw.compare(RUNS, HUMAN, judge=JUDGE, **settings)
    refuses(lambda: rw.compare(RUNS, HUMAN, sampled="probability"), hint="pass judge=…")  # type: ignore[call-overload]
    with refusal(what="a judge does not go with a policy"):
        rw.evaluate(RUNS["new"], HUMAN, judge=JUDGE, policy="deterministic")  # type: ignore[call-overload]
    refuses(lambda: rw.evaluate(RUNS["new"], HUMAN, mine, judge=JUDGE), got="labelled queries that mine skips")


def mine(scores, labels, offsets):
    return np.where(np.arange(offsets.size - 1) < 3, np.nan, 1.0)


def test_a_difference_is_that_of_the_queries_whose_lists_differ_times_their_share():
    """40 of 60 queries have equal lists: they differ by exactly 0, and labels of them tell nothing."""
    differ = np.arange(N) % 3 == 0
    old = np.where(differ[:, None], OLD, NEW)
    human = nested(LABELS, np.flatnonzero(np.arange(N) % 2 == 0))
    systems = {"old": nested(old), "new": nested(NEW)}
    with pytest.warns(UserWarning, match="only 10 queries whose lists differ have human labels"):
        (mean,) = rw.compare(systems, human, "ndcg@5", judge=JUDGE).means
    alone = {name: {q: row for q, row in run.items() if differ[int(q[1:])]} for name, run in systems.items()}
    with pytest.warns(UserWarning, match="only 10 queries have human labels"):
        (of_these,) = rw.compare(alone, {q: human[q] for q in human if q in alone["old"]}, "ndcg@5", judge=JUDGE).means
    assert mean.labels == of_these.labels == 10
    assert mean.value == pytest.approx(of_these.value / 3)
    assert mean.fixed_error == pytest.approx(of_these.fixed_error / 3)
    assert mean.error**2 == pytest.approx((of_these.error / 3) ** 2 + of_these.value**2 * (1 / 3) * (2 / 3) / N)
    few = {q: row for q, row in human.items() if q != "q0"}
    with refusal(what="…10 queries whose lists differ", got="9 of 20 that differ by ndcg…"):
        rw.compare(systems, few, "ndcg@5", judge=JUDGE)
    (nothing,) = rw.compare({"a": systems["new"], "b": dict(systems["new"])}, human, judge=JUDGE).means
    assert (nothing.value, nothing.low, nothing.high, nothing.p) == (0.0, 0.0, 0.0, 1.0)


A, B, C, D = range(4)
LISTS: dict[str, tuple[Any, bool]] = {
    "ndcg@2": ([[A, B, C, D], [A, B, D, C]], True),  # beyond the cutoff
    "ndcg@3": ([[A, B, C, D], [A, B, D, C]], False),
    "precision@2": ([[A, B, C, D], [B, A, C, D]], True),  # within it, where documents are only counted
    "hit@2": ([[A, B, C, D], [B, A, C, D]], True),
    "rprec": ([[A, B, C, D], [B, A, C, D]], False),
    "ap@2": ([[A, B, C, D], [B, A, C, D]], False),
    "recall@2": ([[A, B, (C, D)], [(A, B), C, D]], True),
    "recall@3": ([[A, B, (C, D)], [A, B, C, D]], False),  # a tie that the cutoff cuts
    "dcg@2": ([[A, (B, C, D)], [A, (B, C), D]], False),
    "dcg(ties=row)@3": ([[A, (B, C), D], [A, B, C, D]], True),
    "dcg(ties=best)@3": ([[A, (B, C), D], [A, B, C, D]], False),
    "rr": ([[A, B], [A, B, C]], False),  # not retrieved
    "rr@2": ([[A, B], [A, B, C]], True),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_are_equal_where_the_metric_is_whatever_the_labels(name):
    from itertools import product

    from rankwise.wings.judging.evaluation import JudgedRuns

    rankings, equal = LISTS[name]
    scores = np.full((2, 4), -np.inf)
    for row, ranking in zip(scores, rankings, strict=True):
        for place, tied in enumerate(ranking):
            row[list(tied) if isinstance(tied, tuple) else [tied]] = -float(place)
    nothing, offsets = np.full(4, np.nan), np.array([0, 4])
    joined = JudgedRuns(np.arange(1), np.arange(4), offsets, scores, nothing, nothing, nothing)
    one, other = joined.lists(rw.metric(name))
    assert (one == other).all() == equal
    all_labels = [np.array(labels, float) for labels in product(range(3), repeat=4)]
    first, second = np.transpose(
        [[rw.metric(name, empty=0)(row, labels, offsets)[0] for row in scores] for labels in all_labels]
    )
    assert np.allclose(first, second, atol=1e-12) == equal


@pytest.mark.parametrize("ids", ["global", "places"])
def test_copies_of_queries_are_found_and_count_as_one(ids):
    """Each query three times, and labels with it: errors are those of the queries themselves."""

    def thrice(values, queries=range(N)):
        names = [[f"d{12 * q * (ids == 'global') + d}" for d in range(12)] for q in range(N)]
        return {
            f"q{q}/{copy}": dict(zip(names[q], values[q].tolist(), strict=True)) for q in queries for copy in range(3)
        }

    runs, even = {"old": thrice(OLD), "new": thrice(NEW)}, range(0, N, 2)
    (once,) = rw.compare(RUNS, HUMAN, judge=JUDGE).means
    result = rw.compare(runs, thrice(LABELS, even), judge=thrice(GRADES))
    (copied,) = result.means
    assert copied.value == pytest.approx(once.value, rel=1e-4)  # λ is of 180 queries
    assert copied.freedom == once.freedom
    assert copied.error == pytest.approx(once.error, rel=0.1)
    assert copied.fixed_error == pytest.approx(once.fixed_error, rel=0.1)
    assert "120 queries have the documents and scores of another" in " ".join(repr(result).split())
    with refusal(what="with a judge there must be human labels of at least 10 queries whose lists differ", got="9 of…"):
        rw.compare(runs, thrice(LABELS, range(0, 18, 2)), judge=thrice(GRADES))


def test_sampled_documents_of_few_queries_that_differ_are_refused():
    old = np.where(np.arange(N)[:, None] < 9, OLD, NEW)
    judged = table(LABELS, "grade").with_columns(probability=1.0)
    with refusal(what="sampled documents must be of at least 10 queries whose lists differ", got="9…"):
        rw.compare({"old": nested(old), "new": nested(NEW)}, judged, "dcg@5", judge=JUDGE, sampled="probability")
