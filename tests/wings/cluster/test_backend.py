"""The contract of a cluster, by a backend within this process: parts, blocks and errors need neither Dask nor Ray."""

import contextlib
import threading
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.rankers.trees.newton import newton
from rankwise.wings.cluster import learner, network, partitions
from rankwise.wings.cluster.backend import ClusterBackend, LostWorkerError, worker_error
from rankwise.wings.cluster.fit import train

SMALL: dict[str, Any] = {"rounds": 12, "leaves": 7, "min_documents": 5, "threads": 1, "checkpoint_every": 5}


class InProcess(ClusterBackend):
    """Calls are made when they are submitted; a future is a list of one value."""

    frame, frame_hint = "list of tables", "[…]"

    def __init__(self, count: int) -> None:
        self.names, self.timeout, self.calls = [f"worker {number}" for number in range(count)], 10.0, 0
        self.dies_at: int | None = None

    def first(self, count):
        self.names = self.names[:count]
        return self

    def hosts(self):
        return ["127.0.0.1"] * len(self.names)

    def threads(self):
        return [1] * len(self.names)

    def submit(self, doing, function, *arguments, anywhere=False):
        items = list(zip(*arguments, strict=True)) if arguments else [()] * len(self.names)
        assert anywhere or len(items) == len(self.names)
        self.calls += function is learner.grow
        if function is learner.grow and self.calls == self.dies_at:
            raise self.gone(doing, self.names[:1])
        return [Future(function(*map(value, item))) for item in items]

    def wait(self, doing, futures):
        pass

    def results(self, doing, futures):
        return [value(future) for future in futures]

    def share(self, doing, value):
        return Future(value)

    def tables(self, data):
        return [Future(table) for table in data] if isinstance(data, list) else None

    def collect(self, data):
        return None

    def tidy(self, function, *arguments):
        function(*arguments)

    @contextlib.contextmanager
    def alone(self):
        yield


class Future:
    def __init__(self, content):
        self.content = content


def value(argument):
    if isinstance(argument, list):
        return [value(item) for item in argument]
    return argument.content if isinstance(argument, Future) else argument


@pytest.fixture(scope="module")
def named(whole):
    """Words for ids, in an order that has nothing to do with them."""
    order = np.random.default_rng(1).permutation(whole.n_queries)
    return whole.with_(query_ids=[f"query {number}" for number in range(whole.n_queries)]).take(order)


def fit(backend, ranker, data, **options):
    defaults: dict[str, Any] = {"valid": None, "init_model": None, "resume": False, "callback": None, "columns": {}}
    return train(backend, ranker, data, **{**defaults, **options})


@pytest.mark.parametrize("parts", [1, 2, 4])
def test_gradients_are_the_same_bits_for_any_partition(named, parts):
    """Tables cut where queries are not, an objective that draws."""
    objective, frame = rw.objective("stochastic(xendcg, scale=0.25)"), rw.data.to_frame(named)
    scores = dict(zip(named.query_ids, np.split(np.sin(np.arange(named.n_docs)), named.offsets[1:-1]), strict=True))

    def derived(data):
        column = np.concatenate([scores[name] for name in data.query_ids])
        found = objective(column, data.labels, data.offsets, data.stream(7, round=3))
        columns = [np.split(one, data.offsets[1:-1]) for one in newton(found, data.offsets)]
        return dict(zip(data.query_ids, zip(*columns, strict=True), strict=True))

    backend, expected = InProcess(parts), derived(named)
    spread = partitions.distribute(backend, [frame[:333], frame[333:700], frame[700:]], {})
    held = backend.results("testing", spread.futures)
    assert spread.partitions.moved_queries > 0
    assert len(held) == parts
    together = {name: columns for part in held for name, columns in derived(part).items()}
    assert together.keys() == expected.keys()
    for name, columns in together.items():
        np.testing.assert_array_equal(columns, expected[name])


@pytest.mark.parametrize("ranker", [rw.LightGBMRanker, rw.XGBoostRanker])
@pytest.mark.parametrize("native", [{}, {"subsample": 0.5}])
def test_blocks_continue_trees_and_resume_after_a_loss(named, tmp_path, monkeypatch, ranker, native):
    """The trees of a block grow on in the next without being read again, unless the library draws."""
    sampling = {"bagging_fraction": 0.5, "bagging_freq": 1} if ranker is rw.LightGBMRanker and native else native
    settings = {**SMALL, **sampling, "patience": None}
    library, starts = type(ranker().library), []
    grow = library.grow

    def recorded(self, settings, matrices, seed, start):
        starts.append(start)
        return grow(self, settings, matrices, seed, start)

    monkeypatch.setattr(library, "grow", recorded)
    path = rw.data.write_parquet(named, tmp_path / "train.parquet")
    whole = fit(InProcess(1), ranker("plrank", **settings), path)
    assert [start is None for start in starts] == ([True, False, False] if native else [True])
    assert not learner._trainings
    alone = ranker("plrank", **settings, checkpoint=tmp_path / "alone" if native else None).fit(named)
    np.testing.assert_array_equal(whole.predict(named), alone.predict(named))
    backend, seen = InProcess(1), []
    backend.dies_at = 2
    doomed = ranker("plrank", checkpoint=tmp_path / "kept", **settings)
    with pytest.raises(LostWorkerError, match="worker worker 0 was lost while growing trees 6 to 10.*resume=True"):
        fit(backend, doomed, path)
    fit(InProcess(1), doomed, path, resume=True, callback=lambda done, _: seen.append(done))
    assert seen == list(range(6, 13))
    np.testing.assert_array_equal(doomed.predict(named), whole.predict(named))


