"""Whole queries in the partitions of a Spark DataFrame, for ``xgboost.spark.SparkXGBRanker``."""

import warnings
from typing import Any

from rankwise import check
from rankwise.base.tables import count

_MOST = 2**32  # XGBoost reads ids of queries as unsigned numbers of 32 bits


def whole_queries(frame: Any, query: str = "qid", *, partitions: int | None = None) -> Any:
    """Return a Spark DataFrame in which each query lies in one partition, as one run of rows.

    ``SparkXGBRanker`` repartitions by query only if the number of partitions is not its ``num_workers``. Otherwise it
    takes partitions as they come, and a query whose rows lie in two of them silently becomes two queries. Here such
    queries are counted; if there are any, rows are moved by ranges of ids, and a warning says how many were split.

    Args:
        frame: A ``pyspark.sql.DataFrame``.
        query: The column of query ids: integers from 0 to 2³² − 1. Of larger ones XGBoost makes one query, or refuses
            them in the middle of a job; text it cannot read.
        partitions: The number of partitions to return, such as ``num_workers``; by default the number there is.
    """
    functions: Any = check.optional("pyspark.sql.functions", "spark")
    if not hasattr(frame, "repartitionByRange"):
        raise check.error("whole_queries takes a Spark DataFrame", got=type(frame).__name__)
    if query not in frame.columns:
        raise check.error("no such column for the query", got=repr(query), hint=f"name one of {frame.columns}")
    kind, hint = frame.schema[query].dataType.typeName(), "number the queries from 0, and join the numbers to the rows"
    if kind not in ("byte", "short", "integer", "long"):
        raise check.error("XGBoost takes whole numbers as ids of queries", got=f"column {query!r} of {kind}", hint=hint)
    places = frame.select(query, functions.spark_partition_id().alias("place")).distinct()
    facts = (
        places.groupBy(query)
        .agg(functions.count("place").alias("places"))
        .agg(
            functions.min(query).alias("least"),
            functions.max(query).alias("most"),
            functions.count_if(functions.col("places") > 1).alias("split"),
            functions.count_if(functions.col(query).isNull()).alias("missing"),
        )
        .first()
    )
    if facts.missing:
        hint = "leave out the documents without one: frame.dropna(subset=[…])"
        raise check.error("every document needs the id of its query", got=f"null in column {query!r}", hint=hint)
    if facts.least is None:
        raise check.error("the data have no documents")
    if facts.least < 0 or facts.most >= _MOST:
        got = f"{facts.least} to {facts.most}"
        raise check.error("XGBoost takes ids of queries from 0 to 2³² − 1", got=got, hint=hint)
    present = frame.rdd.getNumPartitions()
    if facts.split:
        text = f"{count(facts.split, 'query', 'queries')} lay in more than one of {present} partitions and were joined"
        warnings.warn(text, UserWarning, stacklevel=2)
    if facts.split or partitions not in (None, present):
        frame = frame.repartitionByRange(partitions or present, query)
    return frame.sortWithinPartitions(query)
