"""Targets of documents from clicks, freed of position and trust: estimates of relevance, and the data to train on."""

import math
from dataclasses import dataclass
from typing import Annotated, Literal
from weakref import WeakKeyDictionary, WeakSet

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import RankingDataset, Stream, check
from rankwise.base import tables
from rankwise.base.arrays import Array, Keywords, comparable, index_of, read_only, rows_of
from rankwise.check.docstrings import plain_signature
from rankwise.check.parameters import AtLeast, Option
from rankwise.data.io import Table
from rankwise.evaluation import Scored, scores_of
from rankwise.statistics import Result
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.off_policy.log_rows import Policy, logging_exposure, query_impressions
from rankwise.wings.clicks.positions.bias import Bias
from rankwise.wings.clicks.regression import cross_fitted

_CLIP = 10.0  # over the root of the number of impressions (Oosterhuis 2023)
_STRENGTH = 10.0  # examined impressions that R̂ counts for beside clicks
_LOW = 0.1  # the share of documents that are as far below R̂ as the low one
_parts: "WeakSet[Log]" = WeakSet()  # of split: that they lack queries needs no warning
_made_from: "WeakKeyDictionary[RankingDataset, Estimates]" = WeakKeyDictionary()  # of targets with a regression


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Estimates(Result):
    """Estimates of R, the clicks of a document were it always examined, one for each document of ``data``.

    With P(click) = α_k R + β_k at position k, means over the impressions of a query, 0 where a document was not shown:
    ips is (ctr − beta) / max(rho, clip), regression R̂(x), dr R̂ + (ctr − beta − alpha · R̂) / max(rho, clip).
    """

    data: RankingDataset
    """The documents: the features, or the pairs of the log where there were none."""
    rows: NDArray[np.int64]
    """The row in ``data`` of each pair of the log."""
    impressions: Array
    """Impressions of the document's query."""
    ctr: Array
    """Clicks by impression of the query."""
    alpha: Array
    """Mean α of the positions at which it was displayed, 0 where it was not."""
    beta: Array
    """Mean β of the positions at which it was displayed, 0 where it was not."""
    rho: Array
    """Expected α: the logging policy's, or ``alpha`` where the policy is not known, so that dr is ips but for clips."""
    regression: Array
    """R̂, from clicks of other queries."""
    clip: float
    """The least ρ that is divided by."""

    @property
    def ips(self) -> Array:
        """Inverse propensity scores."""
        return (self.ctr - self.beta) / self._divisor

    @property
    def dr(self) -> Array:
        """Doubly robust estimates."""
        return self.shrunk(0.0)

    def shrunk(self, strength: float) -> Array:
        """Return doubly robust estimates, drawn to R̂ as if it were the outcome of ``strength`` examined impressions."""
        divisor = self._divisor + strength / np.maximum(self.impressions, 1.0)
        return self.regression + (self.ctr - self.beta - self.alpha * self.regression) / divisor

    @property
    def low_regression(self) -> Array:
        """R̂ plus the lower decile, by exposure, of what clicks say beyond it, at least 0.

        It is the decile over documents with at least as many examined impressions as R̂ counts for in
        :func:`targets`, whose clicks R̂ has not seen; chance in these clicks makes it lower. Where there are none it is
        0. For documents that were hardly shown it assumes that they are like those that were shown.
        """
        examined = self.impressions * self.rho
        examined_enough = examined >= _STRENGTH
        if not examined_enough.any():
            return np.zeros(self.regression.size)
        beyond = (self.ctr - self.beta - self.alpha * self.regression)[examined_enough] / self.rho[examined_enough]
        order = np.argsort(beyond)
        mass = np.cumsum(examined[examined_enough][order])
        decile = beyond[order][np.searchsorted(mass, _LOW * mass[-1])]
        return np.maximum(self.regression + min(float(decile), 0.0), 0.0)

    @property
    def _divisor(self) -> Array:
        divisor = np.maximum(self.rho, self.clip)
        return np.where(divisor > 0.0, divisor, 1.0)  # never shown, and nothing clipped: the numerator is 0

    def to_frame(self) -> pl.DataFrame:
        """Return one row per document: its query, its number in the data, and all estimates."""
        names = ("impressions", "ctr", "alpha", "beta", "rho", "regression", "ips", "dr")
        columns = {name: getattr(self, name) for name in names}
        return pl.DataFrame({"query": self.data.qids(), "row": np.arange(self.data.n_docs), **columns})

    def table(self) -> tables.Table:
        """Return mean and range of the estimates of documents that were shown."""
        rows = []
        for name in ("ctr", "regression", "ips", "dr"):
            values = getattr(self, name)[self.rows]
            rows.append((name, *(tables.number(x) for x in (values.mean(), values.min(), values.max()))))
        header = ("estimate", "mean", "lowest", "highest")
        return tables.Table(header=header, rows=tuple(rows), align="lrrr", notes=(repr(self),))

    def __repr__(self) -> str:
        clipped = int((self.rho < self.clip)[self.rows].sum())
        shown = f"{self.rows.size:,} of {self.data.n_docs:,} documents shown"
        return f"Estimates({shown}, clip {self.clip:.4f}: {clipped:,} below)"


