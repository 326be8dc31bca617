"""Estimate click models: EM for PBM, UBM and DBN, counting for SDBN and DCM."""

from typing import NamedTuple, Self

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from rankwise import check, threads
from rankwise.arrays import Array, Column, Offsets, offsets_of, read_only, rows_of
from rankwise.clicks import models_cpu
from rankwise.clicks.log import Log, Sessions
from rankwise.clicks.models import NAMES, ClickModel, sessions_of
from rankwise.statistics.tables import count

_BLOCK = 2**16  # cells whose sums are added up together, whatever the number of threads


def click_model(
    log: Log,
    model: str = "pbm",
    *,
    prior: float | ArrayLike | None = None,
    strength: float = 10.0,
    continuation: float | None = None,
    iterations: int = 1000,
    tolerance: float = 1e-6,
) -> ClickModel:
    """Estimate a click model, for judgements from clicks or to predict clicks.

    ===========  ======================================================================================  ==============
    ``model``    a click needs an attractive document that is examined; users examine                    estimated by
    ===========  ======================================================================================  ==============
    ``"pbm"``    position k with a probability of its own                                                EM
    ``"ubm"``    position k with a probability that depends on the last click above (Dupret 2008)        EM
    ``"dbn"``    from the top, until a click satisfies or they give up (Chapelle & Zhang 2009)           EM
    ``"sdbn"``   the same, but they never give up                                                        counting
    ``"dcm"``    from the top, going on after a click at k with a probability of k (Guo 2009)            counting
    ===========  ======================================================================================  ==============

    Counting takes the last click as the end of reading: it maximises the likelihood in which this is observed. For the
    maximum over all ends that are possible, use ``"dbn"`` with ``continuation=1.0``.

    ``prior`` is a mean of attractiveness, or one for each pair, such as the predictions of a ranker; it counts like
    ``strength`` examinations, of which that share was clicked: what makes rare queries usable. Satisfaction is then
    drawn to its mean in the same way. All models but ``"pbm"`` need ``log.sessions``.

    Attractiveness in PBM and UBM is the probability of a click at the first position. They raise where no clicked
    document connects a position with the first, as with one deterministic ranker, unless there is a prior mean for
    each pair.

    >>> import rankwise as rw
    >>> data = rw.synthetic(n_queries=200, n_docs=8, seed=1)
    >>> rankers = {"old": data.features[:, 0], "new": data.features[:, 1]}
    >>> log = rw.clicks.simulate(data, rankers=rankers, curve=[1.0, 0.5, 0.25], impressions=2000, seed=1)
    >>> click_model(log, "pbm")
    position-based model: 827 pairs, attractiveness 0.2558 on average, 446 iterations
    position  examination
           1       1.0000
           2       0.5015
           3       0.2467
    """
    check.choice("click model", model, NAMES)
    iterations = check.integer("iterations", iterations, least=1)
    tolerance = check.number("tolerance", tolerance, least=0.0)
    if continuation is not None:
        if model != "dbn":
            raise check.error("only a DBN has a fixed continuation", got=repr(model), hint="leave it out")
        continuation = check.number("continuation", continuation, least=0.0, most=1.0)
    if not log.clicks.any():
        raise check.error("a click model needs clicks", got="a log without any")
    added = _prior(log, prior, strength)
    if model in ("pbm", "ubm"):
        return _by_context(log, model, added, iterations, tolerance, checked=np.ndim(prior) == 0)  # type: ignore[arg-type]
    return _by_chain(log, model, added, continuation, iterations, tolerance)


