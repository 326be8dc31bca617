"""Diversity metrics: ndeval's digits, definitions written out anew, ties over all orders, and errors."""

import itertools
import math
import re
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from tests.refusals import refusal, refuses

NAMES = {  # ir_measures' and ndeval's
    **{
        f"{name}@{cutoff}": f"{name.replace('_', '-')}@{cutoff}"
        for name in ("ERR_IA", "alpha_DCG")
        for cutoff in (5, 20)
    },
    **{
        f"{name}@{cutoff}": f"{name.replace('_', '-')}@{cutoff}"
        for name in ("nERR_IA", "alpha_nDCG")
        for cutoff in (1, 5, 20)
    },
    **{f"P_IA@{cutoff}": f"P-IA@{cutoff}" for cutoff in (5, 20)},
    **{f"StRecall@{cutoff}": f"strec@{cutoff}" for cutoff in (5, 20)},
    **{name: name.replace("_", "-") for name in ("NRBP", "nNRBP", "MAP_IA")},
}


def of(metric: str, scores, offsets, columns: dict[str, Any], **options: Any) -> Any:
    n_docs = len(scores)
    data = rw.RankingDataset(np.empty((n_docs, 0)), np.zeros(n_docs), offsets, **columns)
    return rw.metric(metric, **options).of(scores, data)


class Case:
    """Queries with aspects; documents that were not retrieved have score −inf."""

    def __init__(self, seed: int, n_queries: int, most: int, n_aspects: int, levels: int | None = None) -> None:
        rng = np.random.default_rng(seed)
        sizes = rng.integers(1, most + 1, n_queries)
        self.offsets = np.r_[0, np.cumsum(sizes)]
        n_docs = self.offsets[-1]
        share = np.repeat(rng.choice([0.05, 0.2, 0.6], n_queries), sizes)[:, None]
        self.relevant = (rng.random((n_docs, n_aspects)) < share).astype(float)
        self.more_labels = {f"aspect_{a}": self.relevant[:, a] for a in range(n_aspects)}
        self.scores = rng.permutation(n_docs).astype(float) if levels is None else rng.integers(levels, size=n_docs) / 2
        self.scores[rng.random(n_docs) < 0.2] = -np.inf
        self.ids = np.array([f"d{i}" for i in rng.permutation(10 * n_docs)[:n_docs]])

    def value(self, metric: str, **options: float) -> Any:
        columns = {"more_labels": self.more_labels, "document_ids": self.ids}
        return of(metric, self.scores, self.offsets, columns, **options)

    def queries(self):
        for start, stop in itertools.pairwise(self.offsets):
            yield self.scores[start:stop], self.relevant[start:stop], self.ids[start:stop].tolist()


@pytest.mark.parametrize("alpha", [0.5, 0.3, 0.9])
@pytest.mark.parametrize("n_aspects", [1, 3, 7])
def test_ndeval(alpha: float, n_aspects: int) -> None:
    ndeval = pytest.importorskip("pyndeval", reason="the package pyndeval is not installed")
    case, beta = Case(n_aspects, 60, 50, n_aspects), 0.7
    qrels, run = [], []
    for q, (scores, relevant, ids) in enumerate(case.queries()):
        qrels += [(str(q), f"{a}", name, int(relevant[i, a])) for i, name in enumerate(ids) for a in range(n_aspects)]
        run += [(str(q), name, score) for name, score in zip(ids, scores, strict=True) if score > -np.inf]
    theirs = ndeval.ndeval(qrels, run, [*NAMES.values()], alpha=alpha, beta=beta)
    assert len(theirs) > 40
    for ours, name in NAMES.items():
        kind = type(rw.metric(ours))
        options = {key: value for key, value in {"alpha": alpha, "beta": beta}.items() if hasattr(kind, key)}
        values = case.value(ours, **options)
        for q, row in theirs.items():
            peer = 0.0 if math.isnan(row[name]) else row[name]  # nNRBP divides 0 by 0 where nothing is relevant
            assert values[int(q)] == pytest.approx(peer, abs=1e-12), (ours, q)


def cascade(relevant: np.ndarray, weights: Sequence[float], alpha: float) -> Any:
    """Σ_r w_r·Σ_a (1 − alpha)^(documents of a above), of documents in ranked order."""
    return sum(
        weights[r] * sum((1 - alpha) ** relevant[:r, a].sum() for a in range(relevant.shape[1]) if row[a])
        for r, row in enumerate(relevant)
    )