def split(log: Log, holdout: float = 0.3, *, seed: int = 0) -> tuple[Log, Log]:
    """Split a log by queries: the part to train on, and a share ``holdout`` to compare by.

    A ranker that is compared by the clicks that it was trained on is flattered. On which side a query falls depends on
    its id and the seed alone, so that it is the same in next month's log.

    >>> import rankwise as rw
    >>> data = rw.synthetic(n_queries=100, n_docs=5, seed=1)
    >>> data = data.with_(query_ids=range(100), document_ids=range(data.n_docs))
    >>> log = rw.clicks.simulate(data, rankers={"old": data.features[:, 0]}, impressions=10, seed=1)
    >>> train, rest = rw.clicks.split(log, 0.3)
    >>> train.n_queries, rest.n_queries
    (76, 24)
    """
    share = check.number("holdout", holdout, least=0.0, most=1.0, open_ends=True)
    draws = Stream(seed, query_ids=log.query_ids).child("holdout").per_query(log.n_queries)[:, 0]
    held_out = draws >= 1.0 - share
    if held_out.all() or not held_out.any():
        got = f"{np.count_nonzero(held_out):,} of {log.n_queries:,} queries held out"
        raise check.error("both parts of a split need queries", got=got, hint="use more queries, or another `holdout`")
    parts = log.only(queries=~held_out), log.only(queries=held_out)
    _parts.update(parts)
    return parts


