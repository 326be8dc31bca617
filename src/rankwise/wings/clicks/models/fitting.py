"""Estimate click models: EM for PBM, UBM and DBN, counting for SDBN and DCM."""

from typing import NamedTuple

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from rankwise import check
from rankwise.base import threads
from rankwise.base.arrays import Array, Column, Keywords, read_only
from rankwise.base.compiling import kernel
from rankwise.base.tables import count, spans
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.logs.position_pairs import Exchanges
from rankwise.wings.clicks.models.model import NAMES, ClickModel, contexts_of, sessions_of

_BLOCKS = 128  # of pairs; each has sums of its own, so that they do not depend on threads


def click_model(
    log: Log,
    model: str = "pbm",
    *,
    prior: float | ArrayLike | None = None,
    strength: float = 10.0,
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

    Counting takes the last click as the end of reading: it maximises the likelihood in which this is observed.

    ``prior`` is a mean of attractiveness, or one for each pair, such as the predictions of a ranker; it counts like
    ``strength`` examinations, of which that share was clicked: what makes rare queries usable. Satisfaction is then
    drawn to its mean in the same way. All models but ``"pbm"`` need ``log.sessions``.

    Attractiveness in PBM and UBM is the probability of a click at the first position. They raise where the log does
    not identify position bias, as :func:`propensities` does, unless there is a prior mean for each pair.

    >>> import rankwise as rw
    >>> data = rw.synthetic(n_queries=200, n_docs=8, seed=1)
    >>> rankers = {"old": data.features[:, 0], "new": data.features[:, 1]}
    >>> log = rw.clicks.simulate(data, rankers=rankers, curve=[1.0, 0.5, 0.25], impressions=2000, seed=1)
    >>> click_model(log, "pbm")
    position-based model: 827 pairs, attractiveness 0.2466 on average
    position  examination
           1       1.0000
           2       0.5015
           3       0.2467
    """
    check.choice("click model", model, NAMES)
    iterations = check.integer("iterations", iterations, least=1)
    tolerance = check.number("tolerance", tolerance, least=0.0)
    if not log.clicks.any():
        raise check.error("a click model needs clicks", got="a log without any")
    added = _prior(log, prior, strength)
    notes: tuple[str, ...] = ()
    if model in ("pbm", "ubm"):
        cells = cells_of(log, model)
        if np.ndim(prior) == 0:  # type: ignore[arg-type]
            cells, notes = _identified(log, cells)
        parameters, change = _by_context(log, model, cells, added, iterations, tolerance)
    elif model == "dbn":
        parameters, change = _dbn(log, added, iterations, tolerance)
    else:
        parameters, change = _counted(log, model, added), 0.0
    if change > tolerance > 0.0:
        notes += (f"Not converged: after {iterations} iterations parameters still change by {change:.1g} in each.",)
    if unknown := int(np.isnan(parameters["attractiveness"]).sum()):
        notes += (f"{unknown:,} of {count(log.n_pairs, 'pair')} without an estimate (NaN): set a prior.",)
    return ClickModel(
        model=model,
        query_ids=log.query_ids,
        offsets=log.offsets,
        document_ids=log.document_ids,
        impressions=np.bincount(log.pairs, log.impressions, log.n_pairs).astype(np.float64),
        notes=notes,
        **parameters,
    )


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


class Cells(NamedTuple):
    """Impressions and clicks added up by pair and context, sorted by pair."""

    pairs: NDArray[np.int64]
    contexts: NDArray[np.int64]
    shown: Array
    clicked: Array


def cells_of(log: Log, model: str) -> Cells:
    """Return what PBM or UBM read of a log: a context is a position, for the UBM with that of the last click above."""
    threads.check_tables()
    if model == "pbm":
        rows = log.pairs, log.positions - 1, log.impressions, log.clicks
    else:
        lists = sessions_of(log, model)
        weights = np.repeat(lists.weights, np.diff(lists.offsets))
        contexts = contexts_of(lists, log.n_positions)
        rows = lists.pairs.astype(np.int64), contexts, weights, weights * lists.clicked
    columns = dict(zip(("pairs", "contexts", "shown", "clicked"), rows, strict=True))
    frame = pl.LazyFrame(columns).group_by("pairs", "contexts").agg(pl.sum("shown", "clicked"))
    return Cells(*(read_only(column.to_numpy()) for column in frame.sort("pairs", "contexts").collect()))


def _identified(log: Log, cells: Cells) -> tuple[Cells, tuple[str, ...]]:
    """Return cells of contexts that pairs with clicks connect with the first, and a note.

    Raise an error where positions cannot be compared, by the rule of :func:`rankwise.clicks.propensities`.
    """
    if gap := Exchanges.of(log).gap:
        raise gap.error()
    n_contexts = 1 + int(cells.contexts.max())
    linked = (np.bincount(cells.pairs, cells.clicked, log.n_pairs) > 0.0)[cells.pairs]
    links = cells.contexts[linked], n_contexts + cells.pairs[linked]
    graph = coo_array((np.ones(links[0].size), links), shape=(n_contexts + log.n_pairs,) * 2)
    component: NDArray[np.int32] = connected_components(graph, directed=False)[1]
    inside = (component[:n_contexts] == component[cells.contexts.min()])[cells.contexts]
    if inside.all():
        return cells, ()
    outside = np.unique(cells.contexts[~inside])
    positions = np.setdiff1d(outside // log.n_positions, cells.contexts[inside] // log.n_positions)
    if positions.size:  # of a PBM every position is inside
        raise check.error(
            f"no clicked document connects position {spans(positions + 1)} with the first, given the last click above",
            hint="estimate a PBM, or set a prior mean for each pair",
        )
    note = f"{count(outside.size, 'context')} not connected with the first by a clicked document: left out."
    return Cells(*(read_only(column[inside]) for column in cells)), (note,)


def _by_context(
    log: Log, model: str, cells: Cells, added: tuple[Array, Array], iterations: int, tolerance: float
) -> tuple[Keywords, float]:
    """Estimate PBM or UBM: P(click) is the examination of a context times attractiveness."""
    depth, n_pairs = log.n_positions, log.n_pairs
    width = depth if model == "pbm" else depth**2
    first = int(cells.contexts.min())
    shown, clicked = (np.bincount(cells.contexts, part, width) for part in (cells.shown, cells.clicked))
    clicks = np.bincount(cells.pairs, cells.clicked, n_pairs)
    impressions = np.bincount(cells.pairs, cells.shown, n_pairs)
    attractiveness = (clicks + added[0] + 0.5) / (impressions + sum(added) + 1.0)
    examination = np.where(shown > 0.0, 0.5, np.nan)  # 1 would be a fixed point
    examination[first] = 1.0
    # Pairs without clicks have attractiveness 0: they are examined as often as anything in their context is.
    clickable = clicks + added[0] > 0.0
    attractiveness[~clickable] = 0.0
    never = ~clickable[cells.pairs]
    unattractive = np.bincount(cells.contexts[never], cells.shown[never], width)
    cells = Cells(*(read_only(column[~never]) for column in cells))
    starts = np.searchsorted(cells.pairs, np.arange(n_pairs + 1))
    skips, of_pairs = read_only(cells.shown - cells.clicked), (clicks + added[0], clicks + sum(added))
    blocks = np.searchsorted(starts, np.linspace(0, cells.pairs.size, _BLOCKS + 1)).astype(np.int64)
    blocks[-1] = n_pairs
    work = 2.0 * np.diff(starts[blocks])
    step, change = 0, np.inf
    while step < iterations and change > tolerance:
        sums = np.zeros((_BLOCKS, width))
        arguments = starts, cells.contexts, skips, *of_pairs, examination, attractiveness, sums
        threads.over_queries(_examine, blocks, *arguments, work=work)
        update = _ratio(clicked + sums.sum(axis=0) + unattractive * examination, shown)
        update[first] = 1.0
        change = float(np.nanmax(np.abs(update - examination)))
        examination, step = update, step + 1
    attractiveness[impressions + sum(added) == 0.0] = np.nan
    table = examination if model == "pbm" else examination.reshape(depth, depth)
    return {"attractiveness": attractiveness, "examination": table}, change


@kernel
def _examine(  # type: ignore[no-untyped-def]
    first, last, blocks, starts, contexts, skips, clicks, added, examination, attractiveness, sums
):
    """One EM step: add up the expected examinations without a click by block and context; renew attractiveness."""
    for block in range(first, last):
        for pair in range(blocks[block], blocks[block + 1]):
            attractive = attractiveness[pair]
            examined = added[pair]
            for cell in range(starts[pair], starts[pair + 1]):
                chance = examination[contexts[cell]]
                # P(examined | not clicked), times the impressions without a click; 1 where all is examined, not 0/0
                unclicked = skips[cell]
                if chance < 1.0:
                    unclicked *= chance * (1.0 - attractive) / (1.0 - chance * attractive)
                sums[block, contexts[cell]] += unclicked
                examined += unclicked
            if examined > 0.0:
                attractiveness[pair] = clicks[pair] / examined


def _counted(log: Log, model: str, added: tuple[Array, Array]) -> Keywords:
    """Estimate SDBN or DCM: users read from the top and leave after the last click, or read all without one."""
    lists = sessions_of(log, model)
    sizes = np.diff(lists.offsets)
    rows, weights = np.arange(lists.pairs.size), np.repeat(lists.weights, sizes)
    last = np.repeat(np.maximum.reduceat(np.where(lists.clicked, rows, -1), lists.offsets[:-1]), sizes)

    def added_up(rows: NDArray[np.bool_], by: Column, length: int) -> Array:
        return np.bincount(by[rows], weights[rows], length).astype(np.float64)

    examined = added_up((rows <= last) | (last < 0), lists.pairs, log.n_pairs)
    clicks = added_up(lists.clicked, lists.pairs, log.n_pairs)
    attractiveness = _ratio(clicks + added[0], examined + sum(added))
    if model == "dcm":
        ends = added_up(rows == last, lists.positions, log.n_positions + 1)
        going_on = 1.0 - _ratio(ends, added_up(lists.clicked, lists.positions, log.n_positions + 1))
        return {"attractiveness": attractiveness, "continuation": going_on[1:]}
    ends = added_up(rows == last, lists.pairs, log.n_pairs)
    satisfaction = _ratio(ends + sum(added) * ends.sum() / clicks.sum(), clicks + sum(added))
    always = np.ones(log.n_positions)
    return {"attractiveness": attractiveness, "satisfaction": satisfaction, "continuation": always}


def _dbn(log: Log, added: tuple[Array, Array], iterations: int, tolerance: float) -> tuple[Keywords, float]:
    """Estimate a DBN by EM; with a prior, satisfaction is drawn to the share of last clicks."""
    lists = sessions_of(log, "dbn")
    sizes = np.diff(lists.offsets)
    if sizes.max() == 1:
        raise check.error("a DBN needs lists", got="one document in every impression", hint="estimate a PBM")
    weights = np.repeat(lists.weights, sizes)
    above = np.ones(lists.pairs.size, np.bool_)  # rows with another below
    above[lists.offsets[1:] - 1] = False
    below = np.ones(lists.pairs.size, np.bool_)
    below[lists.offsets[:-1]] = False

    def added_up(values: Array) -> Array:
        return np.bincount(lists.pairs, values, log.n_pairs).astype(np.float64)

    clicks, shown = added_up(weights * lists.clicked), added_up(weights)
    informative = added_up(weights * (lists.clicked & above))  # below the last row nothing tells of satisfaction
    strength = added[0] + added[1]
    has_click = np.logical_or.reduceat(lists.clicked, lists.offsets[:-1])
    mean = float(lists.weights[has_click].sum() / clicks.sum())
    attractiveness = (clicks + added[0] + 0.5) / (shown + strength + 1.0)
    satisfaction, continuation = np.full(log.n_pairs, 0.5), 0.9
    examined, satisfied = np.empty(weights.size), np.empty(weights.size)
    step, change = 0, np.inf
    while step < iterations and change > tolerance:
        current = attractiveness, satisfaction, continuation
        rows = lists.pairs, lists.clicked, lists.weights
        threads.over_queries(_forward_backward, lists.offsets, *rows, *current, examined, satisfied)
        attractive = _ratio(clicks + added[0], added_up(examined) + strength)
        attractiveness = np.where(np.isnan(attractive), attractiveness, attractive)
        satisfaction = _ratio(added_up(satisfied) + strength * mean, informative + strength)
        unsatisfied = float((examined - satisfied)[above].sum())
        continuation = float(examined[below].sum()) / unsatisfied if unsatisfied > 0.0 else continuation
        moved = np.fmax(abs(attractiveness - current[0]), abs(satisfaction - current[1]))
        change = max(float(np.nansum(moved * shown) / shown.sum()), abs(continuation - current[2]))
        step += 1
    going_on = np.full(log.n_positions, continuation)
    return {"attractiveness": attractive, "satisfaction": satisfaction, "continuation": going_on}, change


@kernel
def _forward_backward(  # type: ignore[no-untyped-def]
    first, last, offsets, pairs, clicked, weights, attractiveness, satisfaction, continuation, examined, satisfied
):
    """One expectation step of the DBN: fill P(examined) and P(clicked and satisfied) of each row, times the weight.

    Up to the last click everything is certain: examined, and no click above it satisfied. Below it, ``unseen[j]`` is
    the probability of no click from row j on, if it is examined.
    """
    unseen = np.empty(16)
    for n in range(first, last):
        begin, end, weight = offsets[n], offsets[n + 1], weights[n]
        if unseen.size < end - begin + 1:
            unseen = np.empty(2 * (end - begin) + 1)
        bottom = end - 1
        while bottom >= begin and not clicked[bottom]:
            bottom -= 1
        unseen[end - begin] = 1.0
        for row in range(end - 1, bottom, -1):
            onward = 1.0 - continuation + continuation * unseen[row + 1 - begin]
            unseen[row - begin] = (1.0 - attractiveness[pairs[row]]) * onward
        examined[begin : bottom + 1] = weight
        satisfied[begin:end] = 0.0
        present = weight  # times the probability that the next row is examined
        if bottom >= begin and bottom + 1 < end:
            leaves = satisfaction[pairs[bottom]]
            onward = (1.0 - leaves) * continuation * unseen[bottom + 1 - begin]
            total = leaves + (1.0 - leaves) * (1.0 - continuation) + onward
            if total > 0.0:  # else nobody leaves, whatever is below was read
                satisfied[bottom] = weight * leaves / total
                present = weight * onward / total
        for row in range(bottom + 1, end):
            examined[row] = present
            onward = continuation * unseen[row + 1 - begin]
            if present > 0.0 and continuation < 1.0:
                present *= onward / (1.0 - continuation + onward)


def _ratio(numerator: Column, denominator: Column) -> Array:
    """Divide; NaN where there is nothing to divide by."""
    quotient = np.full(numerator.size, np.nan)
    np.divide(numerator, denominator, out=quotient, where=denominator > 0.0)
    return quotient
