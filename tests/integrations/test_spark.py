"""SparkXGBRanker with our objectives in local mode: split queries are counted and joined, and what it cannot do."""

import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw

pytestmark = pytest.mark.integration("pyspark", "xgboost", program="java")
SETTINGS: dict[str, Any] = {"learning_rate": 0.1, "grow_policy": "lossguide", "max_depth": 0, "max_leaves": 7}
PAGE = Path(__file__).parents[2] / "docs/spark.md"


@pytest.fixture(scope="module")
def spark():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.shuffle.partitions", "2").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def data():
    whole = rw.synthetic(n_queries=600, n_features=8, n_docs=15, seed=1)
    return whole.with_(query_ids=np.arange(whole.n_queries), feature_names=[f"f{column}" for column in range(8)])


@pytest.fixture(scope="module")
def scattered(spark, data):
    """Two partitions, over which the documents of most queries are spread."""
    return spark.createDataFrame(rw.data.to_frame(data).to_pandas()).repartition(2).cache()


@pytest.fixture(scope="module")
def joined(scattered):
    with pytest.warns(UserWarning, match=r"5\d\d queries lay in more than one of 2 partitions and were joined"):
        return rw.cluster.spark.whole_queries(scattered)


def ranker(rounds=20, **settings):
    from xgboost.spark import SparkXGBRanker

    names = {"features_col": [f"f{column}" for column in range(8)], "label_col": "label", "qid_col": "qid"}
    settings = {**SETTINGS, "min_child_weight": 5, "base_score": 0.0, "disable_default_eval_metric": 1, **settings}
    settings.setdefault("obj", rw.objectives.xgboost_objective("xendcg"))
    return SparkXGBRanker(num_workers=2, n_estimators=rounds, **names, **settings)


def scores(model, data):
    return np.asarray(model.get_booster().inplace_predict(data.features, predict_type="margin"), np.float64)


class Recorded:
    """An objective that writes down how many queries XGBoost shows to each worker, and their draws."""

    def __init__(self, folder, objective):
        self.folder, self.inner = str(folder), rw.objectives.xgboost_objective(objective)

    def __call__(self, scores, matrix):
        from xgboost import collective

        derivatives = self.inner(scores, matrix)
        place = Path(self.folder, f"{collective.get_rank()}.{self.inner.round}.npz")
        np.savez(place, queries=matrix.get_uint_info("group_ptr").size - 1, ids=np.asarray(self.inner.stream.query_ids))
        return derivatives


def recorded(folder, frame, objective="xendcg"):
    import cloudpickle  # type: ignore[import-untyped]

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # executors need not have this file
    folder.mkdir()
    ranker(rounds=1, obj=Recorded(folder, objective)).fit(frame)
    return [np.load(folder / f"{rank}.1.npz") for rank in (0, 1)]


def test_a_split_query_is_two_queries_to_xgboost_unless_joined(scattered, joined, data, tmp_path):
    assert sum(int(part["queries"]) for part in recorded(tmp_path / "split", scattered)) > 1.8 * data.n_queries
    whole = recorded(tmp_path / "whole", joined)
    assert sum(int(part["queries"]) for part in whole) == data.n_queries
    # Draws go by the number of a query among all workers': here its id, since ranges of ids lie in order.
    np.testing.assert_array_equal(np.concatenate([part["ids"] for part in whole]), np.arange(data.n_queries))


def test_whole_queries_are_left_where_they_are(joined, data):
    from pyspark.sql import functions

    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        again = rw.cluster.spark.whole_queries(joined)
        three = rw.cluster.spark.whole_queries(joined, partitions=3)
    assert again.rdd.getNumPartitions() == 2
    assert three.rdd.getNumPartitions() == 3
    places = three.select("qid", functions.spark_partition_id().alias("place")).distinct()
    assert three.count() == data.n_docs
    assert places.count() == data.n_queries
    assert three.columns == joined.columns


