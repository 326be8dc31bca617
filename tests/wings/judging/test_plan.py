"""Which documents to judge: what is drawn, how it is written and read, and estimates from it."""

import sys
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.wings.judging.plan import systematic
from tests.refusals import refusal
from tests.wings.judging.test_evaluation import GRADES, HUMAN, JUDGE, LABELS, NEW, OLD, RUNS, N, nested, table

KEYS = ["query", "document"]
TRUTH = table(LABELS, "grade")


def judged(plan: rw.judging.Plan) -> pl.DataFrame:
    return plan.to_frame().drop("grade").join(TRUTH, on=KEYS, how="left", maintain_order="left")


def test_a_plan_of_everything_is_the_comparison_of_all_labels():
    plan = rw.judging.plan(RUNS, judge=JUDGE, judgements=10_000, metric="dcg@5")
    frame = judged(plan)
    assert frame.height == plan.candidates < N * 12
    assert (frame["probability"] == 1.0).all()
    result = rw.compare(RUNS, frame, "dcg@5", judge=JUDGE, sampled="probability")
    everything = rw.compare(RUNS, nested(LABELS), "dcg(empty=0)@5").pairs[0]
    mean = result.means[0]
    assert (mean.value, mean.low) == pytest.approx(
        (everything.difference, everything.low), rel=1e-3
    )  # 59 degrees of freedom or fewer
    assert mean.fixed_low == mean.fixed_high == mean.value
    assert mean.worth == pytest.approx(plan.candidates)


def test_documents_that_all_systems_rank_alike_are_never_drawn():
    scores = np.tile(np.arange(12.0)[::-1], (N, 1))
    swapped = scores.copy()
    swapped[:, [2, 3]] = swapped[:, [3, 2]]
    swapped[:, [10, 11]] = swapped[:, [11, 10]]  # beyond the cutoff
    plan = rw.judging.plan({"a": nested(scores), "b": nested(swapped)}, judge=JUDGE, judgements=500, metric="dcg@10")
    assert set(plan.to_frame()["document"]) == {"d2", "d3"}
    with refusal(what="there is no document to judge: the systems rank all alike, or all are judged"):
        rw.judging.plan({"a": nested(scores), "b": nested(scores)}, judge=JUDGE)


def test_draws_depend_on_seed_and_ids_alone():
    settings: dict[str, Any] = {"judge": JUDGE, "judgements": 50, "metric": "dcg@5"}
    plan = rw.judging.plan(RUNS, **settings).to_frame()
    assert (plan.height, (plan["probability"] <= 1.0).all()) == (50, True)
    backwards = {
        name: {q: dict(reversed(row.items())) for q, row in reversed(run.items())} for name, run in RUNS.items()
    }
    assert rw.judging.plan(backwards, **settings).to_frame().equals(plan)
    assert not rw.judging.plan(RUNS, **settings, seed=1).to_frame().equals(plan)


def test_a_second_batch_knows_the_spread_and_keeps_the_first():
    first = rw.judging.plan(RUNS, judge=JUDGE, judgements=60, metric="dcg@5")
    assert set(first.spreads.values()) == {1.0}
    pilot = judged(first)
    second = rw.judging.plan(RUNS, judge=JUDGE, judgements=100, metric="dcg@5", previous=pilot)
    assert second.spreads["0"] < second.spreads["2"]  # 2² − 1 = 3 is lost or won there
    frame = second.to_frame()
    assert frame.head(60).drop("probability").equals(pilot.select(*KEYS, "grade").cast({"grade": pl.Float64}))
    assert (frame.head(60)["probability"] == 1.0).all()
    new = frame.tail(100)
    assert new["grade"].null_count() == 100
    assert new.join(pilot, on=KEYS, how="semi").is_empty()
    result = rw.compare(RUNS, judged(second), "dcg@5", judge=JUDGE, sampled="probability")
    mean = result.means[0]
    truth = rw.compare(RUNS, nested(LABELS), "dcg(empty=0)@5").pairs[0].difference
    assert mean.fixed_low < truth < mean.fixed_high
    assert mean.low < mean.fixed_low
    assert "160 judgements, worth " in repr(result)
    assert "100 documents of" in repr(second)


def test_a_plan_for_several_systems_serves_every_pair():
    systems = RUNS | {"third": nested(OLD + NEW)}
    frame = judged(rw.judging.plan(systems, judge=JUDGE, judgements=10_000, metric="ndcg@5"))
    result = rw.compare(systems, frame, "ndcg@5", judge=JUDGE, sampled="probability")
    assert {one.metric for one in result.means} == {"ndcg(empty=0)@5 over the judge's ideal"}
    ideal = rw.metric("dcg@5")(GRADES.ravel().astype(float), GRADES.ravel().astype(float), np.arange(0, 12 * N + 1, 12))
    dcg = [
        rw.metric("dcg(empty=0)@5")(one.ravel(), LABELS.ravel().astype(float), np.arange(0, 12 * N + 1, 12))
        for one in (NEW, OLD)
    ]
    assert result.means[0].value == pytest.approx(np.nan_to_num((dcg[0] - dcg[1]) / ideal).mean(), abs=1e-5)


