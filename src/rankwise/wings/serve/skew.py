"""Training-serving skew: how features differ between the data of training and those that were logged in serving."""

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import polars as pl

from rankwise import Metric, RankingDataset, check, moved
from rankwise import metric as find_metric
from rankwise.base import tables
from rankwise.base.arrays import Array, Json, Offsets, index_of, rows_of
from rankwise.check.docstrings import plain_signature
from rankwise.check.parameters import Option, Within
from rankwise.evaluation import Scored, scores_of
from rankwise.metrics import MetricLike
from rankwise.models import ModelInput, Schema
from rankwise.quality.features import sample
from rankwise.quality.findings import document_keys
from rankwise.rankers import fit_arguments
from rankwise.statistics import FEWEST, Result, weighted_mean
from rankwise.statistics.significance import interval_of_mean

_MEASURED = 200_000  # documents by which distributions are compared
_DECILES = np.arange(0.1, 0.95, 0.1)
_LARGE = 0.25  # of an index, beyond what chance makes: often called a large shift
_CHANCE = 0.01  # of a false alarm in one of all features


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class FeatureComparison(Result):
    """Differences of features between training and serving; printed, a table with the largest first."""

    frame: pl.DataFrame
    """One row for each feature: psi, psi_levels, missing_train, missing_served, and with a model loss, low and high."""
    metric: str | None
    """What ``loss`` is lost of, in the mean."""
    notes: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()
    """What is too different: features with an index of 0.25 more than chance makes, and a loss that is surely one."""

    def table(self, top: int = 20) -> tables.Table:
        """Return a table of the first features."""
        columns = ("feature", "PSI in queries", "PSI of levels", "missing in train", "in served")
        lost = () if self.metric is None else (f"{self.metric} lost", "interval")
        rows = []
        for row in self.frame.head(check.integer("top", top, least=1)).iter_rows(named=True):
            numbers = [tables.number(row[name], 3) for name in ("psi", "psi_levels")]
            shares = [f"{row[name]:.1%}" for name in ("missing_train", "missing_served")]
            more = [tables.number(row["loss"]), tables.interval(row["low"], row["high"])] if lost else []
            rows.append((tables.shortened(row["feature"], 40), *numbers, *shares, *more))
        header, rest = (*columns, *lost), self.frame.height - len(rows)
        notes = (*([f"… and {tables.count(rest, 'more feature')}."] if rest else []), *self.notes)
        return tables.Table(header=header, rows=tuple(rows), align="l" + "r" * (len(header) - 1), notes=notes)

    @property
    def sentence(self) -> str:
        """What is too different; empty where nothing is."""
        return f"{'; '.join(self.alarms)}." if self.alarms else ""

    def to_frame(self) -> pl.DataFrame:
        """Return one row for each feature, the largest difference first."""
        return self.frame

    def to_dict(self) -> Json:
        """Return everything as JSON-serializable data."""
        return {
            "metric": self.metric,
            "notes": list(self.notes),
            "alarms": list(self.alarms),
            "features": self.frame.fill_nan(None).to_dicts(),
        }


