"""Training on real actors of Ray: the same gradients and models as on Dask, whole queries, and actors that die."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.rankers.trees.newton import newton
from rankwise.wings.cluster import partitions
from rankwise.wings.cluster.ray.actors import Actors, arrow_tables

pytestmark = pytest.mark.integration("ray", "xgboost")
SMALL: dict[str, Any] = {"rounds": 12, "leaves": 7, "min_documents": 5, "threads": 1, "checkpoint_every": 5}
TIMEOUT = 10.0


@pytest.fixture(scope="module", autouse=True)
def cluster():
    import cloudpickle  # type: ignore[import-untyped]
    import ray

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # actors need not have this file
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def data():
    """Words for ids, in an order that has nothing to do with them."""
    whole = rw.synthetic(n_queries=60, n_features=12, n_docs=20, seed=1)
    order = np.random.default_rng(1).permutation(whole.n_queries)
    return whole.with_(query_ids=[f"query {number}" for number in range(whole.n_queries)]).take(order)


def scatter(data, folder):
    """Write four files; rows of a query keep their order and lie apart."""
    queries = np.repeat(np.arange(data.n_queries), data.sizes)
    mixed = np.random.default_rng(3).permutation(queries)
    order = np.empty(data.n_docs, np.int64)
    order[np.argsort(mixed, kind="stable")] = np.arange(data.n_docs)
    folder.mkdir()
    for number, rows in enumerate(np.array_split(order, 4)):
        rw.data.to_frame(data)[rows].write_parquet(folder / f"{number}.parquet")
    return folder


def by_query(data, column):
    return {str(name): column[data.offsets[q] : data.offsets[q + 1]] for q, name in enumerate(data.query_ids)}


def derivatives(data, objective, scores):
    column = np.concatenate([scores[str(name)] for name in data.query_ids])
    found = rw.objective(objective)(column, data.labels, data.offsets, data.stream(7, round=3))
    return [by_query(data, values) for values in newton(found, data.offsets, data.query_ids, data.weights)]


def parts_on_dask(folder, count):
    distributed = pytest.importorskip("distributed")
    from rankwise.wings.cluster.dask.workers import Workers

    with (
        distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=":0", memory_limit=0) as cluster,
        distributed.Client(cluster) as client,
    ):
        spread = partitions.distribute(Workers(client, sorted(client.nthreads()) * count), folder, {})
        return client.gather(spread.futures)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_gradients_are_the_bits_of_dask(data, tmp_path, count):
    import ray

    folder = scatter(data, tmp_path / "data")
    scores = by_query(data, np.random.default_rng(5).normal(size=data.n_docs))
    on_dask = parts_on_dask(folder, count)
    sources = [str(folder)] if count != 2 else [str(folder), arrow_tables(ray.data.read_parquet(str(folder)))]
    for source in sources:
        backend = Actors(count, threads=1)
        with backend.alone():
            spread = partitions.distribute(backend, source, {})
            parts = backend.results("testing", spread.futures)
        assert len(parts) == len(on_dask) == count
        for objective in ("plrank", "stochastic(xendcg, scale=0.25)"):
            expected = derivatives(data, objective, scores)
            for ours, theirs in zip(parts, on_dask, strict=True):
                assert ours.query_ids.tolist() == theirs.query_ids.tolist()
                for whole, mine, other in zip(
                    expected, *(derivatives(part, objective, scores) for part in (ours, theirs)), strict=True
                ):
                    for name, values in mine.items():
                        np.testing.assert_array_equal(values, other[name])
                        np.testing.assert_array_equal(values, whole[name])


@pytest.mark.parametrize("ranker", [rw.LightGBMRanker, rw.XGBoostRanker])
def test_one_actor_trains_the_model_of_one_machine(data, tmp_path, ranker):
    path = rw.data.write_parquet(data, tmp_path / "train.parquet")
    valid = rw.synthetic(n_queries=20, n_features=12, n_docs=20, seed=2).with_(feature_names=data.feature_names)
    alone = ranker("plrank", **SMALL).fit(data, valid)
    ours = rw.cluster.ray.fit(ranker("plrank", **SMALL), path, workers=1, valid=valid)
    assert ours.best_round_ == alone.best_round_
    np.testing.assert_array_equal(ours.predict(valid), alone.predict(valid))
    assert ours.partitions_.queries == data.n_queries


def test_two_actors_train_the_model_of_two_workers(data, tmp_path):
    """Dask's workers are processes as well, so the libraries add the same histograms in the same order."""
    import ray

    distributed = pytest.importorskip("distributed")
    folder, settings = scatter(data, tmp_path / "data"), {**SMALL, "threads": 2}  # the actors have all CPUs
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit=0) as cluster,
        distributed.Client(cluster) as client,
    ):
        for ranker in (rw.LightGBMRanker, rw.XGBoostRanker):
            with pytest.warns(UserWarning, match="were put together"):
                dask = rw.cluster.dask.fit(ranker("plrank", **settings), folder, client=client)
            ours = rw.cluster.ray.fit(ranker("plrank", **settings), ray.data.read_parquet(str(folder)), workers=2)
            assert ours.partitions_.workers == 2
            np.testing.assert_array_equal(ours.predict(data), dask.predict(data))
            assert ours.history_ == dask.history_


