"""Weights of pairs for the first ``cutoff`` ranks: precision and recall by swapping, and LambdaGap's by their masks."""

import itertools

import numpy as np
import pytest

import rankwise as rw
from tests.objectives.pairwise.pairs_by_hand import frozen
from tests.objectives.pairwise.test_lambdarank import random_lists

GAPS = ("arp", "lambdagap_s", "lambdagap_x")
VARIANTS = [
    rw.objectives.Pairwise(loss=loss, weight=weight, cutoff=cutoff, norm=norm, truncation=truncation, sigma=sigma)
    for weight in (*GAPS, "precision", "recall")
    for loss, cutoff, norm, truncation, sigma in (
        ("logistic", 1, False, None, 1.0),
        ("logistic", 4, False, 6, 2.0),
        ("logistic", 10, True, None, 0.7),
        ("squared_hinge", 3, False, None, 1.0),
        ("logistic", 500, False, None, 1.0),  # longer than any list
    )
]
LABELS = np.array([0, 2, 1, 0, 0, 1, 0])
SCORES = np.array([1.1, 0.9, 0.9, 0.2, -0.1, -0.5, -2.0])  # a tie, which ranks in row order


@pytest.mark.parametrize("objective", VARIANTS, ids=repr)
def test_values_and_gradients_are_those_of_every_pair_by_hand(objective):
    scores, labels, offsets = random_lists(quantised=True)
    document_weights = np.random.default_rng(1).uniform(0.5, 3.0, scores.size)
    for documents in ({}, {"document_weights": document_weights}):
        actual = objective(scores, labels, offsets, **documents)
        loss = frozen(objective, scores, labels, offsets, **documents)
        np.testing.assert_allclose(actual.value, loss(scores), rtol=1e-12, atol=1e-14)
        step, direction = 1e-4, np.random.default_rng(2).normal(size=scores.size)
        change = (loss(scores + step * direction) - loss(scores - step * direction)) / (2.0 * step)
        np.testing.assert_allclose(
            np.add.reduceat(actual.gradient * direction, offsets[:-1]), change, rtol=1e-5, atol=1e-6
        )
    assert (objective.cutoff == 500) == (np.abs(actual.gradient).max() == 0.0)


@pytest.mark.parametrize("cutoff", [1, 2, 3, 6, 7, 9])
@pytest.mark.parametrize("name", ["precision", "recall"])
def test_the_weight_of_a_pair_is_the_change_of_the_metric_by_the_swap(name, cutoff):
    metric, expected = rw.metric(f"{name}@{cutoff}"), 0.0
    places = -np.arange(7.0)  # of the documents, which lie in the order of their ranks
    before = metric(places, LABELS, [0, 7])[0]
    for i, j in itertools.combinations(range(7), 2):
        swapped = places.copy()
        swapped[[i, j]] = places[[j, i]]
        margin = (SCORES[i] - SCORES[j]) * np.sign(LABELS[i] - LABELS[j])
        change = abs(metric(swapped, LABELS, [0, 7])[0] - before)
        assert (change > 0.0) == (i < cutoff <= j and (LABELS[i] > 0) != (LABELS[j] > 0))  # a mask, and nothing else
        expected += change * np.log1p(np.exp(-margin))
    actual = rw.objectives.Pairwise(weight=name, cutoff=cutoff)(SCORES, LABELS, [0, 7])
    np.testing.assert_allclose(actual.value, [expected], rtol=1e-12, atol=1e-15)


def test_gaps_by_pencil():
    # Ranks 1 to 4 with relevance 0, 1, 0, 1, all scores equal: every pair loses log 2. Relevant against others: ranks
    # (1, 2), (1, 4), (2, 3), (3, 4), which are 1, 3, 1 and 1 apart.
    example = (np.zeros(4), [0, 1, 0, 1], [0, 4])
    counts = {("lambdagap_s", 1): 3, ("lambdagap_s", 2): 0, ("lambdagap_s", 3): 1, ("lambdagap_x", 1): 4,
              ("lambdagap_x", 2): 1, ("lambdagap_x", 3): 1, ("lambdagap_x", 4): 0}  # fmt: skip
    # Behind rank 2 lie 0, 0, 1, 2 ranks: the swaps change the sum of those of relevant documents by 0, 2, 1 and 1.
    counts |= {("arp", 2): 4, ("arp", 3): 0 + 1 + 0 + 1, ("arp", 4): 0}
    for (weight, cutoff), count in counts.items():
        value = rw.objectives.Pairwise(weight=weight, cutoff=cutoff)(*example).value
        np.testing.assert_allclose(value, [count * np.log(2.0)], rtol=1e-14, err_msg=f"{weight}@{cutoff}")


def test_a_gap_of_one_rank_masks_nothing():
    scores, labels, offsets = random_lists(seed=4)
    binary = (labels > 0).astype(float)
    masked, plain = rw.objectives.Pairwise(weight="lambdagap_x", cutoff=1), rw.objectives.RankNet()
    for one, other in zip(masked(scores, labels, offsets), plain(scores, binary, offsets), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("mask", ["s", "x"])
def test_the_variants_with_a_plus_are_sums(mask):
    """LambdaGap+ adds the mask of precision, LambdaGap++ the change of ARP: a sum of two objectives each."""
    k, share = 3, 0.5
    for plus, text in (
        ("+", f"{k}*pairwise(weight=precision, cutoff={k})"),
        ("++", f"pairwise(weight=arp, cutoff={k})"),
    ):
        actual = rw.objective(f"{share}*pairwise(weight=lambdagap_{mask}, cutoff={k}) + {text}")(SCORES, LABELS, [0, 7])
        expected = 0.0
        for i, j in itertools.combinations(range(7), 2):
            if (LABELS[i] > 0) == (LABELS[j] > 0):
                continue
            weight = share * (j - i == k if mask == "s" else j - i >= k)
            weight += float(i < k <= j) if plus == "+" else max(j + 1 - k, 0) - max(i + 1 - k, 0)
            margin = (SCORES[i] - SCORES[j]) * np.sign(LABELS[i] - LABELS[j])
            expected += weight * np.log1p(np.exp(-margin))
        np.testing.assert_allclose(actual.value, [expected], rtol=1e-12)


@pytest.mark.parametrize("weight", GAPS)
def test_only_relevance_counts(weight):
    objective = rw.objectives.Pairwise(weight=weight, cutoff=2)
    graded, binary = (objective(SCORES, labels, [0, 7]) for labels in (LABELS, LABELS > 0))
    for one, other in zip(graded, binary, strict=True):
        np.testing.assert_array_equal(one, other)
    strict = rw.objectives.Pairwise(weight=weight, cutoff=2, relevant=2.0)(SCORES, LABELS, [0, 7])
    assert not np.allclose(strict.gradient, graded.gradient)
    nothing = objective([1.0, 2.0, 3.0, 0.5], [0, 0, 1, 2], [0, 2, 4])  # nothing relevant, and nothing else
    np.testing.assert_array_equal(nothing.gradient, 0.0)