def definition(name: str, relevant: np.ndarray, rows: list[int], ids: list[str], cutoff: int, **options: float) -> Any:
    """Return the value of one order of documents, from the papers' definitions and ndeval's choice of the ideal."""
    relevant = relevant[:, relevant.any(axis=0)]
    ranked, n_aspects = relevant[rows[:cutoff]], relevant.shape[1]
    if name == "precision_ia":
        return ranked.sum() / cutoff / n_aspects
    if name == "strec":
        return ranked.any(axis=0).mean()
    if name == "ap_ia":
        precision = ranked.cumsum(axis=0) / np.arange(1, len(ranked) + 1)[:, None]
        return ((ranked * precision).sum(axis=0) / relevant.sum(axis=0)).mean()
    alpha, beta = options["alpha"], options["beta"]
    n = max(cutoff, len(relevant))
    weights = {
        "err": [1 / r for r in range(1, n + 1)],
        "nrbp": [beta**r for r in range(n)],
        "alpha": [1 / math.log2(r + 2) for r in range(n)],
    }[name.removesuffix("_ia").split("_")[0].removeprefix("n" if name.startswith(("nerr", "nnrbp")) else "")]
    if name in ("alpha_dcg", "err_ia", "nrbp_ia"):
        best = cascade(np.ones((cutoff, n_aspects)), weights, alpha)
    else:
        ideal: list[int] = []
        left = set(range(len(relevant)))
        while left:
            seen = relevant[ideal].sum(axis=0)
            ideal.append(max(left, key=lambda i: (round(float(relevant[i] @ (1 - alpha) ** seen), 12), ids[i])))
            left.remove(ideal[-1])
        best = cascade(relevant[ideal[:cutoff]], weights, alpha)
    return cascade(ranked, weights, alpha) / best


def every_order(scores: np.ndarray) -> list[list[int]]:
    rows = sorted((i for i in range(scores.size) if scores[i] > -np.inf), key=lambda i: -scores[i])
    groups = [list(group) for _, group in itertools.groupby(rows, key=lambda i: scores[i])]
    orders = itertools.product(*(itertools.permutations(group) for group in groups))
    return [[i for group in order for i in group] for order in orders]


@pytest.mark.parametrize("name", [name for name, kind in rw.metrics.METRICS.items() if "more_labels" in kind.reads])
@pytest.mark.parametrize("cutoff", [1, 3, 8])
def test_ties_against_the_definition_of_every_order(name: str, cutoff: int) -> None:
    case = Case(cutoff, 60, 6, 4, levels=3)
    every = {"alpha": 0.4, "beta": 0.7}
    options = {key: value for key, value in every.items() if hasattr(rw.metric(name), key)}
    average, row, empty = (
        case.value(f"{name}@{cutoff}", **options, **more) for more in ({}, {"ties": "row"}, {"empty": 1})
    )
    scored = 0
    for q, (scores, relevant, ids) in enumerate(case.queries()):
        if not relevant.any():
            assert np.isnan(average[q])
            assert empty[q] == 1.0
            continue
        values = [definition(name, relevant, rows, ids, cutoff, **every) for rows in every_order(scores)]
        assert average[q] == pytest.approx(np.mean(values), abs=1e-12)
        assert row[q] == pytest.approx(values[0], abs=1e-12)  # itertools lists the order of rows first
        scored += 1
    assert scored > 20


def test_without_a_cutoff_the_sums_are_infinite() -> None:
    columns = {"more_labels": {"a": [1, 1, 0]}}
    err = of("err_ia", -np.arange(3.0), [0, 3], columns)[0]
    assert err == pytest.approx((1 + 0.5 / 2) / (2 * math.log(2)))  # Σ 2^-(r-1)/r = 2·ln 2
    nrbp = of("nrbp_ia(beta=0.8)", -np.arange(3.0), [0, 3], columns)[0]
    assert nrbp == pytest.approx((1 + 0.4) * (1 - 0.4))


def test_the_greedy_ideal_is_not_always_the_best() -> None:
    sets = [(0, 1, 2), (3, 4, 5), (1, 2, 3, 4)]  # greedily the last is first, and adds little after it
    labels = {f"a{a}": [float(a in one) for one in sets] for a in range(6)}
    value = of("alpha_ndcg(alpha=0.9)@2", [3.0, 2.0, 1.0], [0, 3], {"more_labels": labels})[0]
    assert value == pytest.approx((3 + 3 / math.log2(3)) / (4 + 1.2 / math.log2(3)))
    assert 1.0 < value < rw.metric("alpha_ndcg").bounds[1]


