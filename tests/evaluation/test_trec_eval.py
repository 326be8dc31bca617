"""trec_eval's measures against the outputs that its own test suite expects, and against peers on random data."""

import gzip
import re
import shutil
from collections.abc import Iterator
from typing import Any

import ir_measures
import numpy as np
import pytest
import pytrec_eval

import rankwise as rw
from rankwise.metrics import Metric
from tests import shared

NAMES = {
    "map": "ap",
    "map_cut": "ap",
    "P": "precision",
    "set_P": "precision",
    "recall": "recall",
    "set_recall": "recall",
    "recip_rank": "rr",
    "success": "hit",
    "rbp": "rbp(p=0.9)",
    "ndcg": "ndcg",
    "ndcg_cut": "ndcg",
}


def metric_of(measure: str, **options: Any) -> Metric | None:
    """The metric that computes one of trec_eval's measures, None for measures that we do not have."""
    parts = re.fullmatch(r"([A-Za-z_]+?)(?:_(\d.*))?", measure)
    if not parts or parts[1] not in NAMES:
        return None
    name, cutoff = parts.groups()
    metric = rw.metric(NAMES[name], ties="row", empty=0)
    if name.startswith("ndcg"):
        metric = rw.metric(metric, **rw.conventions("trec_eval"))
        if cutoff and "=" in cutoff:  # gains by grade; those not named keep their number
            table = [0.0, 1.0, 2.0, 3.0, 4.0]
            for part in cutoff.split(","):
                table[int(part.split("=")[0])] = float(part.split("=")[1])
            return rw.metric(metric, gain=tuple(table))
    else:
        metric = rw.metric(metric, **options)
    return metric @ int(cutoff) if cutoff else metric


def expected(file: str) -> Iterator[tuple[str, str, float]]:
    with gzip.open(shared.data(f"trec-eval-test/{file}.gz"), "rt") as lines:
        for line in lines:
            measure, topic, value = line.split()
            if re.fullmatch(r"-?[\d.]+", value):
                yield measure, topic, float(value)


CASES = [
    # expected output, qrels, run, with -c, -M, -l
    ("out.test", "qrels.test", "results.test", False, None, 1),
    ("out.test.a", "qrels.test", "results.test", False, None, 1),
    ("out.test.aq", "qrels.test", "results.test", False, None, 1),
    ("out.test.aqc", "qrels.test", "results.trunc", True, None, 1),
    ("out.test.aqcM", "qrels.test", "results.trunc", True, 100, 1),
    ("out.test.aql", "qrels.rel_level", "results.test", False, None, 2),
    ("out.test.meas_params", "qrels.test", "results.test", False, None, 1),
]


@pytest.mark.parametrize(
    ("file", "qrels", "run", "all_topics", "most", "level"), CASES, ids=[case[0] for case in CASES]
)
def test_its_own_expected_outputs(
    file: str, qrels: str, run: str, all_topics: bool, most: int | None, level: int
) -> None:
    folder = shared.data("trec-eval-test")
    scores, data = rw.judge(folder / f"{run}.gz", folder / f"{qrels}.gz", all_topics=all_topics)
    scores = scores.copy()
    if most:  # -M: rows are in ranked order, and only the first of each query count as retrieved
        place = np.arange(data.n_docs) - np.repeat(data.offsets[:-1], data.sizes)
        scores[place >= most] = -np.inf
    topics = data.query_ids.tolist()  # type: ignore[union-attr]
    checked = set()
    for measure, topic, value in expected(file):
        metric = metric_of(measure, relevant=level)
        if metric is None or (measure == "rbp" and qrels == "qrels.rel_level"):  # its rbp is of grades, ours binary
            continue
        values = metric(scores, data.labels, data.offsets)
        ours = values.mean() if topic == "all" else values[topics.index(topic)]
        assert ours == pytest.approx(value, abs=5.0001e-5), f"{measure} of {topic}"
        checked.add(measure.split("_")[0])
    assert checked >= ({"P", "recall", "ndcg", "success"} if "params" in file else {"P", "map", "recip"})


