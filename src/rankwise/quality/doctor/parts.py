"""Checks of several parts: queries that they share, missing values and categories that differ between them."""

import itertools
from collections.abc import Iterator, Mapping

import numpy as np

from rankwise.base.arrays import comparable
from rankwise.base.tables import count
from rankwise.data.dataset import RankingDataset
from rankwise.data.summary import ranges
from rankwise.quality import leakage
from rankwise.quality.doctor.features import named
from rankwise.quality.doctor.labels import DataFinding

Parts = Mapping[str, RankingDataset]
"""Name -> data: training data first; all with the same columns and categories."""
_SHARE = 0.1  # of documents, by which parts may differ
_ERRORS = 4.0  # standard errors, by which they may differ


def shared(parts: Parts) -> Iterator[DataFinding]:
    """Iterate over findings on queries of several parts, by their ids and by the features of their documents."""
    queries = {name: leakage.Queries.of(data) for name, data in parts.items()}
    for seen, held_out in itertools.combinations(parts, 2):
        by_id, by_features = leakage.shared([queries[seen]], queries[held_out])
        of = f"of {count(parts[held_out].n_queries, 'query', 'queries')} of {held_out}"
        both = f"{seen}, {held_out}"
        hint = "leave them out of one of the two: what is measured on them says little about new queries"
        if by_features is not None and (number := int(by_features.sum())):
            sentence = f"{number:,} {of} have the features of queries of {seen}."
            yield DataFinding("error", "shared queries", sentence, both, number, hint)
        if by_id is not None and (number := int(by_id.sum())):
            common = _documents_in_common(parts[seen], parts[held_out])
            sentence = f"{number:,} {of} have ids of queries of {seen}"
            sentence += "." if common is None else f", with {count(common, 'document')} in common."
            if common == 0:  # as in recommending, where a user is a query of every part
                yield DataFinding("note", "shared ids", sentence, both, number)
            else:
                yield DataFinding("error" if common else "warning", "shared ids", sentence, both, number, hint)


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


def _documents_in_common(first: RankingDataset, second: RankingDataset) -> int | None:
    """Return how many documents two parts share in queries of the same id; None without ids of documents."""
    if first.document_ids is None or second.document_ids is None:
        return None
    pairs = (first.qids(), second.qids()), (first.document_ids, second.document_ids)
    queries, documents = (np.unique(np.concatenate(comparable(*ids)), return_inverse=True)[1] for ids in pairs)
    keys = queries * (documents.max() + 1) + documents
    return int(np.intersect1d(keys[: first.n_docs], keys[first.n_docs :]).size)