def test_aspects_may_be_chosen() -> None:
    columns = {"more_labels": {"cat": [1, 0], "car": [0, 1], "purchase": [1, 1]}}
    metric = rw.metric("strec(aspects=(cat, car))@1")
    assert rw.metric(str(metric)) == metric
    assert of(str(metric), [2.0, 1.0], [0, 2], columns)[0] == 0.5
    assert of("strec(aspects=(cat, car, cat))@1", [2.0, 1.0], [0, 2], columns)[0] == 0.5
    assert of("strec(aspects=purchase)@1", [2.0, 1.0], [0, 2], columns)[0] == 1.0
    with refusal(what="the data have no labels called 'cot'", hint="did you mean 'cat'"):
        of("strec(aspects=cot)@1", [2.0, 1.0], [0, 2], columns)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("alpha_ndcg(ties=worst)", {"what": "unknown way to treat ties of alpha_ndcg", "got": "'worst'"}),
        ("alpha_ndcg(alpha=1)", {"what": "alpha must be a number in (0, 1)"}),
        ("nrbp_ia(beta=0)", {"what": "beta must be a number in (0, 1)"}),
        ("strec(label=cat)", {"what": "strec reads several labels", "got": "label=cat", "hint": "set aspects=cat"}),
        ("P_IA", {"what": "P_IA needs a cutoff"}),
    ],
)
def test_wrong_settings(text: str, fields: dict[str, str]) -> None:
    refuses(lambda: rw.metric(text), **fields)


def test_documents_without_aspects_are_an_error() -> None:
    message = r"alpha_ndcg@5 reads more_labels: got data without more_labels. Hint: name the labels of each aspect"
    with pytest.raises(ValueError, match=message):
        of("alpha_ndcg@5", [1.0], [0, 1], {})
    with pytest.raises(ValueError, match=message):
        rw.metric("alpha_ndcg@5")([1.0], [1], [0, 1])


def test_training_stops_by_the_metric_that_evaluate_reports() -> None:
    data = rw.synthetic(n_queries=40, n_docs=12, seed=3)
    aspects = {
        "even": data.labels * (np.arange(data.n_docs) % 2 == 0),
        "odd": data.labels * (np.arange(data.n_docs) % 2),
    }
    train, valid = rw.split(data.with_(more_labels=aspects), (0.7, 0.3), seed=1)
    settings: Any = {"rounds": 5, "leaves": 4, "min_documents": 2, "threads": 1, "metrics": ("alpha_ndcg@5",)}
    ranker = rw.LightGBMRanker("xendcg", **settings).fit(train, valid)
    best = max(ranker.history_["alpha_ndcg@5"])
    assert rw.evaluate(ranker, valid, "alpha_ndcg@5").mean["alpha_ndcg@5"] == best
    assert ranker.score(valid) == best


def test_of_equal_documents_the_ideal_has_the_last_id_first() -> None:
    sets = [(0, 1), (2, 3), (0, 2)]  # after the third each of the others repeats an aspect
    labels = {f"a{a}": [float(a in one) for one in sets] for a in range(4)}
    step = 1 / math.log2(3)
    for ids, best in [(None, 2 + 2 * step), (["a", "b", "c"], 2 + 1.5 * step), (["b", "c", "a"], 2 + 2 * step)]:
        value = of("alpha_ndcg@2", [3.0, 2.0, 1.0], [0, 3], {"more_labels": labels, "document_ids": ids})[0]
        assert value == pytest.approx((2 + 2 * step) / best)


@pytest.mark.parametrize(
    ("metric", "names", "said"),
    [
        ("alpha_ndcg@5", ("cat", "purchase", "car"), r"alpha_ndcg@5 .*also purchase\. Hint: .*aspects=\(car, cat\)"),
        ("strec@5", ("is_clicked",), r"strec@5 .*also is_clicked\. Hint: .*aspects=\(…\)"),
        ("ap_ia", ("cat", "margin", "Revenue"), r"ap_ia .*also Revenue, margin\. Hint: .*aspects=\(cat\)"),
        ("alpha_ndcg(aspects=(cat, purchase))@5", ("cat", "purchase", "car"), ""),
        ("alpha_ndcg@5", ("cat", "car", "aspect_3"), ""),
    ],
)
def test_goals_are_not_taken_for_aspects_in_silence(metric, names, said):
    columns = {"more_labels": {name: [1, 0] for name in names}}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        of(metric, [1.0, 0.0], [0, 2], columns)
    assert [bool(re.search(said, str(one.message))) for one in caught] == [True] * bool(said)
