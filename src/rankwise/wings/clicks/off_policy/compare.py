"""Off-policy comparison: whether a new ranker may be shipped, by the clicks on other rankings."""

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, cast

import numpy as np
import polars as pl

from rankwise import RankingDataset, check
from rankwise.base import tables
from rankwise.base.arrays import Array, Column, Keywords, Offsets, index_of, offsets_of, rows_of
from rankwise.check.docstrings import plain_signature
from rankwise.check.parameters import AtLeast, Option, Unset, Within
from rankwise.data.io import Table, as_polars, file_formats
from rankwise.evaluation import Scored, scores_of, trec
from rankwise.rankers import score_deviation
from rankwise.statistics import TTest, t_test
from rankwise.wings.clicks.logs.log import Log, named_pairs
from rankwise.wings.clicks.logs.reading import open_log
from rankwise.wings.clicks.off_policy import estimators
from rankwise.wings.clicks.off_policy.assumptions import (
    click_model,
    independent_clicks,
    production_clicks,
    unseen_clicks,
)
from rankwise.wings.clicks.off_policy.decision import (
    Blend,
    OffPolicyComparison,
    OffPolicyComparisons,
    decide,
    judge,
    support_problem,
)
from rankwise.wings.clicks.off_policy.estimators import Estimated, LogCandidates
from rankwise.wings.clicks.off_policy.log_rows import LoggedRows, require_item_probabilities, require_lists_without_gaps
from rankwise.wings.clicks.off_policy.segments import SegmentClicks, log_parts, outcome
from rankwise.wings.clicks.off_policy.targets import Estimates, estimates, fitted
from rankwise.wings.clicks.positions.bias import Bias

if TYPE_CHECKING:
    from rankwise.data.segments import Segment

ESTIMATORS = ("position", "item-position", "cascade")
PRODUCTION = "production"
_PREDICTED = 0.05  # of production's exposure: what may rest on predictions that no clicks of production confirm
_Estimator = Callable[..., Estimated]


