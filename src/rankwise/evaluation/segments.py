"""Segments of the queries that are evaluated and compared."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from rankwise import check
from rankwise.data.dataset import RankingDataset
from rankwise.data.segments import Labels, Segment, segments_of
from rankwise.evaluation import trec
from rankwise.evaluation.systems import Evaluated, on_data
from rankwise.statistics import segments
from rankwise.statistics.comparison import Comparison


def of_data(segment: Segment | None, data: RankingDataset) -> Labels:
    """Return the segments of the queries of data."""
    ids = np.arange(data.n_queries) if data.query_ids is None else data.query_ids
    return {} if segment is None else segments_of(segment, ids, weights=data.weights, data=data)


def compared(
    comparison: Comparison, segment: Segment, data: Evaluated | None, compare: Callable[[Mapping[str, Any]], Comparison]
) -> Comparison:
    """Return a comparison with tests by segment, which ``compare`` makes; see :func:`rankwise.compare`."""
    paired = comparison.paired
    if paired.unit != "query":
        raise check.error("segments are of queries", got=f"pairs by {paired.unit}", hint="compare evaluations")
    lists = data if isinstance(data, RankingDataset) else None
    if data is not None and lists is None and not trec.is_qrels(data):
        lists = on_data(paired.ids, data)[1]
    labels = segments_of(segment, paired.ids, weights=paired.weights, data=lists, known=paired.segments)
    return replace(comparison, segments=segments.compared(comparison, labels, compare))
