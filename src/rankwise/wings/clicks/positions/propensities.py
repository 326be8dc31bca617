"""Estimation of position bias from a click log."""

from typing import Annotated, Any

import numpy as np
from scipy.stats import t as student

from rankwise import RankingDataset, Stream, check, moved
from rankwise.base import tables
from rankwise.base.arrays import Array, Keywords, read_only
from rankwise.check.docstrings import plain_signature
from rankwise.check.parameters import AtLeast, Option, Unset
from rankwise.data.io import Table
from rankwise.statistics import RESAMPLED
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.logs.position_pairs import Gap
from rankwise.wings.clicks.positions import joint
from rankwise.wings.clicks.positions.allpairs import PositionCounts, PositionSwaps, sums_by
from rankwise.wings.clicks.positions.bias import Bias
from rankwise.wings.clicks.positions.confounding import items_by_period

_PBM = "clicks are examination times relevance: no trust, and no memory of the documents above"
_TRUST = (
    "clicks are alpha times relevance plus beta; relevance is the click rate at the first position, trust there "
    "included, so that beta is 0 there and relative to it elsewhere"
)
_METHODS = {
    "harvest": "whether a document of a query was shown at one position or another has nothing to do with who looked "
    "at it and when",
    "randomized": "documents were shuffled by chance",
    "em": "every document of a query has a relevance of its own",
}
_FEATURES = "relevance is a function of the features that trees learn"
_FOLDS = 5
_SPREADS = (0.0, 0.03, 0.1, 0.3, 1.0)  # standard deviations of segments around the common curve, on the log scale
_UNEVEN = 0.2  # of shuffled documents: how far chances of positions may be from even ones, in the mean square
_SURELY = 3.0  # standard errors


