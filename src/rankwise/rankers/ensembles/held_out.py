"""Out-of-fold scores and what metrics say about them, query by query, and their place on disk."""

import io
from collections.abc import Mapping, Sequence

import numpy as np

from rankwise import check
from rankwise.arrays import Array, Ids
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import Metric

Values = tuple[dict[str, Array], Ids, Array | None]
"""Metric -> one value per query; the ids of queries; their weights."""
_FILE = "out_of_fold.npz"


def values(scores: Array, data: RankingDataset, metrics: Sequence[Metric]) -> Values:
    """Measure scores on every query."""
    ids = np.arange(data.n_queries) if data.query_ids is None else data.query_ids
    return {str(one): one(scores, data.labels, data.offsets, data.judged) for one in metrics}, ids, data.weights


def files(scores: Array, columns: Mapping[str, Array], ids: Ids, weights: Array | None) -> dict[str, bytes]:
    """Write them; strings become arrays of text, which need no pickle."""
    plain = np.array(ids.tolist()) if ids.dtype == object else ids
    buffer = io.BytesIO()
    np.savez(
        buffer,
        scores=scores,
        names=np.array(list(columns)),
        values=np.array(list(columns.values())),
        ids=plain,
        weights=np.zeros(0) if weights is None else weights,
    )
    return {_FILE: buffer.getvalue()}


def read(files: Mapping[str, bytes]) -> tuple[Array, Values] | None:
    """Read them, if they are there: a checkpoint has none."""
    if _FILE not in files:
        return None
    with check.library("out-of-fold scores", _FILE), np.load(io.BytesIO(files[_FILE])) as kept:
        columns = dict(zip(kept["names"].tolist(), kept["values"], strict=True))
        weights = kept["weights"]
        return kept["scores"], (columns, kept["ids"], weights if weights.size else None)