@pytest.fixture(scope="module")
def random_files() -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
    """Runs with ties, missed relevant documents and unjudged ones, and queries without relevant documents."""
    rng = np.random.default_rng(11)
    run, qrels = {}, {}
    for q in range(40):
        names = [f"d{i}" for i in rng.choice(500, size=60, replace=False)]
        run[str(q)] = {name: float(rng.integers(12)) / 4 for name in names[: rng.integers(3, 45)]}
        highest = 1 if q % 9 == 0 else 5
        qrels[str(q)] = {name: int(rng.integers(-1, highest)) for name in names[15:]}
    return run, qrels


def test_random_runs_against_pytrec_eval(random_files) -> None:
    run, qrels = random_files
    scores, data = rw.judge(run, qrels)
    measures = ["map", "P.5,10", "recall.5,20", "recip_rank", "ndcg", "ndcg_cut.3,10,100", "success.1,5", "map_cut.7"]
    for level in (1, 3):
        theirs = pytrec_eval.RelevanceEvaluator(qrels, measures, relevance_level=level).evaluate(run)
        for measure in next(iter(theirs.values())):
            metric = metric_of(measure, relevant=level)
            assert metric is not None
            ours = metric(scores, data.labels, data.offsets)
            peer = [theirs[topic][measure] for topic in data.query_ids.tolist()]  # type: ignore[union-attr]
            np.testing.assert_allclose(ours, peer, atol=1e-9, err_msg=measure)


def in_strict_order(run):
    """Give every document of a query a score of its own: peers break ties each in their way."""
    return {q: {d: s + int(d[1:]) / 1e6 for d, s in row.items()} for q, row in run.items()}


def agree(texts, run, qrels, tolerance: float) -> None:
    qrels = {q: {d: max(grade, 0) for d, grade in row.items()} for q, row in qrels.items()}
    scores, data = rw.judge(run, qrels)
    topics = data.query_ids.tolist()  # type: ignore[union-attr]
    for text, measure in texts.items():
        ours = dict(zip(topics, rw.metric(text, empty=0)(scores, data.labels, data.offsets), strict=True))
        theirs = {one.query_id: one.value for one in ir_measures.iter_calc([measure], qrels, run)}
        assert len(theirs) >= 30
        for topic, value in theirs.items():
            assert ours[topic] == pytest.approx(value, abs=tolerance), text


def test_random_runs_against_ir_measures(random_files) -> None:
    run, qrels = random_files
    texts = {
        "rr(relevant=2)@5": ir_measures.RR(rel=2) @ 5,
        "ap(relevant=3)@20": ir_measures.AP(rel=3) @ 20,
        "precision(relevant=2)": ir_measures.SetP(rel=2),
        "recall(relevant=4)@30": ir_measures.R(rel=4) @ 30,
        "hit(relevant=2)@3": ir_measures.Success(rel=2) @ 3,
        "ndcg(gain=linear)@10": ir_measures.nDCG @ 10,
        "ndcg(gain=(0, 2, 5, 9, 11))@10": ir_measures.nDCG(gains={1: 2, 2: 5, 3: 9, 4: 11}) @ 10,
    }
    agree(texts, in_strict_order(run), qrels, 1e-9)


@pytest.mark.skipif(shutil.which("perl") is None, reason="gdeval, which computes the peer's ERR, is a Perl script")
def test_err_against_gdeval(random_files) -> None:
    run, qrels = random_files
    texts = {
        "err@10": ir_measures.ERR @ 10,
        "err@3": ir_measures.ERR @ 3,
        "ndcg@10": ir_measures.nDCG(dcg="exp-log2") @ 10,
    }
    agree(texts, in_strict_order(run), qrels, 6e-6)  # it prints five digits
