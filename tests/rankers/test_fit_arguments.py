"""One ``fit`` for all rankers: its arguments stand in each class, so that editors and ``help`` show them, and agree."""

import inspect
from typing import Any

import pytest

import rankwise as rw
from rankwise.rankers import inputs
from rankwise.rankers.ensembles.feature import FeatureRanker
from rankwise.rankers.ensembles.pooling import pooled
from rankwise.rankers.training.ranker import Trained

ROUNDS = {"init_model", "resume", "measure", "watch"}
"""Arguments that say how a ranker learns; all others say from what."""
LACKS: dict[type, set[str]] = {
    rw.LightGBMRanker: set(),
    rw.XGBoostRanker: set(),
    rw.CatBoostRanker: set(),
    rw.NeuralRanker: set(),
    rw.bagged: set(),
    rw.blended: {"init_model"},
    rw.distilled: {"init_model"},
    rw.AutoRanker: ROUNDS,
    FeatureRanker: ROUNDS,
}
EXPECTED = inspect.signature(Trained.fit, eval_str=True).parameters
DATA = {name: one for name, one in EXPECTED.items() if name not in (*ROUNDS, "self", "X", "y", "others")}


def arguments(function: Any) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(function, eval_str=True).parameters)


@pytest.mark.parametrize("ranker", LACKS, ids=lambda one: one.__name__)
def test_every_ranker_is_trained_with_the_same_arguments(ranker):
    expected = {name: one for name, one in EXPECTED.items() if name not in LACKS[ranker]}
    found = arguments(ranker.fit)
    assert list(found.items()) == list(expected.items()), "bring fit in line with that of Trained, or name it in LACKS"


@pytest.mark.parametrize("function", [rw.blended.of_fitted, pooled, inputs.parts], ids=lambda one: one.__qualname__)
def test_whatever_reads_data_takes_all_of_it(function):
    found = arguments(function)
    assert {name: found[name].annotation for name in DATA} == {name: one.annotation for name, one in DATA.items()}
