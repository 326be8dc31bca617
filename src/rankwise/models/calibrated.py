"""A model with curves from its scores to probabilities."""

from collections.abc import Callable, Mapping
from typing import Any, Never

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Floats, Json, Offsets
from rankwise.base.sparse import dense
from rankwise.models.model import Model, Score
from rankwise.models.schema import Schema
from rankwise.statistics.calibration import Curve

ALL = ""
"""The name of the curve of all documents; no segment has it."""


class CalibratedModel(Model):
    """Probabilities by the curve of each document's segment, in the order of the scores of ``model``."""

    def __init__(self, model: Model, curves: Mapping[str, Curve], segments: "Segments") -> None:
        self.model, self.curves, self.segments = model, dict(curves), segments
        self.schema, self.least_code, self.needs_lists = model.schema, model.least_code, model.needs_lists
        self.kind, self.rounds, self.parts = f"{model.kind}, calibrated", model.rounds, (model,)

    @property
    def curve(self) -> Curve:
        """The one curve of a model without segments."""
        if self.segments.column is not None:
            what, got = "the curves of segments cannot be exported", f"segment={self.segments.column!r}"
            raise check.error(what, got=got, hint="export model.ranker_, or calibrate without")
        return self.curves[ALL]

    def scores(self, features: Floats, offsets: Offsets | None = None) -> Array:
        """Return the probability of each document."""
        return self.probabilities(self.model.scores(features, offsets), features, offsets)

    def probabilities(self, scores: Array, features: Floats, offsets: Offsets | None, *, known: bool = True) -> Array:
        """Return probabilities of scores, by the curve of all documents where a query has not one segment.

        Without ``offsets`` each document has the curve of its own segment; where it is not ``known`` that documents of
        several segments are of several queries, such documents are an error.
        """
        if self.segments.column is None:
            return self.curves[ALL](scores)
        names = self.segments.of(features)
        if offsets is None and not known and (names != names[0]).any():
            raise check.error(
                "documents of several segments are of one query or of several, which have other curves",
                got=f"{names[0]!r} and {names[names != names[0]][0]!r} of {self.segments.column!r}",
                hint="pass a RankingDataset, or tell queries apart: scorer(features, offsets), [0, n] for one query",
            )
        if offsets is not None:
            sizes = np.diff(offsets)
            differs = names != np.repeat(names[offsets[:-1]], sizes)
            names[np.repeat(np.add.reduceat(differs, offsets[:-1], dtype=np.int64) > 0, sizes)] = ALL
        result = np.empty(scores.size)
        for name in set(names):
            result[names == name] = self.curves.get(name, self.curves[ALL])(scores[names == name])
        return result

    def contributions(self, features: Floats, offsets: Offsets | None = None) -> Never:
        """Raise: contributions of features add up to scores, and not to probabilities."""
        raise check.error("contributions add up to scores, and not to probabilities", hint="explain model.ranker_")

    def serving(self) -> Score:
        """Return the curves behind what serves the model."""
        raw = self.model.serving()
        return lambda documents, offsets: self.probabilities(raw(documents, offsets), documents, offsets, known=False)

    def files(self) -> dict[str, bytes]:
        """Return the files of the model."""
        return self.model.files()

    def description(self) -> Json:
        """Return nothing: the ranker keeps the curves beside the model."""
        return {}


class Segments:
    """The segments of documents: values of one column, by its name or number, or all documents where it is None."""

    def __init__(self, schema: Schema, column: str | int | None) -> None:
        self.schema, self.column = schema, column

    def of(self, features: Floats) -> Any:
        """Return the name of each document's segment."""
        if self.column is None:
            return np.full(features.shape[0], ALL)
        from rankwise.data.segments import of_documents

        number, named = self._named()
        return of_documents(dense(features[:, [number]])[:, 0], named)

    def possible(self) -> set[str] | None:
        """Return the names that segments may have; None where any number may be one."""
        if self.column is None:
            return set()
        number, named = self._named()
        codes = (*range(len(self.schema.categories.get(number, ()))), np.nan)
        return {named(code) for code in codes} if len(codes) > 1 else None

    def _named(self) -> tuple[int, Callable[[float], str]]:
        """Return the column of segments, and what names them: no two values alike, nor one like all documents."""
        column = 0 if self.column is None else self.column
        number = self.schema.column("segment", column, hint="pass its number")
        from rankwise.data.segments import naming

        return number, naming(self.schema.categories.get(number, ()))


def knots(curves: Mapping[str, Curve]) -> dict[str, list[list[float]]]:
    """Return curves as plain data: scores, log odds, and the slope outside of them."""
    return {name: [curve.scores.tolist(), curve.log_odds.tolist(), [curve.outer]] for name, curve in curves.items()}


def curves_of(knots: Mapping[str, list[list[float]]], segments: Segments) -> dict[str, Curve]:
    """Read what :func:`knots` returned; raise if a file holds curves that segments do not have."""
    possible = segments.possible()
    if not {ALL} <= set(knots) <= {ALL, *(knots if possible is None else possible)}:
        hint = "get the folder again, or train anew"
        raise check.error("the model is damaged", got=f"curves of {', '.join(map(repr, knots))}", hint=hint)
    return {name: Curve(np.array(scores), np.array(odds), *outer) for name, (scores, odds, outer) in knots.items()}
