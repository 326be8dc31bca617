"""Models saved by rankwise 0.1.0 at commit 9b0364c, one of each kind, load and score as they did then.

``saved/scores.npz`` has the documents (``features``; nets and the like take all but the first column, without NaN), the
lists of the recommenders (``users``, ``items``, ``ends``), and the scores of each model.
"""

from pathlib import Path

import numpy as np
import pytest

import rankwise as rw

SAVED = Path(__file__).parent / "saved"
NAMED = ("lightgbm", "xgboost", "catboost", "bagged_trees")
NUMBERED = ("neural", "bagged_nets", "blended", "feature")
RECOMMENDERS = ("factorization", "ease", "als", "knn", "popularity")
UP_TO_ROUNDING = ("neural", "bagged_nets", "blended", "factorization", "ease", "als", "knn")
"""Scores that are products of vectors, whose last bits depend on the processor."""


@pytest.fixture(scope="module")
def arrays():
    with np.load(SAVED / "scores.npz") as stored:
        return dict(stored)


def test_every_saved_model_is_compared():
    assert {path.name for path in SAVED.iterdir() if path.is_dir()} == {*NAMED, *NUMBERED, *RECOMMENDERS}


def same(name: str, scores: np.ndarray, expected: np.ndarray) -> bool:
    if name in UP_TO_ROUNDING:
        return np.allclose(scores, expected, rtol=1e-6, atol=1e-6)
    return np.array_equal(scores, expected)


@pytest.mark.parametrize("name", [*NAMED, *NUMBERED])
def test_models_saved_before_score_the_same(arrays, name):
    features = arrays["features"] if name in NAMED else np.nan_to_num(arrays["features"][:, 1:])
    model = rw.load(SAVED / name)
    assert same(name, model.predict(features), arrays[name])
    assert same(name, model.scorer()(features), arrays[name])


@pytest.mark.parametrize("name", [*NAMED, *NUMBERED, *RECOMMENDERS])
def test_models_saved_before_there_were_cards_have_one_without_data(name):
    card = rw.load(SAVED / name).card()
    assert "| rankwise | 0.1.0 |" in card
    assert "| digest |" not in card


@pytest.mark.parametrize("name", RECOMMENDERS)
def test_recommenders_saved_before_score_the_same(arrays, name):
    lists = rw.RankingDataset(
        np.zeros((arrays["items"].size, 1), np.float32),
        np.zeros(arrays["items"].size),
        arrays["ends"],
        query_ids=arrays["users"],
        document_ids=arrays["items"],
    )
    assert same(name, rw.load(SAVED / name).predict(lists), arrays[name])
