"""Conventions of a library reproduce its numbers, on random data with ties and empty queries; names of others."""

import math
import re
from typing import NamedTuple

import catboost.utils
import lightgbm as lgb
import numpy as np
import pytest
import pytrec_eval
import sklearn.metrics
import xgboost as xgb
from numpy.typing import NDArray

import rankwise as rw
from rankwise.metrics import METRICS, NDCG
from tests.refusals import refusal, refuses

CUTOFFS = (1, 3, 5, 10, 40, 200)
LIBRARIES = ("rankwise", "lightgbm", "xgboost", "catboost", "sklearn", "letor", "trec_eval")


class Lists(NamedTuple):
    scores: NDArray[np.float64]
    labels: NDArray[np.float64]
    offsets: NDArray[np.int64]

    def ours(self, library: str, cutoff: int | None) -> NDArray[np.float64]:
        metric = rw.metric("ndcg", cutoff=cutoff, **rw.metrics.conventions(library))
        return metric(*self)


@pytest.fixture(scope="module", params=[0, 1])
def lists(request: pytest.FixtureRequest) -> Lists:
    rng = np.random.default_rng(request.param)
    sizes = rng.integers(1, 90, 150)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    labels = rng.choice(5, size=offsets[-1], p=[0.6, 0.2, 0.1, 0.06, 0.04]).astype(float)
    for q in range(0, 150, 7):
        labels[offsets[q] : offsets[q + 1]] = 0.0
    # Quarters are exact in float32, in which some libraries keep scores.
    scores = np.round(rng.normal(size=labels.size) + 0.3 * labels, 0) / 4.0
    return Lists(scores, labels, offsets)


def test_the_data_has_ties_and_empty_queries(lists: Lists) -> None:
    by_row, worst = (rw.metric("ndcg@5", ties=ties, empty=0)(*lists) for ties in ("row", "worst"))
    assert np.mean(by_row > worst) > 0.5
    assert np.isnan(rw.metric("ndcg")(*lists)).sum() >= 21


def test_lightgbm(lists: Lists) -> None:
    # A model of one leaf that predicts 0 (nothing to split on), on top of the scores as initial ones.
    data = lgb.Dataset(
        np.zeros((lists.labels.size, 1)),
        label=lists.labels,
        group=np.diff(lists.offsets),
        init_score=lists.scores,
        params={"feature_pre_filter": False, "verbose": -1},
    )
    params = {"objective": "lambdarank", "metric": "ndcg", "eval_at": list(CUTOFFS), "verbose": -1}
    booster = lgb.Booster(params, data)
    theirs = {row[1]: row[2] for row in booster.eval_train()}
    for cutoff in CUTOFFS:
        assert lists.ours("lightgbm", cutoff).mean() == pytest.approx(theirs[f"ndcg@{cutoff}"], abs=1e-6)


def test_xgboost(lists: Lists) -> None:
    data = xgb.DMatrix(np.zeros((lists.labels.size, 1)), label=lists.labels, base_margin=lists.scores)
    data.set_group(np.diff(lists.offsets))
    names = [f"ndcg@{cutoff}" for cutoff in CUTOFFS]
    booster = xgb.train({"objective": "rank:ndcg", "eval_metric": [*names, "ndcg"]}, data, num_boost_round=0)
    line = booster.eval(data, "now")
    theirs = dict(part.removeprefix("now-").rsplit(":", 1) for part in line.split()[1:])
    for cutoff in CUTOFFS:
        assert lists.ours("xgboost", cutoff).mean() == pytest.approx(float(theirs[f"ndcg@{cutoff}"]), abs=1e-6)
    # without a cutoff it takes that of its default training pairs
    assert lists.ours("xgboost", 32).mean() == pytest.approx(float(theirs["ndcg"]), abs=1e-6)


@pytest.mark.parametrize("kind", ["Base", "Exp"])
def test_catboost(lists: Lists, kind: str) -> None:
    groups = np.repeat(np.arange(lists.offsets.size - 1), np.diff(lists.offsets))
    options = rw.metrics.conventions("catboost") | ({"gain": "exponential"} if kind == "Exp" else {})
    for cutoff in CUTOFFS:
        name = f"NDCG:top={cutoff};type={kind}"
        (theirs,) = catboost.utils.eval_metric(lists.labels, lists.scores, name, group_id=groups)
        ours = rw.metric("ndcg", cutoff=cutoff, **options)(*lists).mean()
        assert ours == pytest.approx(theirs, abs=1e-6)