@plain_signature
def compare(
    systems: Mapping[str, Scored],
    log: Log,
    bias: Bias | None,
    features: RankingDataset | Table | None = None,
    *,
    estimator: str = "position",
    cutoff: Annotated[int | None, AtLeast(1), "Positions that count.", Unset("all"), Option(metavar="K")] = None,
    temperature: float = 0.0,
    by: Annotated[str, "Unit of the intervals.", Option(metavar="query|user")] = "query",
    level: Annotated[float, Within(0, 1, open=True), "Confidence level.", Option(metavar="LEVEL")] = 0.95,
    blends: Sequence[float] = (0.25, 0.5, 1.0),
    targets: RankingDataset | Estimates | None = None,
    unchecked: Annotated[bool, "Whether to decide although a check fails, or that of the bias cannot run."] = False,
    seed: Annotated[int, AtLeast(0), "Seed of every draw.", Option(group="Running")] = 0,
    segment: "Segment | None" = None,
) -> OffPolicyComparison | OffPolicyComparisons:
    """Compare candidates with production by the clicks on rankings that were logged, and say which to ship.

    ``systems`` are the candidate, or several, and the one named "production", or else the last. Each is a ranker, with
    ``features``; scores in the order of the features, or of the log's pairs without them; a run, see
    :func:`rankwise.trec.read_run`; or a table (a frame, .csv, .tsv or .parquet) of the log's columns of query and
    document and a column ``score``. ``features``, a data set or a frame with the log's columns, are all documents that
    can be ranked; without them R̂, the estimate for documents that were seldom or never shown, is a mean over queries.
    Several candidates have levels by Holm, so that ``level`` is that of all verdicts together: compared one by one, the
    best of many is shipped by luck.

    Clicks are those of queries that no system was trained on. Rankers know which queries of :func:`targets` they
    learned from: these are left out, with a note, and where fewer than 30 remain, it is an error. Of scores, runs and
    models of other libraries the result says that this was not checked. :func:`split` holds queries out in advance.

    The value of a ranking is its expected number of clicks an impression among the first ``cutoff`` positions (those
    of the log), queries weighed by their traffic:

    - ``"position"``: Σ_d α · target_d + β at the rank of each document, with doubly robust targets, see
      :func:`estimates`. It holds if clicks follow the ``bias``, which is checked on each ranker of the log in turn.
    - ``"item-position"``: Σ c · P / P₀; needs impressions one by one with the probability P₀ of each document at its
      position.
    - ``"cascade"``: doubly robust, for users who read from the top; needs impressions one by one with the probability
      of each document given those above it. The systems draw each next document by the softmax of scores /
      ``temperature``, in units of production's scores; at 0 they show the best. Only the variance depends on the bias.

    R̂ is fitted here, unless ``targets`` have it: what :func:`targets` or :func:`estimates` returned for this log, bias
    and features, for several comparisons to share. No query may be left out then.

    Rankers that always show the same list leave only the first. IPS with clipped weights is not offered: it favours
    production, since what production hides is clipped.

    Intervals are Student's over queries, or over users with ``by="user"``. Blends (1 − λ)·old + λ·scale·new of scores,
    which then have the same spread within queries, are tested in the order of ``blends``, all at the same level, up to
    the first that fails. The verdict is "ship" with the largest share that passed, "do not ship" where the candidate
    is worse, and else "cannot tell". A blend passes where

    - the lower end of its interval is above 0, also if nobody clicked what it shows more than production does of
      documents that were never shown (or so seldom that propensities are clipped; R̂ predicts them from what rankers
      chose to show), and with the bias at either end of its own intervals (α low with β high, and the reverse)
    - it and production each have an effective sample size of at least 1,000 impressions, at most a fifth of their
      exposure, α at each rank, for such documents, and, with the last two estimators, weights of 1 on average, within
      a tenth
    - where production's own clicks are not confirmed by the log and more than 5% of its exposure is for such documents,
      the lower end is above 0 also if everybody clicked what production shows more of these

    Beside these bounds stands ``likely_low``, the lower end if such documents are as far below R̂ as the lowest tenth
    of the exposure of documents that were shown. It assumes that they are like these, which rankers chose, and decides
    nothing.

    ``segment`` says which segments gain and which lose, with candidates alone and levels by Holm over segments and
    candidates: a feature of queries, a mapping from query ids, "traffic" (head, torso and tail), as in
    :func:`rankwise.evaluate`, or ``"segment"``, that of the log's impressions. Each is compared by its part of the log,
    for which R̂ is fitted anew.

    Where the check of the bias alarms or cannot run, the bias has no intervals, or production had other clicks in the
    log than are estimated for it, nothing passes unless ``unchecked=True``. Whether users click less below a click is
    printed with the verdict. ``assumptions`` of the result has all checks, and those that this log does not allow.

    >>> import rankwise as rw
    >>> data = rw.synthetic(n_queries=100, n_docs=8, seed=3)
    >>> data = data.with_(query_ids=range(100), document_ids=range(data.n_docs))
    >>> old, new, curve = data.features[:, 0], data.labels, [1.0, 0.6, 0.4, 0.3, 0.2]
    >>> rankers = {"old": old, "second": data.features[:, 1]}
    >>> log = rw.clicks.simulate(data, rankers=rankers, curve=curve, impressions=100, seed=1)
    >>> result = compare({"new": new, "production": old}, log, rw.clicks.Bias.known(curve), data)
    >>> result.verdict, result.recommended, round(result.alone.unsupported, 2)
    ('ship', 1.0, 0.1)
    """
    if segment is not None:
        settings: Keywords = {"estimator": estimator, "cutoff": cutoff, "temperature": temperature, "by": by}
        settings |= {"unchecked": unchecked, "seed": seed}
        overall = compare(systems, log, bias, features, level=level, blends=blends, targets=targets, **settings)
        return _with_segments(overall, systems, log, bias, features, segment, **settings)
    check.choice("estimator", estimator, ESTIMATORS)
    check.number("level", level, least=0.5, most=1.0, open_ends=True)
    shares = tuple(check.number("each of the blends", share, least=0.0, most=1.0) for share in blends)
    if not shares or shares[-1] != 1.0 or shares[0] <= 0.0 or (np.diff(shares) <= 0.0).any():
        raise check.error("blends must be shares above 0 that grow up to 1", got=repr(tuple(blends)))
    *candidates, production = _names(systems)
    n_queries = log.n_queries
    features = None if features is None else log.documents(features)
    systems = {name: _taken(system, log) for name, system in systems.items()}
    log, unseen = unseen_clicks(systems, log, features)
    depth = log.n_positions if cutoff is None else check.integer("cutoff", cutoff, least=1)
    data, scores = _scored({name: systems[name] for name in (*candidates, production)}, log, features, depth)

    def relevance(bias: Bias) -> Estimates:
        return estimates(log, data, bias, seed=seed) if targets is None else fitted(targets, log, data, bias)

    shown, documents, estimate = _estimators(estimator, log, data, bias, depth, by, temperature, relevance)
    traffic, old = shown.unit_traffic, scores[production]
    baseline = [one(old) for one in estimate]
    bias_check = bias.check(log) if estimator == "position" and bias is not None else None
    assumptions = [unseen]
    if bias is not None and bias_check is not None:
        ends = bias.alpha_low, bias.alpha_high, bias.beta_low, bias.beta_high
        assumptions.append(click_model(bias_check, has_intervals=bool(np.isfinite(ends).all())))
    of_log = log, shown, documents, depth, estimate
    assumption = production_clicks(production, old, *of_log, drawn=temperature > 0.0)
    assumptions.append(assumption)
    if estimator != "cascade":
        assumptions.append(independent_clicks(log, by, level))
    doubt = "; ".join(one.refusal for one in assumptions if one.refusal)
    refusal = "" if unchecked else doubt
    if not refusal and (lacking := support_problem(baseline[0])):
        refusal = f"it shows too little of {production}: {lacking}"
    caveats = [f"Unchecked, although {doubt}."] if unchecked and doubt else []
    caveats += [one.caveat for one in assumptions if one.caveat]
    predicted = assumption.outcome != "holds" and baseline[0].unsupported > _PREDICTED
    if predicted:
        share = f"{baseline[0].unsupported:.0%} of the exposure of {production}"
        caveats.append(f"{share} goes to documents that were never or hardly shown: it may be better than estimated.")

    beside: list[Keywords] = [{"beside": one.guessed} if estimator == "position" else {} for one in baseline]

    @functools.cache
    def estimated(name: str, share: float) -> list[Estimated]:
        blended = _blended(old, scores[name], share, scales[name], data.offsets)
        return [one(blended, **other) for one, other in zip(estimate, beside, strict=True)]

    def at_most(rival: Estimated) -> Estimated:
        """Return production if everybody clicked what it shows more of hardly shown documents than a rival."""
        if estimator != "position":
            return baseline[0].highest
        more = np.maximum(baseline[0].guessed - rival.guessed, 0.0)
        clicks = shown.of_queries(documents.sums(more * (1.0 - documents.relevance)))
        return replace(baseline[0], totals=baseline[0].totals + clicks)

    def tested(name: str, share: float, level: float) -> Blend:
        at_bias, *at_ends = estimated(name, share)
        interval = difference, low, high = _difference(at_bias, baseline[0], traffic, level)
        lowest, *extremes = (
            _difference(one.lowest, other, traffic, level)[1]
            for one, other in zip((at_bias, *at_ends), baseline, strict=True)
        )
        highest = _difference(at_bias.highest, baseline[0], traffic, level)[2]
        modest = at_bias.likely_low
        bounds: Keywords = {"lowest": lowest, "highest": highest}
        outcome, failure = judge(at_bias, interval, extreme=min(extremes, default=lowest), by=by, level=level, **bounds)
        if predicted and outcome == "passed":
            worst = _difference(at_bias.lowest, at_most(at_bias), traffic, level)[1]
            if not worst > 0.0:
                begins = f"the interval begins at {tables.number(worst, signed=True)} if everybody clicked those"
                outcome, failure = "unclear", f"{production} shows documents that were never or hardly shown: {begins}"
        return Blend(
            share=share,
            clicks=float(at_bias.totals.sum() / traffic.sum()),
            difference=difference,
            low=low,
            high=high,
            effective_size=at_bias.effective,
            largest_weight=at_bias.largest,
            unsupported=at_bias.unsupported,
            likely_low=None if modest is None else _difference(modest, baseline[0], traffic, level)[1],
            outcome="unclear" if refusal else outcome,
            failure=refusal or failure,
            **bounds,
        )

    def compared(name: str, level: float) -> OffPolicyComparison:
        results = tuple(tested(name, share, level) for share in shares)
        verdict, reason, recommended = decide(name, production, results, refusal)
        return OffPolicyComparison(
            candidate=name,
            production=production,
            production_clicks=float(baseline[0].totals.sum() / traffic.sum()),
            blends=results,
            verdict=verdict,
            reason=" ".join((reason, *caveats)),
            recommended=recommended,
            scale=scales[name],
            bias_check=bias_check,
            assumptions=tuple(assumptions),
            estimator=estimator,
            by=by,
            level=level,
            n_units=int(np.count_nonzero(traffic)),
            n_impressions=float(traffic.sum()),
            left_out=n_queries - log.n_queries,
        )

    scales = {name: _scale(old, scores[name], data.offsets) for name in candidates}
    if len(candidates) == 1:
        return compared(candidates[0], level)
    return OffPolicyComparisons(comparisons=tuple(_by_holm(candidates, compared, level)), level=level)


