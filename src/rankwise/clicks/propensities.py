"""Estimation of position bias from a click log."""

from dataclasses import replace

import numpy as np

from rankwise import check
from rankwise.arrays import Array, Keywords, read_only
from rankwise.clicks import em, em_trees
from rankwise.clicks.bias import Bias
from rankwise.clicks.harvest import Numbers, Swaps, likelihood, log_interval, spans, sums_by
from rankwise.clicks.log import Log
from rankwise.data.dataset import RankingDataset
from rankwise.stream import Stream

METHODS = ("harvest", "randomized", "em")
_FOLDS = 5
_SPREADS = (0.0, 0.03, 0.1, 0.3, 1.0)  # standard deviations of segments around the common curve, on the log scale
_SHUFFLED = 0.8  # of the variance of positions that shuffling has, within documents


def propensities(
    log: Log,
    method: str = "harvest",
    *,
    trust: bool = False,
    features: RankingDataset | None = None,
    segments: bool = False,
    ranker: str | None = None,
    swapped: bool = False,
    samples: int = 200,
    level: float = 0.95,
    seed: int = 0,
) -> Bias:
    """Estimate how clicks depend on position, with intervals from the spread between queries.

    - ``"harvest"`` compares documents that were shown at several positions for the same query, because several rankers
      were logged or the index changed (AllPairs, Agarwal et al. 2019).
    - ``"randomized"`` compares positions of traffic whose documents were shuffled, or, with ``swapped=True``, whose
      documents were exchanged in pairs. ``ranker`` names that traffic where the log has other traffic too.
    - ``"em"`` fits relevance and position together (regression EM, Wang et al. 2018): relevance is a function of
      ``features``, or without them one number per query and document.

    ``trust=True`` estimates clicks by trust, beta, too; the curve without it is in ``bias.pbm``. ``segments=True``
    adds a curve for each segment, pulled to the common one as far as predicting other queries asks for it. Where the
    log does not identify the bias, an error names what is missing. ``samples`` samples of queries with replacement give
    the intervals of swaps (at most 20 those of trees); others have the sandwich formula.

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
    check.choice("method", method, METHODS)
    check.integer("samples", samples, least=2)
    check.number("level", level, least=0.0, most=1.0, open_ends=True)
    stream = Stream(seed).child("propensities")
    if not log.impressions.sum() > 0:
        raise check.error("position bias needs impressions", got=repr(log))
    if ranker is not None:
        code = log.ranker_names.index(check.choice("ranker", ranker, log.ranker_names))
        log = _of_cells(log, np.flatnonzero(log.rankers == code))
    _check_positions(log)
    for name, value, meant in (
        ("features", features is not None, "em"),
        ("swapped", swapped, "randomized"),
        ("ranker", ranker is not None, "randomized"),
    ):
        if value and method != meant:
            raise check.error(f"{name}= belongs to method={meant!r}", got=f"method={method!r}")
    if segments and (trust or method == "em"):
        raise check.error("segments=True works with method='harvest' or 'randomized' and without trust")
    if features is not None:
        return em_trees.by_features(log, features, trust=trust, samples=samples, level=level, stream=stream)
    if method == "em":
        bias = em.by_document(log, level)
    else:
        bias = _by_swaps(log, method, swapped=swapped, segments=segments, samples=samples, level=level, stream=stream)
    return em.with_trust(log, bias) if trust else bias


def _by_swaps(
    log: Log, method: str, *, swapped: bool, segments: bool, samples: int, level: float, stream: Stream
) -> Bias:
    shuffled = method == "randomized" and not swapped
    if shuffled:
        _check_shuffled(log)
    swaps = Swaps.of(log, log.queries if shuffled else log.pairs, by_segment=segments)
    swaps.check_connected("query" if shuffled else "a document")
    best = swaps.fit()
    drawn = swaps.resampled(best, samples, stream)
    low, high = log_interval(best, drawn, level)
    assumptions = [
        em.PBM,
        {
            "harvest": "whether a document of a query was shown at one position or another has nothing to do with who "
            "looked at it and when",
            "randomized": f"documents were {'swapped' if swapped else 'shuffled'} by chance",
        }[method],
    ]
    curves: Array | None = None
    if segments:
        curves, words = _segments(swaps, best, log, stream)
        assumptions += words
    elif len(log.segment_names) > 1:
        assumptions.append(f"all {len(log.segment_names)} segments have one curve (segments=True fits one for each)")
    if drawn is None:
        assumptions.append(f"{log.n_queries} queries are too few for intervals")
    zeros = read_only(np.zeros(best.size))
    return Bias(
        alpha=read_only(np.exp(best)),
        alpha_low=read_only(low),
        alpha_high=read_only(high),
        beta=zeros,
        beta_low=zeros,
        beta_high=zeros,
        method=method,
        assumptions=tuple(assumptions),
        segment_names=log.segment_names if segments else ("",),
        by_segment=curves,
        level=level,
    )


def _segments(swaps: Swaps, best: Array, log: Log, stream: Stream) -> tuple[Array, list[str]]:
    """Return a curve for each segment, and what is to be said about them.

    log θ of a segment is the common curve and a difference with a normal prior; the prior's width is the one whose
    curves make clicks on other queries most likely.
    """
    names = Stream(stream.seed, query_ids=swaps.words, path=stream.path).child("folds")
    fold = (names.per_query(swaps.words.size)[:, 0] * _FOLDS).astype(np.int64)
    heldout = np.zeros(len(_SPREADS))
    for part in range(_FOLDS):
        train, test = swaps.sums[:, fold != part].sum(1), swaps.sums[:, fold == part].sum(1)
        common = swaps.fit_sums(train.sum(0), best)
        for i, spread in enumerate(_SPREADS):
            for seen, unseen in zip(train, test, strict=True):
                curve = _around(swaps, seen, common, spread)
                heldout[i] += likelihood(curve, unseen, swaps.first, swaps.second)[0]
    spread = _SPREADS[int(np.argmax(heldout))]
    sums = swaps.sums.sum(1)
    curves = np.exp([_around(swaps, one, best, spread) for one in sums])
    words = [
        "curves of segments differ from the common one by "
        + (f"about {spread:.0%}, the width that predicts other queries best" if spread else "nothing that helps to "
           "predict other queries: they have the common curve")
    ]  # fmt: skip
    for name, one in zip(log.segment_names, sums, strict=True):
        clicks = sums_by(swaps.first, one[:, 1], best.size) + sums_by(swaps.second, one[:, 2], best.size)
        if not clicks.any():
            words.append(f"segment {name!r} shows no document at two positions: it has the common curve")
        elif spread and not clicks.all():
            missing = spans(np.flatnonzero(clicks == 0) + 1)
            words.append(f"segment {name!r} has the common curve at positions {missing}, where no swap was clicked")
    return read_only(curves), words


def _around(swaps: Swaps, sums: Array, common: Array, spread: float) -> Array:
    """Return log θ of one segment's sums, pulled to the common curve."""
    return swaps.fit_sums(sums, common, center=common, ridge=spread**-2) if spread else common