def _prior(log: Log, prior: float | ArrayLike | None, strength: float) -> tuple[Array, Array]:
    """Return the clicks and the skips that the prior adds to each pair."""
    if prior is None:
        return np.zeros(log.n_pairs), np.zeros(log.n_pairs)
    strength = check.number("strength", strength, least=0.0)
    means = np.asarray(prior, np.float64)
    if means.shape not in ((), (log.n_pairs,)):
        what = "a prior is one mean, or one for each pair of the log"
        raise check.error(what, got=f"shape {means.shape} for {count(log.n_pairs, 'pair')}")
    if not ((means >= 0.0) & (means <= 1.0)).all():
        wrong = means[~((means >= 0.0) & (means <= 1.0))].flat[0]
        what, hint = "prior means are probabilities of a click", "map scores to the share of clicks first"
        raise check.error(what, got=f"{wrong:g}", hint=hint)
    means = np.broadcast_to(means, log.n_pairs)
    return strength * means, strength * (1.0 - means)


def _fitted(log: Log, model: str, **parameters: object) -> ClickModel:
    shown = np.bincount(log.pairs, log.impressions, log.n_pairs)
    ids = {"query_ids": log.query_ids, "offsets": log.offsets, "document_ids": log.document_ids}
    return ClickModel(model=model, **ids, impressions=shown, **parameters)  # type: ignore[arg-type]


def _slow(change: float, tolerance: float, iterations: int) -> tuple[str, ...]:
    """Return a note if EM was stopped before it had converged."""
    if change <= tolerance or not tolerance:
        return ()
    return (f"Not converged: after {iterations} iterations parameters still change by {change:.1g} in each.",)


class Cells(NamedTuple):
    """Impressions and clicks added up by pair and context, sorted by pair."""

    pairs: NDArray[np.int64]
    contexts: NDArray[np.int32]
    shown: Array
    clicked: Array

    @classmethod
    def of(cls, pairs: Column, contexts: Column, shown: Array, clicked: Array) -> Self:
        """Add up rows."""
        threads.check_tables()
        frame = pl.DataFrame({"pair": pairs, "context": contexts, "shown": shown, "clicked": clicked}).lazy()
        sums = frame.group_by("pair", "context").agg(pl.col("shown", "clicked").sum()).sort("pair", "context").collect()
        types = pl.Int64, pl.Int32, pl.Float64, pl.Float64
        return cls(*(read_only(one.cast(kind).to_numpy()) for one, kind in zip(sums, types, strict=True)))

    def connected(self, n_pairs: int, n_contexts: int) -> NDArray[np.bool_]:
        """Whether each context is connected with the first by pairs that were clicked; others tell nothing of it."""
        linked = (np.bincount(self.pairs, self.clicked, n_pairs) > 0.0)[self.pairs]
        links = self.contexts[linked], n_contexts + self.pairs[linked]
        graph = coo_array((np.ones(links[0].size), links), shape=(n_contexts + n_pairs,) * 2)
        parts: NDArray[np.int32] = connected_components(graph, directed=False)[1]
        return np.asarray(parts[:n_contexts] == parts[self.contexts.min()])


def cells_of(log: Log, model: str) -> Cells:
    """Return what PBM or UBM read of a log: a context is a position, for the UBM with that of the last click above."""
    if model == "pbm":
        return Cells.of(log.pairs, log.positions - 1, log.impressions, log.clicks)
    lists = sessions_of(log, model)
    contexts = np.empty(lists.pairs.size, np.int32)
    threads.over_queries(models_cpu.contexts, lists.offsets, lists.positions, lists.clicked, log.n_positions, contexts)
    weights = np.repeat(lists.weights, np.diff(lists.offsets))
    return Cells.of(lists.pairs, contexts, weights, weights * lists.clicked)