@moved.renamed("rw.clicks.propensities")
@plain_signature
def propensities(
    log: Log,
    method: Annotated[
        str,
        "harvest, by documents that moved; randomized, by shuffled lists; em, relevance and position together.",
        Option(metavar="harvest|randomized|em"),
    ] = "harvest",
    *,
    trust: Annotated[bool, "Whether clicks by trust are estimated, too."] = False,
    features: RankingDataset | Table | None = None,
    segments: bool = False,
    ranker: Annotated[
        str | None,
        "With randomized: the ranker whose lists were shuffled.",
        Unset("all"),
        Option("shuffled", metavar="NAME"),
    ] = None,
    period: Annotated[
        int | None,
        AtLeast(1),
        "Days within which documents are compared, where relevance changes and rankers follow it; needs times.",
        Unset("all time"),
        Option(metavar="DAYS"),
    ] = None,
    resamples: int = 200,
    level: float = 0.95,
    seed: Annotated[int, AtLeast(0), "Seed of every draw.", Option(group="Running")] = 0,
) -> Bias:
    """Estimate how clicks depend on position, with intervals from the spread between queries.

    - ``"harvest"`` compares documents that were shown at several positions for the same query, because several rankers
      were logged, documents were exchanged in pairs, or the index changed (AllPairs, Agarwal et al. 2019).
    - ``"randomized"`` compares positions of traffic whose documents were shuffled.
    - ``"em"`` fits relevance and position together (regression EM, Wang et al. 2018): relevance is a function of
      ``features``, or without them one number per query and document.

    ``ranker`` selects the impressions of one ranker, such as the shuffled part of the traffic. ``period=7`` compares
    documents only within seven days, where relevance changes and rankers follow it; the log needs times. ``trust=True``
    estimates clicks by trust, beta, too; the curve without it is in ``bias.pbm``. ``segments=True`` adds a curve for
    each segment, pulled to the common one as far as predicting other queries asks for it. Where the log does not
    identify the bias, an error names what is missing. ``resamples`` samples of queries with replacement give the
    intervals of ``"harvest"`` and ``"randomized"`` (at most 20 those of trees), the jackknife by query those with
    trust, the sandwich formula others.

    >>> import polars as pl
    >>> rows = [(q, q % 2 == k, i, k + 1, i < (60 if q % 2 == k else 20) / (k + 1)) for q in range(12) for k in (0, 1)
    ...         for i in range(100)]
    >>> rows += [(q, q % 2 != k, 100 + i, k + 1, i < (20 if q % 2 == k else 60) / (k + 1)) for q in range(12)
    ...          for k in (0, 1) for i in range(100)]
    >>> names = ["query", "document", "impression", "position", "clicked"]
    >>> log = Log.from_rows(pl.LazyFrame(rows, schema=names, orient="row"))
    >>> propensities(log)
    Bias(harvest, 2 positions: alpha 1.0000, 0.5000)
    """
    check.choice("method", method, _METHODS)
    check.integer("resamples", resamples, least=2)
    check.number("level", level, least=0.0, most=1.0, open_ends=True)
    if features is not None and method != "em":
        raise check.error("features= belongs to method='em'", got=f"method={method!r}")
    if features is not None and trust:
        raise check.error("trust=True works without features", hint="leave features out: documents have to move then")
    if segments and (trust or method == "em"):
        raise check.error("segments=True works with method='harvest' or 'randomized' and without trust")
    if period is not None and (trust or method != "harvest"):
        raise check.error("period= works with method='harvest' and without trust")
    stream = Stream(seed).child("propensities")
    log = log if ranker is None else log.only(rankers=ranker)
    items = log.pairs
    if period is not None:
        log, items = items_by_period(log, check.integer("period", period, least=1))
    swaps = PositionSwaps.of(log, items, by_segment=segments)
    if (gap := swaps.gap) and (gap.kind == "shown" or (features is None and method != "randomized")):
        raise gap.error()
    few = log.n_queries < RESAMPLED
    notes = [_METHODS[method] if features is None else _FEATURES]
    by_segment: Keywords = {}
    if features is not None:
        plain = joint.by_features(log, log.documents(features), resamples, stream)
    elif method == "em":
        plain = joint.by_document(log)
    else:
        if method == "randomized":
            _check_shuffled(log, gap)
            swaps = PositionSwaps.of(log, log.queries, by_segment=segments)
            if gap := swaps.gap:
                raise gap.error("query")
        logs, none = swaps.fit(swaps.sums.sum((0, 1))), np.zeros(log.n_positions)
        errors = none if few else swaps.resampled(logs, resamples, stream).std(0, ddof=1)
        plain = joint.Curves(logs, none, errors, none)
        if segments:
            curves, words = _segments(swaps, logs, log, stream)
            by_segment = {"segment_names": log.segment_names, "by_segment": curves}
            notes += words
    if period is not None:
        notes.append(f"documents were compared within periods of {tables.count(period, 'day')}")
    if len(log.segment_names) > 1 and not segments:
        notes.append(f"all {len(log.segment_names)} segments have one curve (segments=True fits one for each)")
    if few:
        notes.append(f"{log.n_queries} queries are too few for intervals")
    facts: Keywords = {"method": method, "level": level}
    bias = _bias(plain, few=few, assumptions=(_PBM, *notes), **by_segment, **facts)
    if not trust:
        return bias
    return _bias(joint.with_trust(log, plain.logs), few=few, assumptions=(_TRUST, *notes), pbm=bias, **facts)


def _bias(curves: joint.Curves, *, few: bool, level: float, **facts: Any) -> Bias:
    """Return the bias, with intervals of alpha that are symmetric on the log scale; NaN with few queries."""
    logs, beta = (
        np.full(error.size, np.nan) if few else student.ppf(0.5 + level / 2.0, freedom) * error
        for freedom, error in ((curves.logs_freedom, curves.logs_error), (curves.beta_freedom, curves.beta_error))
    )
    columns: Keywords = {
        "alpha": np.exp(curves.logs),
        "alpha_low": np.exp(curves.logs - logs),
        "alpha_high": np.exp(curves.logs + logs),
        "beta": curves.beta,
        "beta_low": curves.beta - beta,
        "beta_high": curves.beta + beta,
    }
    columns = {name: read_only(column) for name, column in columns.items()}
    return Bias(**columns, level=level, **facts)