def _with_segments(
    whole: OffPolicyComparison | OffPolicyComparisons, systems: Mapping[str, Scored], log: Log, bias: Bias | None,
    features: RankingDataset | Table | None, segment: "Segment", **settings: object,
) -> OffPolicyComparison | OffPolicyComparisons:  # fmt: skip
    """Add what each segment says of each candidate alone; Holm goes over both, gains and losses alike."""
    *candidates, production = _names(systems)
    if features is None and any(isinstance(_taken(system, log), np.ndarray | list) for system in systems.values()):
        hint = "pass runs, or the features as the fourth argument"
        raise check.error("scores in the order of the log's pairs have no segments", hint=hint)
    parts = [*log_parts(log, segment, None if features is None else log.documents(features))]
    left, found = list(itertools.product(candidates, range(len(parts)))), dict[tuple[str, int], SegmentClicks]()
    while left:
        level = 1.0 - (1.0 - whole.level) / len(left)
        for name, number in left:
            pair = {name: systems[name], production: systems[production]}
            options = {"bias": bias, "features": features, "level": level, "blends": (1.0,), **settings}
            found[name, number] = outcome(*parts[number], level, functools.partial(_alone, pair, options))
        still = [key for key in left if found[key].verdict == "cannot tell"]
        if len(still) == len(left):
            break
        left = still
    rows = {name: tuple(found[name, number] for number in range(len(parts))) for name in candidates}
    if isinstance(whole, OffPolicyComparison):
        return replace(whole, segments=rows[whole.candidate])
    return replace(whole, comparisons=tuple(replace(one, segments=rows[one.candidate]) for one in whole.comparisons))


