"""The result of an evaluation with human labels and a judge: means or differences, corrected, with intervals."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankwise import moved
from rankwise.base import tables
from rankwise.base.arrays import Json
from rankwise.statistics import Result
from rankwise.wings.judging.prediction_powered import JudgedMean

if TYPE_CHECKING:
    import polars as pl

_UNITS = {"query": ("labelled query", "labelled queries"), "document": ("judgement", "judgements")}


@moved.renamed("rw.results.JudgedEvaluation")
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class JudgedEvaluation(Result):
    """Made by :func:`rankwise.evaluate` and :func:`rankwise.compare` with ``judge=``."""

    means: tuple[JudgedMean, ...]
    unit: str
    """What was labelled: "query", or "document"."""
    n_queries: int
    level: float
    notes: tuple[str, ...]
    """What the numbers rest on, and what was left out."""

    @property
    def sentence(self) -> str:
        """What the labels are worth, and what the judge alone says, for the first mean or difference."""
        return self.sentence_of(self.means[0])

    def sentence_of(self, mean: JudgedMean) -> str:
        """Return in words what the labels are worth, and what the judge alone says."""
        signed = mean.against is not None
        labels = tables.count(mean.labels, *_UNITS[self.unit])
        worth = "" if mean.worth is None else f", worth {mean.worth:,.0f} without the judge"
        judge, value = (tables.number(one, 3, signed=signed) for one in (mean.judge, mean.value))
        interval = tables.interval(mean.low, mean.high, 3, signed=signed)
        what = "difference" if signed else "mean"
        return f"{labels}{worth}; the judge alone says {judge}, the corrected {what} is {value} {interval}."

    def table(self) -> tables.Table:
        """Return a row for each mean or difference, with what the numbers rest on below."""
        signed = any(one.against is not None for one in self.means)
        named = signed or len({one.system for one in self.means}) > 1
        header = ["metric", *["system"] * named, *["against"] * signed, "difference" if signed else "mean"]
        header += [f"{100 * self.level:g}% interval", "these queries", "judge alone", *["p adjusted"] * signed]
        rows = []
        for one in self.means:
            ends = (one.low, one.high), (one.fixed_low, one.fixed_high)
            row = [one.metric, *[one.system] * named, *[str(one.against)] * signed]
            row += [tables.number(one.value, signed=signed), *(tables.interval(*both, signed=signed) for both in ends)]
            row += [tables.number(one.judge, signed=signed)]
            row += [tables.probability(math.nan if one.p is None else one.p)] * signed
            rows.append((*row, f"{one.labels:,}", tables.NOTHING if one.worth is None else f"{one.worth:,.0f}"))
        queries = tables.count(self.n_queries, "query", "queries")
        basis = f"The interval is for queries of which these {queries} are a sample; 'these queries' for exactly these."
        sentence = (self.sentence,) if len(self.means) == 1 else ()
        return tables.Table(
            header=(*header, _UNITS[self.unit][1], "worth"),
            rows=tuple(rows),
            align="l" * (1 + named + signed) + "rllr" + "r" * signed + "rr",
            notes=(*sentence, basis, *self.notes),
        )

    def to_frame(self) -> "pl.DataFrame":
        """Return a row for each mean or difference, with the fields of :class:`JudgedMean`."""
        import polars as pl

        return pl.DataFrame([one._asdict() for one in self.means], schema_overrides={"worth": pl.Float64})

    def to_dict(self) -> Json:
        """Return everything as plain data that JSON can hold."""
        facts = {"unit": self.unit, "queries": self.n_queries, "confidence": self.level}
        return facts | {"means": [one._asdict() for one in self.means], "notes": list(self.notes)}
