"""Metrics that rank judged documents alone, against trec_eval's option -J."""

from typing import Any

import numpy as np
import pytest

import rankwise as rw
from tests.refusals import refuses

RNG = np.random.default_rng(4)
RUN = {f"q{q}": {f"d{d}": float(RNG.normal()) for d in range(12)} for q in range(8)}
QRELS = {query: {document: int(RNG.integers(-1, 3)) for document in [*row][:7]} for query, row in RUN.items()}
THEIRS = {"map": "map", "ndcg": "ndcg", "recip_rank": "recip_rank", "P_5": "P_5", "num_ret": "num_ret"}


def test_trec_eval_agrees():
    pytrec_eval = pytest.importorskip("pytrec_eval")
    theirs = pytrec_eval.RelevanceEvaluator(QRELS, {*THEIRS}, judged_docs_only_flag=True).evaluate(RUN)
    metrics = [rw.metric(name, conventions="trec_eval", judged_only=True) for name in THEIRS]
    found = rw.evaluate(RUN, QRELS, metrics)
    for name, metric in zip(THEIRS, metrics, strict=True):
        for query, value in zip(found.query_ids.tolist(), found[metric], strict=True):
            assert value == pytest.approx(theirs[query][name], abs=1e-9)
    assert found[metrics[0]].tolist() != rw.evaluate(RUN, QRELS, "map")["map"].tolist()


def test_the_column_is_read_and_its_absence_changes_nothing():
    labels, offsets, judged = [0, 0, 1], [0, 3], [0, 1, 1]
    metric: Any = rw.metric("rr(judged_only=true)")
    assert "judged" in metric.accepts
    assert metric([3.0, 2.0, 1.0], labels, offsets, judged=judged).tolist() == [0.5]
    assert metric([3.0, 2.0, 1.0], labels, offsets).tolist() == [1 / 3]
    assert rw.metric(str(metric)) == metric
    aspects = {"x": [0, 1, 0], "y": [0, 0, 1]}
    covered = rw.metric("precision_ia(judged_only=true)@1")
    assert covered([3.0, 2.0, 1.0], [0, 0, 0], offsets, judged=judged, more_labels=aspects).tolist() == [0.5]
    assert rw.metric("judged(judged_only=true)@2")([3.0, 2.0, 1.0], labels, offsets, judged=judged).tolist() == [1.0]


@pytest.mark.parametrize("metric", ["reward", "ap(label=sale)"])
def test_labels_of_which_nobody_says_who_judged_them_are_refused(metric: str):
    refuses(lambda: rw.metric(metric, judged_only=True), what="nobody says who judged what…")
    refuses(lambda: rw.metric("ap", judged_only=3), what="judged_only must be True or False", got="3")
