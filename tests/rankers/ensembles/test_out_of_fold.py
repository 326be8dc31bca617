"""Values of a bag after rounds that were chosen without the query: on noise they are not better than chance."""

import numpy as np
import pytest

import rankwise as rw
from rankwise.rankers.ensembles.out_of_fold import CrossFitted, OutOfFold
from rankwise.rankers.training.stopping import Stopping
from tests.refusals import refuses

QUERIES, DOCUMENTS, ROUNDS, PARTS = 40, 6, 20, 5
METRIC = rw.metric("ndcg@5")


def noise(rng, **columns):
    """Labels that no score tells."""
    n = QUERIES * DOCUMENTS
    return rw.RankingDataset(
        np.zeros((n, 1)), rng.integers(0, 3, n).astype(float), np.arange(0, n + 1, DOCUMENTS), **columns
    )


def followed(data, rounds, *, debias=False):
    """Follow scores of every round; gives what was cross-fitted, and the pooled curve."""
    validation = OutOfFold(data, [METRIC], debias=debias)
    parts = [np.arange(part, data.n_queries, PARTS) for part in range(PARTS)]
    found = CrossFitted(validation, parts, data, Stopping(rounds=ROUNDS, metrics=validation.names))
    curve = []
    for scores in rounds:
        curve.append(validation(scores)[validation.names[0]])
        found.update()
        found.update()  # a round counts once
    return found, curve


def test_on_noise_the_best_round_is_too_good_and_what_is_reported_is_not():
    rng = np.random.default_rng(0)
    pooled, reported = [], []
    for _ in range(40):
        data = noise(rng)
        found, curve = followed(data, rng.normal(size=(ROUNDS, data.n_docs)))
        chance = np.nanmean(METRIC(np.zeros(data.n_docs), data.labels, data.offsets))
        pooled.append(max(curve) - chance)
        reported.append(np.nanmean(METRIC(found.scores, data.labels, data.offsets)) - chance)
    error = np.std(reported, ddof=1) / np.sqrt(len(reported))
    assert np.mean(pooled) > 5 * error
    assert abs(np.mean(reported)) < 3 * error


def test_repeats_are_averaged_and_weights_count():
    rng = np.random.default_rng(1)
    data = noise(rng, weights=rng.integers(0, 4, QUERIES).astype(float))
    rounds = rng.normal(size=(4, 2, data.n_docs))
    found, _ = followed(data, rounds.reshape(4, -1))
    values = np.array([[METRIC(row, data.labels, data.offsets) for row in scores] for scores in rounds]).mean(axis=1)
    for part in range(PARTS):
        others = (np.arange(QUERIES) % PARTS != part) & ~np.isnan(values[0])
        best = np.argmax(np.average(values[:, others], axis=1, weights=data.weights[others]))
        assert found.rounds[part] == best + 1
        rows = np.repeat(np.arange(QUERIES) % PARTS == part, DOCUMENTS)
        assert found.scores[rows] == pytest.approx(rounds[best].mean(axis=0)[rows])


def test_clicks_belong_to_the_part_of_their_query():
    rng = np.random.default_rng(2)
    data = noise(rng)
    shown = data.with_(labels=(data.labels > 1).astype(float), propensities=np.full(data.n_docs, 0.5))
    found, _ = followed(shown, rng.normal(size=(3, data.n_docs)), debias=True)
    clicks = np.add.reduceat(shown.labels, shown.offsets[:-1])
    for part, others in enumerate(found.other_parts):
        assert others.sum() == clicks[np.arange(QUERIES) % PARTS != part].sum()


def test_what_a_checkpoint_holds_is_followed_from_there_and_damage_is_refused():
    rng = np.random.default_rng(5)
    data = noise(rng)
    rounds = rng.normal(size=(9, data.n_docs))
    whole, _ = followed(data, rounds)
    half, _ = followed(data, rounds[:4])
    resumed, _ = followed(data, [])
    resumed.resume(half.files())
    for scores in rounds[4:]:
        resumed.validation(scores)
        resumed.update()
    assert (resumed.rounds, resumed.curves) == (whole.rounds, whole.curves)
    assert np.array_equal(resumed.scores, whole.scores)
    fewer, _ = followed(data.take(np.arange(QUERIES - PARTS)), [])
    refuses(lambda: fewer.resume(half.files()), what="cannot read curves of the parts of a bag")


def test_a_part_whose_others_score_no_query_keeps_the_first_round():
    labels = np.zeros(QUERIES * DOCUMENTS)
    labels[0] = 1.0  # of query 0, in part 0
    data = noise(np.random.default_rng(3)).with_(labels=labels)
    found, _ = followed(data, np.random.default_rng(4).normal(size=(6, data.n_docs)))
    assert found.rounds[0] == 1
