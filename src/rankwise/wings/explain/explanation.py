"""Why the documents of a query are ranked as they are: what each feature adds to each score."""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

import rankwise as rw
from rankwise import check
from rankwise.base import tables
from rankwise.base.arrays import Array, Ids, Json
from rankwise.base.sparse import dense
from rankwise.evaluation import FeaturePredictor
from rankwise.models import in_from_frame, is_frame, lists_of
from rankwise.statistics import Result
from rankwise.wings.explain.breakdown import TOP, Breakdown, digits_for, other_features, shortened_value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from matplotlib.figure import Figure

    from rankwise.models import ModelInput

_COLUMNS = ("documents", "ranks", "labels", "scores", "contributions", "left")
_NEAR = 1e-3  # the share of a score by which float32 sums of thousands of trees may differ


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Explanation(Result):
    """The contributions of all features to the scores of a query's documents. Made by :func:`explain`."""

    query: str | int
    documents: Ids
    """Ids, best first; numbers within the query from 0 where the data have none."""
    ranks: NDArray[np.int64]
    """From 1."""
    labels: Array
    """NaN where nobody judged the document, as in data without labels."""
    scores: Array
    features: tuple[str, ...]
    """Names; those without are ``feature 1``, ``feature 2``, …"""
    values: tuple[tuple[str | None, ...], ...]
    """For each document the values of its features as text; None where one is missing."""
    contributions: Array
    """(n_docs, n_features)."""
    start: float
    """What every score starts from: with the contributions of a document it adds up to its score."""
    start_name: str
    method: str
    left: Array
    """(n_docs,) what the method left over of a score, and was shared out among the features; 0 for trees."""
    shown: int = 3
    """How many documents tables and figures show."""

    @property
    def title(self) -> str:
        """The query that is explained."""
        return f"query {self.query}"

    @property
    def error(self) -> float:
        """By how much contributions fail to add up to a score, at most: rounding errors of the library."""
        return float(np.abs(self.start + self.contributions.sum(1) - self.scores).max())

    def take(self, documents: "Iterable[object]") -> "Explanation":
        """Return the explanation of some of the documents, all of which are then shown."""
        rows = sorted({self._row(document) for document in documents})
        if not rows:
            raise check.error("there is nothing to explain", got="no document")
        columns = {name: getattr(self, name)[rows] for name in _COLUMNS}
        return replace(self, **columns, values=tuple(self.values[row] for row in rows), shown=len(rows))

    def document(self, document: object) -> Breakdown:
        """Return the contributions of all features to the score of one document."""
        return self._breakdown(self._row(document))

    def _breakdown(self, row: int) -> Breakdown:
        return Breakdown(
            title=f"{self.title}, {self._described(row)}",
            features=self.features,
            values={"value": self.values[row]},
            contributions=self.contributions[row],
            start=self.start,
            start_name=self.start_name,
            end=float(self.scores[row]),
            end_name="score",
            notes=self._notes([row]),
        )

    def versus(self, above: object, below: object) -> Breakdown:
        """Return why one document ranks above another: contributions of the first minus those of the second.

        They add up to the difference of the scores, exactly for trees: where scores start from is the same for both.
        """
        first, second = self._row(above), self._row(below)
        if first == second:
            raise check.error("a document does not rank above itself", got=repr(above), hint="name another one")
        one, other = (tables.shortened(str(self.documents[row])) for row in (first, second))
        if one == other:
            one, other = f"rank {self.ranks[first]}", f"rank {self.ranks[second]}"
        values = {f"value of {one}": self.values[first], f"value of {other}": self.values[second]}
        word = "above" if first < second else "below"
        return Breakdown(
            title=f"{self.title}: why {self._described(first)} ranks {word} {self._described(second)}",
            features=self.features,
            values=values,
            contributions=self.contributions[first] - self.contributions[second],
            start=float(self.scores[second]),
            start_name=f"score of {other}",
            end=float(self.scores[first]),
            end_name=f"score of {one}",
            notes=self._notes([first, second]),
        )

    def table(self, top: int = TOP) -> tables.Table:
        """Return a table of documents side by side: value and contribution of the features that add most.

        All other features are one row.
        """
        n = min(self.shown, len(self.documents))
        parts, labels = self.contributions[:n], self.labels[:n]
        chosen, digits = largest(parts, top), digits_for(parts)
        added = partial(tables.number, digits=digits, signed=True)
        room = 1 + max(len(added(part)) for part in parts.ravel())
        lines = [("document", [tables.shortened(str(document)) for document in self.documents[:n]])]
        if not np.isnan(self.labels).all():
            lines.append(("label", [tables.NOTHING if np.isnan(label) else f"{label:g}" for label in labels]))
        lines.append((self.start_name, [tables.number(self.start, digits)] * n))
        for j in chosen:
            pairs = zip((shortened_value(values[j]) for values in self.values), parts[:, j], strict=False)
            cells = [f"{value} {added(part).rjust(room)}" for value, part in pairs]
            lines.append((tables.shortened(self.features[j], 40), cells))
        rest = [added(part) for part in parts.sum(1) - parts[:, chosen].sum(1)]
        lines += [(name, rest) for name in other_features(len(self.features) - len(chosen))]
        lines.append(("score", [tables.number(score, digits) for score in self.scores[:n]]))
        more = (f"The first {n} of {len(self.documents):,} documents.",) if n < len(self.documents) else ()
        return tables.Table(
            header=("rank", *map(str, self.ranks[:n])),
            rows=tuple((name, *cells) for name, cells in lines),
            align="l" + "r" * n,
            notes=("Beside each feature: its value, and what it adds to the score.", *more, *self._notes(slice(0, n))),
        )

    def tables(self, *, top: int = TOP) -> list[tables.Table]:
        """Return the table with its title."""
        return [replace(self.table(top), title=self.title)]

    def figure(self, *, top: int = TOP) -> "Figure":
        """Draw the contributions of the largest features as bars, a panel for each document."""
        from rankwise.wings.explain.figures import documents_figure

        return documents_figure(self, top=top)

    def breakdowns(self) -> list[Breakdown]:
        """How the score of each document that is shown comes about."""
        return [self._breakdown(row) for row in range(min(self.shown, len(self.documents)))]

    def to_frame(self) -> pl.DataFrame:
        """One row per document and feature: documents best first, the features of each by size of contribution."""
        order = np.argsort(-np.abs(self.contributions), axis=1, kind="stable")
        rows = np.repeat(np.arange(len(self.documents)), len(self.features))
        columns = order.ravel()
        return pl.DataFrame(
            {
                "query": [self.query] * rows.size,
                "document": self.documents[rows],
                "rank": self.ranks[rows],
                "label": pl.Series(self.labels[rows]).fill_nan(None),
                "score": self.scores[rows],
                "feature": [self.features[j] for j in columns],
                "value": [self.values[i][j] for i, j in zip(rows, columns, strict=True)],
                "contribution": self.contributions[rows, columns],
            },
            schema_overrides={"value": pl.String},
        )

    def to_dict(self) -> Json:
        """Return everything as JSON-serializable data."""
        documents = []
        for row, document in enumerate(self.documents.tolist()):
            label = None if np.isnan(self.labels[row]) else float(self.labels[row])
            facts = {"document": document, "rank": int(self.ranks[row]), "label": label}
            documents.append(facts | {"score": float(self.scores[row]), **self._breakdown(row).contributed()})
        facts = {"query": self.query, "method": self.method, "start": self.start, "error": self.error}
        return facts | {"left_over": float(np.abs(self.left).max()), "documents": documents}

    def _described(self, row: int) -> str:
        facts = [f"rank {self.ranks[row]}", *self.label(row)]
        return f"document {self.documents[row]} ({', '.join(facts)})"

    def label(self, row: int) -> list[str]:
        """The label of a document in words; nothing where nobody judged it."""
        return [] if np.isnan(self.labels[row]) else [f"label {self.labels[row]:g}"]

    def _row(self, document: object) -> int:
        return check.member("document", document, self.documents, where=f"query {self.query!r}")

    def _notes(self, rows: "slice | list[int]") -> tuple[str, ...]:
        added = f"Contributions are {self.method} and add up to the scores (within {self.error:.0e})."
        left = float(np.abs(self.left[rows]).max())
        if left:
            added += f" The method left over {left:.2g} of a score at most, which is shared out among the features."
        return (added,)