def test_ids_that_xgboost_cannot_read_are_refused(joined):
    from pyspark.sql import functions

    with pytest.raises(ValueError, match="ids of queries from 0 to 2³² − 1: got 4294967296 to 4294967895.*number the"):
        rw.cluster.spark.whole_queries(joined.withColumn("qid", functions.col("qid") + 2**32))
    with pytest.raises(ValueError, match="whole numbers as ids of queries: got column 'qid' of string"):
        rw.cluster.spark.whole_queries(joined.withColumn("qid", functions.col("qid").cast("string")))
    with pytest.raises(ValueError, match="needs the id of its query: got null in column 'qid'"):
        rw.cluster.spark.whole_queries(joined.withColumn("qid", functions.expr("nullif(qid, 3)")))
    with pytest.raises(ValueError, match="no such column for the query: got 'session'"):
        rw.cluster.spark.whole_queries(joined, "session")
    with pytest.raises(ValueError, match="takes a Spark DataFrame: got dict"):
        rw.cluster.spark.whole_queries({})
    with pytest.raises(ValueError, match="no documents"):
        rw.cluster.spark.whole_queries(joined.where("qid < 0"))


def test_quality_is_that_of_dask(joined, data, tmp_path):
    distributed = pytest.importorskip("distributed")
    path = rw.data.write_parquet(data, tmp_path / "train.parquet")
    test = rw.synthetic(n_queries=2000, n_features=8, n_docs=15, seed=2).with_(feature_names=data.feature_names)
    model = ranker().fit(joined)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0", memory_limit=0) as cluster,
        distributed.Client(cluster) as client,
    ):
        settings: dict[str, Any] = {"leaves": 7, "min_documents": 5, "learning_rate": 0.1, "threads": 1}
        dask = rw.cluster.dask.fit(rw.XGBoostRanker("xendcg", rounds=20, **settings), path, client=client)
    chance, ours, theirs = (
        rw.evaluate(column, test, "ndcg@10").mean["ndcg@10"]
        for column in (np.zeros(test.n_docs), scores(model, test), dask.predict(test))
    )
    print(f"NDCG@10: Spark {ours:.4f}, Dask {theirs:.4f}, chance {chance:.4f}")
    assert abs(ours - theirs) < 0.01
    assert ours > chance + 0.1
    # The way to keep the model: wrapped, it is one of ours.
    wrapped = rw.wrap(model.get_booster())
    wrapped.save(tmp_path / "model")
    np.testing.assert_array_equal(rw.load(tmp_path / "model").predict(test), scores(model, test))


def test_what_it_cannot_do(joined, data, tmp_path):
    """Claims of the page: neither the ranker nor its model is written, and a metric is a mean of the workers' means."""
    with pytest.raises(TypeError, match="not JSON serializable"):
        ranker().write().overwrite().save(str(tmp_path / "ranker"))
    from pyspark.sql import functions

    # The second worker has 50 of the validation queries, the first 10.
    held_out = (functions.col("qid") < 10) | (functions.col("qid") >= 550)
    settings = {"custom_metric": rw.metrics.xgboost_metric("ndcg@10"), "validation_indicator_col": "held_out"}
    frame = joined.withColumn("held_out", held_out)
    model = ranker(rounds=1, **settings).fit(frame)
    with pytest.raises(TypeError, match="not JSON serializable"):
        model.write().overwrite().save(str(tmp_path / "model"))
    (reported,) = model.training_summary.validation_objective_history["ndcg@10"]
    of_query = rw.evaluate(scores(model, data), data, "ndcg@10").values["ndcg@10"]
    parts = np.nanmean(of_query[:10]), np.nanmean(of_query[550:])
    assert reported == pytest.approx(np.mean(parts), abs=2e-6)
    assert abs(reported - np.nanmean(np.concatenate([of_query[:10], of_query[550:]]))) > 1e-4


def test_the_page_runs(tmp_path):
    blocks = PAGE.read_text().split("```python\n")[1:]
    code = "".join(block.partition("```")[0] for block in blocks)
    program = tmp_path / "page.py"
    program.write_text(code)
    done = subprocess.run([sys.executable, str(program)], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "were joined" in done.stderr
    printed = PAGE.read_text().split("```text\n")[1].partition("```")[0]
    assert done.stdout.splitlines()[-len(printed.splitlines()) :] == printed.splitlines()
