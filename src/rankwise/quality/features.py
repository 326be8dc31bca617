"""Checks of features: constant ones, doubled documents, features that rank as the labels do; the warning of fit."""

import itertools
from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.base.arrays import Array, Floats, row_blocks
from rankwise.base.sparse import Matrix, dense
from rankwise.base.tables import count
from rankwise.data.dataset import RankingDataset
from rankwise.quality import labels, leakage
from rankwise.quality.findings import DataFinding, warn
from rankwise.quality.labels import FEWEST, LEAK, SUSPECT, NdcgRange

_SAMPLE = 20_000  # documents by which features are judged in every training
_FEWEST_TRAINED = 50  # queries: smaller data are examples and tests
_OTHER_TARGETS = ("document_rewards", "teacher_scores", "propensities", "positions")  # and no labels, or clicks
_COMPARED = 300  # features
_BLOCK = 32  # features at once, so that a sample of data on disk takes little memory
_NAMED = 5  # features that a sentence names
_GRADES = 10  # the highest ones, whose documents a feature may mark
_MARKED = 20  # documents
_DIFFERENT = 0.5  # of documents: as many categories are no categories
_MARKS, _MOSTLY = 0.2, 0.5  # of the documents of a grade; in real data below .07
_EXCEPTIONS = 0.01  # of marked documents
_MISSING = 0.3  # by which shares of missing values may differ between labels
_LAST = -np.finfo(np.float64).max  # the score of a missing value, up and down
_INFINITE = 2.0**128  # that of an infinite one, beyond all of float32


def named(data: RankingDataset, columns: Sequence[int] | NDArray[np.int64]) -> str:
    """Write the names of features, or their numbers from 1 as in LETOR text; of many the first five."""
    names = [str(column + 1) if data.feature_names is None else data.feature_names[column] for column in columns]
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    return ("" if data.feature_names else "number ") + ", ".join(names[:_NAMED]) + more


def constants(data: RankingDataset, part: str) -> Iterator[DataFinding]:
    """Iterate over findings on features with one value, in all documents or in all of each query."""
    in_queries, anywhere = _changing(data)
    nothing = not in_queries.any()
    for what, columns, hint in (
        ("constant", ~anywhere, "leave them out"),
        ("constant in every query", anywhere & ~in_queries, "they rank nothing alone; trees and nets combine them"),
    ):
        if number := int(columns.sum()):
            which = "no feature orders documents" if nothing else named(data, np.flatnonzero(columns))
            sentence = f"{count(number, 'feature')} {what}: {which}."
            yield DataFinding("error" if nothing else "note", what, sentence, part, number, hint)


def doubled(data: RankingDataset, part: str) -> Iterator[DataFinding]:
    """Iterate over findings on documents that a query has twice: by their ids, and by their features."""
    queries = np.repeat(np.arange(data.n_queries), data.sizes)
    hashes = leakage.document_hashes(data) if data.n_features else None
    for what, keys in (("id", data.document_ids), ("features", hashes)):
        if keys is None:
            continue
        values = np.unique(keys, return_inverse=True)[1]
        rows = np.lexsort((values, queries))
        same = (np.diff(queries[rows]) == 0) & (values[rows][1:] == values[rows][:-1])
        if number := int(same.sum()):
            relabelled = int((same & (np.diff(data.labels[rows]) != 0)).sum())
            sentence = f"{count(number, 'document')} with the {what} of another of the same query"
            sentence += f", {relabelled:,} with another label." if relabelled else "."
            hint = "where they are the same document, keep one"
            yield DataFinding("warning" if what == "id" else "note", f"doubled {what}", sentence, part, number, hint)