def _alone(systems: Mapping[str, Scored], options: Keywords, part: Log) -> OffPolicyComparison:
    return cast("OffPolicyComparison", compare(systems, part, **options))


def _by_holm(
    candidates: Sequence[str], compared: Callable[[str, float], OffPolicyComparison], level: float
) -> Iterable[OffPolicyComparison]:
    """Compare each candidate at a level that holds for all: a candidate that passes whole leaves its part to others.

    Within a candidate blends are tested in order, so that a part is free when the last of them has passed.
    """
    results: dict[str, OffPolicyComparison] = {}
    left = list(candidates)
    while left:
        results |= {name: compared(name, 1.0 - (1.0 - level) / len(left)) for name in left}
        still = [name for name in left if results[name].recommended < 1.0]
        if len(still) == len(left):
            break
        left = still
    return (results[name] for name in candidates)


def _estimators(
    estimator: str,
    log: Log,
    data: RankingDataset,
    bias: Bias | None,
    cutoff: int,
    by: str,
    temperature: float,
    relevance: Callable[[Bias], Estimates],
) -> tuple[LoggedRows, LogCandidates, list[_Estimator]]:
    """Return rows and documents of the log, the estimate by scores, and those at the ends of the bias's intervals."""
    check.number("temperature", temperature, least=0.0)
    if temperature and estimator != "cascade":
        what, got = "only the cascade estimator compares drawn rankings", f"temperature={temperature} for {estimator!r}"
        raise check.error(what, got=got, hint='use estimator="cascade"')
    if estimator == "position":
        if bias is None:
            hint = "estimate it with rw.clicks.propensities(log)"
            raise check.error("the position-based estimator needs the bias of positions", got="none", hint=hint)
        shown = LoggedRows.of(log, by, bias)

        def position_based(curves: Bias, at: Estimates) -> _Estimator:
            low = at.low_regression
            documents = LogCandidates(offsets=data.offsets, rows=at.rows, relevance=at.regression, low_relevance=low)
            settings: Keywords = {"bias": curves, "exposure": at.rho[at.rows], "floor": at.clip}
            return partial(estimators.position_based, shown=shown, documents=documents, cutoff=cutoff, **settings)

        middle = relevance(bias)
        same: Keywords = {"regression": middle.regression, "clip": middle.clip}
        ends = [position_based(end, estimates(log, data, end, **same)) for end in _ends(bias)]
        documents = LogCandidates(offsets=data.offsets, rows=middle.rows, relevance=middle.regression)
        return shown, documents, [position_based(bias, middle), *ends]
    shown = LoggedRows.drawn(log, by, bias)
    lists: Keywords = {"shown": shown, "cutoff": cutoff}
    documents = LogCandidates(offsets=data.offsets, rows=log.rows_in(data), relevance=np.zeros(data.n_docs))
    if estimator == "item-position":
        require_item_probabilities(log)
        return shown, documents, [partial(estimators.item_position, documents=documents, **lists)]
    require_lists_without_gaps(shown)
    if bias is not None:
        documents = replace(documents, relevance=relevance(bias).regression)
    settings: Keywords = {"documents": documents, "bias": bias, "temperature": temperature}
    return shown, documents, [partial(estimators.cascade, **settings, **lists)]


