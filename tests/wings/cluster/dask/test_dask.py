"""Training on a cluster: whole queries wherever the rows came from, the same gradients, and workers that die."""

import os
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.objectives.base import goal_totals, scales_in, with_scales
from rankwise.rankers.training.constraints import Constraints
from rankwise.rankers.training.settings import TrainingSettings
from rankwise.rankers.trees import protocol
from rankwise.rankers.trees.lightgbm.ranker import LightGBM
from rankwise.rankers.trees.newton import newton
from rankwise.wings.cluster import learner, network, partitions
from rankwise.wings.cluster.backend import LostWorkerError
from rankwise.wings.cluster.dask.workers import Workers
from rankwise.wings.cluster.row_plan import RowPlan, Runs, find_runs
from tests import tiers
from tests.data.serving import serving
from tests.processes import HANG

distributed = pytest.importorskip("distributed")
SMALL: dict[str, Any] = {"rounds": 12, "leaves": 7, "min_documents": 5, "threads": 1, "checkpoint_every": 5}


@pytest.fixture(scope="module")
def client():
    """One worker that is a thread of this process."""
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0", memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as one,
    ):
        yield one


@pytest.fixture(scope="module")
def two_workers():
    """Two processes of one thread each."""
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as one,
    ):
        yield one


@pytest.fixture(scope="module")
def named(whole):
    """The shared small set with weights and words for ids, in an order that has nothing to do with them."""
    order = np.random.default_rng(1).permutation(whole.n_queries)
    names = [f"query {number}" for number in range(whole.n_queries)]
    weights = np.random.default_rng(2).uniform(0.5, 2.0, whole.n_queries)
    return whole.with_(query_ids=names, weights=weights).take(order)


def scatter(data, folder, cuts, shuffle=False):
    """Write rows to files that end where a query may not; shuffled, rows of a query keep their order and lie apart."""
    frame = rw.data.to_frame(data)
    if shuffle:
        queries = np.repeat(np.arange(data.n_queries), data.sizes)
        mixed = np.random.default_rng(3).permutation(queries)
        order = np.empty(data.n_docs, np.int64)
        order[np.argsort(mixed, kind="stable")] = np.arange(data.n_docs)
        frame = frame[order]
    for number, (first, last) in enumerate(zip([0, *cuts], [*cuts, len(frame)], strict=True)):
        frame[first:last].write_parquet(folder / f"{number:02}.parquet")
    return folder


def by_query(data, column):
    return {str(name): column[data.offsets[q] : data.offsets[q + 1]] for q, name in enumerate(data.query_ids)}


# Whole queries.


def runs(*partitions):
    return [
        Runs(np.array([name for name, _ in one]), np.array([size for _, size in one]), ("qid",), {})
        for one in partitions
    ]


def test_queries_that_cross_borders_are_counted_once():
    plan = RowPlan(runs([("a", 3), ("b", 1)], [("b", 2), ("c", 4)], [("c", 1), ("b", 5), ("d", 2)]), parts=2)
    assert plan.moved == (2, 2 + 5 + 1)  # b from the second and third partition, c from the third
    assert (plan.n_queries, plan.n_docs, plan.parts) == (4, 18, 2)


def test_parts_hold_about_the_same_and_never_share_a_query():
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 30, 200)
    plan = RowPlan(runs([(f"q{n}", int(size)) for n, size in enumerate(sizes)]), parts=4)
    held = [sum(int(rows.last - rows.first) for _, rows in plan.rows(part)) for part in range(4)]
    assert sum(held) == sizes.sum()
    assert max(held) - min(held) <= 2 * sizes.max()
    assert plan.moved == (0, 0)


def test_fewer_queries_than_workers_leave_workers_out():
    assert RowPlan(runs([("a", 3), ("b", 1)]), parts=8).parts == 2
    assert RowPlan(runs([("a", 1), ("huge", 1000), ("b", 1)]), parts=3).parts <= 3


