"""Forecasts of intervals, against the intervals that more judgements gave."""

from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.judging import forecast
from rankwise.wings.judging.prediction_powered import prediction_powered
from tests.refusals import refuses

QUERIES, DOCUMENTS = 200, 12


def drawn(rng: np.random.Generator) -> tuple[pl.DataFrame, pl.DataFrame, dict[str, pl.DataFrame]]:
    """Return the truth, a judge that is often right, and two runs."""
    ids = {"query": np.repeat(np.arange(QUERIES), DOCUMENTS), "document": np.tile(np.arange(DOCUMENTS), QUERIES)}
    frame = pl.DataFrame(ids).cast(pl.String)
    truth = rng.choice([0.0, 1.0, 2.0], p=[0.6, 0.25, 0.15], size=frame.height)
    judge = np.where(rng.random(truth.size) < 0.75, truth, rng.choice([0.0, 1.0, 2.0], size=truth.size))
    runs = {
        name: frame.with_columns(score=truth + spread * rng.normal(size=truth.size))
        for name, spread in (("new", 1.5), ("old", 2))
    }
    return frame.with_columns(grade=truth), frame.with_columns(grade=judge), runs


def half(compared: Any) -> float:
    return float(compared.means[0].high - compared.means[0].low) / 2.0


def test_forecasts_of_queries_are_what_comes():
    rng, ratios = np.random.default_rng(0), []
    for _ in range(10):
        truth, judge, runs = drawn(rng)
        order = rng.permutation(QUERIES).astype(str)
        known, more = (truth.filter(pl.col("query").is_in(order[:n].tolist())) for n in (50, 120))
        found = forecast(runs, known, judge=judge, more=[70])
        now, then = found.to_frame()["half_width"]
        assert now == pytest.approx(half(rw.compare(runs, known, "ndcg@10", judge=judge)), abs=1e-12)
        ratios.append(then / half(rw.compare(runs, more, "ndcg@10", judge=judge)))
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.1)
    assert then < 0.9 * now


def test_forecasts_of_sampled_documents_are_what_comes():
    rng, ratios = np.random.default_rng(1), []
    for seed in range(10):
        truth, judge, runs = drawn(rng)
        samples: list[pl.DataFrame] = []
        for count in (100, 300):
            previous = samples[-1] if samples else None
            plan = rw.judging.plan(runs, judge=judge, judgements=count, seed=seed, previous=previous).to_frame()
            graded = plan.drop("grade").join(truth, on=["query", "document"], maintain_order="left")
            samples.append(graded.select("query", "document", "grade", "probability"))
        found = forecast(runs, samples[0], judge=judge, metric="dcg@10", sampled="probability", more=[300])
        compared = [half(rw.compare(runs, one, "dcg@10", judge=judge, sampled="probability")) for one in samples]
        now, then = found.to_frame()["half_width"]
        assert now == pytest.approx(compared[0], abs=1e-12)
        ratios.append(then / compared[1])
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.15)
    assert then < 0.75 * now


def test_more_labels_without_a_use_of_the_judge_divide_the_variance():
    human, judge = np.array([0.1, 0.9, 0.4, 0.6]), np.full(4, 0.5)
    now, then = (prediction_powered(human, judge, np.full(20, 0.5), more=more) for more in (0, 12))
    assert then.error == pytest.approx(now.error / 2.0)
    assert (now.freedom, then.freedom) == (3, 15)
    assert prediction_powered(human, judge, np.full(20, 0.5), more=99).error == pytest.approx(now.error / np.sqrt(6.0))
    copies = np.arange(24)
    assert prediction_powered(human, judge, np.full(20, 0.5), copies, more=12).error == pytest.approx(then.error)


def test_the_fewest_that_suffice_are_found():
    truth, judge, runs = drawn(np.random.default_rng(2))
    known = truth.filter(pl.col("query").cast(pl.Int64) < 40)
    within = round(0.85 * forecast(runs, known, judge=judge, more=[10]).outlooks[0].half_width, 4)
    found = forecast(runs, known, judge=judge, more=[10, 900], within=within)
    (needed,) = found.needed
    assert needed is not None
    halves = forecast(runs, known, judge=judge, more=[needed - 1, needed]).to_frame()["half_width"].to_list()
    assert halves[2] <= within < halves[1]
    assert found.left == 160
    assert found.to_frame()["more"].to_list() == [0, 10, 160]  # there are no more
    assert f"±{within:g} takes about {needed} more." in found.sentence
    assert forecast(runs, known, judge=judge, within=1e-6).needed == (None,)
    one = forecast({"new": runs["new"]}, known, judge=judge)
    assert one.to_frame()["against"].is_null().all()


def test_bad_settings_are_refused():
    truth, judge, runs = drawn(np.random.default_rng(3))
    known = truth.filter(pl.col("query").cast(pl.Int64) < 40)
    refuses(lambda: forecast(runs, known, judge=judge, more=[0]), what="more must be…", got="0")
    refuses(lambda: forecast(runs, known, judge=judge, within=0.0), what="within must be…")
    refuses(lambda: forecast(runs, truth, judge=judge), what="every query has human labels…")
