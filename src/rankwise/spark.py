"""``rankwise.spark``: whole queries in the partitions of a Spark DataFrame, for ``xgboost.spark.SparkXGBRanker``."""

import warnings
from typing import Any

from rankwise import check
from rankwise.statistics.tables import count


def whole_queries(frame: Any, query: str = "qid", *, partitions: int | None = None) -> Any:
    """Return a Spark DataFrame in which each query lies in one partition, as one run of rows.

    ``SparkXGBRanker`` makes a query of every run of equal ids in a partition, so that a query whose rows lie in two
    partitions becomes two queries, without a word. If there is such a query, or the number of partitions is another,
    rows are moved, and a warning says how many queries were split. Documents of a query may change their order, on
    which only objectives that draw depend.

    Args:
        frame: A ``pyspark.sql.DataFrame``.
        query: The column of query ids.
        partitions: The number of partitions to return: the ``num_workers`` of the ranker, which deals rows out anew,
            without regard to queries, unless there are as many. By default, the number there is.
    """
    functions: Any = check.optional("pyspark.sql.functions", "spark")
    if not hasattr(frame, "repartitionByRange"):
        raise check.error("whole_queries takes a Spark DataFrame", got=type(frame).__name__)
    if query not in frame.columns:
        raise check.error("no such column for the query", got=repr(query), hint=f"name one of {frame.columns}")
    places = frame.select(query, functions.spark_partition_id().alias("place")).distinct()
    split = places.groupBy(query).count().where("count > 1").count()
    present = frame.rdd.getNumPartitions()
    if split:
        text = f"{count(split, 'query')} lay in more than one of {present} partitions and were put together"
        warnings.warn(text, UserWarning, stacklevel=2)
    if split or partitions not in (None, present):
        frame = frame.repartitionByRange(partitions or present, query)
    return frame.sortWithinPartitions(query)