def test_files_keep_ids_and_probabilities(tmp_path):
    def renamed(values, keep=range(N)):
        return {f"=q{q}" if q % 2 else f"00{q}": {f"-d{d}": values[q, d].item() for d in range(12)} for q in keep}

    systems, judge = {"old": renamed(OLD), "new": renamed(NEW)}, renamed(GRADES)
    plan = rw.judging.plan(systems, judge=judge, judgements=80, metric="dcg@5")
    path = plan.write(tmp_path / "plan.csv")
    with pytest.raises(FileExistsError):
        plan.write(path)
    with refusal(got="80 of 80 without a grade"):
        rw.compare(systems, path, "dcg@5", judge=judge, sampled="probability")
    filled = plan.to_frame().with_columns(grade=pl.lit(1))
    expected = rw.compare(systems, filled, "dcg@5", judge=judge, sampled="probability")
    path.write_text(path.read_text().replace(",,", ",1,"))
    result = rw.compare(systems, path, "dcg@5", judge=judge, sampled="probability")
    assert result.to_frame().equals(expected.to_frame())


def test_samples_without_probabilities_or_for_other_metrics_are_refused():
    frame = judged(rw.judging.plan(RUNS, judge=JUDGE, judgements=200, metric="dcg@5"))
    with refusal(what="the table of judged documents needs the probability with which each was drawn"):
        rw.compare(RUNS, HUMAN, "dcg@5", judge=JUDGE, sampled="probability")
    with refusal(what="probabilities must be above 0 and at most 1", got="200…"):
        rw.compare(RUNS, frame.with_columns(probability=0.0), "dcg@5", judge=JUDGE, sampled="probability")
    with refusal(what="ap…is not a sum over documents…"):
        rw.compare(RUNS, frame, "ap", judge=JUDGE, sampled="probability")
    other = {"old": nested(-OLD), "new": nested(-NEW)}  # other documents at the top
    with refusal(what="the judged documents are no sample of those that these systems rank differently"):
        rw.compare(other, frame, "dcg@5", judge=JUDGE, sampled="probability")
    with refusal(what="a plan needs at least two systems by name"):
        rw.judging.plan({"new": nested(NEW)}, judge=JUDGE)


def test_a_second_batch_is_drawn_anew(monkeypatch):
    starts = []

    def recorded(chances, start, draw=systematic):
        starts.append(start)
        return draw(chances, start)

    monkeypatch.setattr(sys.modules["rankwise.wings.judging.plan"], "systematic", recorded)
    pilot = judged(rw.judging.plan(RUNS, judge=JUDGE, judgements=60, metric="dcg@5"))
    rw.judging.plan(RUNS, judge=JUDGE, judgements=60, metric="dcg@5", previous=pilot)
    assert len(set(starts)) == 2  # else what was drawn first would decide what is drawn next


def test_without_a_judge_a_plan_has_the_holes_with_the_largest_differences_of_discounts_first():
    thin = {f"q{q}": {f"d{d}": float(LABELS[q, d]) for d in range(12) if (q + d) % 3} for q in range(N)}
    plan = rw.judging.plan(RUNS, previous=thin, judgements=10_000, metric="dcg@5")
    discounts = np.append(1 / np.log2(np.arange(2, 7)), 0.0)
    expected = {}
    for q in range(N):
        places = [np.argsort(np.argsort(-scores[q], kind="stable"), kind="stable").clip(max=5) for scores in (OLD, NEW)]
        for d in range(12):
            apart = abs(discounts[places[0][d]] - discounts[places[1][d]]) / 2  # the standard deviation of two
            if apart > 0 and f"d{d}" not in thin[f"q{q}"]:
                expected[f"q{q}", f"d{d}"] = apart
    frame = plan.to_frame()
    assert {row[:2]: row[3] for row in frame.iter_rows()} == pytest.approx(expected)
    assert frame["importance"].is_sorted(descending=True)
    assert frame["grade"].null_count() == frame.height == plan.candidates - plan.judged
    first = rw.judging.plan(RUNS, previous=thin, judgements=9, metric="dcg@5").to_frame()
    assert first.equals(frame.head(9))
    assert "9 documents of" in repr(rw.judging.plan(RUNS, previous=thin, judgements=9, metric="ndcg@5"))
    assert f"{plan.candidates:,}" in plan.to_html()
    filled = frame.drop("grade", "importance").join(TRUTH, on=KEYS)
    merged = {q: dict(row) for q, row in thin.items()}
    for query, document, grade in filled.iter_rows():
        merged[query][document] = grade
    with_all = rw.compare(RUNS, nested(LABELS), "dcg(empty=0)@5").pairs[0].difference
    assert rw.compare(RUNS, merged, "dcg(empty=0)@5").pairs[0].difference == pytest.approx(with_all)


def test_a_plan_without_a_judge_refuses_what_it_cannot_do():
    with refusal(what="there is no document to judge: the systems rank all alike, or all are judged"):
        rw.judging.plan(RUNS, previous=nested(LABELS))
    with refusal(what="runs have no query in common", where="run 'other'"):
        rw.judging.plan({"new": nested(NEW), "other": {"elsewhere": {"d1": 1.0}}})