def test_sklearn_query_by_query(lists: Lists) -> None:
    for cutoff in (1, 5, 40, None):
        ours = lists.ours("sklearn", cutoff)
        for q, (start, stop) in enumerate(zip(lists.offsets[:-1], lists.offsets[1:], strict=True)):
            if stop - start > 1:  # it refuses lists of one document
                labels, scores = lists.labels[start:stop], lists.scores[start:stop]
                theirs = sklearn.metrics.ndcg_score([labels], [scores], k=cutoff)
                assert ours[q] == pytest.approx(theirs, abs=1e-9)


def test_sklearn_average_precision_and_dcg(lists: Lists) -> None:
    distinct = lists._replace(scores=lists.scores + np.random.default_rng(5).random(lists.scores.size) / 100)
    ap, dcg = rw.metric("ap(empty=0)")(*distinct), rw.metric("dcg(gain=linear, empty=0)@7")(*distinct)
    for q, (start, stop) in enumerate(zip(lists.offsets[:-1], lists.offsets[1:], strict=True)):
        labels, scores = lists.labels[start:stop], distinct.scores[start:stop]
        if stop - start > 1 and labels.any():
            assert ap[q] == pytest.approx(sklearn.metrics.average_precision_score(labels >= 1, scores), abs=1e-9)
            assert dcg[q] == pytest.approx(sklearn.metrics.dcg_score([labels], [scores], k=7), abs=1e-9)


def test_trec_eval_where_rows_are_by_descending_id(lists: Lists) -> None:
    run: dict[str, dict[str, float]] = {}
    qrels: dict[str, dict[str, int]] = {}
    for q, (start, stop) in enumerate(zip(lists.offsets[:-1], lists.offsets[1:], strict=True)):
        names = [f"{900 - i}" for i in range(stop - start)]
        run[str(q)] = dict(zip(names, lists.scores[start:stop].tolist(), strict=True))
        qrels[str(q)] = dict(zip(names, lists.labels[start:stop].astype(int).tolist(), strict=True))
    measures = [f"ndcg_cut.{','.join(map(str, CUTOFFS))}", "ndcg"]
    theirs = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run)
    for cutoff in (*CUTOFFS, None):
        name = f"ndcg_cut_{cutoff}" if cutoff else "ndcg"
        peer = [theirs[str(q)][name] for q in range(len(qrels))]
        np.testing.assert_allclose(lists.ours("trec_eval", cutoff), peer, atol=1e-9)


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("name", [name for name, kind in METRICS.items() if "more_labels" not in kind.reads])
def test_every_convention_sets_what_every_metric_has(library: str, name: str, lists: Lists) -> None:
    for text in (name, f"{name}@7")[: 1 if "cutoff" in METRICS[name].fixed else 2]:
        one = rw.metric(text, conventions=library)
        assert type(one) is METRICS[name]
        assert rw.metric(str(one)) == one
        rewards = lists.labels if "document_rewards" in one.reads else None
        assert np.isfinite(one(*lists, document_rewards=rewards)).all() or library == "rankwise"
        wanted = {word: value for word, value in rw.metrics.conventions(library).items() if word in ("gain", "ties")}
        assert all(
            getattr(one, word) == value
            for word, value in wanted.items()
            if hasattr(one, word) and word not in one.fixed
        )
    if library == "rankwise":
        assert rw.metric(name, conventions=library) == rw.metric(name)


def test_arguments_of_an_expression_override_the_convention() -> None:
    assert str(rw.metric("ndcg(gain=exponential)@5", conventions="trec_eval")) == "ndcg(ties=row, empty=0)@5"
    assert str(rw.metric("ap(ties=average)", conventions="catboost")) == "ap(divide=cutoff, empty=0)"
    assert str(rw.metric(NDCG(ties="best"), conventions="catboost")) == "ndcg(gain=linear, ties=best, empty=1)"
    assert str(rw.metric("ap", conventions="lightgbm", empty="skip")) == "ap(divide=cutoff, ties=row)"
    with refusal(what="unknown library", got="'lightgmb'", hint="did you mean 'lightgbm'"):
        rw.metric("ap", conventions="lightgmb")


def mean(text: str, library: str, lists: Lists) -> float:
    return float(rw.metric(text, conventions=library)(*lists).mean())


def test_lightgbm_map(lists: Lists) -> None:
    data = lgb.Dataset(
        np.zeros((lists.labels.size, 1)),
        label=lists.labels,
        group=np.diff(lists.offsets),
        init_score=lists.scores,
        params={"feature_pre_filter": False, "verbose": -1},
    )
    params = {"objective": "lambdarank", "metric": "map", "eval_at": list(CUTOFFS), "verbose": -1}
    theirs = {row[1]: row[2] for row in lgb.Booster(params, data).eval_train()}
    for cutoff in CUTOFFS:
        assert mean(f"ap@{cutoff}", "lightgbm", lists) == pytest.approx(theirs[f"map@{cutoff}"], abs=1e-6)