def _check_positions(log: Log) -> None:
    shown = sums_by(log.positions - 1, log.impressions)
    if not shown.all():
        missing = spans(np.flatnonzero(shown == 0) + 1)
        raise check.error("position bias needs impressions at every position", got=f"none at {missing}")


def _check_shuffled(log: Log) -> None:
    """Raise unless the position of a document varies as much as positions of its query do."""
    within = _variance(log, log.pairs), _variance(log, log.queries)
    if not within[0] >= _SHUFFLED * within[1]:
        names = ", ".join(repr(log.ranker_names[code]) for code in np.unique(log.rankers))
        raise check.error(
            "method 'randomized' needs documents that were shuffled by chance",
            got=f"positions of a document vary {within[0] / max(within[1], 1e-12):.0%} of what shuffling gives"
            f" (rankers {names})",
            hint="`set ranker=…`, the traffic that was shuffled, `set swapped=True` for documents exchanged in pairs,"
            ' or `set method="harvest"`',
        )


def _variance(log: Log, items: Numbers) -> float:
    """Return the mean variance of positions within items, without the bias of few impressions."""
    size = int(items.max()) + 1
    times, sums, squares = (sums_by(items, log.impressions * log.positions**power, size) for power in (0, 1, 2))
    several = times > 1
    spread = squares[several] - sums[several] ** 2 / times[several]
    return float(spread.sum() / max((times[several] - 1.0).sum(), 1e-12))


def _of_cells(log: Log, cells: Numbers) -> Log:
    """Return a log of some cells, with all of its queries and pairs."""
    names = ("pairs", "positions", "rankers", "segments", "impressions", "clicks")
    columns: Keywords = {name: read_only(getattr(log, name)[cells]) for name in names}
    columns["probabilities"] = None if log.probabilities is None else read_only(log.probabilities[cells])
    return replace(log, **columns, sessions=None)
