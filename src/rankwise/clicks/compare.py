"""Off-policy comparison: whether a new ranker may be shipped, by the clicks on other rankings."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl

from rankwise import check
from rankwise.arrays import Array, Keywords, Offsets, offsets_of, places, rows_of
from rankwise.clicks import decision, estimators
from rankwise.clicks.bias import Bias
from rankwise.clicks.decision import Blend, OffPolicyComparison
from rankwise.clicks.estimators import Documents, Estimated
from rankwise.clicks.exposure import query_of_pair
from rankwise.clicks.log import Log
from rankwise.clicks.logged import LoggedRows, require_item_probabilities, require_whole_lists
from rankwise.clicks.targets import Estimates, estimates
from rankwise.data.dataset import RankingDataset
from rankwise.evaluation import trec
from rankwise.evaluation.systems import Scored, scores_of
from rankwise.rankers.ensembles.weights import spread
from rankwise.statistics.significance import t_test

ESTIMATORS = ("position", "item-position", "cascade")
PRODUCTION = "production"
_Estimator = Callable[[Array], Estimated]


def compare(
    systems: Mapping[str, Scored],
    log: Log,
    bias: Bias | None,
    features: RankingDataset | None = None,
    *,
    estimator: str = "position",
    cutoff: int | None = None,
    temperature: float = 0.0,
    by: str = "query",
    level: float = 0.95,
    blends: Sequence[float] = (0.25, 0.5, 1.0),
    unchecked: bool = False,
    seed: int = 0,
) -> OffPolicyComparison:
    """Compare a candidate with production by the clicks on rankings that were logged, and say whether to ship it.

    ``systems`` are two: the candidate, and the one named "production", or else the last. Each is a ranker, with
    ``features``; scores in the order of the features, or of the log's pairs without them; or a run, see
    :func:`rankwise.read_run`. ``features`` are all documents that can be ranked; without them R̂, the estimate for
    documents that were seldom or never shown, is a mean over queries. A candidate that was trained on clicks needs
    clicks of other queries here: ``log.only(queries=…)``.

    The value of a ranking is its expected number of clicks an impression among the first ``cutoff`` positions (those
    of the log), queries weighed by their traffic:

    - ``"position"``: Σ_d α · target_d + β at the rank of each document, with doubly robust targets, see
      :func:`estimates`. It holds if clicks follow the ``bias``, which is checked on each ranker of the log in turn.
    - ``"item-position"``: Σ c · P / P₀; needs the probability P₀ of each document at its position.
    - ``"cascade"``: doubly robust, for users who read from the top; needs impressions one by one with the probability
      of each document given those above it. The systems draw each next document by the softmax of scores /
      ``temperature``, in units of production's scores; at 0 they show the best. Of the bias only the variance depends.

    Rankers that always show the same list leave only the first. IPS with clipped weights is not offered: it favours
    production, since what production hides is clipped.

    Intervals are Student's over queries, or over users with ``by="user"``. Blends (1 − λ)·old + λ·scale·new of scores,
    which then have the same spread within queries, are tested in the order of ``blends``, all at the same level, up to
    the first that fails. The verdict is "ship" with the largest share that passed, "do not ship" where the candidate
    is worse, and else "cannot tell". A blend passes where

    - the lower end of its interval is above 0, also with the bias at either end of its own intervals (α low with β
      high, and the reverse, R̂ as it is)
    - the effective sample size is at least 1,000 impressions
    - at most a fifth of its documents were never shown
    - weights of the last two estimators are 1 on average, within a tenth

    Where the check of the bias alarms, or cannot run, nothing passes unless ``unchecked=True``.

    >>> import rankwise as rw
    >>> data = rw.synthetic(n_queries=100, n_docs=8, seed=3)
    >>> data = data.with_(query_ids=range(100), document_ids=range(data.n_docs))
    >>> old, new, curve = data.features[:, 0], data.labels, [1.0, 0.6, 0.4, 0.3, 0.2]
    >>> rankers = {"old": old, "second": data.features[:, 1]}
    >>> log = rw.clicks.simulate(data, rankers=rankers, curve=curve, impressions=100, seed=1)
    >>> result = compare({"new": new, "production": old}, log, rw.clicks.Bias.known(curve), data)
    >>> result.verdict, result.recommended, round(result.unsupported, 2)
    ('ship', 1.0, 0.12)
    """
    check.choice("estimator", estimator, ESTIMATORS)
    check.number("level", level, least=0.5, most=1.0, open_ends=True)
    shares, (candidate, production) = _shares(blends), _names(systems)
    data, new, old = _scored((systems[candidate], systems[production]), log, features)
    depth = log.n_positions if cutoff is None else check.integer("cutoff", cutoff, least=1)
    shown, estimate, ends = _estimators(estimator, log, data, bias, depth, by, temperature, seed)
    bias_check, refusal = None, ""
    if estimator == "position" and bias is not None:
        bias_check = bias.check(log)
        refusal = "" if unchecked else decision.refusal(bias_check)
    traffic, scale = shown.unit_traffic, _scale(old, new, data.offsets)
    baseline, *at_ends = (one(old) for one in (estimate, *ends))

    def tested(share: float) -> Blend:
        scores = _blended(old, new, share, scale, data.offsets)
        estimated = estimate(scores)
        interval = difference, low, high = _difference(estimated, baseline, traffic, level)
        lowest = [_difference(end(scores), one, traffic, level)[1] for end, one in zip(ends, at_ends, strict=True)]
        return Blend(
            share=share,
            clicks=float(estimated.totals.sum() / traffic.sum()),
            difference=difference,
            low=low,
            high=high,
            normalised=estimated.normalised - baseline.normalised,
            effective_size=estimated.effective,
            largest_weight=estimated.largest,
            unsupported=estimated.unsupported,
            failure=refusal or decision.failure(estimated, interval, min(lowest, default=low), by),
        )

    results = tuple(map(tested, shares))
    verdict, reason, recommended = decision.decide(candidate, production, results, refusal)
    return OffPolicyComparison(
        candidate=candidate,
        production=production,
        production_clicks=float(baseline.totals.sum() / traffic.sum()),
        blends=results,
        verdict=verdict,
        reason=reason,
        recommended=recommended,
        scale=scale,
        bias_check=bias_check,
        unchecked=unchecked,
        estimator=estimator,
        by=by,
        level=level,
        n_units=int(np.count_nonzero(traffic)),
        n_impressions=float(traffic.sum()),
    )


def _estimators(
    estimator: str,
    log: Log,
    data: RankingDataset,
    bias: Bias | None,
    cutoff: int,
    by: str,
    temperature: float,
    seed: int,
) -> tuple[LoggedRows, _Estimator, list[_Estimator]]:
    """Return the rows of the log, the estimate by scores, and the same with the bias at the ends of its intervals."""
    check.number("temperature", temperature, least=0.0)
    if temperature and estimator != "cascade":
        what, got = "only the cascade estimator compares drawn rankings", f"temperature={temperature} for {estimator!r}"
        raise check.error(what, got=got, hint='use estimator="cascade"')
    if estimator == "position":
        if bias is None:
            hint = "estimate it with rw.clicks.propensities(log)"
            raise check.error("the position-based estimator needs the bias of positions", got="none", hint=hint)
        targets = estimates(log, data, bias, seed=seed)
        shown = LoggedRows.of(log, by, bias)

        def position_based(curves: Bias, at: Estimates) -> _Estimator:
            documents = Documents(offsets=data.offsets, rows=at.rows, relevance=at.regression)
            settings: Keywords = {"bias": curves, "exposure": at.rho[at.rows], "floor": at.clip}
            return partial(estimators.position_based, shown=shown, documents=documents, cutoff=cutoff, **settings)

        same: Keywords = {"regression": targets.regression, "clip": targets.clip}
        ends = [position_based(end, estimates(log, data, end, **same)) for end in _ends(bias)]
        return shown, position_based(bias, targets), ends
    relevance = np.zeros(data.n_docs)
    if estimator == "item-position":
        require_item_probabilities(log)
        shown = LoggedRows.of(log, by)
        documents = Documents(offsets=data.offsets, rows=log.rows_in(data), relevance=relevance)
        return shown, partial(estimators.item_position, shown=shown, documents=documents, cutoff=cutoff), []
    require_whole_lists(log)
    shown = LoggedRows.of_sessions(log, bias) if by == "query" else LoggedRows.of(log, by, bias)
    if bias is not None:
        relevance = estimates(log, data, bias, seed=seed).regression
    documents = Documents(offsets=data.offsets, rows=log.rows_in(data), relevance=relevance)
    lists: Keywords = {"shown": shown, "documents": documents, "cutoff": cutoff}
    return shown, partial(estimators.cascade, **lists, bias=bias, temperature=temperature), []


def _ends(bias: Bias) -> Iterator[Bias]:
    """Yield the bias at the ends of its intervals, where it has any."""
    for alpha, beta in ((bias.alpha_low, bias.beta_high), (bias.alpha_high, bias.beta_low)):
        curve, trust = (np.where(np.isnan(end), at, end) for end, at in ((alpha, bias.alpha), (beta, bias.beta)))
        if np.array_equal(curve, bias.alpha) and np.array_equal(trust, bias.beta):
            continue
        ratio = np.divide(curve, bias.alpha, out=np.ones(curve.size), where=bias.alpha > 0.0)
        segments = None if bias.by_segment is None else bias.by_segment * ratio
        yield replace(bias, alpha=np.maximum(curve, 0.0), beta=trust, by_segment=segments)


def _difference(new: Estimated, old: Estimated, traffic: Array, level: float) -> tuple[float, float, float]:
    """Return the difference in clicks an impression, and its interval over units.

    It is a ratio of two sums over units; where few units have most of the traffic, the degrees of freedom count those.
    """
    counted = traffic > 0.0
    weights = traffic[counted]
    test = t_test((new.totals - old.totals)[counted] / weights, weights)
    units = weights.sum() ** 2 / (weights @ weights)
    test = test._replace(freedom=max(1, round(units) - 1))
    return test.mean, *test.interval(level)


def _scale(old: Array, new: Array, offsets: Offsets) -> float:
    """Return the spread of the old scores within queries over that of the new."""
    unit, other = (spread(_retrieved(scores, offsets), offsets) for scores in (old, new))
    return (unit or 1.0) / (other or 1.0)


def _blended(old: Array, new: Array, share: float, scale: float, offsets: Offsets) -> Array:
    """Return (1 − λ)·old + λ·scale·new; what one of them does not retrieve has the lowest score of the query there.

    >>> _blended(np.array([1.0, 3.0]), np.array([60.0, 20.0]), 0.5, 0.05, np.array([0, 2]))
    array([2., 2.])
    """
    hidden = (new == -np.inf) if share == 1.0 else (new == -np.inf) & (old == -np.inf)
    blended = (1.0 - share) * _retrieved(old, offsets) + share * scale * _retrieved(new, offsets)
    return np.where(hidden, -np.inf, blended)


def _retrieved(scores: Array, offsets: Offsets) -> Array:
    """Replace −inf by the lowest score of the query."""
    lowest = np.minimum.reduceat(np.where(scores == -np.inf, np.inf, scores), offsets[:-1])
    lowest = np.where(np.isinf(lowest), 0.0, lowest)
    return np.where(scores == -np.inf, np.repeat(lowest, np.diff(offsets)), scores)


def _shares(blends: Sequence[float]) -> tuple[float, ...]:
    shares = tuple(check.number("each of the blends", share, least=0.0, most=1.0) for share in blends)
    if not shares or shares[-1] != 1.0 or shares[0] <= 0.0 or (np.diff(shares) <= 0.0).any():
        raise check.error("blends must be shares above 0 that grow up to 1", got=repr(tuple(blends)))
    return shares


def _names(systems: Mapping[str, Scored]) -> tuple[str, str]:
    """Return the names of the candidate and of production."""
    if not isinstance(systems, Mapping) or len(systems) != 2:
        got = f"{len(systems)} systems" if isinstance(systems, Mapping) else type(systems).__name__
        hint = 'pass {"new": …, "production": …}'
        raise check.error("one candidate is compared with production", got=got, hint=hint)
    names = [*systems]
    production = PRODUCTION if PRODUCTION in systems else names[-1]
    return next(name for name in names if name != production), production


def _scored(
    systems: Sequence[Scored], log: Log, features: RankingDataset | None
) -> tuple[RankingDataset, Array, Array]:
    """Return all documents of the queries of the log, in their order, and the scores of both systems."""
    if features is None:
        for system in systems:
            if hasattr(system, "predict") or callable(system):
                hint = "pass data with features and the ids of queries and documents as the fourth argument"
                got = f"{type(system).__name__} without features"
                raise check.error("a model needs the features of documents", got=got, hint=hint)
        data = _listed(systems, log)
        queries = np.arange(log.n_queries)
    else:
        data = features
        log.rows_in(data)  # raises where a query or a document is missing
        queries = places(log.query_ids, np.asarray(data.query_ids))
    rows, _ = rows_of(queries, data.offsets)
    new, old = (check.scores(scores_of(one, data), data.offsets, data.query_ids)[rows] for one in systems)
    return data.take(queries), new, old


def _listed(systems: Sequence[Scored], log: Log) -> RankingDataset:
    """Return the documents that were shown or that a run retrieves, with one constant feature."""
    names = log.query_ids.astype(str)
    columns = {"query": names[query_of_pair(log)], "document": log.document_ids.astype(str)}
    frames = [pl.DataFrame(columns)]
    for system in systems:
        if isinstance(system, Mapping | str | Path) or {"query", "document"} <= set(getattr(system, "columns", ())):
            run = trec.run_frame(system)  # type: ignore[arg-type]
            frames.append(run.select("query", "document"))
    numbers = pl.DataFrame({"query": names, "number": np.arange(log.n_queries)})
    listed = pl.concat(frames).unique(maintain_order=True).join(numbers, on="query", maintain_order="left")
    listed = listed.sort("number", maintain_order=True)
    sizes = np.bincount(listed["number"].to_numpy(), minlength=log.n_queries)
    blank = np.zeros((len(listed), 1), np.float32), np.zeros(len(listed))
    return RankingDataset(*blank, offsets_of(sizes), query_ids=names, document_ids=listed["document"].to_numpy())