@pytest.mark.filterwarnings("ignore::rankwise.rankers.training.constraints.UnmetConstraintWarning")
@pytest.mark.parametrize("native", [{}, {"subsample": 0.5}])
def test_constraints_resume_after_a_loss(named, tmp_path, monkeypatch, native):
    """Blocks of one round, with a seed of each where the library draws; a checkpoint is older than the loss."""
    data = named.with_(more_labels={"purchase": (named.labels >= 2).astype(float)})
    train, valid = rw.split(data, (0.7, 0.3), seed=1)
    path = rw.data.write_parquet(train, tmp_path / "train.parquet")
    options = {"valid": valid, "columns": {"more_labels": {"purchase": "purchase"}}}

    def constrained(**settings):
        goals = {"ndcg(label=purchase)@10": 0.9}
        return rw.XGBoostRanker("xendcg", constraints=goals, patience=None, **SMALL, **native, **settings)

    seeds, library = [], type(rw.XGBoostRanker.library)
    grow = library.grow

    def recorded(self, settings, matrices, seed, start):
        seeds.append(seed)
        return grow(self, settings, matrices, seed, start)

    monkeypatch.setattr(library, "grow", recorded)
    whole = fit(InProcess(1), constrained(), path, **options)
    assert len(set(seeds)) == len(seeds) == (12 if native else 1)
    backend, doomed = InProcess(1), constrained(checkpoint=tmp_path / "kept")
    backend.dies_at = 8
    with pytest.raises(LostWorkerError, match="growing trees 8 to 8"):
        fit(backend, doomed, path, **options)
    fit(InProcess(1), doomed, path, resume=True, **options)
    assert doomed.history_ == whole.history_
    np.testing.assert_array_equal(doomed.predict(valid), whole.predict(valid))


def test_a_frame_without_partitions_is_refused():
    with pytest.raises(ValueError, match="the data have no documents"):
        fit(InProcess(2), rw.LightGBMRanker(rounds=1), [])


def test_a_worker_without_its_session_is_a_loss(named, tmp_path):
    """As after a restart between two blocks."""
    path = rw.data.write_parquet(named, tmp_path / "train.parquet")

    def restart(done, _):
        if done == 5:
            learner.end_others("another")

    with pytest.raises(LostWorkerError, match="started anew in the middle"):
        fit(InProcess(1), rw.XGBoostRanker("xendcg", **SMALL), path, callback=restart)
    assert not learner._trainings


def test_a_mistake_is_raised_rather_than_what_follows_from_it():
    network = type("NetworkError", (Exception,), {"__module__": "xgboost.core"})("ring broke\nStack trace: …")
    mistake = ValueError("labels")
    assert worker_error("growing", [network, mistake]) is mistake
    follows = worker_error("growing", [network])
    assert isinstance(follows, LostWorkerError)
    assert "a worker failed while growing (NetworkError: ring broke)" in str(follows)


def test_other_data_are_rejected(named):
    with pytest.raises(ValueError, match="must be a Parquet file or folder, or a list of tables: got RankingDataset"):
        fit(InProcess(1), rw.LightGBMRanker(**SMALL), named)


def test_lightgbm_prints_nothing_in_any_thread(capfd, monkeypatch):
    """Its logger is that of the thread that imported it; each training has a thread of its own."""
    lightgbm = pytest.importorskip("lightgbm")
    for name in ("_LOGGER", "_INFO_METHOD_NAME", "_WARNING_METHOD_NAME"):
        monkeypatch.setattr(lightgbm.basic, name, getattr(lightgbm.basic, name))  # set back at the end

    def train():
        with network.LightGBMNetwork(("127.0.0.1:1",), 1).membership(0):
            data = lightgbm.Dataset(np.arange(50.0)[:, None], np.arange(50.0))
            lightgbm.train({"verbosity": 1, "num_threads": 1}, data, num_boost_round=1)

    thread = threading.Thread(target=train)
    thread.start()
    thread.join()
    assert "LightGBM" not in "".join(capfd.readouterr())