def estimates(
    log: Log,
    features: RankingDataset | Table | None,
    bias: Bias,
    *,
    clip: float | None = None,
    regression: Scored | None = None,
    folds: int = 5,
    probabilities: Policy | None = None,
    seed: int = 0,
) -> Estimates:
    """Estimate the relevance of documents from their clicks, given the bias of positions.

    ``features`` are all documents that rankers choose from, with ids of queries and documents: a data set, or a frame
    in which these are called as in the log. None stands for the documents of the log without features, of which R̂ is
    a mean. ``clip`` is the least propensity to divide by, by default 10/√(number of impressions). ``regression``
    replaces R̂: a number for each document, or a fitted model, which must not have seen these clicks.

    ``probabilities`` are those of the logging policy: an array of pairs and positions, the probability of the document
    there before the ranking is drawn; or the scores (or models) of rankers of the log, by name, by which
    Plackett-Luce rankings were drawn. Rankers that are left out count as they displayed the documents, which is exact
    for those that always show the same.

    >>> import polars as pl
    >>> rows = {"query": ["q"] * 4, "document": list("abba"), "impression": [1, 1, 2, 2], "position": [1, 2, 1, 2]}
    >>> log = Log.from_rows(pl.LazyFrame(rows | {"clicked": [1, 0, 0, 1]}))
    >>> result = estimates(log, None, Bias.known([1.0, 0.5]), regression=[0.5, 0.5], clip=0.1)
    >>> result.ips.round(4)  # a was examined in (1 + 0.5)/2 of the impressions, and clicked in both
    array([1.3333, 0.    ])
    """
    if log.clicks[log.positions > bias.alpha.size].any():
        raise check.error(
            "the bias must have all positions with clicks: without α and β these would count as relevance",
            got=f"{bias.alpha.size} positions for clicks at up to {log.positions[log.clicks > 0.0].max()}",
            hint="leave positions out with log.only(positions=…)",
        )
    data = _documents(log) if features is None else log.documents(features)
    rows = log.rows_in(data)
    alpha, beta = bias.of_cells(log)
    query_in_data = np.repeat(np.arange(data.n_queries), data.sizes)[rows[log.offsets[:-1]]]
    traffic = np.zeros(data.n_queries)
    traffic[query_in_data] = query_impressions(log)
    impressions = np.repeat(traffic, data.sizes)
    if clip is None:
        clip = min(_CLIP / math.sqrt(max(log.n_impressions, 1.0)), 1.0)
    check.number("clip", clip, least=0.0)

    def by_pair(values: Array) -> Array:
        return np.asarray(np.bincount(log.pairs, values, log.n_pairs), np.float64)

    def mean(sums: Array) -> Array:
        column = np.zeros(data.n_docs)
        column[rows] = sums / impressions[rows]
        return read_only(column)

    rho = exposure = by_pair(log.impressions * alpha)
    if probabilities is not None:
        rho = logging_exposure(log, data, rows, alpha, probabilities, seed)
    impossible = (rho <= 0.0) & (exposure > 0.0)
    if impossible.any():
        raise check.error(
            "probabilities of the logging policy must allow what was shown",
            got="probability 0",
            where=check.query_of_row(int(rows[np.argmax(impossible)]), data.offsets, data.query_ids),
        )
    if regression is None:
        # Σ (c − β − αR)² over the impressions of a pair is Σα² · (R − Σα(c − β)/Σα²)², but for a constant.
        squares = by_pair(log.impressions * alpha**2)
        products = by_pair(alpha * (log.clicks - log.impressions * beta))
        seen = np.where(squares > 0.0, squares, 1.0)
        predicted = cross_fitted(data, rows, products / seen, squares, folds=folds, seed=seed)
    else:
        predicted = check.document_values("regression", scores_of(regression, data), data.offsets, data.query_ids)
    return Estimates(
        data=data,
        rows=rows,
        impressions=read_only(impressions),
        ctr=mean(by_pair(log.clicks)),
        alpha=mean(exposure),
        beta=mean(by_pair(log.impressions * beta)),
        rho=mean(rho),
        regression=read_only(predicted),
        clip=float(clip),
    )


