"""Reliability: how often documents are relevant, beside the probabilities that were predicted."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.arrays import Array, Json
from rankwise.statistics import tables
from rankwise.statistics.figures.comparisons import BLUE, GREY, figure

if TYPE_CHECKING:
    import polars as pl

    from rankwise.statistics.evaluation import Evaluation


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Reliability:
    """Probabilities and labels in bins of about as many documents each; made by ``Evaluation.reliability``.

    >>> import rankwise as rw
    >>> labels = np.arange(40) % 2
    >>> data = rw.RankingDataset(np.zeros((40, 1)), labels, np.arange(0, 41, 2))
    >>> reliability = rw.evaluate(np.where(labels > 0, 0.6, 0.2), data).reliability()
    >>> reliability.observed, round(reliability.error, 4)  # half of |0.2 − 0| + |0.6 − 1|
    (array([0., 1.]), 0.3)
    """

    predicted: Array
    """The mean probability of each bin; bins are in ascending order."""
    observed: Array
    """The share of relevant documents in each bin."""
    low: Array
    """The lower ends of intervals of ``observed``, by bootstrap over queries."""
    high: Array
    documents: NDArray[np.int64]
    """The number of documents of each bin."""
    error: float
    """The calibration error (ECE): the mean of \\|predicted − observed\\| over bins, weighted by documents."""
    interval: tuple[float, float]
    """The interval of the error without what chance adds to it, by bootstrap over queries; ``error`` may lie above."""
    by_chance: float
    """The error that a perfectly calibrated model would have on so many queries, about."""
    brier: float
    """The mean of (probability − relevance)²."""
    confidence: float

    @classmethod
    def of(cls, evaluation: "Evaluation", *, relevant: float = 1.0, bins: int = 15) -> Self:
        """Compare the scores of an evaluation, which must be probabilities, with its labels."""
        ranked = evaluation.ranked
        if ranked is None:
            raise check.error("documents are not kept in this evaluation", hint="evaluate a model or scores")
        p = ranked.scores
        if not ((p >= 0.0) & (p <= 1.0)).all():
            raise check.error(
                "reliability is that of probabilities",
                got=f"scores from {p.min():.4g} to {p.max():.4g}",
                hint="evaluate rw.calibrate(model, data), or a model trained with calibrated as "
                "rw.calibrate(model, method='sigmoid')",
            )
        n_queries = ranked.offsets.size - 1
        weights = np.ones(n_queries) if evaluation.weights is None else evaluation.weights
        query = np.repeat(np.arange(n_queries), np.diff(ranked.offsets))
        counted = weights[query] > 0.0
        p, labels, query = p[counted], ranked.labels[counted], query[counted]
        inner = np.unique(np.quantile(p, np.arange(1, check.integer("bins", bins, least=2)) / bins))
        place = np.searchsorted(inner, p, side="left")  # equal probabilities are in one bin
        y = (labels >= check.number("relevant", relevant)).astype(np.float64)
        _, place = np.unique(place, return_inverse=True)
        n_bins = int(place.max()) + 1
        cells = query * n_bins + place

        def sums(values: Array) -> Array:
            """Return (n_queries, n_bins) weighted sums."""
            return np.bincount(cells, values, n_queries * n_bins).reshape(n_queries, n_bins) * weights[:, None]

        mass, predicted, observed = sums(np.ones(p.size)), sums(p), sums(y)
        total = np.repeat(mass.sum(1, keepdims=True), n_bins, 1)
        products, shares = np.hstack([observed, observed - predicted, mass]), np.hstack([mass, mass, total])
        ratios = evaluation.resampled_ratios(products, shares).reshape(-1, 3, n_bins)
        drawn = np.nan_to_num(ratios)  # a bin without documents adds nothing to the error
        rates, gaps, parts = products.sum(0).reshape(3, n_bins) / shares.sum(0).reshape(3, n_bins)
        error = float(parts @ np.abs(gaps))
        tail = (1.0 - evaluation.confidence) / 2.0
        # Noise makes |gaps| larger, and resampling adds noise once more: what it adds is taken off. It starts from gaps
        # of 0 where chance alone explains the error.
        chance = (np.abs(drawn[:, 1] - gaps) * drawn[:, 2]).sum(1)
        centre = gaps * float(error > np.quantile(chance, 1.0 - tail))
        excess = (np.abs(drawn[:, 1] - gaps + centre) * drawn[:, 2]).sum(1) - parts @ np.abs(centre)
        highest, lowest = error - np.quantile(excess, [tail, 1.0 - tail])
        low, high = np.nanquantile(ratios[:, 0], [tail, 1.0 - tail], axis=0)
        return cls(
            predicted=rates - gaps,
            observed=rates,
            low=low,
            high=high,
            documents=np.bincount(place),
            error=error,
            interval=(max(float(lowest), 0.0), max(float(highest), 0.0)),
            by_chance=float(chance.mean()),
            brier=float(np.average((p - y) ** 2, weights=weights[query])),
            confidence=evaluation.confidence,
        )

    def to_frame(self) -> "pl.DataFrame":
        """One row per bin: mean probability, share of relevant documents, ends of its interval, documents."""
        import polars as pl

        return pl.DataFrame(
            {name: getattr(self, name) for name in ("predicted", "observed", "low", "high", "documents")}
        )

    def to_dict(self) -> Json:
        """Return the errors and the bins as JSON-serializable data."""
        errors: Json = {"error": self.error, "interval": list(self.interval), "by_chance": self.by_chance}
        return {**errors, "brier": self.brier, "confidence": self.confidence, "bins": self.to_frame().to_dicts()}

    def table(self) -> tables.Table:
        """Return the bins as a table, with the calibration error below."""
        header = ("probability", "observed", f"{100 * self.confidence:g}% interval", "documents")
        columns = zip(self.predicted, self.observed, self.low, self.high, self.documents, strict=True)
        rows = tuple(
            (tables.number(p), tables.number(y), tables.interval(low, high), f"{n:,}") for p, y, low, high, n in columns
        )
        error, chance, brier = (tables.number(value) for value in (self.error, self.by_chance, self.brier))
        note = f"Calibration error {error}; a perfectly calibrated model would have about {chance} by chance. Without "
        note += f"chance {tables.interval(*self.interval)} ({100 * self.confidence:g}%). Brier score {brier}."
        return tables.Table(header=header, rows=rows, align="rrlr", notes=(note,))

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()

    def plot(self, path: str | Path, *, title: str = "", force: bool = False) -> Path:
        """Draw the share of relevant documents by probability, with intervals: .png, .svg or .pdf."""
        with figure(path, 4.8, 4.6, force=force) as drawing:
            panel = drawing.subplots()
            top = 1.05 * max(float(self.high.max()), float(self.predicted.max()))
            panel.plot([0, top], [0, top], "--", color=GREY, linewidth=1)
            panel.vlines(self.predicted, self.low, self.high, color=BLUE, linewidth=1.2)
            panel.plot(self.predicted, self.observed, "o-", color=BLUE, markersize=4.5, linewidth=1.2)
            panel.set_xlim(0, top)
            panel.set_ylim(0, top)
            panel.set_aspect("equal")
            panel.set_xlabel("mean probability of a bin (dashed: perfectly calibrated)")
            panel.set_ylabel("share of relevant documents")
            error, chance = (tables.number(value, 3) for value in (self.error, self.by_chance))
            heading = f"calibration error {error}, by chance {chance}"
            panel.set_title(f"{title}\n{heading}" if title else heading, loc="left", fontweight="bold")
        return Path(path)
