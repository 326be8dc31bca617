"""Averaged ties are the mean over every order of tied documents, found here by listing every order."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankwise.metrics import ERR, METRICS, metric


def value_of(text: str, rows: list[int], labels: list[float], judged: list[int], strata: list[int]) -> float:
    """The metric of one strict ranking, from its definition; ``rows`` are the documents that were retrieved."""
    m = metric(text)
    k = m.cutoff or 10**9
    ranked = [labels[row] for row in rows]
    top = ranked[:k]
    relevant = getattr(m, "relevant", 1)
    hits = [float(y >= relevant) for y in top]
    n_relevant = sum(y >= relevant for y in labels)

    def dcg(values: list[float]) -> float:
        return sum((2**y - 1) / math.log2(r + 2) for r, y in enumerate(values[:k]))

    def rbp(values: list[float], p: float) -> float:
        return sum((1 - p) * p**r * (y >= relevant) for r, y in enumerate(values[:k]))

    best = sorted(labels, reverse=True)
    match m.name:
        case "dcg":
            return dcg(ranked)
        case "ndcg":
            return dcg(ranked) / dcg(best)
        case "mean_ndcg":
            depth = min(k, len(labels))
            tops = [(ranked[: d + 1], best[: d + 1]) for d in range(depth)]
            return sum(dcg(mine) / dcg(ideal) for mine, ideal in tops) / depth
        case "precision":
            return sum(hits) / (m.cutoff or max(len(ranked), 1))
        case "recall":
            return sum(hits) / n_relevant
        case "hit":
            return max(hits, default=0.0)
        case "rr":
            return next((1 / (r + 1) for r, hit in enumerate(hits) if hit), 0.0)
        case "ap":
            return sum(sum(hits[: r + 1]) / (r + 1) for r, hit in enumerate(hits) if hit) / n_relevant
        case "rbp":
            return rbp(ranked, m.p)  # type: ignore[attr-defined]
        case "nrbp":
            return rbp(ranked, m.p) / rbp(best, m.p)  # type: ignore[attr-defined]
        case "rprec":
            return sum(hits[:n_relevant]) / n_relevant
        case "num_q":
            return 1
        case "num_ret":
            return len(top)
        case "num_rel":
            return n_relevant
        case "num_rel_ret":
            return sum(hits)
        case "judged":
            return sum(judged[row] != 0 for row in rows[:k]) / max(len(top), 1)
        case "bpref" | "infap":
            return sum(terms(m.name, rows[:k], hits, judged, n_relevant, labels)) / n_relevant
        case "xinfap":
            return sampled_ap(rows[:k], hits, labels, judged, strata)
        case "infndcg":
            return sampled_ndcg(rows[:k], labels, judged, strata, k)
        case _:
            total, reading = 0.0, 1.0
            for r, y in enumerate(top):
                satisfied = (2**y - 1) / 16
                total += reading * satisfied / (r + 1)
                reading *= 1 - satisfied
            return total


def terms(
    name: str, rows: list[int], hits: list[float], judged: list[int], n_relevant: int, labels: list[float]
) -> list[float]:
    """What each relevant document adds to bpref or infAP, as trec_eval has it."""
    found = []
    others = sum(known == 1 for known in judged) - n_relevant
    for r, hit in enumerate(hits):
        if hit:
            above = [judged[row] for row in rows[:r]]
            relevant, known = sum(hits[:r]), above.count(1)
            if name == "bpref":
                wrong = known - relevant
                found.append(1 - min(wrong, n_relevant) / min(others, n_relevant) if wrong else 1.0)
            else:
                precision = (relevant + 1e-5) / (known + 2e-5)
                found.append(1 / (r + 1) + (known + above.count(-1)) / (r + 1) * precision)
    return found


def stands_for(judged: list[int], strata: list[int], rows: list[int] | range) -> dict[int, float]:
    """How many pooled documents a judged one stands for, by stratum, among these rows."""
    known = {s: sum(judged[i] == 1 for i in rows if strata[i] == s) for s in set(strata)}
    return {s: sum(judged[i] != 0 for i in rows if strata[i] == s) / max(known[s], 1) for s in known}


def sampled_ap(rows: list[int], hits: list[float], labels: list[float], judged: list[int], strata: list[int]) -> float:
    """xinfAP as sample_eval has it."""
    weight = stands_for(judged, strata, range(len(labels)))
    total = 0.0
    for r, hit in enumerate(hits):
        above = 0.0
        for s in set(strata):
            inside = [(judged[row], hits[place]) for place, row in enumerate(rows[:r]) if strata[row] == s]
            pooled, known = sum(one != 0 for one, _ in inside), sum(one == 1 for one, _ in inside)
            above += pooled * (sum(relevant for _, relevant in inside) + 1e-5) / (known + 3e-5)
        total += hit * weight[strata[rows[r]]] * (1 + above) / (r + 1)
    return total / sum(weight[s] for label, s in zip(labels, strata, strict=True) if label >= 1)


def sampled_ndcg(rows: list[int], labels: list[float], judged: list[int], strata: list[int], cutoff: int) -> float:
    """infNDCG as sample_eval has it, with gains 2^y − 1."""
    weight = stands_for(judged, strata, range(len(labels)))
    ideal: list[float] = []
    for grade in sorted(set(labels) - {0.0}, reverse=True):
        number = sum(weight[s] for label, s in zip(labels, strata, strict=True) if label == grade)
        ideal += [grade] * int(number + 0.5)
    found = stands_for(judged, strata, rows)
    gains = [found[strata[row]] * (2 ** labels[row] - 1) / math.log2(r + 2) for r, row in enumerate(rows)]
    return sum(gains) / sum((2**grade - 1) / math.log2(r + 2) for r, grade in enumerate(ideal[:cutoff]))


def every_order(scores: list[float]) -> list[list[int]]:
    """The documents in ranked order, for each order that the scores allow."""
    rows = [i for i in range(len(scores)) if scores[i] > -np.inf]
    rows.sort(key=lambda i: -scores[i])
    groups = [list(group) for _, group in itertools.groupby(rows, key=lambda i: scores[i])]
    orders = itertools.product(*(itertools.permutations(group) for group in groups))
    return [[i for group in order for i in group] for order in orders]


LABELLED = [name for name, kind in METRICS.items() if "labels" in kind.reads and "ties" not in kind.fixed]
TEXTS = [*LABELLED, "rbp(p=0.95)", "ap(relevant=2)", "recall(relevant=3)", "rprec(relevant=2)"]


@pytest.mark.parametrize("text", TEXTS)
@settings(max_examples=25, deadline=None)
@given(
    documents=st.lists(
        st.tuples(
            st.sampled_from([0.0, 1.0, 2.5, -np.inf]), st.integers(0, 4) | st.sampled_from([-1, -2]), st.integers(0, 1)
        ),
        min_size=1,
        max_size=7,
    ),
    cutoff=st.none() | st.integers(1, 8),
)
def test_ties_against_every_order(text: str, documents: list[tuple[float, int, int]], cutoff: int | None) -> None:
    """Of documents with label −1 nobody judged even though they were pooled; −2 were not pooled either."""
    scores, grades, _ = (list(map(float, column)) for column in zip(*documents, strict=True))
    strata = [stratum for *_, stratum in documents]
    labels = [max(grade, 0.0) for grade in grades]
    judged = [1 if grade >= 0 else int(grade == -2) - 1 for grade in grades]
    text += f"@{cutoff}" if cutoff else ""
    one = metric(text)
    offsets = [0, len(scores)]
    if max(labels) < getattr(one, "relevant", 1) and not one.of_every_query:
        assert np.isnan(one(scores, labels, offsets)[0])
        for worth in (0, 1):
            assert metric(text, empty=worth)(scores, labels, offsets)[0] == worth
        return
    orders = every_order(scores)
    values = [value_of(text, rows, labels, judged, strata) for rows in orders]
    low, high = min(values), max(values)
    if one.name in ("infap", "xinfap", "infndcg"):  # relevant documents last and first, then those not judged
        kinds = [3 if label >= 1 else {1: 0, 0: 1, -1: 2}[known] for label, known in zip(labels, judged, strict=True)]
        keys = labels if one.name == "infndcg" else kinds
        low, high = (
            value_of(text, sorted(orders[0], key=lambda i: (-scores[i], sign * keys[i])), labels, judged, strata)
            for sign in (1, -1)
        )
    # itertools lists the order of rows first
    for ties, value in {"average": np.mean(values), "worst": low, "best": high, "row": values[0]}.items():
        columns = {"strata": strata} if "strata" in one.accepts else {}
        found = metric(text, ties=ties)(scores, labels, offsets, judged, **columns)[0]
        assert found == pytest.approx(value, abs=1e-12), ties


@pytest.mark.parametrize("text", [*LABELLED, *(f"{name}@10" for name in LABELLED)])
def test_large_tie_groups_against_sampled_orders(text: str) -> None:
    """A group of 400 documents between two others: the mean of 4,000 sampled orders, within 5 standard errors."""
    rng = np.random.default_rng(3)
    labels = rng.choice(5, size=420, p=[0.8, 0.1, 0.05, 0.03, 0.02]).astype(float)
    labels[:5] = 0.0
    labels[7] = 1.0
    scores = np.zeros(420)
    scores[:5], scores[-15:] = 1.0, -1.0
    exact = metric(text)(scores, labels, [0, 420])[0]
    draws = 4000
    offsets = np.arange(draws + 1) * 420
    shaken = (scores + 1e-3 * rng.random((draws, 420))).ravel()
    sample = metric(text)(shaken, np.tile(labels, draws), offsets)
    assert abs(sample.mean() - exact) <= 5 * sample.std() / draws**0.5 + 1e-12


def test_a_tie_group_of_a_hundred_thousand_stays_exact() -> None:
    """One relevant document among n tied ones: its rank is uniform, so the mean of 1/rank is H(n)/n."""
    n = 100_000
    labels = np.zeros(n)
    labels[77] = 1.0
    mean = (1.0 / np.arange(1, n + 1)).sum() / n
    for text in ("rr", "ap"):
        assert metric(text)(np.zeros(n), labels, [0, n])[0] == pytest.approx(mean, rel=1e-11)
    assert metric("hit@250")(np.zeros(n), labels, [0, n])[0] == pytest.approx(250 / n, rel=1e-11)
    assert metric("err")(np.zeros(n), labels, [0, n])[0] == pytest.approx(mean / 16, rel=1e-11)


def test_err_drops_only_terms_that_vanish() -> None:
    """With equal grades the order of a tie group does not matter, however many terms are left out."""
    n = 5_000
    labels = np.full(n, 4.0)
    strict = ERR()(np.arange(n, 0, -1.0), labels, [0, n])
    assert ERR()(np.zeros(n), labels, [0, n]) == pytest.approx(strict, rel=1e-13)
    weak = np.ones(n)
    assert ERR(highest=12)(np.zeros(n), weak, [0, n]) == pytest.approx(
        ERR(highest=12)(np.arange(n, 0, -1.0), weak, [0, n]), rel=1e-12
    )