@moved.renamed("rw.data.compare_features")
@plain_signature
def compare_features(
    train: ModelInput,
    served: ModelInput,
    model: Scored | None = None,
    *,
    metric: Annotated[MetricLike, "What is measured with a model.", Option(metavar="METRIC")] = "ndcg@10",
    level: Annotated[float, Within(0, 1, open=True), "Confidence level.", Option(metavar="LEVEL")] = 0.95,
) -> FeatureComparison:
    """Compare features of training data with those logged in serving, by name: training-serving skew in one table.

    The population stability index, Σ (p − q)·log(p/q) over deciles of the training data, is computed of values less
    the median of their query, and of these medians. The first tells differences within queries, which rank documents,
    from other queries being asked; the second sees offsets too. Of categories it is the index of their shares. A
    feature that the served data do not have is missing there in all documents.

    With a ``model`` (anything that :func:`evaluate` takes) it is also measured what ``metric`` loses where a feature of
    the training data is replaced by the served one, in documents that both have, by the ids of queries and documents;
    the interval is Student's over queries, and allows for losses that were not seen where all are the same. Features
    come by this loss then; else by the largest of both indices and the difference of missing shares, after those that
    only one of the two has.

    ``alarms`` are sentences about differences that are too large: an index that exceeds by 0.25 what chance makes, also
    that of the shares of missing values, and with a model a loss with all features swapped whose interval is above 0.

    >>> import rankwise as rw
    >>> train = rw.synthetic(n_queries=80, n_features=3, n_docs=20, seed=1)
    >>> train = train.with_(feature_names=["bm25", "clicks", "age"])
    >>> served = train.with_(features=train.features * np.float32([1, 1, 60]))  # hours became minutes
    >>> compared = rw.data.compare_features(train, served)
    >>> compared.frame["feature"].to_list(), compared.frame["psi"][0] > 0.25, compared.frame["psi"][1]
    (['age', 'bm25', 'clicks'], True, 0.0)
    """
    chosen, trained = find_metric(metric), fit_arguments.dataset(train)
    logged, extra = _aligned(fit_arguments.dataset(served), trained)
    schema, rows = Schema.of(trained), []
    samples = sample(trained, _MEASURED), sample(logged, _MEASURED)
    for column in range(trained.n_features):
        values = [one.features[:, column].astype(np.float64) for one in samples]
        psi, levels = _index(*values), np.nan  # of the shares of categories
        if column not in trained.categorical:
            parts = (_by_query(one, data.offsets) for one, data in zip(values, samples, strict=True))
            psi, levels = (_index(*pair) for pair in zip(*parts, strict=True))
        rows.append((schema.title(column), psi, levels, *(float(np.isnan(one).mean()) for one in values)))
    names = ["feature", "psi", "psi_levels", "missing_train", "missing_served"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    chance = 9.0 * sum(1.0 / one.n_docs for one in samples)  # of ten bins
    levels = 9.0 * sum(1.0 / one.n_queries for one in samples)
    notes = [
        f"Chance makes a PSI of about {chance:.3f} in queries and {levels:.3f} of levels; 0.1 more is often called a "
        "moderate shift, and 0.25 a large one."
    ]
    alarms = _alarms(frame, *((one.n_docs, one.n_queries) for one in samples))
    if extra:
        notes.append(f"Only the served data have {', '.join(extra[:5])}{' and others' if len(extra) > 5 else ''}.")
    if model is None:
        unlike = (pl.col("missing_train") - pl.col("missing_served")).abs()
        absent = pl.when(unlike == 1.0).then(np.inf)  # there is no index of a feature that one of them does not have
        largest = pl.max_horizontal(absent, unlike, pl.col("psi", "psi_levels").fill_nan(None))
        frame = frame.sort(largest, descending=True, maintain_order=True)
        return FeatureComparison(frame=frame, metric=None, notes=tuple(notes), alarms=tuple(alarms))
    losses, matched = _losses(model, trained, logged, chosen, level)
    frame = frame.with_columns(pl.DataFrame(losses[:-1], schema=["loss", "low", "high"], orient="row"))
    mean, low, high = losses[-1]
    notes.append(f"All features swapped: {chosen} loses {tables.number(mean)} {tables.interval(low, high)}. {matched}")
    if low > 0.0:
        alarms.append(f"{chosen} loses {tables.number(mean)} {tables.interval(low, high)} by the served features")
    frame = frame.sort("loss", descending=True, maintain_order=True)
    return FeatureComparison(frame=frame, metric=str(chosen), notes=tuple(notes), alarms=tuple(alarms))


def _alarms(frame: pl.DataFrame, train: tuple[int, int], served: tuple[int, int]) -> list[str]:
    """Return which features differ too much, of samples with these numbers of documents and queries.

    Chance counts queries, since documents of one are alike, and twice what chi-squared says, since small samples have
    longer tails.
    """
    from scipy.special import chdtri

    twice = 2.0 * (1.0 / train[1] + 1.0 / served[1])
    share = _CHANCE / (3 * frame.height)
    deciles, missing = twice * chdtri(9, share), twice * chdtri(1, share)
    alarms = []
    for row in frame.iter_rows(named=True):
        p, q = ((row[f"missing_{one}"] * n + 0.5) / (n + 1) for one, n in (("train", train[0]), ("served", served[0])))
        of_missing = (p - q) * np.log(p / q) + ((1 - p) - (1 - q)) * np.log((1 - p) / (1 - q))
        for what, index, most in (
            ("in queries", row["psi"], deciles),
            ("of levels", row["psi_levels"], deciles),
            ("of missing values", of_missing, missing),
        ):
            if index > most + _LARGE:  # NaN is not
                alarms.append(
                    f"{row['feature']}: PSI {what} {tables.number(index, 3)}, chance makes {most:.3f} at most"
                )
    return alarms


def _aligned(served: RankingDataset, train: RankingDataset) -> tuple[RankingDataset, list[str]]:
    """Return the served data with the columns of the training data, NaN where they have none, and further names."""
    for data in (train, served):
        check.dense_features(data.features, "a comparison of features", "")
        if not data.n_docs:
            raise check.error("data must have documents", got="none")
    ours, theirs = train.feature_names, served.feature_names
    schema, served = Schema.of(train.with_(init_scores=None)), served.with_(init_scores=None)
    if ours is None or theirs is None:
        return schema.align(served), []
    absent = [name for name in ours if name not in theirs]
    if len(absent) == len(ours):
        hint = "rename the features of one of them"
        raise check.error("training and served data share no feature", got=f"{ours[0]!r} and {theirs[0]!r}", hint=hint)
    empty = np.full((served.n_docs, len(absent)), np.nan, np.float32)
    complete = served.with_(features=np.hstack([served.features, empty]), feature_names=[*theirs, *absent])
    return schema.align(complete), [name for name in theirs if name not in ours]


def _by_query(values: Array, offsets: Offsets) -> tuple[Array, Array]:
    """Return values less the median of their query, NaN of a single value, and the medians, NaN of none."""
    query = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    ordered = values[np.lexsort((values, query))]  # missing ones last
    counts = np.bincount(query[~np.isnan(values)], minlength=offsets.size - 1)
    low, high = offsets[:-1] + np.maximum(counts - 1, 0) // 2, offsets[:-1] + counts // 2
    medians = np.where(counts > 0, 0.5 * ordered[low] + 0.5 * ordered[high], np.nan)
    return np.where(counts[query] > 1, values - medians[query], np.nan), medians


def _index(train: Array, served: Array) -> float:
    """Return the population stability index over deciles; values that are a decile themselves are bins of their own."""
    train, served = train[~np.isnan(train)], served[~np.isnan(served)]
    if not train.size or not served.size:
        return np.nan
    edges = np.unique(np.quantile(train, _DECILES, method="lower"))
    bins = (np.searchsorted(edges, one, "left") + np.searchsorted(edges, one, "right") for one in (train, served))
    p, q = (np.bincount(one, minlength=2 * edges.size + 1) + 0.5 for one in bins)
    p, q = p / p.sum(), q / q.sum()
    return float(((p - q) * np.log(p / q)).sum())


def _losses(
    model: Scored, train: RankingDataset, served: RankingDataset, metric: Metric, level: float
) -> tuple[list[tuple[float, float, float]], str]:
    """Return the mean loss and its interval for each feature and then for all, and a sentence on what was matched."""
    place = _matches(train, served)
    queries = np.flatnonzero(np.add.reduceat(place >= 0, train.offsets[:-1]))
    part, rows = train.take(queries), place[rows_of(queries, train.offsets)[0]]
    both, features = rows >= 0, np.array(part.features)
    theirs = served.features[rows[both]]
    values = metric.of(scores_of(model, part), part)
    losses, span = [], metric.bounds[1] - metric.bounds[0]
    for columns in [*(slice(column, column + 1) for column in range(train.n_features)), slice(None)]:
        swapped = features.copy()
        swapped[both, columns] = theirs[:, columns]
        if np.array_equal(swapped, features, equal_nan=True):
            losses.append((0.0, 0.0, 0.0))
            continue
        lost = values - metric.of(scores_of(model, part.with_(features=swapped)), part)
        scored = ~np.isnan(lost)
        if scored.sum() < FEWEST:
            hint = "log more queries of the training data"
            raise check.error(f"{metric} must score {FEWEST} queries that both have", got=int(scored.sum()), hint=hint)
        units = lost[scored], None if part.weights is None else part.weights[scored]
        ends = interval_of_mean(*units, bounds=(-span, span), level=level)
        losses.append((weighted_mean(*units), *ends))
    count = tables.count(part.n_queries, "query", "queries")
    return losses, f"Swapped in {tables.count(int(both.sum()), 'document')} of {count} that both have."


def _matches(train: RankingDataset, served: RankingDataset) -> Offsets:
    """Return the row of each training document in the served data, by ids; −1 where they do not have it."""
    keys = document_keys(train, served)
    if keys is None or train.query_ids is None or served.query_ids is None:
        what, hint = "documents are matched by the ids of queries and documents", "`set query_ids=…, document_ids=…`"
        raise check.error(what, got="data without ids", hint=hint)
    _, first, same = np.unique(keys[1], return_index=True, return_inverse=True)
    earlier = served.features[first[same]]
    differs = ((served.features != earlier) & ~(np.isnan(served.features) & np.isnan(earlier))).any(axis=1)
    if differs.any():
        row = int(np.argmax(differs))
        where = check.query_of_row(row, served.offsets, served.query_ids)
        what, hint = "a document was served twice with different features", "give each search a query id of its own"
        raise check.error(what, got=f"document {np.asarray(served.document_ids)[row]}", where=where, hint=hint)
    place = index_of(*keys)
    if (place < 0).all():
        hint = "check that both spell their ids alike; without a model nothing is matched"
        raise check.error("training and served data have no document in common", got=repr(served), hint=hint)
    return place