@plain_signature
def targets(
    log: Log,
    features: RankingDataset | Table,
    bias: Bias,
    method: Annotated[
        Literal["dr", "regression", "ips"],
        "How rewards are estimated: dr, both others together; regression on features; ips, clicks over propensities.",
        Option(metavar="dr|regression|ips"),
    ] = "dr",
    *,
    clip: float | None = None,
    regression: Scored | None = None,
    folds: int = 5,
    probabilities: Policy | None = None,
    strength: float = _STRENGTH,
    labels: Literal["regression", "offset"] | None = None,
    seed: Annotated[int, AtLeast(0), "Seed of every draw.", Option(group="Running")] = 0,
) -> RankingDataset:
    """Return the data to train on: one list a query, all its documents, with targets from clicks as rewards.

    Targets are the column ``document_rewards``, which ``plrank`` learns from and ``reward@10`` measures; see
    :func:`estimates` for the ``method`` and the other arguments. They may be negative, which is what makes them
    unbiased. Documents that were never shown have R̂, or 0 with ``method="ips"``. Queries count by their impressions;
    those without are left out, with a warning that counts them unless the log is a part by :func:`split`.

    With ``method="dr"``, R̂ counts like ``strength`` impressions that were examined, so that documents that were seldom
    seen keep close to it; 0 leaves the estimates as they are. With curves that are wrong, this saves what is learned.

    Objectives that learn from labels need numbers of 0 or more, which ``labels`` makes instead of rewards:
    ``"regression"`` is R̂ alone, in [0, 1]; ``"offset"`` subtracts the least target of the query. Labels of
    ``features`` are left as they are otherwise.

    >>> import polars as pl
    >>> rows = {"query": ["q"] * 4, "document": list("abba"), "impression": [1, 1, 2, 2], "position": [1, 2, 1, 2]}
    >>> log = Log.from_rows(pl.LazyFrame(rows | {"clicked": [1, 0, 0, 1]}))
    >>> ids = {"query_ids": ["q"], "document_ids": ["a", "b", "c"]}
    >>> features = RankingDataset([[1.0], [2.0], [3.0]], [0, 0, 0], [0, 3], **ids)
    >>> bias = Bias.known([1.0, 0.5], beta=[0.1, 0.1])
    >>> targets(log, features, bias, "ips", clip=0.1).document_rewards.round(4)
    array([ 1.2   , -0.1333,  0.    ])
    """
    check.choice("method", method, ("dr", "regression", "ips"))
    if labels is not None:
        check.choice("labels", labels, ("regression", "offset"))
    strength = check.number("strength", strength, least=0.0)
    features = log.documents(features)
    if unfitted := method == "ips" and labels != "regression" and regression is None:
        regression = np.zeros(features.n_docs)
    result = estimates(
        log, features, bias, clip=clip, regression=regression, folds=folds, probabilities=probabilities, seed=seed
    )
    by_method = {"regression": result.regression, "ips": result.ips, "dr": result.shrunk(strength)}
    values = by_method["regression" if labels == "regression" else method]
    if labels == "offset":
        values = values - np.repeat(np.minimum.reduceat(values, features.offsets[:-1]), features.sizes)
    traffic = result.impressions[features.offsets[:-1]]
    changes: Keywords = {"document_rewards": values} if labels is None else {"labels": values, "judged": None}
    if (traffic != traffic.max()).any():
        weights = traffic if features.weights is None else traffic * features.weights
        changes["weights"] = weights / weights[traffic > 0.0].mean()
    data = features.with_(**changes)
    if left_out := int((traffic == 0.0).sum()):
        if log not in _parts:
            what = f"{left_out:,} of {features.n_queries:,} queries were never shown, and are left out"
            check.warn(what, stacklevel=2)
        data = data.take(traffic > 0.0)
    if not unfitted:
        _made_from[data] = result
    return data


def fitted(targets: RankingDataset | Estimates, log: Log, data: RankingDataset, bias: Bias) -> Estimates:
    """Return the estimates of a log with the regression and the clip of others; raise unless all else is the same.

    ``targets`` are what :func:`targets` or :func:`estimates` returned for these clicks and this bias, for these
    documents and perhaps those of more queries.
    """
    earlier = _made_from.get(targets) if isinstance(targets, RankingDataset) else targets
    if not isinstance(earlier, Estimates):
        what = "targets must be what rw.clicks.estimates returned, or rw.clicks.targets with a regression"
        raise check.error(what, got=repr(targets), hint="a part or a copy does not know its regression")
    queries = index_of(np.asarray(data.query_ids), np.asarray(earlier.data.query_ids))
    rows, offsets = rows_of(queries[queries >= 0], earlier.data.offsets)
    ours, theirs = comparable(np.asarray(data.document_ids), np.asarray(earlier.data.document_ids)[rows])
    differing = [] if np.array_equal(offsets, data.offsets) and np.array_equal(ours, theirs) else ["documents"]
    if not differing:
        result = estimates(log, data, bias, regression=earlier.regression[rows], clip=earlier.clip)
        differing = ["clicks"] if earlier.rows.size != log.n_pairs else []
        of = {"impressions": "clicks", "ctr": "clicks", "alpha": "bias", "beta": "bias", "rho": "logging policy"}
        differing += [
            of[name] for name in of if not np.array_equal(getattr(earlier, name)[rows], getattr(result, name))
        ]
    if differing:
        hint = "pass rw.clicks.estimates(log, features, bias) of what is compared, or `leave targets out`"
        raise check.error(
            f"targets must have the {differing[0]} of the comparison", got=f"others in {earlier!r}", hint=hint
        )
    return result


def _documents(log: Log) -> RankingDataset:
    labels, ids = np.zeros(log.n_pairs), {"query_ids": log.query_ids, "document_ids": log.document_ids}
    return RankingDataset(np.zeros((log.n_pairs, 1)), labels, log.offsets, **ids)  # type: ignore[arg-type]
