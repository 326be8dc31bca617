"""Checks of several parts: queries that they share, missing values and categories that differ between them."""

import itertools
from collections.abc import Iterator

import numpy as np

from rankwise.base.tables import count
from rankwise.data.dataset import RankingDataset
from rankwise.data.summary import ranges
from rankwise.quality import leakage
from rankwise.quality.features import named
from rankwise.quality.findings import DataFinding, Parts, shared_queries, warn

_SHARE = 0.1  # of documents, by which parts may differ
_ERRORS = 4.0  # standard errors, by which they may differ


def shared(parts: Parts) -> Iterator[DataFinding]:
    """Iterate over findings on queries of several parts, by their ids and by the features of their documents."""
    return shared_queries({name: leakage.Queries.of(data) for name, data in parts.items()}, parts=parts)


def warn_shared(**parts: RankingDataset | None) -> None:
    """Warn of queries that parts share: training data first, with features in the same order."""
    if not leakage.CHECKED.get():
        present = {name: data for name, data in parts.items() if data is not None}
        queries = {name: leakage.Queries.of(data) for name, data in present.items()}
        warn(shared_queries(queries, parts=present))


def missing(parts: Parts) -> Iterator[DataFinding]:
    """Iterate over findings on features that are missing more often, or less often, than in the training data."""
    (_, train), *held_out = parts.items()
    expected = ranges(train)[0] / train.n_docs
    for name, data in held_out:
        share = ranges(data)[0] / data.n_docs
        middle = (expected * train.n_queries + share * data.n_queries) / (train.n_queries + data.n_queries)
        # As if a query had a feature in all of its documents or in none: no error is larger.
        error = np.sqrt(middle * (1.0 - middle) * (1.0 / train.n_queries + 1.0 / data.n_queries))
        gap = np.abs(share - expected)
        columns = np.flatnonzero((gap >= _SHARE) & (gap > _ERRORS * error))
        if columns.size:
            worst = columns[np.argmax(gap[columns])]
            sentence = f"{count(columns.size, 'feature')} missing more or less often than in train: "
            sentence += f"{named(train, columns)} (up to {expected[worst]:.0%} in train, {share[worst]:.0%} in {name})."
            hint = "see whether features were computed alike in both"
            yield DataFinding("warning", "missing values", sentence, name, columns.size, hint)


def categories(parts: Parts) -> Iterator[DataFinding]:
    """Iterate over findings on categories that the training data do not have."""
    (_, train), *held_out = parts.items()
    for (name, data), column in itertools.product(held_out, train.categorical):
        codes = data.features[:, column]
        if number := int((~np.isin(codes, train.features[:, column]) & ~np.isnan(codes)).sum()):
            share, what = number / data.n_docs, named(train, [column])
            sentence = f"{count(number, 'document')} ({share:.1%}) with a category of {what} that train does not have."
            hint = "rankers treat them as missing"
            yield DataFinding("warning" if share >= _SHARE else "note", "new categories", sentence, name, number, hint)