def _ends(bias: Bias) -> Iterator[Bias]:
    """Yield the bias at the ends of its intervals, where it has any."""
    for alpha, beta in ((bias.alpha_low, bias.beta_high), (bias.alpha_high, bias.beta_low)):
        curve = np.where(np.isfinite(alpha), np.maximum(alpha, 0.0), bias.alpha)
        trust = np.where(np.isfinite(beta), beta, bias.beta)
        ratio = np.divide(curve, bias.alpha, out=np.ones(curve.size), where=bias.alpha > 0.0)
        segments = None if bias.by_segment is None else bias.by_segment * ratio
        if (curve != bias.alpha).any() or (trust != bias.beta).any():
            yield replace(bias, alpha=curve, beta=trust, by_segment=segments)


def _difference(new: Estimated, old: Estimated, traffic: Array, level: float) -> tuple[float, float, float]:
    """Return the difference in clicks an impression, and its interval over units.

    It is a ratio of two sums over units; where few units have most of the traffic, the degrees of freedom count those.
    """
    counted = traffic > 0.0
    weights = traffic[counted]
    test = t_test((new.totals - old.totals)[counted] / weights, weights)
    units = weights.sum() ** 2 / (weights @ weights)
    test = TTest(test.mean, test.error, max(1, round(units) - 1))
    return test.mean, *test.interval(level)


def _scale(old: Array, new: Array, offsets: Offsets) -> float:
    """Return the spread of the old scores within queries over that of the new."""
    unit, other = (score_deviation(_retrieved(scores, offsets), offsets) for scores in (old, new))
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


def _names(systems: Mapping[str, Scored]) -> list[str]:
    """Return the names of the candidates, and that of production at the end."""
    if not isinstance(systems, Mapping) or len(systems) < 2:
        got = f"{len(systems)} systems" if isinstance(systems, Mapping) else type(systems).__name__
        hint = 'pass {"new": …, "production": …}'
        raise check.error("one candidate or several are compared with production", got=got, hint=hint)
    production = PRODUCTION if PRODUCTION in systems else list(systems)[-1]
    return [*(name for name in systems if name != production), production]