def _by_context(
    log: Log, model: str, added: tuple[Array, Array], iterations: int, tolerance: float, *, checked: bool
) -> ClickModel:
    """Estimate PBM or UBM: P(click) is the examination of a context times attractiveness."""
    depth, n_pairs = log.n_positions, log.n_pairs
    last_clicks = 1 if model == "pbm" else depth  # contexts of a position
    cells = cells_of(log, model)
    width = depth * last_clicks
    first = int(cells.contexts.min())
    notes: tuple[str, ...] = ()
    inside = cells.connected(n_pairs, width)[cells.contexts] if checked else np.ones(cells.pairs.size, np.bool_)
    if not inside.all():
        outside = cells.contexts[~inside]
        _check_positions(log, np.setdiff1d(outside // last_clicks, cells.contexts[inside] // last_clicks))
        left_out = count(np.unique(outside).size, "context")
        notes = (f"{left_out} not connected with the first by a clicked document: left out.",)
        cells = Cells._make(read_only(part[inside]) for part in cells)

    starts = np.searchsorted(cells.pairs, np.arange(n_pairs + 1))
    blocks = np.unique(np.searchsorted(starts, np.arange(0, cells.pairs.size + _BLOCK, _BLOCK)).clip(0, n_pairs))
    shown, clicked = (np.bincount(cells.contexts, part, width) for part in (cells.shown, cells.clicked))
    clicks = np.bincount(cells.pairs, cells.clicked, n_pairs)
    attractiveness = (clicks + added[0] + 0.5) / (np.bincount(cells.pairs, cells.shown, n_pairs) + sum(added) + 1.0)
    examination = np.where(shown > 0.0, 0.5, 0.0)  # 1 would be a fixed point
    examination[first] = 1.0
    sums = np.zeros((blocks.size - 1, width))
    skips, of_pairs = read_only(cells.shown - cells.clicked), (clicks + added[0], clicks + sum(added))
    work = 2.0 * np.diff(starts[blocks])
    step, change = 0, np.inf
    while step < iterations and change > tolerance:
        sums[:] = 0.0
        parameters = examination, attractiveness, sums
        threads.over_queries(
            models_cpu.examine, blocks, starts, cells.contexts, skips, *of_pairs, *parameters, work=work
        )
        update = np.divide(clicked + sums.sum(axis=0), shown, out=np.zeros(width), where=shown > 0.0)
        update[first] = 1.0
        change = float(np.abs(update - examination).max())
        examination, step = update, step + 1
    examination[shown == 0.0] = np.nan
    return _fitted(
        log,
        model,
        attractiveness=np.where(np.diff(starts) > 0, attractiveness, np.nan),
        examination=examination if model == "pbm" else examination.reshape(depth, depth),
        mean=(float(clicked.sum() / (clicked.sum() + sums.sum())), 0.0),
        iterations=step,
        notes=(*notes, *_slow(change, tolerance, step)),
    )


def _check_positions(log: Log, outside: NDArray[np.int64]) -> None:
    if outside.size:
        places = ", ".join(str(k + 1) for k in outside.tolist())
        raise check.error(
            f"no clicked document connects position {places} with the first: examination is not identified",
            got=f"{count(len(log.ranker_names), 'ranker')}, {count(log.n_pairs, 'pair')}",
            hint="log several rankers or some shuffled lists, or set a prior mean for each pair",
        )


def _by_chain(
    log: Log, model: str, added: tuple[Array, Array], continuation: float | None, iterations: int, tolerance: float
) -> ClickModel:
    """Estimate DBN, SDBN or DCM: users read from the top. The DBN's EM begins at the counts of the SDBN."""
    lists = sessions_of(log, model)
    sizes = np.diff(lists.offsets)
    rows, weights = np.arange(lists.pairs.size), np.repeat(lists.weights, sizes)
    last = np.maximum.reduceat(np.where(lists.clicked, rows, -1), lists.offsets[:-1])
    examined = rows <= np.repeat(np.where(last < 0, rows.size, last), sizes)
    ends = np.zeros(rows.size, np.bool_)
    ends[last[last >= 0]] = True

    def added_up(rows: NDArray[np.bool_], by: Column, length: int) -> Array:
        return np.bincount(by[rows], weights[rows], length).astype(np.float64)

    shown, clicks, end_clicks = (added_up(part, lists.pairs, log.n_pairs) for part in (examined, lists.clicked, ends))
    means = float(clicks.sum() / shown.sum()), float(end_clicks.sum() / clicks.sum())
    strength = added[0] + added[1]
    attractive, satisfied = _ratio(clicks + added[0], shown + strength), end_clicks + strength * means[1]
    if model == "dcm":
        stops, all_clicks = (added_up(part, lists.positions, log.n_positions + 1) for part in (ends, lists.clicked))
        onward = 1.0 - _ratio(stops, all_clicks)[1:]
        return _fitted(log, model, attractiveness=attractive, continuation=onward, mean=means)
    if model == "sdbn":
        satisfaction = _ratio(satisfied, clicks + strength)
        parameters = {"attractiveness": attractive, "satisfaction": satisfaction, "continuation": np.ones(1)}
        return _fitted(log, model, **parameters, mean=means)
    if sizes.max() == 1:
        raise check.error("a DBN needs lists", got="one document in every impression", hint='use model="pbm"')
    start = (clicks + added[0] + 0.5) / (shown + strength + 1.0), (satisfied + 0.5) / (clicks + strength + 1.0)
    return _dbn(log, (clicks + added[0], strength, means[1]), *start, continuation, iterations, tolerance)


def _dbn(
    log: Log,
    counts: tuple[Array, Array, float],
    attractiveness: Array,
    satisfaction: Array,
    continuation: float | None,
    iterations: int,
    tolerance: float,
) -> ClickModel:
    """Estimate a DBN from counts (clicks, strength of the prior, its mean of satisfaction) and first values."""
    clicks, strength, mean = counts
    lists = _by_query(log, sessions_of(log, "dbn"))
    impressions = np.bincount(log.pairs, log.impressions, log.n_pairs)
    onward = 0.9 if continuation is None else continuation
    step, change = 0, np.inf
    while step < iterations and change > tolerance:
        sums, going = np.zeros((3, log.n_pairs)), np.zeros((log.n_queries, 2))
        current = attractiveness, satisfaction, onward
        work = 10.0 * np.diff(lists[1][lists[0]])
        threads.over_queries(models_cpu.forward_backward, *lists, *current, *sums, going, work=work)
        examined, satisfied, unsatisfied = sums
        attractive = _ratio(clicks, examined + strength)
        satisfying = _ratio(satisfied + strength * mean, satisfied + unsatisfied + strength)
        if continuation is None:
            onward = float(going[:, 1].sum() / going[:, 0].sum())
        moved = np.fmax(abs(attractive - attractiveness), abs(satisfying - satisfaction))
        change = max(float(np.nansum(moved * impressions) / impressions.sum()), abs(onward - current[2]))
        attractiveness = np.where(np.isnan(attractive), attractiveness, attractive)
        satisfaction = np.where(np.isnan(satisfying), satisfaction, satisfying)
        step += 1
    return _fitted(
        log,
        "dbn",
        attractiveness=attractive,
        satisfaction=satisfying,
        continuation=np.array([onward]),
        mean=(float(clicks.sum() / (examined + strength).sum()), float(satisfied.sum() / sums[1:].sum())),
        iterations=step,
        notes=_slow(change, tolerance, step),
    )


def _ratio(numerator: Array, denominator: Array) -> Array:
    """Divide; NaN where there is nothing to divide by."""
    quotient = np.full(numerator.size, np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator > 0.0)
    return quotient


def _by_query(log: Log, lists: Sessions) -> tuple[Offsets, Offsets, Column, Column, Array]:
    """Return impressions sorted by query: offsets of queries and of impressions, pairs, clicks and weights."""
    queries = np.searchsorted(log.offsets, lists.pairs[lists.offsets[:-1]], side="right") - 1
    order = np.argsort(queries, kind="stable")
    rows, offsets = rows_of(order, lists.offsets)
    groups = offsets_of(np.bincount(queries, minlength=log.n_queries))
    weights = read_only(lists.weights[order])
    return groups, read_only(offsets), read_only(lists.pairs[rows]), read_only(lists.clicked[rows]), weights
