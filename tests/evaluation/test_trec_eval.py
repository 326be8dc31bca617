"""trec_eval's measures against the outputs that its own test suite expects, and against peers on random data."""

import gzip
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import ir_measures
import numpy as np
import pytest
import pytrec_eval

import rankwise as rw
from rankwise.metrics import Metric
from tests import shared
from tests.processes import environment

COUNTS = {"num_q", "num_ret", "num_rel", "num_rel_ret"}
OTHERS = {  # what trec_eval calls something that we have not
    *("11pt_avg", "G", "Rndcg", "Rprec_mult", "binG", "gm_bpref", "gm_map", "iprec_at_recall", "ndcg_rel"),
    *("num_nonrel_judged_ret", "rbp_resid", "relative_P", "relstring", "runid", "set_F", "set_map"),
    *("set_relative_P", "unj", "utility"),
}


def metric_of(measure: str, **options: Any) -> Metric | None:
    """The metric that computes one of trec_eval's measures, None for measures that we do not have."""
    name, _, parameter = re.fullmatch(r"(\D\w*?|11pt_avg)(_([\d.=,-]+))?", measure).groups()  # type: ignore[union-attr]
    if name in OTHERS:
        return None
    if name.startswith("ndcg") and "=" in measure:  # gains by grade; those not named keep their number
        table = [0.0, 1.0, 2.0, 3.0, 4.0]
        for part in parameter.split(","):
            table[int(part.split("=")[0])] = float(part.split("=")[1])
        return rw.metric("ndcg", conventions="trec_eval", gain=tuple(table))
    metric = rw.metric("rbp(p=0.9)" if name == "rbp" else measure, conventions="trec_eval")
    return rw.metric(metric, **options) if hasattr(metric, "relevant") else metric


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
    scores, data = rw.trec.join(folder / f"{run}.gz", folder / f"{qrels}.gz", all_topics=all_topics)
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
        values = metric(scores, data.labels, data.offsets, data.judged)
        whole = values.sum() if measure in COUNTS else values.mean()
        ours = whole if topic == "all" else values[topics.index(topic)]
        assert ours == pytest.approx(value, abs=5.0001e-5), f"{measure} of {topic}"
        checked.add(re.sub(r"_\d.*", "", measure))
    official = {"P", "map", "recip_rank", "Rprec", "bpref", *COUNTS}
    more = (
        {"infAP", "success", "ndcg", "ndcg_cut", "map_cut", "recall", "set_P", "set_recall"} if ".a" in file else set()
    )
    assert checked >= ({"P", "recall", "ndcg", "success"} if "params" in file else official | more)


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
    scores, data = rw.trec.join(run, qrels)
    measures = ["map", "P.5,10", "recall.5,20", "recip_rank", "ndcg", "ndcg_cut.3,10,100", "success.1,5", "map_cut.7"]
    measures += ["Rprec", "bpref", "infAP", "set_P", "set_recall", *COUNTS]
    for level in (1, 3):
        theirs = pytrec_eval.RelevanceEvaluator(qrels, measures, relevance_level=level).evaluate(run)
        for measure in next(iter(theirs.values())):
            metric = metric_of(measure, relevant=level)
            assert metric is not None
            ours = metric(scores, data.labels, data.offsets, data.judged)
            peer = [theirs[topic][measure] for topic in data.query_ids.tolist()]  # type: ignore[union-attr]
            np.testing.assert_allclose(ours, peer, atol=1e-9, err_msg=measure)


def in_strict_order(run):
    """Give every document of a query a score of its own: peers break ties each in their way."""
    return {q: {d: s + int(d[1:]) / 1e6 for d, s in row.items()} for q, row in run.items()}