def sample(data: RankingDataset, documents: int) -> RankingDataset:
    """Return evenly spaced queries with about so many documents, or all."""
    if data.n_docs <= documents:
        return data
    number = max(FEWEST, data.n_queries * documents // data.n_docs)
    return data.take(np.unique(np.linspace(0, data.n_queries - 1, number).astype(np.int64)))


def ndcg_by_feature(scale: NdcgRange) -> Array:
    """Return NDCG@10 of documents in the order of each feature, up or down, whichever is better.

    It is NaN for a categorical feature, whose codes have no order, and beyond the 300 features that correlate most.

    >>> data = RankingDataset([[1, 5], [2, 5], [3, 5]], [2, 1, 0], [0, 3])
    >>> ndcg_by_feature(NdcgRange(data)).round(3)
    array([1.   , 0.783])
    """
    data = scale.data
    values = np.full(data.n_features, np.nan)
    columns = np.setdiff1d(np.arange(data.n_features), data.categorical)
    if columns.size > _COMPARED:
        correlations = _correlations(sample(data, _SAMPLE))
        columns = columns[np.argsort(-correlations[columns], kind="stable")[:_COMPARED]]
    for column in columns if scale.deciding else ():
        scores = np.clip(dense(data.features[:, [column]])[:, 0].astype(np.float64), -_INFINITE, _INFINITE)
        values[column] = max(scale.ndcg(np.where(np.isnan(scores), _LAST, one)) for one in (scores, -scores))
    return values


def _correlations(data: RankingDataset) -> Array:
    """Return how much each feature goes with the labels of a query, block by block of rows."""
    means = np.add.reduceat(data.labels, data.offsets[:-1]) / data.sizes
    surplus = data.labels - np.repeat(means, data.sizes)
    products, squares = np.zeros(data.n_features), np.zeros(data.n_features)
    for rows in row_blocks(data.n_docs, data.n_features):
        block: Any = data.features[rows]
        block = block if data.is_sparse else np.nan_to_num(block)
        products += surplus[rows] @ block
        squares += np.asarray((block**2).sum(0)).ravel()
    return np.abs(np.nan_to_num(products / np.sqrt(squares + 1e-30)))


def leaks(scale: NdcgRange, part: str, values: Array) -> Iterator[DataFinding]:
    """Iterate over findings on the best single feature; ``values`` are from :func:`ndcg_by_feature`."""
    if np.isnan(values).all() or scale.deciding < FEWEST:
        return
    best = int(np.nanargmax(values))
    value, lift = float(values[best]), scale.lift(values[best])
    sentence = f"The best single feature, {named(scale.data, [best])}, has NDCG@10 {value:.3f}"
    if lift < SUSPECT:
        yield DataFinding("note", "best feature", f"{sentence}.", part, value)
        return
    suspects = np.flatnonzero([scale.lift(value) >= SUSPECT for value in values])
    also = f" (suspect: {named(scale.data, suspects)})" if suspects.size > 1 else ""
    sentence += f": it ranks {'as' if lift >= LEAK else 'nearly as'} the labels do{also}."
    hint = "see whether it was computed from labels, or is known only after documents were shown, and leave it out"
    yield DataFinding("error" if lift >= LEAK else "warning", "best feature", sentence, part, value, hint)


def marks(data: RankingDataset, part: str) -> Iterator[DataFinding]:
    """Iterate over findings on features that mark a share of the documents of high grades, and hardly any others.

    Marked documents have the highest or lowest values, a category, a value where all others have none, or none. What
    real features mark that way is a few documents at most.

    >>> labels = np.tile([0, 0, 0, 1], 100)
    >>> flag = labels * (np.arange(400) % 10 < 8)  # four of five relevant documents have it
    >>> data = RankingDataset(np.column_stack([np.arange(400) % 7, flag]), labels, np.arange(0, 401, 4))
    >>> print(*(finding.sentence for finding in marks(data, "train")))  # doctest: +NORMALIZE_WHITESPACE
    1 feature that marks labels: number 2 (its highest values are those of 80% of the documents with label 1 or more,
    and of hardly any other).
    """
    suspects: dict[int, tuple[float, float, str]] = {}
    for grade in np.unique(data.labels)[1:][-_GRADES:]:
        high = data.labels >= grade
        if not _MARKED <= high.sum() <= data.n_docs / 2:
            continue
        least = max(_MARKS, _MARKED / high.sum())
        for columns in _blocks(data, least * high.sum()):
            for what, shares in _marked(dense(data.features[:, columns]), high, np.isin(columns, data.categorical)):
                for place in np.flatnonzero(shares >= least):
                    column, one = int(columns[place]), (float(shares[place]), float(grade), what)
                    suspects[column] = max(suspects.get(column, (0.0, 0.0, "")), one)
    if suspects:
        worst = max(suspects, key=lambda column: suspects[column][0])
        share, grade, what = suspects[worst]
        sentence = f"{count(len(suspects), 'feature that marks', 'features that mark')} labels: "
        sentence += (
            f"{named(data, [worst, *sorted(set(suspects) - {worst})])} ({what} {share:.0%} of the documents with "
        )
        sentence += f"label {grade:g} or more, and of hardly any other)."
        hint = "see whether it was set after documents were judged or clicked, and leave it out"
        yield DataFinding(
            "error" if share >= _MOSTLY else "warning", "mark of a label", sentence, part, len(suspects), hint
        )


def _blocks(data: RankingDataset, least: float = 1.0) -> Iterator[NDArray[np.int64]]:
    """Iterate over the columns, a block at a time; of a sparse matrix those that have ``least`` entries or more."""
    columns = np.arange(data.n_features)
    if data.is_sparse:
        features: Matrix = data.features
        columns = columns[np.bincount(features.indices, minlength=data.n_features) >= least]
    for start in range(0, columns.size, _BLOCK):
        yield columns[start : start + _BLOCK]


def _marked(values: Floats, high: NDArray[np.bool_], categorical: NDArray[np.bool_]) -> Iterator[tuple[str, Array]]:
    """Iterate over what may mark documents, and the share of ``high`` ones that it marks, for each column."""
    missing, exceptions = np.isnan(values), int(_EXCEPTIONS * _MARKS * high.sum())
    for sign, what in ((1.0, "its highest values are those of"), (-1.0, "its lowest values are those of")):
        scores = np.where(missing | categorical, -np.inf, sign * values)
        rest = scores[~high]
        limits = np.partition(rest, rest.shape[0] - 1 - exceptions, axis=0)[rest.shape[0] - 1 - exceptions]
        yield what, (scores[high] > limits).mean(axis=0)
    for marked, what in ((~missing, "it is there for"), (missing, "it is missing for")):
        alone = marked[~high].sum(axis=0) <= exceptions
        yield what, np.where(alone, marked[high].mean(axis=0), 0.0)
    for column in np.flatnonzero(categorical):
        codes, places = np.unique(values[:, column], return_inverse=True)
        of_high, of_others = (np.bincount(places[one], minlength=codes.size) for one in (high, ~high))
        share = np.where(of_others <= _EXCEPTIONS * of_high, of_high, 0).max() / high.sum()
        yield "it has a category of", np.where(np.arange(categorical.size) == column, share, 0.0)


def missing_by_label(data: RankingDataset, part: str) -> Iterator[DataFinding]:
    """Iterate over findings on features that are missing far more often, or less often, where the label is the lowest.

    >>> labels = np.tile([0, 0, 0, 1], 100)
    >>> features = np.where(labels == 0, np.nan, np.arange(400))[:, None]
    >>> print(*(finding.sentence for finding in missing_by_label(RankingDataset(features, labels, [0, 400]), "train")))
    1 feature missing by label: number 1 (in 100% of the documents with label 0, 0% of others).
    """
    low = data.labels == data.labels.min()
    if low.all() or min(low.sum(), (~low).sum()) < _MARKED:
        return
    shares = np.zeros((2, data.n_features))
    for columns in _blocks(data):
        missing = np.isnan(dense(data.features[:, columns]))
        shares[:, columns] = missing[low].mean(axis=0), missing[~low].mean(axis=0)
    gaps = np.abs(shares[0] - shares[1])
    columns = np.flatnonzero(gaps >= _MISSING)
    columns = columns[[_gap_within(data, column, low) >= _MISSING for column in columns.tolist()]]
    if columns.size:
        columns = columns[np.argsort(-gaps[columns], kind="stable")]
        first, second = shares[:, columns[0]]
        sentence = f"{count(columns.size, 'feature')} missing by label: {named(data, columns)} (in {first:.0%} of the "
        sentence += f"documents with label {data.labels.min():g}, {second:.0%} of others)."
        hint = "see whether it was computed for some documents because of their label, and leave it out"
        leak = gaps[columns[0]] >= LEAK
        yield DataFinding("error" if leak else "warning", "missing by label", sentence, part, columns.size, hint)


def _gap_within(data: RankingDataset, column: int, low: NDArray[np.bool_]) -> float:
    """Return by how much shares of missing values differ within queries, after Mantel and Haenszel.

    Queries of one market may have both fewer features and more relevant documents, and no leak.
    """
    missing = np.isnan(dense(data.features[:, [column]])[:, 0])
    rows = [low, ~low, missing & low, missing & ~low]
    n_low, n_high, of_low, of_high = (np.add.reduceat(one.astype(np.float64), data.offsets[:-1]) for one in rows)
    total = (n_low * n_high / data.sizes).sum()
    return float(abs(((of_low * n_high - of_high * n_low) / data.sizes).sum()) / total) if total else 1.0


def own_categories(data: RankingDataset, part: str) -> Iterator[DataFinding]:
    """Iterate over findings on categorical features with nearly as many values as documents: ids, or numbers as text.

    >>> codes = np.column_stack([np.arange(60) % 7, np.arange(60)])
    >>> data = RankingDataset(codes, np.arange(60) % 3, [0, 60], categorical=[0, 1])
    >>> print(*(finding.sentence for finding in own_categories(data, "train")))
    1 categorical feature with nearly as many values as documents: number 2 (60 values in 60 documents).
    """
    alone: dict[int, tuple[int, int]] = {}
    for column in data.categorical:
        codes = dense(data.features[:, [column]])[:, 0]
        codes = codes[~np.isnan(codes)]
        different = np.unique(codes).size
        if different >= max(_MARKED, _DIFFERENT * codes.size):
            alone[column] = different, codes.size
    if alone:
        different, documents = next(iter(alone.values()))
        sentence = f"{count(len(alone), 'categorical feature')} with nearly as many values as documents: "
        sentence += f"{named(data, [*alone])} ({different:,} values in {documents:,} documents)."
        hint = "read numbers as numbers, and leave ids out: a value that does not come again teaches nothing"
        yield DataFinding("warning", "values that do not come again", sentence, part, len(alone), hint)


def copies(data: RankingDataset, part: str) -> Iterator[DataFinding]:
    """Iterate over findings on features that map one to one to labels."""
    if columns := leakage.copies(data):
        sentence = f"{count(len(columns), 'feature')} with one value for each label: {named(data, columns)}."
        hint = "leave out what is not known before documents are ranked"
        yield DataFinding("error", "copy of the label", sentence, part, len(columns), hint)


def warn_of_training_data(data: RankingDataset, exponential: Collection[str | None] = (None,)) -> None:
    """Warn once of what the cheap checks find; the order of rows, and features, are judged by a sample of queries.

    ``exponential`` names the labels that count by 2^y in training, which amounts must not.
    """
    if leakage.CHECKED.get() or data.n_queries < _FEWEST_TRAINED or not data.is_labelled:
        return
    if any(getattr(data, name) is not None for name in _OTHER_TARGETS):
        return
    scale = NdcgRange(sample(data, _SAMPLE))
    checks = [labels.labels(data, "train"), labels.lists(data, "train"), labels.order(scale, "train")]
    checks += [leaks(scale, "train", ndcg_by_feature(scale)), marks(scale.data, "train")]
    checks += [missing_by_label(scale.data, "train"), own_categories(data, "train")]
    findings = [one for one in itertools.chain(*checks) if one.topic != "one grade"]  # which training says itself
    findings = [one for one in findings if one.topic != "high labels" or one.label in exponential]
    warn(findings, "training data: ", "; rw.examine(train, valid, test) shows more")


def _changing(data: RankingDataset) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Return which features change from a document to the next of its query, and which to any next document."""
    in_queries, anywhere = np.zeros((2, data.n_features), np.bool_)
    inside = np.ones(data.n_docs, np.bool_)
    inside[data.offsets[:-1]] = False
    if data.is_sparse:
        matrix: Any = data.features
        steps = (matrix[1:] - matrix[:-1]).tocoo()
        changed = steps.data != 0
        anywhere[steps.col[changed]] = in_queries[steps.col[changed & inside[1:][steps.row]]] = True
        return in_queries, anywhere
    for rows in row_blocks(data.n_docs - 1, data.n_features):
        block = data.features[rows.start : rows.stop + 1]
        changes = (block[1:] != block[:-1]) & ~(np.isnan(block[1:]) & np.isnan(block[:-1]))
        anywhere |= changes.any(0)
        in_queries |= changes[inside[rows.start + 1 : rows.stop + 1]].any(0)
    return in_queries, anywhere
