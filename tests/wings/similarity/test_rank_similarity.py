"""Similarities of rankings against every order of tied documents, found here by listing them, and against SciPy."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kendalltau

import rankwise as rw
from rankwise.wings.similarity.rank_similarity import SIMILARITIES, Overlap, similarity_measure
from tests.metrics.test_ties import every_order
from tests.refusals import refusal

SCORES = st.sampled_from([0.0, 1.0, 2.0, 3.0, -np.inf])


def rbo(one: list[int], other: list[int], p: float, depth: int) -> float:
    """RBO_EXT of two strict rankings, term by term as in equation 32 of Webber et al."""
    short, long = sorted((one[:depth], other[:depth]), key=len)
    s, l = len(short), len(long)  # noqa: E741
    overlap = [len(set(short[:d]) & set(long[:d])) for d in range(l + 1)]
    seen = sum(overlap[d] / d * p**d for d in range(1, l + 1))
    assumed = sum(overlap[s] * (d - s) / (s * d) * p**d for d in range(s + 1, l + 1))
    return (1 - p) / p * (seen + assumed) + ((overlap[l] - overlap[s]) / l + overlap[s] / s) * p**l


def overlap(one: list[int], other: list[int], k: int) -> float:
    depth = min(k, max(len(one), len(other)))
    return len(set(one[:depth]) & set(other[:depth])) / depth


def tau_ap(ranking: list[int], truth: list[int]) -> float:
    shares = [
        sum(truth.index(above) < truth.index(one) for above in ranking[:i]) / i for i, one in enumerate(ranking) if i
    ]
    return 2 * sum(shares) / (len(ranking) - 1) - 1


@settings(max_examples=150, deadline=None)
@given(
    documents=st.lists(st.tuples(SCORES, SCORES), min_size=1, max_size=5),
    k=st.integers(1, 7),
    p=st.sampled_from([0.25, 0.9]),
)
def test_against_every_order(documents, k, p):
    rows = [list(column) for column in zip(*documents, strict=True)]
    pairs = list(itertools.product(*map(every_order, rows)))
    texts = (f"rbo(p={p})", f"rbo(p={p})@{k}", f"overlap@{k}", "tau_ap", "tau")
    values: dict[str, list[float]] = {text: [] for text in texts}
    if all(pairs[0]):
        values[f"rbo(p={p})"] = [rbo(one, other, p, 99) for one, other in pairs]
        values[f"rbo(p={p})@{k}"] = [rbo(one, other, p, k) for one, other in pairs]
        values[f"overlap@{k}"] = [overlap(one, other, k) for one, other in pairs]
        if set(pairs[0][0]) == set(pairs[0][1]) and len(pairs[0][0]) > 1:
            values["tau_ap(reference=second)"] = [tau_ap(one, other) for one, other in pairs]
            values["tau_ap(reference=first)"] = [tau_ap(other, one) for one, other in pairs]
            values["tau_ap"] = values["tau_ap(reference=first)"] + values["tau_ap(reference=second)"]
            held = np.array(rows)[:, pairs[0][0]]
            if (np.ptp(held, axis=1) > 0).all():
                values["tau"] = [kendalltau(held[0], held[1]).statistic]
    for text, orders in values.items():
        found = similarity_measure(text)(rows[0], rows[1], [0, len(documents)])[0]
        expected = np.mean(orders) if orders else math.nan
        np.testing.assert_allclose(found, expected, atol=1e-9, err_msg=text)


@pytest.mark.parametrize("text", ["rbo", "rbo@20", "overlap@10", "tau", "tau_ap"])
def test_symmetry_threads_and_the_same_ranking(text):
    rng = np.random.default_rng(0)
    offsets = np.r_[0, np.cumsum(rng.integers(2, 90, 200))]
    one, other = np.round(rng.normal(size=(2, offsets[-1])), 2)
    measure = rw.metrics.similarity_measure(text)
    np.testing.assert_allclose(measure(one, other, offsets), measure(other, one, offsets), atol=1e-12)
    strict = rng.permutation(one.size) + 0.0
    np.testing.assert_allclose(measure(strict, 2.0 * strict, offsets), 1.0, atol=1e-12)
    with rw.use_threads(4):
        whole = measure(one, other, offsets)
    with rw.use_threads(1):
        np.testing.assert_array_equal(measure(one, other, offsets), whole)
    assert rw.metrics.similarity_measure(str(measure)) == measure


def test_expressions_and_refusals():
    assert str(similarity_measure("overlap@5") @ 10) == "overlap@10"
    assert set(SIMILARITIES) == {"rbo", "overlap", "tau", "tau_ap"}
    with refusal(what="overlap needs a cutoff", hint="write overlap@10"):
        Overlap()
    with refusal(what="tau has no cutoff", got="@10", hint="use rbo or overlap@10"):
        similarity_measure("tau") @ 10
    with refusal(what="unknown similarity", got="'rb0'"):
        similarity_measure("rb0")
    with refusal(what="unknown reference", got="'third'"):
        similarity_measure("tau_ap(reference=third)")