def test_xgboost_map_and_precision(lists: Lists) -> None:
    binary = lists._replace(labels=(lists.labels >= 1).astype(float))  # it takes no other labels for these
    data = xgb.DMatrix(np.zeros((binary.labels.size, 1)), label=binary.labels, base_margin=binary.scores)
    data.set_group(np.diff(binary.offsets))
    names = {f"{theirs}@{cutoff}": f"{ours}@{cutoff}" for cutoff in CUTOFFS for theirs, ours in XGBOOST.items()}
    booster = xgb.train({"objective": "rank:map", "eval_metric": list(names)}, data, num_boost_round=0)
    theirs = dict(part.removeprefix("now-").rsplit(":", 1) for part in booster.eval(data, "now").split()[1:])
    for name, text in names.items():
        assert mean(text, "xgboost", binary) == pytest.approx(float(theirs[name]), abs=1e-6), name


XGBOOST = {"map": "ap", "pre": "precision"}
CATBOOST = {"DCG": "dcg", "MAP": "ap", "MRR": "rr", "PrecisionAt": "precision", "RecallAt": "recall"}


@pytest.mark.parametrize("name", CATBOOST)
def test_catboost_of_other_metrics(lists: Lists, name: str) -> None:
    groups = np.repeat(np.arange(lists.offsets.size - 1), np.diff(lists.offsets))
    if name == "MAP":  # the others take labels above their border of 0.5 for relevant
        lists = lists._replace(labels=(lists.labels >= 1).astype(float))
    for cutoff in CUTOFFS:
        (theirs,) = catboost.utils.eval_metric(lists.labels, lists.scores, f"{name}:top={cutoff}", group_id=groups)
        ours = mean(f"{CATBOOST[name]}@{cutoff}", "catboost", lists)
        assert ours == pytest.approx(theirs, abs=1e-6), f"{name} at {cutoff}"


def test_sklearn_dcg_with_ties(lists: Lists) -> None:
    ours = rw.metric("dcg@7", conventions="sklearn")(*lists)
    for q, (start, stop) in enumerate(zip(lists.offsets[:-1], lists.offsets[1:], strict=True)):
        if stop - start > 1:
            theirs = sklearn.metrics.dcg_score([lists.labels[start:stop]], [lists.scores[start:stop]], k=7)
            assert ours[q] == pytest.approx(theirs, abs=1e-9)


# Scores are in descending order. Gains are 3, 1 and 0; discounts 1, 1, 1/log2(3) and 1/2.
LETOR: dict[tuple[int, ...], dict[str, float]] = {
    # Of one list of four: DCG is 1, 1, 1 + 3/log2(3), and at 4 the same; the ideal one 3, 4, 4 and 4.
    (1, 0, 2, 0): {
        "ndcg@1": 1 / 3,
        "ndcg@2": 1 / 4,
        "ndcg@4": (1 + 3 / math.log2(3)) / 4,
        "ndcg@5": 0,
        "mean_ndcg": (1 / 3 + 1 / 4 + 2 * (1 + 3 / math.log2(3)) / 4) / 4,
        "ap": (1 + 2 / 3) / 2,
        "precision@10": 2 / 10,
    },
    (0, 0): {"ndcg@1": 0, "mean_ndcg": 0, "ap": 0, "precision@1": 0},
    # One document: NDCG@1 is 1, and 0 at deeper cutoffs.
    (2,): {"ndcg@1": 1, "ndcg@2": 0, "mean_ndcg": 1, "ap": 1, "precision@2": 1 / 2},
}


@pytest.mark.parametrize("labels", LETOR)
def test_letor_by_pencil(labels: tuple[int, ...]) -> None:
    """As its Eval-Score-4.0.pl computes it; equal scores keep the order of lines."""
    for name, value in LETOR[labels].items():
        one = rw.metric(name, conventions="letor")
        for scores in (np.arange(len(labels), 0.0, -1.0), np.zeros(len(labels))):
            assert one(scores, labels, [0, len(labels)])[0] == pytest.approx(value, abs=1e-14), name


def test_conventions_of_an_unknown_library() -> None:
    with refusal(what="unknown library", got="'lightgmb'", hint="did you mean 'lightgbm'"):
        rw.metrics.conventions("lightgmb")


def test_conventions_returns_a_copy() -> None:
    rw.metrics.conventions("xgboost")["gain"] = "linear"
    assert rw.metrics.conventions("xgboost")["gain"] == "exponential"