def agree(measures, run, qrels, tolerance: float) -> None:
    """Hold metrics of ir_measures' own names to its numbers, query by query."""
    scores, data = rw.trec.join(run, qrels)
    topics = data.query_ids.tolist()  # type: ignore[union-attr]
    for measure in measures:
        ours = dict(zip(topics, rw.metric(measure)(scores, data.labels, data.offsets, data.judged), strict=True))
        theirs = ir_measures.iter_calc([ir_measures.parse_measure(measure)], qrels, run)
        values = {one.query_id: one.value for one in theirs}
        assert len(values) >= 30
        for topic, value in values.items():
            assert ours[topic] == pytest.approx(value, abs=tolerance), measure


def test_random_runs_against_ir_measures(random_files) -> None:
    run, qrels = random_files
    measures = [
        *("RR(rel=2)@5", "RR@10", "AP(rel=3)@20", "AP", "P@10", "SetP(rel=2)", "SetR", "R@100", "R(rel=4)@30"),
        *(
            "Success(rel=2)@3",
            "nDCG@20",
            "nDCG",
            "Rprec",
            "Rprec(rel=2)",
            "Bpref",
            "Bpref(rel=3)",
            "infAP",
            "infAP(rel=2)",
        ),
        *("Judged@10", "Judged@3", "NumQ", "NumRel", "NumRet"),
    ]
    agree(measures, in_strict_order(run), qrels, 1e-9)


def test_gains_against_ir_measures(random_files) -> None:
    run, qrels = random_files
    strict = in_strict_order(run)
    scores, data = rw.trec.join(strict, qrels)
    ours = rw.metric("ndcg(gain=(0, 2, 5, 9, 11), empty=0)@10")(scores, data.labels, data.offsets)
    measure = ir_measures.nDCG(gains={1: 2, 2: 5, 3: 9, 4: 11}) @ 10
    theirs = {one.query_id: one.value for one in ir_measures.iter_calc([measure], qrels, strict)}
    for topic, value in zip(data.query_ids.tolist(), ours, strict=True):  # type: ignore[union-attr]
        assert theirs[topic] == pytest.approx(value, abs=1e-9)


RANX = {
    "ndcg@10": "nDCG@10",
    "map": "AP",
    "map@7": "AP@7",
    "mrr@5": "RR@5",
    "precision@10": "P@10",
    "recall@20": "R@20",
}
RANX |= {"r-precision": "Rprec", "hits@10": "num_rel_ret@10", "hit_rate@3": "Success@3"}


# As plain Python, in a process of its own: compiled, which takes half a minute, it computes the same.
THEIRS = """
import json, sys
import ranx

run, qrels, names = json.load(sys.stdin)
theirs = ranx.Run(run)
ranx.evaluate(ranx.Qrels(qrels), theirs, names, threads=1)
json.dump({name: dict(theirs.scores[name]) for name in names}, sys.stdout)
"""


def test_random_runs_against_ranx(random_files) -> None:
    run, qrels = random_files
    strict = in_strict_order(run)
    positive = {q: {d: max(grade, 0) for d, grade in row.items()} for q, row in qrels.items()}  # it knows no others
    scores, data = rw.trec.join(strict, positive)
    command, plain = [sys.executable, "-c", THEIRS], environment(NUMBA_DISABLE_JIT="1")
    asked = json.dumps([strict, positive, list(RANX)])
    done = subprocess.run(command, input=asked, capture_output=True, text=True, env=plain, check=False)
    assert done.returncode == 0, done.stderr
    theirs = json.loads(done.stdout)
    for name, text in RANX.items():
        ours = rw.metric(text)(scores, data.labels, data.offsets, data.judged)
        for topic, value in zip(data.query_ids.tolist(), ours, strict=True):  # type: ignore[union-attr]
            assert theirs[name][topic] == pytest.approx(value, abs=1e-9), name


@pytest.mark.skipif(shutil.which("perl") is None, reason="gdeval, which computes the peer's ERR, is a Perl script")
def test_err_against_gdeval(random_files) -> None:
    run, qrels = random_files
    positive = {q: {d: max(grade, 0) for d, grade in row.items()} for q, row in qrels.items()}
    measures = ["ERR@10", "ERR@3", "nDCG(dcg='exp-log2')@10"]
    agree(measures, in_strict_order(run), positive, 6e-6)  # it prints five digits
