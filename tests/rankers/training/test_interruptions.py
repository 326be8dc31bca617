"""An interruption, whenever it comes, keeps the best model so far; before a first complete round it is passed on."""

import os
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.metrics.base import RankMetric

TREES: dict[str, Any] = {"rounds": 8, "leaves": 7, "min_documents": 5, "threads": 1}
NETS: dict[str, Any] = {"epochs": 8, "hidden": (8,), "threads": 1, "device": "cpu"}
RANKERS: dict[str, Any] = {
    "lightgbm": lambda **changes: rw.LightGBMRanker("xendcg", **TREES | changes),
    "xgboost": lambda **changes: rw.XGBoostRanker("xendcg", **TREES | changes),
    "catboost": lambda **changes: rw.CatBoostRanker("xendcg", **TREES | changes),
    "neural": lambda **changes: rw.NeuralRanker("softmax_ce", **NETS | changes),
}


@pytest.fixture(params=RANKERS)
def make(request):
    if request.param != "neural":
        pytest.importorskip(request.param)
    return RANKERS[request.param]


@pytest.fixture
def pressed(monkeypatch):
    """Press Ctrl-C while a metric is computed for the n-th time; all but NDCG are computed once before training."""

    def at(n):
        calls, measure = [], RankMetric.of

        def interrupted(self, *arguments, **options):
            calls.append(self)
            if len(calls) == n:
                raise KeyboardInterrupt
            return measure(self, *arguments, **options)

        monkeypatch.setattr(RankMetric, "of", interrupted)

    return at


def of_rounds(make, rounds, data, valid, **changes):
    """The same ranker, trained for so many rounds and no more."""
    name = "epochs" if "epochs" in make().get_params() else "rounds"
    return make(**{name: rounds}, **changes).fit(data, valid)


def agrees(model, expected, data):
    assert model.stopped_ == "interrupted"
    assert model.history_ == expected.history_
    assert model.best_round_ == expected.best_round_
    assert np.array_equal(model.predict(data), expected.predict(data))


def test_while_the_first_round_is_measured(make, data, valid, pressed):
    pressed(1)
    with pytest.raises(KeyboardInterrupt):
        make().fit(data, valid)


def test_while_the_second_metric_of_the_first_round_is_measured(make, data, valid, pressed):
    pressed(4)
    with pytest.raises(KeyboardInterrupt):
        make(metrics=("ndcg@10", "ap")).fit(data, valid)


def test_while_a_later_round_is_measured(make, data, valid, pressed, monkeypatch):
    pressed(4)  # in the fourth round
    with pytest.warns(RuntimeWarning, match="interrupted after (round|epoch) 3: the best model so far"):
        model = make().fit(data, valid)
    monkeypatch.undo()
    agrees(model, of_rounds(make, 3, data, valid), valid)


def test_by_the_one_who_watches(make, data, valid):
    def watch(done, history):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="interrupted after (round|epoch) 3: the best model so far"):
        model = make().fit(data, valid, callback=watch)
    agrees(model, of_rounds(make, 3, data, valid), valid)


def test_while_a_checkpoint_is_written(make, data, valid, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(KeyboardInterrupt()))
    with pytest.warns(RuntimeWarning, match="interrupted after (round|epoch) 2: the best model so far"):
        model = make(checkpoint=tmp_path / "kept", checkpoint_every=2).fit(data, valid)
    monkeypatch.undo()
    agrees(model, of_rounds(make, 2, data, valid), valid)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("n", [1, 2, 4, 6])  # the third round ends a block of two
def test_on_a_cluster(data, valid, tmp_path, pressed, monkeypatch, n):
    distributed = pytest.importorskip("distributed")
    path = rw.data.write_parquet(data.with_(query_ids=np.arange(data.n_queries)), tmp_path / "train.parquet")
    settings: dict[str, Any] = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with distributed.LocalCluster(memory_limit=0, **settings) as cluster, distributed.Client(cluster) as client:
        pressed(n)
        if n == 1:
            with pytest.raises(KeyboardInterrupt):
                rw.cluster.dask.fit(RANKERS["lightgbm"](checkpoint_every=2), path, client=client, valid=valid)
            return
        with pytest.warns(RuntimeWarning, match=f"interrupted after round {n - 1}: the best model so far"):
            model = rw.cluster.dask.fit(RANKERS["lightgbm"](checkpoint_every=2), path, client=client, valid=valid)
    monkeypatch.undo()
    expected = of_rounds(RANKERS["lightgbm"], n - 1, data, valid)
    assert (model.stopped_, model.best_round_) == ("interrupted", expected.best_round_)
    assert np.array_equal(model.predict(valid), expected.predict(valid))