READ = {
    # trec_eval
    "map": "ap(ties=row, empty=0)",
    "map_cut_10": "ap(ties=row, empty=0)@10",
    "P_10": "precision(ties=row, empty=0)@10",
    "P.5": "precision(ties=row, empty=0)@5",
    "recall_100": "recall(ties=row, empty=0)@100",
    "ndcg_cut_10": "ndcg(gain=linear, ties=row, empty=0)@10",
    " ndcg_cut.20 ": "ndcg(gain=linear, ties=row, empty=0)@20",
    "recip_rank": "rr(ties=row, empty=0)",
    "success_5": "hit(ties=row, empty=0)@5",
    "success@5": "hit(ties=row, empty=0)@5",
    "Rprec": "rprec(ties=row, empty=0)",
    "infAP": "infap(ties=row, empty=0)",
    "xinfAP": "xinfap(ties=row, empty=0)",
    "infNDCG": "infndcg(gain=linear, ties=row, empty=0)",
    "set_P": "precision(ties=row, empty=0)",
    # ir_measures
    "nDCG@20": "ndcg(gain=linear, ties=row, empty=0)@20",
    "nDCG(dcg='exp-log2')@10": "ndcg(ties=row, empty=0)@10",
    "P@10": "precision(ties=row, empty=0)@10",
    "P(rel=2)@10": "precision(relevant=2, ties=row, empty=0)@10",
    "RR@10": "rr(ties=row, empty=0)@10",
    "AP": "ap(ties=row, empty=0)",
    "AP(rel=3)@20": "ap(relevant=3, ties=row, empty=0)@20",
    "Bpref": "bpref(ties=row, empty=0)",
    "Judged@10": "judged(ties=row)@10",
    "R@100": "recall(ties=row, empty=0)@100",
    "RBP(p=0.8)": "rbp(ties=row, empty=0)",
    "RBP(p=0.5, rel=2)@10": "rbp(relevant=2, p=0.5, ties=row, empty=0)@10",
    "ERR@20": "err(ties=row, empty=0)@20",
    "Success@5": "hit(ties=row, empty=0)@5",
    "NumRelRet": "num_rel_ret(ties=row)",
    "NumRet(rel=2)": "num_rel_ret(relevant=2, ties=row)",
    "NumRet": "num_ret(ties=row)",
    "alpha_nDCG(alpha=0.3)@20": "alpha_ndcg(alpha=0.3, ties=row, empty=0)@20",
    "NRBP(rel=2)": "nrbp_ia(relevant=2, ties=row, empty=0)",
    "MAP_IA": "ap_ia(ties=row, empty=0)",
    "StRecall@5": "strec(ties=row, empty=0)@5",
    # the same word in both, or one that is only ours: our defaults
    "ndcg": "ndcg",
    "bpref": "bpref",
    "num_ret": "num_ret",
    "rprec": "rprec",
}


@pytest.mark.parametrize(("text", "canonical"), READ.items())
def test_names_of_other_libraries_have_their_meaning(text: str, canonical: str) -> None:
    one = rw.metric(text)
    assert str(one) == canonical
    assert rw.metric(repr(one)) == one


def test_an_explicit_convention_overrides_that_of_the_name() -> None:
    assert str(rw.metric("nDCG@10", conventions="rankwise")) == "ndcg@10"
    assert str(rw.metric("ndcg_cut_10", conventions="lightgbm")) == "ndcg(ties=row, empty=1)@10"


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (
            "nDGC@10",
            {
                "what": "unknown metric",
                "got": "'nDGC'",
                "where": "character 1 of 'nDGC@10'",
                "hint": "did you mean 'nDCG'",
            },
        ),
        ("ndcg_cu_10", {"what": "unknown metric", "got": "'ndcg_cu_10'", "hint": "did you mean 'ndcg_cut'"}),
        ("Bprev", {"hint": "did you mean 'Bpref', 'rprec' or 'bpref'"}),
        ("gm_map", {"what": "unknown metric", "got": "'gm_map'", "hint": "did you mean 'map'"}),
        ("11pt_avg", {"what": "cannot read the metric expression"}),
        ("AP(rell=2)", {"what": "unknown argument of AP", "got": "'rell'", "hint": "did you mean 'rel'"}),
        ("ERR(rel=2)", {"what": "unknown argument of ERR", "got": "'rel'"}),
        (
            "nDCG(dcg=exp)",
            {"what": "unknown form of DCG (dcg)", "got": "'exp'", "hint": "choose one of log2, exp-log2"},
        ),
        ("P", {"what": "P needs a cutoff", "got": "'P'", "hint": "write P@10"}),
        ("ndcg_cut", {"what": "ndcg_cut needs a cutoff", "got": "'ndcg_cut'", "hint": "write ndcg_cut@10"}),
        ("P_0", {"what": "cutoff must be a whole number of at least 1", "got": "0"}),
    ],
)
def test_unknown_names_are_rejected(text: str, fields: dict[str, str]) -> None:
    refuses(lambda: rw.metric(text), **fields)


def test_our_own_names_are_lower_case() -> None:
    assert all(re.fullmatch("[a-z_]+", name) for name in METRICS)