class Deadly:
    """XENDCG that once, in some round, kills or stops its process or fails: the text of the marker says which."""

    exact_hessian, estimator = True, False

    def __init__(self, marker):
        self.marker = str(marker)

    def __repr__(self):
        return "deadly()"

    def __call__(self, scores, labels, offsets, stream):
        if stream.round == 7 and Path(self.marker).exists():
            try:
                how = Path(self.marker).read_text()
                Path(self.marker).unlink()  # one actor alone succeeds
            except FileNotFoundError:
                pass
            else:
                if how == "fail":
                    raise ValueError("a mistake of my own")
                os.kill(os.getpid(), signal.Signals[how])
        return rw.objectives.XENDCG()(scores, labels, offsets, stream)


@pytest.mark.parametrize("ranker", [rw.XGBoostRanker, rw.LightGBMRanker])
def test_an_actor_that_dies_is_noticed_and_training_resumes(data, tmp_path, ranker):
    path, marker = rw.data.write_parquet(data, tmp_path / "train.parquet"), tmp_path / "marker"

    def doomed(how):
        marker.write_text(how)
        return ranker(Deadly(marker), checkpoint=tmp_path / "kept", patience=None, **SMALL)

    with pytest.raises(ValueError, match="a mistake of my own"):
        rw.cluster.ray.fit(doomed("fail"), path, workers=2)
    for how, error in (("SIGKILL", "was lost"), ("SIGSTOP", "did not answer for 10 seconds")):
        with pytest.raises(
            rw.cluster.LostWorkerError, match=rf"worker \S+ .process \d+. {error} while growing trees 6 to 10"
        ):
            rw.cluster.ray.fit(doomed(how), path, workers=2, timeout=TIMEOUT, resume=True)
    seen: list[int] = []
    model = ranker(Deadly(marker), checkpoint=tmp_path / "kept", patience=None, **SMALL)
    rw.cluster.ray.fit(model, path, workers=1, resume=True, callback=lambda done, _: seen.append(done))
    assert seen == list(range(6, 13))
    alone = ranker("xendcg", patience=None, **SMALL).fit(data)
    assert model.history_["loss"][-1] == pytest.approx(alone.history_["loss"][-1], rel=0.05)


def test_what_cannot_be_trained_says_why(data, tmp_path, monkeypatch):
    monkeypatch.setattr("rankwise.wings.cluster.ray.actors._START", 5.0)
    path = rw.data.write_parquet(data, tmp_path / "train.parquet")
    with pytest.raises(ValueError, match="only LightGBM and XGBoost train on a cluster: got catboost"):
        rw.cluster.ray.fit(rw.CatBoostRanker(), path)
    with pytest.raises(ValueError, match="must be a Parquet file or folder, or a Ray Dataset: got RankingDataset"):
        rw.cluster.ray.fit(rw.LightGBMRanker(**SMALL), data, workers=1)
    with pytest.raises(ValueError, match=r"do not start: got 1 of 9 .* of 4 CPUs\. Hint: each needs 3 free CPUs"):
        rw.cluster.ray.fit(rw.LightGBMRanker(**{**SMALL, "threads": 3}), path, workers=9, timeout=5)
    with pytest.raises(ValueError, match="workers must be a whole number of at least 1: got 0"):
        rw.cluster.ray.fit(rw.LightGBMRanker(), path, workers=0)