def explain(model: FeaturePredictor, data: "ModelInput", query: object = None) -> Explanation:
    """Explain the scores that a model gives the documents of one query, by their features.

    ``data`` is a RankingDataset, or a table with query ids; labels are shown where there are some. ``query`` is the id
    of the query, or its number from 0 where there are no ids; data of a single query need none. Contributions of trees
    are SHAP values of the library and exact; those of nets are integrated gradients, and what they leave over of a
    score is in ``left``.

    >>> import rankwise as rw
    >>> data = rw.RankingDataset([[1.0], [0.0], [2.0]] * 40, [1, 0, 2] * 40, range(0, 121, 3), feature_names=["clicks"])
    >>> model = rw.LightGBMRanker("xendcg", rounds=5, leaves=3, threads=1).fit(data)
    >>> why = explain(model, data, query=7)
    >>> why.documents.tolist(), why.values[0]
    ([2, 0, 1], ('2',))
    >>> bool(np.isclose(why.versus(2, 1).contributions.sum(), why.scores[0] - why.scores[2]))
    True
    """
    if not hasattr(model, "contributions"):
        what = "scores are explained by what each feature adds to them, which only rankers of features know"
        hint = "pass a trained ranker, such as rw.LightGBMRanker"
        raise check.error(what, got=type(model).__name__, hint=hint)
    with in_from_frame():
        lists = rw.RankingDataset.from_frame(data, **model.columns_to_score()) if is_frame(data) else lists_of(data)
    ids = np.arange(lists.n_queries) if lists.query_ids is None else lists.query_ids
    if query is None and lists.n_queries != 1:
        got = tables.count(lists.n_queries, "query", "queries")
        names = ", ".join(repr(one) for one in ids[:3].tolist())
        raise check.error("one query is explained at a time", got=got, hint=f"name a query, such as {names}")
    number = 0 if query is None else check.member("query", query, ids)
    one = lists.take([number])
    contributions, scores = model.contributions(one), model.predict(one)
    gap = np.abs(contributions.parts.sum(1) - scores)
    if (gap > _NEAR * np.maximum(1.0, np.abs(contributions.parts).sum(1))).any():
        raise check.error("contributions do not add up to the scores", got=f"a difference of {gap.max():.2g}")
    order = np.argsort(-scores, kind="stable")
    documents = np.arange(one.n_docs) if one.document_ids is None else one.document_ids
    schema = contributions.schema
    return Explanation(
        query=ids[number].item(),
        documents=documents[order],
        ranks=np.arange(1, one.n_docs + 1),
        labels=(one.labels if one.judged is None else np.where(one.judged == 1, one.labels, np.nan))[order],
        scores=scores[order],
        features=tuple(schema.title(j) for j in range(schema.count)),
        values=tuple(tuple(map(schema.text, range(schema.count), row)) for row in dense(contributions.features)[order]),
        contributions=contributions.parts[order, :-1],
        start=float(contributions.parts[0, -1]),
        start_name=contributions.start,
        method=contributions.method,
        left=contributions.left[order],
    )


def largest(parts: Array, top: int) -> list[int]:
    """Numbers of the features that add most, by the mean size of what they add to these documents; zeros are left out.

    >>> largest(np.array([[0.1, -3.0, 0.0], [0.3, 2.0, 0.0]]), 2)
    [1, 0]
    """
    sizes = np.abs(parts).mean(0)
    order = np.argsort(-sizes, kind="stable")[: check.integer("top", top, least=1)]
    return [int(j) for j in order if sizes[j] > 0.0]