def _check_shuffled(log: Log, gap: Gap | None) -> None:
    """Raise an error unless documents connect all positions and are at each about as often as their query is.

    With n impressions of a document, Σ (observed − expected)²/expected over the K positions of its query has the mean
    K − 1 + (n − 1) φ², where φ² is the mean squared distance of its chances from even ones, relative to these.
    """
    counts = PositionCounts.of(log, log.pairs)
    lists = (counts.queries * len(log.segment_names) + log.segments[counts.cells])[counts.units]
    shape = log.n_queries * len(log.segment_names), log.n_positions
    shown = sums_by(lists * shape[1] + counts.positions, counts.shown, shape[0] * shape[1]).reshape(shape)
    times = counts.by_unit(counts.shown)
    expected = times * shown[lists, counts.positions] / shown[lists].sum(1)
    _, first = np.unique(counts.units, return_index=True)
    several = times[first] > 1.0
    times, free = times[first][several], ((shown > 0).sum(1) - 1.0)[lists[first]][several]
    squares = sums_by(counts.units, counts.shown**2 / expected)[several] - times
    total = max(float((times - 1.0).sum()), 1e-12)
    uneven = float((squares - free).sum()) / total
    error = float(np.sqrt((2.0 * free * (times - 1.0) / times).sum())) / total if times.size else np.inf
    if gap is not None and gap.kind in ("moved", "exchanged"):
        got = "documents at one position each" if gap.kind == "moved" else ""
        got = got or f"positions {' and '.join(gap.groups)} that never exchange a document, as with a few fixed orders"
    elif uneven > max(_UNEVEN**2, _SURELY * error):
        got = f"chances of a document that differ from one position to another by {np.sqrt(uneven):.0%} of their mean"
    elif not max(uneven, 0.0) + _SURELY * error < 1.0:
        got = "documents that were shown too seldom to tell whether they were shuffled"
    else:
        return
    hint = "`set ranker=…`, the traffic that was shuffled" if len(log.ranker_names) > 1 else "shuffle some traffic"
    hint += "" if gap else ', or `set method="harvest"`'
    raise check.error(
        "method 'randomized' needs documents that were shuffled by chance",
        got=f"{got} (rankers {log.ranker_names})",
        hint=hint,
    )


def _segments(swaps: PositionSwaps, common: Array, log: Log, stream: Stream) -> tuple[Array, list[str]]:
    """Return a curve for each segment, and what is to be said about them.

    log θ of a segment is the common curve and a difference with a normal prior; the prior's width is the one whose
    curves make clicks on other queries most likely.
    """

    def around(sums: Array, center: Array, spread: float) -> Array:
        return swaps.fit(sums, center, spread**-2) if spread else center

    names = Stream(stream.seed, query_ids=swaps.words, path=stream.path).child("folds")
    fold = (names.per_query(swaps.words.size)[:, 0] * _FOLDS).astype(np.int64)
    heldout = np.zeros(len(_SPREADS))
    for part in range(_FOLDS):
        train, test = swaps.sums[:, fold != part].sum(1), swaps.sums[:, fold == part].sum(1)
        center = swaps.fit(train.sum(0), common)
        for i, spread in enumerate(_SPREADS):
            curves = np.array([around(sums, center, spread) for sums in train])
            heldout[i] += swaps.likelihood(curves, test)[0].sum()
    spread = _SPREADS[int(np.argmax(heldout))]
    width = f"about {spread:.0%}" if spread else "nothing"
    words = [f"curves of segments differ from the common one by {width}, the width that predicts other queries best"]
    in_all = swaps.sums.sum(1)
    for name, sums in zip(log.segment_names, in_all, strict=True):
        if (unclicked := np.flatnonzero(swaps.clicks(sums) == 0)).size:
            where = tables.spans(unclicked + 1)
            words.append(f"segment {name!r} has the common curve at positions {where}, where no swap was clicked")
    return read_only(np.exp([around(sums, common, spread) for sums in in_all])), words
