"""Reliability: how often documents are relevant, beside the probabilities that were predicted."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankwise import check, moved
from rankwise.base import tables
from rankwise.base.arrays import Array, Json
from rankwise.base.stream import Stream
from rankwise.data.columns import labels_of
from rankwise.statistics.figures.drawing import BLUE, GREY, canvas
from rankwise.statistics.result import Result, plain
from rankwise.statistics.significance import FEWEST

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from rankwise.statistics.evaluation import Evaluation


MAIN = "labels"
"""What the labels without a name are called where one is asked for."""


class Event(NamedTuple):
    """What a probability is of: that a label, by name, is at least ``relevant``."""

    label: str = MAIN
    relevant: float = 1.0

    def of(self, labels: Array, more_labels: Mapping[str, Array] | None) -> Array:
        """Return 1.0 for each document where it happened, and 0.0 for others."""
        named = self.label != MAIN or MAIN in (more_labels or {})
        chosen = labels_of(self.label, more_labels) if named else labels
        return np.asarray(chosen >= self.relevant, np.float64)

    def __str__(self) -> str:
        return f"{self.label} of at least {self.relevant:g}"


@dataclass(frozen=True, eq=False)
class Gaps:
    """Differences of observed and predicted relevance by bin, with their covariance over queries."""

    values: Array
    shares: Array
    """The share of documents of each bin."""
    covariance: Array
    freedom: int

    @classmethod
    def between(cls, predicted: Array, observed: Array, mass: Array, worth: Array) -> Self:
        """Return the gaps of (n_queries, n_bins) sums, of bins that are ``worth`` as many documents of equal weight.

        Documents of a query may depend on each other in any way. The variance of a bin is at least that of independent
        documents with the predicted probabilities: few relevant documents, or none, would otherwise look certain.
        """
        documents, n = mass.sum(0), int((mass.sum(1) > 0.0).sum())
        values, rates = (observed - predicted).sum(0) / documents, predicted.sum(0) / documents
        residuals = (observed - predicted - values * mass) / documents
        covariance = residuals.T @ residuals * (n / max(n - 1, 1))
        lacking = (rates * (1.0 - rates) / worth - np.diag(covariance)).clip(min=0.0)
        return cls(values, documents / documents.sum(), covariance + np.diag(lacking), n - 1)

    @property
    def error(self) -> float:
        """The mean of absolute gaps."""
        return float(self.shares @ np.abs(self.values))

    @property
    def root_mean_square(self) -> float:
        """The root of the mean of squared gaps less their variance, at least 0."""
        return math.sqrt(max(float(self.shares @ (self.values**2 - np.diag(self.covariance))), 0.0))

    def interval(self, level: float, uniforms: Array) -> tuple[tuple[float, float], float]:
        """Return the interval of the error, by inversion of tests, and the error that chance alone makes.

        Noise of the gaps is drawn from Student's distribution with their covariance. An error is too small where it and
        the noise, which adds at most the mean of its absolute values, reach the observed error in less than half of
        1 − ``level``. It is too large where so little is observed in less than that, with gaps in proportion to
        the noise of their bins, to which noise adds least, and signs that make this most frequent: all alike, or those
        observed. Less than the median of chance is luck, and counts as that: the interval is never [0, 0].
        """
        from scipy.special import chdtri, ndtri

        tail, observed, freedom = (1.0 - level) / 2.0, self.error, max(self.freedom, 1)
        sizes, axes = np.linalg.eigh(self.covariance)
        noise = ndtri(uniforms[:, 1:]) @ (axes * np.sqrt(sizes.clip(min=0.0))).T
        noise *= np.sqrt(freedom / chdtri(freedom, uniforms[:, :1]))
        chance = np.abs(noise) @ self.shares
        most = float(np.quantile(chance, 1.0 - tail))
        if self.freedom < FEWEST - 1 or most == 0.0:  # nothing varies where all probabilities are 0 or 1, and right
            return ((math.nan, math.nan) if most or observed else (0.0, 0.0)), float(chance.mean())
        spread = np.sqrt(np.diag(self.covariance))
        spread /= self.shares @ spread
        reached, high = max(observed, float(np.median(chance))), 0.0
        for signs in (np.sign(self.values), 1.0, -1.0):
            low, above = high, reached + most
            for _ in range(30):
                middle = 0.5 * (low + above)
                as_little = (np.abs(noise + middle * signs * spread) @ self.shares <= reached).mean()
                low, above = (middle, above) if as_little >= tail else (low, middle)
            high = max(high, low)
        return (max(observed - most, 0.0), min(high, 1.0)), float(chance.mean())


def _intervals(rates: Array, relevance: Array, mass: Array, worth: Array, level: float) -> Array:
    """Return the ends of Wilson's interval of each bin, with Student's quantiles.

    Documents count as many as independent ones would with the variance over queries; where all are relevant or none,
    which shows no variance, each query counts as one document.
    """
    from scipy.special import stdtrit

    queries = mass.sum(0) ** 2 / (mass**2).sum(0)
    variance = (((relevance - rates * mass) / mass.sum(0)) ** 2).sum(0) * queries / np.maximum(queries - 1.0, 0.5)
    of_one = rates * (1.0 - rates)
    independent = np.where(variance > 0.0, np.minimum(of_one / np.where(variance > 0.0, variance, 1.0), worth), queries)
    z = stdtrit(np.maximum(queries - 1.0, 1.0), 0.5 + level / 2.0) ** 2 / independent
    middle, half = rates + z / 2.0, np.sqrt(z * of_one + z**2 / 4.0)
    return np.array([((middle - half) / (1.0 + z)).clip(min=0.0), ((middle + half) / (1.0 + z)).clip(max=1.0)])


@moved.renamed("rw.results.Reliability")
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Reliability(Result):
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
    """The lower ends of intervals of ``observed``: Wilson's, with the variance over queries."""
    high: Array
    documents: NDArray[np.int64]
    """The number of documents of each bin."""
    error: float
    """The calibration error (ECE): the mean of \\|predicted − observed\\| over bins, weighted by documents."""
    interval: tuple[float, float]
    """The interval of the error of all queries, of which these are a sample: errors with which this one, and the chance
    in it, could have been observed. ``error`` may lie above, as chance only adds to it."""
    by_chance: float
    """The error that a perfectly calibrated model would have on so many queries, about."""
    root_mean_square: float
    """The root of the mean of (predicted − observed)² over bins, less what chance adds, at least 0."""
    brier: float
    """The mean of (probability − relevance)²."""
    level: float
    event: Event
    """What was counted as relevant."""
    predicts: Event
    """What the probabilities are of, by the model; ``event`` of scores that no model says that of."""

    @classmethod
    def of(
        cls, evaluation: "Evaluation", *, label: str | None = None, relevant: float | None = None, bins: int = 15
    ) -> Self:
        """Compare the scores of an evaluation, which must be probabilities, with its labels."""
        ranked = evaluation.ranked
        if ranked is None:
            raise check.error("documents are not kept in this evaluation", hint="evaluate a model or scores")
        p = ranked.scores
        if not ((p >= 0.0) & (p <= 1.0)).all():
            hint = "evaluate rw.calibrate(model, data), or a model trained with calibrated as "
            hint += "rw.calibrate(model, method='sigmoid')"
            got = f"scores from {p.min():.4g} to {p.max():.4g}"
            raise check.error("reliability is that of probabilities", got=got, hint=hint)
        known = ranked.predicts or Event()
        threshold = known.relevant if relevant is None else check.number("relevant", relevant)
        event = Event(known.label if label is None else label, threshold)
        n_queries = ranked.offsets.size - 1
        weights = evaluation.query_weights
        query = np.repeat(np.arange(n_queries), np.diff(ranked.offsets))
        counted = weights[query] > 0.0
        y = event.of(ranked.labels, ranked.more_labels)[counted]
        p, query = p[counted], query[counted]
        inner = np.unique(np.quantile(p, np.arange(1, check.integer("bins", bins, least=2)) / bins))
        place = np.searchsorted(inner, p, side="left")  # equal probabilities are in one bin
        _, place = np.unique(place, return_inverse=True)
        n_bins = int(place.max()) + 1
        cells = query * n_bins + place

        def sums(values: Array) -> Array:
            """Return (n_queries, n_bins) weighted sums."""
            return np.bincount(cells, values, n_queries * n_bins).reshape(n_queries, n_bins) * weights[:, None]

        mass, relevance = sums(np.ones(p.size)), sums(y)
        worth = mass.sum(0) ** 2 / (mass * weights[:, None]).sum(0)
        gaps = Gaps.between(sums(p), relevance, mass, worth)
        rates = relevance.sum(0) / mass.sum(0)
        stream = Stream(evaluation.seed).child("calibration_error")
        interval, by_chance = gaps.interval(evaluation.level, stream.per_query(evaluation.resamples, n_bins + 1))
        low, high = _intervals(rates, relevance, mass, worth, evaluation.level)
        return cls(
            predicted=rates - gaps.values,
            observed=rates,
            low=low,
            high=high,
            documents=np.bincount(place),
            error=gaps.error,
            interval=interval,
            by_chance=by_chance,
            root_mean_square=gaps.root_mean_square,
            brier=float(np.average((p - y) ** 2, weights=weights[query])),
            level=evaluation.level,
            event=event,
            predicts=ranked.predicts or event,
        )

    def to_frame(self) -> "pl.DataFrame":
        """One row per bin: mean probability, share of relevant documents, ends of its interval, documents."""
        import polars as pl

        names = "predicted", "observed", "low", "high", "documents"
        return pl.DataFrame({name: getattr(self, name) for name in names})

    def to_dict(self) -> Json:
        """Return the errors and the bins as JSON-serializable data."""
        errors: Json = {"error": self.error, "interval": plain(self.interval), "by_chance": self.by_chance}
        errors["root_mean_square"] = self.root_mean_square
        errors |= {"label": self.event.label, "relevant": self.event.relevant}
        return {**errors, "brier": self.brier, "confidence": self.level, "bins": self.to_frame().to_dicts()}

    def table(self) -> tables.Table:
        """Return the bins as a table, with the calibration error below."""
        header = ("probability", "observed", f"{100 * self.level:g}% interval", "documents")
        columns = zip(self.predicted, self.observed, self.low, self.high, self.documents, strict=True)
        rows = tuple(
            (tables.number(p), tables.number(y), tables.interval(low, high), f"{n:,}") for p, y, low, high, n in columns
        )
        notes = [self.sentence]
        if self.event != Event() or self.predicts != Event():
            notes.append(f"Observed: {self.event}.")
            if self.predicts != self.event:
                notes[-1] += f" These are probabilities of another event: {self.predicts}."
        return tables.Table(header=header, rows=rows, align="rrlr", notes=tuple(notes))

    @property
    def sentence(self) -> str:
        """The calibration error, with what its interval says."""
        numbers = self.error, self.by_chance, self.brier, self.root_mean_square
        error, chance, brier, square = map(tables.number, numbers)
        level = f"({100 * self.level:g}%)"
        note = f"Calibration error {error}; a perfectly calibrated model would have about {chance} by chance. "
        if math.isnan(self.interval[1]):
            note += f"Fewer than {FEWEST} queries: no interval."
        elif self.interval[0] > 0.0:
            note += f"More than chance: the error is in {tables.interval(*self.interval)} {level}."
        else:
            note += f"Chance may be all of it: the error is at most {tables.number(self.interval[1])} {level}."
        return f"{note} Root mean square without chance {square}. Brier score {brier}."

    def figure(self, *, title: str = "") -> "Figure":
        """Draw the share of relevant documents by probability, with intervals."""
        with canvas(4.8, 4.6) as drawing:
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
        return drawing