def _taken(system: Scored, log: Log) -> Scored:
    """Return a system; a table or a file of one as a run, whose columns are query, document and score."""
    names = dict(zip(("query", "document", "score"), (*log.id_columns, "score"), strict=True))
    if isinstance(system, str | Path):
        if file_formats.by_name(Path(system)) not in {"csv", "parquet"}:
            with check.also_hint(f"ids with blanks need a table, .csv or .parquet, of {', '.join(names.values())}"):
                return trec.read_run(system)
        with contextlib.ExitStack() as stack:
            rows = open_log(system, names, stack)
            stack.enter_context(check.placing(rows.place))
            return trec.run_frame(rows.frame.collect())
    if hasattr(system, "predict") or not any(hasattr(system, name) for name in ("collect_schema", "columns")):
        return system
    table = as_polars(cast("Table", system))[0]
    present = table.collect_schema().names()
    if not {*names.values()} <= {*present} and {*names} <= {*present}:
        names = {role: role for role in names}
    if not {*names.values()} <= {*present}:
        what, got = f"a table of scores must have the columns {', '.join(names.values())}", ", ".join(present)
        raise check.error(what, got=f"columns {got}", hint="rename its columns as those of the log are called")
    return trec.run_frame(table.select(**{role: pl.col(name) for role, name in names.items()}).collect())


def _scored(
    systems: Mapping[str, Scored], log: Log, features: RankingDataset | None, cutoff: int
) -> tuple[RankingDataset, dict[str, Array]]:
    """Return all documents of the queries of the log, in their order, and the scores of the systems."""
    names = log.query_ids.astype(str)
    runs = {name: _run(system, names) for name, system in systems.items()}
    if features is None:
        for system in systems.values():
            if hasattr(system, "predict") or callable(system):
                hint = "pass data with features and the ids of queries and documents as the fourth argument"
                got = f"{type(system).__name__} without features"
                raise check.error("a model needs the features of documents", got=got, hint=hint)
    data = _listed(runs.values(), log) if features is None else features
    log.rows_in(data)  # raises where a query or a document is missing
    queries = index_of(log.query_ids, np.asarray(data.query_ids))
    rows, _ = rows_of(queries, data.offsets)
    data, all_documents = data.take(queries), data
    scores, longest = {}, {}
    for name, system in systems.items():
        values = check.scores(scores_of(system, all_documents), all_documents.offsets, all_documents.query_ids)[rows]
        lengths = np.add.reduceat(values > -np.inf, data.offsets[:-1], dtype=np.int64)
        if not lengths.all():
            got = f"{name!r} without {np.count_nonzero(lengths == 0):,} of {log.n_queries:,} queries"
            where, hint = f"query '{names[np.argmin(lengths)]}'", "leave these queries out with log.only(queries=…)"
            raise check.error("systems must rank all queries of the log", got=got, where=where, hint=hint)
        if (lost := len(runs[name]) - lengths.sum()) > 0:
            got, hint = f"{lost:,} of {name!r} without", "add them, or pass runs alone, without features"
            raise check.error("every document of a run needs features", got=got, hint=hint)
        scores[name], longest[name] = values, min(int(lengths.max()), cutoff)
    if len(set(longest.values())) > 1:
        what = "systems must have lists of the same length: with fewer documents one has fewer clicks"
        got = " and ".join(f"{length} of {name!r}" for name, length in longest.items())
        raise check.error(what, got=f"at most {got}", hint=f"`set cutoff={min(longest.values())}`, or read longer runs")
    return data, scores


def _run(system: Scored, queries: Column) -> pl.DataFrame:
    """Return the documents of a run for these queries; none where the system is not a run."""
    if isinstance(system, Mapping | str | Path) or {"query", "document"} <= set(getattr(system, "columns", ())):
        run = trec.run_frame(system)  # type: ignore[arg-type]
        return run.filter(pl.col("query").is_in(queries)).select("query", "document")
    return pl.DataFrame(schema={"query": pl.String, "document": pl.String})


def _listed(runs: Iterable[pl.DataFrame], log: Log) -> RankingDataset:
    """Return the documents that were shown or that a run retrieves, with one constant feature."""
    names = log.query_ids.astype(str)
    listed = pl.concat([named_pairs(log.query_ids, log.offsets, log.document_ids), *runs]).unique(maintain_order=True)
    numbers = pl.DataFrame({"query": names, "number": np.arange(names.size)})
    listed = listed.join(numbers, on="query", maintain_order="left").sort("number", maintain_order=True)
    blank = np.zeros((len(listed), 1), np.float32), np.zeros(len(listed))
    offsets = offsets_of(np.bincount(listed["number"].to_numpy()))
    return RankingDataset(*blank, offsets, query_ids=names, document_ids=listed["document"].to_numpy())