def test_what_nobody_sets_goes_by_the_documents_of_all_workers(client, named, tmp_path, monkeypatch):
    monkeypatch.setattr(protocol, "FEW", named.n_docs)
    monkeypatch.setattr(LightGBM, "small_data", protocol.Defaults(leaves=4, min_documents=5, smoothing=2))
    path = scatter(named, tmp_path, [named.n_docs // 2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a query may lie in both files
        ranker = rw.cluster.dask.fit(rw.LightGBMRanker("xendcg", rounds=3, threads=1), path, client=client, query="qid")
        explicit = rw.LightGBMRanker("xendcg", rounds=3, threads=1, leaves=4, min_documents=5)
        rw.cluster.dask.fit(explicit, path, client=client, query="qid")
    assert ranker.settings_ == {"leaves": 4, "min_documents": 5, "smoothing": 2}
    assert ranker.model_.content() == explicit.model_.content()


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("parts", [1, 2, 4])
def test_parts_together_are_the_data(client, named, tmp_path, parts, shuffle):
    folder = scatter(named, tmp_path, [100, 333, 700], shuffle)
    found = partitions.distribute(Workers(client, sorted(client.nthreads()) * parts), folder, {"weight": "weight"})
    assert found.partitions.workers == parts
    assert found.partitions.partitions == 4
    assert found.partitions.moved_queries > (named.n_queries // 2 if shuffle else 0)
    assert not shuffle or "were put together" in str(found.partitions)
    held = client.gather(found.futures)
    assert sum(part.n_queries for part in held) == named.n_queries
    expected = by_query(named, named.features)
    weights = dict(zip(named.query_ids, named.weights, strict=True))
    for part in held:
        for name, rows in by_query(part, part.features).items():
            np.testing.assert_array_equal(rows, expected[name])  # in their order, too
        np.testing.assert_array_equal(part.weights, [weights[name] for name in part.query_ids])


@pytest.mark.parametrize(
    "objective",
    ["plrank", "stochastic(xendcg, scale=0.25)", "fair(plrank, merit=proportional)", "0.5*distil + 0.5*margin_mse"],
)
def test_gradients_are_the_same_bits_for_any_partition(client, named, tmp_path, objective):
    chosen, scores = rw.objective(objective), np.random.default_rng(5).normal(size=named.n_docs)
    named = named.with_(groups=np.random.default_rng(6).choice(["a", "b"], named.n_docs), teacher_scores=-scores)
    of = by_query(named, scores)

    def derived(data):
        column = np.concatenate([of[str(name)] for name in data.query_ids])
        columns = {name: getattr(data, name) for name in chosen.reads}
        found = chosen(column, data.labels, data.offsets, data.stream(7, round=3), **columns)
        return newton(found, data.offsets, data.query_ids, data.weights)

    expected = [by_query(named, column) for column in derived(named)]
    folder = scatter(named, tmp_path, [100, 333, 700], shuffle=True)
    roles = {"weight": "weight", "groups": "group", "teacher_score": "teacher_score"}
    for parts in (1, 2, 4):
        found = partitions.distribute(Workers(client, sorted(client.nthreads()) * parts), folder, roles)
        seen = 0
        for part in client.gather(found.futures):
            for wanted, column in zip(expected, derived(part), strict=True):
                for name, values in by_query(part, column).items():
                    np.testing.assert_array_equal(values, wanted[name])
                    seen += 1
        assert seen == 2 * named.n_queries


def test_scales_of_goals_are_the_same_for_any_partition(client, named, tmp_path):
    named = named.with_(more_labels={"purchase": np.maximum(named.labels[::-1] - 1.0, 0.0)})
    text = "xendcg + 0.3*on(purchase, plrank(samples=5))"
    ranker = rw.LightGBMRanker(text, **SMALL | {"rounds": 2})
    alone, settings = ranker.fit(named).scales_, TrainingSettings.of(ranker)
    assert alone[text.partition("*")[2]] != 1.0
    folder = scatter(named, tmp_path, [100, 333, 700], shuffle=True)
    roles: dict[str, Any] = {"more_labels": {"purchase": "purchase"}}
    for parts in (1, 2, 4):
        spread = partitions.distribute(
            Workers(client, sorted(client.nthreads()) * parts), folder, roles | {"weight": "weight"}
        )
        measure = lambda objective, spread=spread: learner.measured(goal_totals, spread, settings, objective)  # noqa: E731
        assert scales_in(with_scales(rw.objective(text), measure)) == alone
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of queries that were put together
        trained = rw.cluster.dask.fit(ranker, folder, client=client, **roles, weight="weight")
    assert trained.scales_ == alone


@pytest.mark.parametrize("kind", [rw.LightGBMRanker, rw.XGBoostRanker])
def test_workers_start_at_the_base_rate_of_all_data(client, named, tmp_path, monkeypatch, kind):
    rare = named.with_(labels=(named.labels >= 2.0).astype(float))
    rare = [rare.take(slice(20, None)), rare.take(slice(0, 20))]
    ranker = kind("calibrated", **SMALL | {"patience": None, "learning_rate": 1e-6})
    alone = ranker.fit(*rare)
    folder = scatter(rare[0], tmp_path, rare[0].offsets[[10, 30]].tolist())
    trained = rw.cluster.dask.fit(kind(**ranker.get_params()), folder, client=client, valid=rare[1], weight="weight")
    np.testing.assert_allclose(trained.predict(rare[1]), alone.predict(rare[1]), atol=1e-4)
    assert abs(trained.predict(rare[1]).mean()) > 0.5
    assert trained.history_["loss"] == pytest.approx(alone.history_["loss"], rel=1e-5)
    monkeypatch.setattr("rankwise.wings.cluster.fit.base_score", lambda _: 3.0)  # not of a worker's part
    trained = rw.cluster.dask.fit(kind(**ranker.get_params()), folder, client=client, valid=rare[1], weight="weight")
    np.testing.assert_allclose(trained.predict(rare[1]), 3.0, atol=1e-4)


def test_constraints_weigh_every_round_anew(client, named, tmp_path, monkeypatch):
    """With weights that stay the same, workers grow the trees of the sum, in blocks of one round."""
    named = named.with_(more_labels={"purchase": np.maximum(named.labels[::-1] - 1.0, 0.0)})
    roles = {"more_labels": {"purchase": "purchase"}, "weight": "weight"}
    where = {"client": client, "valid": named.take(slice(0, 20)), **roles}
    folder, settings = scatter(named.take(slice(20, None)), tmp_path, []), SMALL | {"rounds": 4, "patience": None}
    goals = {"ndcg(label=purchase)@10": 0.0}
    free = rw.cluster.dask.fit(rw.LightGBMRanker("xendcg", constraints=goals, **settings), folder, **where)
    assert len(free.history_["multiplier ndcg(label=purchase)@10"]) == 4
    monkeypatch.setattr(Constraints, "weights", lambda *_: (0.5, 0.5))
    constrained = rw.cluster.dask.fit(rw.LightGBMRanker("xendcg", constraints=goals, **settings), folder, **where)
    plain = rw.LightGBMRanker("0.5*xendcg + 0.5*on(purchase, xendcg)", **settings | {"checkpoint_every": 1})
    rw.cluster.dask.fit(plain, folder, **where)
    np.testing.assert_array_equal(constrained.predict(named), plain.predict(named))
    assert (constrained.predict(named) != free.predict(named)).any()


def test_workers_read_a_url_in_part_and_after_a_break(client, named, tmp_path):
    stored = rw.data.write_parquet(named, tmp_path / "rows.parquet")
    there = partitions.distribute(Workers(client, timeout=60), stored, {})
    with serving(stored.read_bytes(), "rows.parquet") as server:
        server.etag, server.stop_after, server.stop_at = '"1"', 1000, 3
        found = partitions.distribute(Workers(client, timeout=60), server.url, {})
        assert [place for place, wanted in enumerate(server.asked) if wanted is None] == [0, len(server.asked) - 1]
        assert len(server.asked) > 4  # versions first and last, and never the file as a whole
        server.etag = None
        with pytest.warns(UserWarning, match=r"a change of http://\S*/rows.parquet while .* names no version"):
            partitions.distribute(Workers(client, timeout=60), server.url, {})
        answer, server.etag = server.answer, '"1"'

        def changing(handler):
            answer(handler)
            server.etag = f'"{len(server.asked) > 5}"'

        server.answer = changing  # type: ignore[method-assign]
        server.asked.clear()
        with pytest.raises(ValueError, match=r"the data changed while they were read: http://\S*/rows.parquet\. Hint"):
            partitions.distribute(Workers(client, timeout=60), server.url + "?signature=secret", {})
    assert (found.digest, found.partitions) == (there.digest, there.partitions)


def test_workers_read_a_url_with_a_password(client, named, tmp_path, monkeypatch):
    monkeypatch.setenv("RANKWISE_CACHE", str(tmp_path / "cache"))
    stored = rw.data.write_parquet(named, tmp_path / "rows.parquet")
    there = partitions.distribute(Workers(client, timeout=60), stored, {})
    with serving(stored.read_bytes(), "rows.parquet") as server:
        server.etag, server.allowed = '"1"', "Basic bWU6c2VjcmV0"
        found = partitions.distribute(Workers(client, timeout=60), server.url.replace("//", "//me:secret@"), {})
        with pytest.raises(PermissionError, match=r"http://127\S*/rows.parquet may not be read"):
            partitions.distribute(Workers(client, timeout=60), server.url, {})
    assert (found.digest, found.partitions) == (there.digest, there.partitions)


def test_the_digest_knows_the_data_and_not_their_places(client, named, tmp_path):
    def digest(data, name, cuts, parts, **columns):
        (tmp_path / name).mkdir()
        folder = scatter(data, tmp_path / name, cuts)
        workers = Workers(client, sorted(client.nthreads()) * parts)
        return partitions.distribute(workers, folder, {"weight": "weight", **columns}).digest

    first = digest(named, "first", [100], 1)
    assert digest(named.take(slice(None, None, -1)), "turned", [700, 800], 3) == first
    changed = named.features.copy()
    changed[5, 3] += 1
    assert digest(named.with_(features=changed), "changed", [100], 1) != first
    assert digest(named.with_(labels=np.roll(named.labels, 1)), "labels", [100], 1) != first
    halves = np.where(np.arange(named.n_docs) < 500, 0.5, 2.0)
    found = [
        digest(named.with_(**{field: column}), f"{field} {number}", [100], 1, **{role: name})
        for field, role, name, values in (
            ("groups", "groups", "group", np.where(halves > 1.0, "a", "b")),
            ("document_weights", "document_weight", "document_weight", halves),
            ("teacher_scores", "teacher_score", "teacher_score", halves),
        )
        for number, column in enumerate((values, values[::-1]))
    ]
    assert len({first, *found}) == 7


def test_a_dask_frame_with_categories(client, named):
    dd = pytest.importorskip("dask.dataframe")
    frame = rw.data.to_frame(named).to_pandas()
    frame["kind"] = np.where(np.arange(len(frame)) % 3 == 0, "x", "y")
    frame["kind"] = frame["kind"].astype("category")
    lazy = dd.from_pandas(frame, npartitions=3, sort=False)
    found = partitions.distribute(Workers(client, sorted(client.nthreads()) * 2), lazy, {"weight": "weight"})
    assert found.sample.categorical == (12,)
    whole = rw.RankingDataset.from_frame(frame, weight="weight")
    expected = by_query(whole, whole.features)
    for part in client.gather(found.futures):
        for name, rows in by_query(part, part.features).items():
            np.testing.assert_array_equal(rows, expected[name])
    parts = [frame[:500], frame[500:].assign(kind=1.0)]
    with pytest.raises(
        ValueError, match="must hold categories in all partitions or in none: got plain numbers in .*'kind'"
    ):
        RowPlan([find_runs(part, {}) for part in parts], 2)


KINDS = ("y", "x", "z")


def kinds(named, folder):
    """Files that list the categories of a column in different orders, and not all of them."""
    frame = rw.data.to_frame(named.with_(weights=None)).with_columns(
        pl.Series("kind", [KINDS[label % 3] for label in named.labels.astype(int).tolist()])
    )
    lists = (["x", "y", "z"], ["z", "y", "x", "never"], ["z", "x", "y"])
    for number, listed in enumerate(lists):
        part = frame[400 * number : 400 * (number + 1) if number < 2 else None]
        part.with_columns(pl.col("kind").cast(pl.Enum(listed))).write_parquet(folder / f"{number}.parquet")
    return frame


def test_partitions_with_different_lists_of_categories_are_put_together(client, named, tmp_path):
    frame = kinds(named, tmp_path)
    found = partitions.distribute(Workers(client, sorted(client.nthreads()) * 2), str(tmp_path), {})
    assert found.sample.categories == {12: ("x", "y", "z", "never")}
    held: dict[str, list[str]] = {}
    for part in client.gather(found.futures):
        assert part.categories == found.sample.categories
        held |= dict(rw.data.to_frame(part).group_by("qid").agg("kind").iter_rows())
    assert held == dict(frame.group_by("qid").agg("kind").iter_rows())
    frame[:600].write_parquet(tmp_path / "0.parquet")  # values that nothing lists
    for number in (1, 2):
        (tmp_path / f"{number}.parquet").unlink()
    frame[600:].write_parquet(tmp_path / "1.parquet")
    found = partitions.distribute(Workers(client), str(tmp_path), {"categorical": ["kind"]})
    assert found.sample.categories == {12: ("x", "y", "z")}


@pytest.mark.filterwarnings("ignore:.* of training queries", "ignore:training data")
def test_categories_on_a_cluster_go_by_value(client, named, valid, tmp_path):
    frame = kinds(named, tmp_path)
    settings: dict[str, Any] = {**SMALL, "min_data_per_group": 1, "cat_smooth": 1.0}
    held_out = frame[:200].with_columns(pl.col("kind").cast(pl.Enum(["never", "z", "y", "x"])))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of queries that were put together
        ours = rw.cluster.dask.fit(
            rw.LightGBMRanker("xendcg", **settings),
            str(tmp_path),
            client=client,
            valid=rw.RankingDataset.from_frame(held_out),
        )
        more = rw.cluster.dask.fit(
            rw.LightGBMRanker("xendcg", **settings), str(tmp_path), client=client, init_model=ours
        )
    assert ours.categories_ == more.categories_ == {"kind": ("x", "y", "z", "never")}
    alone = rw.LightGBMRanker("xendcg", **settings).fit(
        rw.read_parquet(tmp_path, sort=True), rw.RankingDataset.from_frame(held_out)
    )
    np.testing.assert_allclose(ours.history_["ndcg@10"], alone.history_["ndcg@10"], atol=1e-6)
    turned = frame.with_columns(pl.col("kind").cast(pl.Enum(["z", "x", "y"])))
    np.testing.assert_array_equal(ours.predict(turned), ours.predict(frame))


def test_what_cannot_be_spread_says_why(client, named, tmp_path):
    workers = Workers(client)
    with pytest.raises(ValueError, match="must be a Parquet file or folder, or a Dask DataFrame"):
        partitions.distribute(workers, named, {})
    for number in range(2):
        rw.data.write_parquet(named.with_(query_ids=None), tmp_path / f"{number}.parquet")
    with pytest.raises(ValueError, match="without query ids cannot be told apart"):
        partitions.distribute(workers, tmp_path, {})
    with pytest.raises(ValueError, match="all partitions must have the same columns: got 'b' in only some"):
        RowPlan([*runs([("a", 1)]), Runs(np.array(["c"]), np.array([1]), ("qid", "b"), {})], 1)
    with pytest.raises(ValueError, match="query ids of all partitions must be of one type"):
        RowPlan([*runs([("a", 1)]), Runs(np.array([1]), np.array([1]), ("qid",), {})], 1)
    with pytest.raises(ValueError, match="no such column for the query: got 'topic'"):
        partitions.distribute(workers, rw.data.write_parquet(named, tmp_path / "one.parquet"), {"query": "topic"})


# Training.


@pytest.mark.parametrize("ranker", [rw.LightGBMRanker, rw.XGBoostRanker])
@pytest.mark.filterwarnings("ignore:.* of training queries")
def test_one_worker_trains_the_model_of_one_machine(client, named, valid, tmp_path, ranker):
    path = rw.data.write_parquet(named, tmp_path / "train.parquet")
    alone = ranker("plrank", **SMALL).fit(named, valid)
    ours = rw.cluster.dask.fit(ranker("plrank", **SMALL), path, client=client, valid=valid)
    assert ours.best_round_ == alone.best_round_
    np.testing.assert_allclose(ours.history_["loss"], alone.history_["loss"], rtol=1e-12)
    np.testing.assert_allclose(ours.history_["ndcg@10"], alone.history_["ndcg@10"], rtol=1e-6)
    np.testing.assert_array_equal(ours.predict(valid), alone.predict(valid))
    assert ours.partitions_.queries == named.n_queries
    ours.save(tmp_path / "model")
    np.testing.assert_array_equal(rw.load(tmp_path / "model").predict(valid), alone.predict(valid))
    assert not learner._trainings


@pytest.mark.filterwarnings("ignore:.* of training queries")
def test_workers_start_from_init_scores(client, named, valid, tmp_path):
    start, held = (part.with_(init_scores=part.features[:, 0].astype(float)) for part in (named, valid))
    path = rw.data.write_parquet(start, tmp_path / "train.parquet")
    settings = {**SMALL, "rounds": 6}
    alone = rw.LightGBMRanker("safe(plrank(samples=20), floor=0.9)", **settings).fit(start, held)
    ours = rw.LightGBMRanker("safe(plrank(samples=20), floor=0.9)", **settings)
    rw.cluster.dask.fit(ours, path, client=client, valid=held)
    np.testing.assert_allclose(ours.history_["loss"], alone.history_["loss"], rtol=1e-12)
    np.testing.assert_allclose(ours.history_["ndcg@10"], alone.history_["ndcg@10"], rtol=1e-6)
    np.testing.assert_array_equal(ours.predict(held), alone.predict(held))
    with pytest.raises(ValueError, match="trained from init_scores"):
        ours.predict(valid)


@pytest.mark.filterwarnings("ignore:.* of training queries")
def test_training_stops_inside_a_block(client, named, valid, tmp_path):
    path = rw.data.write_parquet(named, tmp_path / "train.parquet")
    settings = {**SMALL, "rounds": 60, "checkpoint_every": 25, "patience": 4}
    alone = rw.LightGBMRanker("lambdarank", **settings).fit(named, valid)
    ours = rw.cluster.dask.fit(rw.LightGBMRanker("lambdarank", **settings), path, client=client, valid=valid)
    assert ours.stopped_ == alone.stopped_ == "patience"
    assert ours.history_["ndcg@10"] == pytest.approx(alone.history_["ndcg@10"], rel=1e-9)
    np.testing.assert_array_equal(ours.predict(valid), alone.predict(valid))


def test_a_checkpoint_goes_on_and_an_older_model_is_continued(client, named, valid, tmp_path):
    path = rw.data.write_parquet(named, tmp_path / "train.parquet")
    settings = {**SMALL, "checkpoint": tmp_path / "kept", "patience": None}
    first = rw.cluster.dask.fit(rw.LightGBMRanker("plrank", **{**settings, "rounds": 10}), path, client=client)
    seen: list[int] = []
    more = rw.LightGBMRanker("plrank", **{**settings, "rounds": 20})
    rw.cluster.dask.fit(more, path, client=client, resume=True, callback=lambda done, _: seen.append(done))
    assert seen == list(range(11, 21))  # earlier rounds are not trained again
    whole = rw.LightGBMRanker("plrank", **{**settings, "rounds": 20, "checkpoint": None}).fit(named)
    np.testing.assert_array_equal(more.predict(valid), whole.predict(valid))
    again = rw.LightGBMRanker("plrank", **{**settings, "rounds": 10, "checkpoint": None})
    rw.cluster.dask.fit(again, path, client=client, init_model=first)
    np.testing.assert_array_equal(again.predict(valid), whole.predict(valid))
    other = rw.data.write_parquet(named.take(slice(0, 30)), tmp_path / "other.parquet")
    with pytest.raises(ValueError, match="the checkpoint belongs to another training"):
        rw.cluster.dask.fit(more, other, client=client, resume=True)


def test_validation_may_be_a_file_or_a_frame(client, named, valid, tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    path = rw.data.write_parquet(named.with_(weights=None), tmp_path / "train.parquet")
    held_out = rw.data.write_parquet(valid.with_(query_ids=np.arange(valid.n_queries)), tmp_path / "valid.parquet")
    frame = dd.from_pandas(pl.read_parquet(held_out).to_pandas(), npartitions=2, sort=False)
    settings = {**SMALL, "rounds": 3}
    results = [
        rw.cluster.dask.fit(rw.LightGBMRanker("xendcg", **settings), path, client=client, valid=one).history_
        for one in (valid, held_out, frame)
    ]
    assert results[0] == results[1] == results[2]


def test_what_cannot_be_trained_says_why(client, named, tmp_path):
    path = rw.data.write_parquet(named, tmp_path / "train.parquet")
    with pytest.raises(ValueError, match="only LightGBM and XGBoost train on a cluster: got catboost"):
        rw.cluster.dask.fit(rw.CatBoostRanker(), path, client=client)
    with pytest.raises(ValueError, match=r"cannot be trained so on a cluster: got boosting=dart"):
        rw.cluster.dask.fit(rw.LightGBMRanker(boosting="dart"), path, client=client)
    with pytest.raises(ValueError, match="positioned.softmax_ce. needs all queries at once, and a worker has some"):
        rw.cluster.dask.fit(rw.LightGBMRanker("positioned(softmax_ce)"), path, client=client)
    with pytest.raises(ValueError, match="client must be a distributed.Client: got str"):
        rw.cluster.dask.fit(rw.LightGBMRanker(), path, client="tcp://somewhere")
    flat = rw.data.write_parquet(named.with_(labels=np.ones(named.n_docs)), tmp_path / "flat.parquet")
    with pytest.raises(ValueError, match="learned nothing from 65 queries: got a gradient of 0 for every document"):
        rw.cluster.dask.fit(rw.LightGBMRanker("lambdarank", **SMALL), flat, client=client)
    with pytest.raises(ValueError, match=r"learned nothing from 65 queries: got no split of \d+ documents"):
        rw.cluster.dask.fit(rw.XGBoostRanker("xendcg", **{**SMALL, "min_documents": 9999}), path, client=client)


def test_who_calls_gives_who_listens_a_head_start(monkeypatch):
    slept: list[tuple[int, float]] = []
    together = network.LightGBMNetwork(("a:1", "b:2", "c:3"), 5)
    for rank in range(3):
        monkeypatch.setattr("time.sleep", lambda seconds, rank=rank: slept.append((rank, seconds)))
        with together.membership(rank):
            pass
    assert [rank for rank, _ in slept] == [0, 1]
    assert all(0.0 < seconds < 0.2 for _, seconds in slept)


def test_a_model_does_not_remember_the_cluster():
    text = b"parameters:\n[num_leaves: 7]\n[machines: 10.0.0.1:5,10.0.0.2:6]\n[local_listen_port: 5]\n[seed: 1]\nend"
    cleaned = network.LightGBMNetwork(("10.0.0.1:5", "10.0.0.2:6"), 5).clean(text)
    assert cleaned == b"parameters:\n[num_leaves: 7]\n[seed: 1]\nend"


# Two processes.


class Deadly:
    """XENDCG that once, in some round, kills its process or fails: the text of the marker says which."""

    exact_hessian, estimator = True, False

    def __init__(self, marker, round):
        self.marker, self.round = marker, round

    def __repr__(self):
        return "deadly()"

    def __call__(self, scores, labels, offsets, stream):
        if stream.round == self.round and Path(self.marker).exists():
            try:
                how = Path(self.marker).read_text()
                Path(self.marker).unlink()  # one worker alone succeeds
            except FileNotFoundError:
                pass
            else:
                if how == "kill":
                    os.kill(os.getpid(), 9)
                raise ValueError("a mistake of my own")
        return rw.objectives.XENDCG()(scores, labels, offsets, stream)


@pytest.mark.slow
@pytest.mark.parametrize("ranker", tiers.some([rw.XGBoostRanker, rw.LightGBMRanker]))
def test_two_workers_reach_the_quality_of_one_machine(two_workers, tmp_path, ranker):
    settings: dict[str, Any] = {"rounds": 20, "leaves": 7, "learning_rate": 0.1, "checkpoint_every": 10, "threads": 1}
    gains: dict[str, list[tuple[float, float]]] = {}
    for seed in (1, 2):
        whole = rw.synthetic(n_queries=600, n_features=12, n_docs=15, seed=seed)
        train, valid, test = rw.split(whole, (0.35, 0.15, 0.5), seed=seed)
        folder = tmp_path / str(seed)
        folder.mkdir()
        scatter(train, folder, [997, 2003])
        for objective in ("xendcg", "lambdarank", "plrank"):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                ours = rw.cluster.dask.fit(
                    ranker(objective, seed=seed, **settings), folder, client=two_workers, valid=valid
                )
            assert sum("were put together" in str(one.message) for one in said) == 1
            assert ours.partitions_.workers == 2
            assert 1 <= ours.partitions_.moved_queries <= 2
            alone = ranker(objective, seed=seed, **settings).fit(train, valid)
            # Before the first tree both have the same scores, so the same loss, to the rounding of a sum in two parts.
            assert ours.history_["loss"][0] == pytest.approx(alone.history_["loss"][0], rel=1e-12)
            assert ours.history_["loss"][-1] == pytest.approx(alone.history_["loss"][-1], rel=0.05)
            chance = rw.evaluate(np.zeros(test.n_docs), test).mean["ndcg@10"]
            gains.setdefault(objective, []).append((ours.score(test) - chance, alone.score(test) - chance))
    for objective, found in gains.items():
        ours_gain, alone_gain = np.mean(found, axis=0)
        assert ours_gain > 0.9 * alone_gain > 0, (objective, found)


@pytest.mark.slow
def test_two_workers_repeat_and_their_own_objectives_train(two_workers, named, valid, tmp_path):
    path = rw.data.write_parquet(named, tmp_path / "train.parquet")
    for make in (
        lambda: rw.LightGBMRanker("native:lambdarank", **SMALL),
        lambda: rw.XGBoostRanker("native:rank:ndcg", **SMALL),
        lambda: rw.XGBoostRanker("plrank", colsample_bytree=0.5, **SMALL),
    ):
        first, second = (rw.cluster.dask.fit(make(), path, client=two_workers, valid=valid) for _ in range(2))
        np.testing.assert_array_equal(first.predict(valid), second.predict(valid))
        chance = rw.evaluate(np.zeros(valid.n_docs), valid, "ndcg@10").mean["ndcg@10"]
        assert first.score(valid) > chance + 0.05


@pytest.mark.slow
@pytest.mark.parametrize("ranker", tiers.some([rw.LightGBMRanker, rw.XGBoostRanker]))
def test_a_worker_that_dies_is_noticed_and_training_resumes(two_workers, named, tmp_path, ranker):
    """Slow: a worker's process starts again."""
    import cloudpickle  # type: ignore[import-untyped]

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # workers need not have this file
    path, marker = rw.data.write_parquet(named, tmp_path / "train.parquet"), tmp_path / "marker"
    two_workers.wait_for_workers(2, timeout=HANG)

    def fresh(how):
        marker.write_text(how)
        return ranker(Deadly(str(marker), 7), checkpoint=tmp_path / "kept", patience=None, **SMALL)

    with pytest.raises(ValueError, match="a mistake of my own"):
        rw.cluster.dask.fit(fresh("fail"), path, client=two_workers)
    doomed = fresh("kill")
    with pytest.raises(LostWorkerError, match=r"worker tcp://\S+ was lost while growing trees 6 to 10.*resume=True"):
        rw.cluster.dask.fit(doomed, path, client=two_workers, resume=True)
    assert not marker.exists()
    two_workers.wait_for_workers(2, timeout=HANG)  # Dask's nanny starts another in its place
    seen: list[int] = []
    rw.cluster.dask.fit(doomed, path, client=two_workers, resume=True, callback=lambda done, _: seen.append(done))
    assert seen == list(range(6, 13))
    alone = ranker("xendcg", patience=None, **SMALL).fit(named)
    assert doomed.history_["loss"][-1] == pytest.approx(alone.history_["loss"][-1], rel=0.02)


@pytest.mark.filterwarnings("ignore:.* of training queries")
def test_the_command_line_trains_on_a_cluster(named, valid, tmp_path):
    """Slow: the command and its cluster are processes that import the libraries."""
    from typer.testing import CliRunner

    from rankwise.cli.app import app

    folder = tmp_path / "train.parquet"
    folder.mkdir()
    scatter(named.with_(weights=None), folder, [500])
    rw.data.write_parquet(valid, tmp_path / "valid.parquet")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=":0", memory_limit=0
    ) as cluster:
        command = [
            "train",
            "--dask",
            cluster.scheduler_address,
            str(folder),
            "--valid",
            str(tmp_path / "valid.parquet"),
        ]
        command += ["-o", str(tmp_path / "model"), "--rounds", "5", "--min-documents", "5", "--threads", "1"]
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
        # columns that are called otherwise, in a file of another program
        pl.read_parquet(tmp_path / "valid.parquet").rename({"qid": "session", "label": "clicks"}).write_parquet(
            tmp_path / "other.parquet"
        )
        command[3], command[5] = str(tmp_path / "other.parquet"), str(tmp_path / "other.parquet")
        command += [
            "--force",
            "--output",
            str(tmp_path / "named"),
            "--query",
            "session",
            "--label",
            "clicks",
            "--features",
            "body_*",
        ]
        other = CliRunner().invoke(app, command)
        assert other.exit_code == 0, other.output
    assert f"65 queries with {named.n_docs:,} documents from 2 partitions on 1 worker" in " ".join(done.output.split())
    assert rw.load(tmp_path / "model").predict(valid).shape == (valid.n_docs,)
    named_so = [name for name in valid.feature_names if name.startswith("body_")]
    assert rw.load(tmp_path / "named").n_features_in_ == len(named_so) > 0
    wrong = CliRunner().invoke(
        app, ["train", "--dask", "tcp://127.0.0.1:1", "train.txt", "-o", str(tmp_path / "other")]
    )
    assert wrong.exit_code != 0
    assert "the workers of a cluster read Parquet" in " ".join(wrong.output.split())
