"""Logs whose clicks are exact expectations: what an estimator computes from them must be the truth."""

import numpy as np
import polars as pl

from rankwise.clicks import Log

CURVE = np.array([1.0, 0.68, 0.44, 0.32, 0.22, 0.18])


def exact_log(
    shown,
    *,
    alpha=CURVE,
    beta=0.0,
    relevance=None,
    rankers=None,
    segments=None,
    impressions=None,
    segment_names=None,
    n_documents=None,
    draw=None,
):
    """Return a log of rows (query, document, position), with expected clicks, or drawn ones with ``draw``.

    Relevance is query × document; alpha is a curve, or segment × position.
    """
    query, document, position = (np.asarray(column) for column in zip(*shown, strict=True))
    n_documents = int(document.max()) + 1 if n_documents is None else n_documents
    if relevance is None:
        relevance = np.random.default_rng(3).uniform(0.05, 0.9, (query.max() + 1, n_documents))
    size = query.size
    rankers = np.zeros(size, np.int64) if rankers is None else np.asarray(rankers)
    segments = np.zeros(size, np.int64) if segments is None else np.asarray(segments)
    impressions = np.full(size, 100.0) if impressions is None else np.asarray(impressions, float)
    alpha = np.atleast_2d(alpha)
    curve = alpha[segments if len(alpha) > 1 else 0, position - 1]
    rate = curve * relevance[query, document] + np.broadcast_to(beta, alpha.shape[1])[position - 1]
    clicks = impressions * rate if draw is None else draw.binomial(impressions.astype(int), rate).astype(float)
    keys = query * n_documents + document
    pairs, number = np.unique(keys, return_inverse=True)
    order = np.lexsort((segments, rankers, position, number))
    return Log(
        query_ids=np.array([f"q{one:05d}" for one in range(query.max() + 1)]),
        offsets=np.append(0, np.cumsum(np.bincount(pairs // n_documents, minlength=query.max() + 1))),
        document_ids=np.array([f"d{one:05d}" for one in pairs % n_documents]),
        pairs=number[order],
        positions=position[order].astype(np.int64),
        rankers=rankers[order],
        segments=segments[order],
        impressions=impressions[order],
        clicks=clicks[order],
        ranker_names=tuple(f"ranker {one}" for one in range(rankers.max() + 1)),
        segment_names=segment_names or tuple(f"segment {one}" for one in range(segments.max() + 1)),
    )


def rankings(n_queries, n_documents, n_rankers, *, seed=0, noise=1.0, best_first=None):
    """Return rows of several rankers that show all documents of each query, and the ranker of each row.

    Rankers sort by ``best_first`` (query × document) and noise: better documents stand higher, which confounds clicks
    by position.
    """
    random = np.random.default_rng(seed)
    rows, names = [], []
    scores = np.zeros((n_queries, n_documents)) if best_first is None else best_first
    for ranker in range(n_rankers):
        order = np.argsort(-(scores + noise * random.normal(size=scores.shape)), axis=1)
        for query in range(n_queries):
            rows += [(query, int(document), place + 1) for place, document in enumerate(order[query])]
            names += [ranker] * n_documents
    return rows, names


def over_days(*logs, days=None):
    """Return one log with times of logs that were shown on one day each."""
    frames = [
        log.to_frame().lazy().with_columns(day=pl.lit(day, pl.Int32))
        for log, day in zip(logs, range(20_000, 20_000 + len(logs)) if days is None else days, strict=True)
    ]
    cells = pl.concat(frames)
    clicked = cells.with_columns(weight=pl.col("clicks"), clicked=1)
    missed = cells.with_columns(weight=pl.col("impressions") - pl.col("clicks"), clicked=0)
    return Log.from_rows([clicked, missed], sessions=False)
