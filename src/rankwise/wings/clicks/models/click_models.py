"""Click models: EM for PBM, UBM and DBN, counting for SDBN and DCM.

Each is a class with what it estimates, what its table shows, and its likelihood, a row of ``MODELS`` at the end.
"""

from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import xlog1py, xlogy

from rankwise import check
from rankwise.base import threads
from rankwise.base.arrays import Array, Column, Keywords, read_only
from rankwise.base.compiling import kernel
from rankwise.base.tables import count, spans
from rankwise.wings.clicks import em
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.logs.position_pairs import Exchanges
from rankwise.wings.clicks.logs.sessions import Sessions
from rankwise.wings.clicks.models.model import ClickModel, Estimate, Estimation


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
    check.choice("click model", model, MODELS)
    iterations = check.integer("iterations", iterations, least=1)
    tolerance = check.number("tolerance", tolerance, least=0.0)
    if not log.clicks.any():
        raise check.error("a click model needs clicks", got="a log without any")
    added = _prior(log, prior, strength)
    how = Estimation(added, np.ndim(prior) > 0, iterations, tolerance)  # type: ignore[arg-type]
    parameters, change, notes = MODELS[model].estimate(log, how)
    if change > tolerance > 0.0:
        notes += (f"Not converged: after {iterations} iterations parameters still change by {change:.1g} in each.",)
    if unknown := int(np.isnan(parameters["attractiveness"]).sum()):
        notes += (f"{unknown:,} of {count(log.n_pairs, 'pair')} without an estimate (NaN): set a prior.",)
    return MODELS[model](
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


class PBM(ClickModel):
    """Position-based model: a context of the EM is a position."""

    model, title = "pbm", "position-based model"

    @classmethod
    def cells(cls, log: Log) -> em.Cells:
        """Return impressions and clicks by pair and context."""
        threads.check_tables()
        rows = pl.LazyFrame(dict(zip(em.Cells._fields, cls._rows(log), strict=True)))
        cells = rows.group_by("pairs", "contexts").agg(pl.sum("shown", "clicked")).sort("pairs", "contexts").collect()
        return em.Cells(*(read_only(column.to_numpy()) for column in cells))

    @classmethod
    def _rows(cls, log: Log) -> tuple[Column, ...]:
        return log.pairs, log.positions - 1, log.impressions, log.clicks

    @classmethod
    def estimate(cls, log: Log, how: Estimation) -> Estimate:
        """Return the parameters of a log."""
        shape = (log.n_positions,) if cls is PBM else (log.n_positions, log.n_positions)
        cells = cls.cells(log)
        cells, notes = (cells, ()) if how.means else _identified(log, cells)
        size = log.n_pairs, int(np.prod(shape))
        steps: Keywords = {"iterations": how.iterations, "tolerance": how.tolerance}
        examination, attractiveness, change = em.fit(cells, size, how.added, **steps)
        return {"attractiveness": attractiveness, "examination": examination.reshape(shape)}, change, notes

    def _chances(self, log: Log, lists: Sessions | Log) -> Array:
        examined = self._by_position(self.examination, log)[lists.positions - 1]
        return examined * self._of_pairs(log, self.attractiveness)[lists.pairs]

    def log_likelihood(self, log: Log) -> float:
        """Return the log-likelihood of all clicks of a log."""
        chances = self._chances(log, log)
        return float((xlogy(log.clicks, chances) + xlog1py(log.impressions - log.clicks, -chances)).sum())


class UBM(PBM):
    """User browsing model: a context is a position and that of the last click above it (0 without one)."""

    model, title = "ubm", "user browsing model"
    log_likelihood = ClickModel.log_likelihood  # contexts are known impression by impression alone

    @classmethod
    def _rows(cls, log: Log) -> tuple[Column, ...]:
        lists = cls._sessions_of(log)
        weights = np.repeat(lists.weights, np.diff(lists.offsets))
        contexts = _contexts_of(lists, log.n_positions)
        return lists.pairs.astype(np.int64), contexts, weights, weights * lists.clicked

    def _columns(self) -> dict[str, Array]:
        columns = np.asarray(self.examination).T
        return {f"after {k}" if k else "no click": column for k, column in enumerate(columns)}

    def _chances(self, log: Log, lists: Any) -> Array:
        table = self._by_position(self.examination, log)
        # Contexts that were not seen are as without a click above, else as the others of their position.
        seen = ~np.isnan(table)
        means = np.where(seen, table, 0.0).sum(1) / np.maximum(seen.sum(1), 1)
        table = np.where(seen, table, np.where(seen[:, 0], table[:, 0], means)[:, None])
        examined = table.ravel()[_contexts_of(lists, len(table))]
        return np.asarray(examined * self._of_pairs(log, self.attractiveness)[lists.pairs])


def _identified(log: Log, cells: em.Cells) -> tuple[em.Cells, tuple[str, ...]]:
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
    return cells.where(inside), (note,)


def _contexts_of(lists: Sessions, depth: int) -> Column:
    """Return the context of each row, (position − 1) · depth + position of the last click above it."""
    contexts = np.empty(lists.pairs.size, np.int64)
    threads.over_queries(_contexts, lists.offsets, lists.positions, lists.clicked, depth, contexts)
    return contexts


@kernel
def _contexts(first, last, offsets, positions, clicked, depth, out):  # type: ignore[no-untyped-def]
    for n in range(first, last):
        above = 0
        for row in range(offsets[n], offsets[n + 1]):
            out[row] = (positions[row] - 1) * depth + above
            if clicked[row]:
                above = positions[row]


class DBN(ClickModel):
    """Dynamic Bayesian network: users read from the top, until a click satisfies them or they give up."""

    model, title, curve = "dbn", "dynamic Bayesian network", "continuation"

    def _chances(self, log: Log, lists: Any) -> Array:
        attractiveness = self._of_pairs(log, self.attractiveness)
        satisfaction = np.zeros(log.n_pairs) if self.satisfaction is None else self._of_pairs(log, self.satisfaction)
        continuation = self._by_position(self.continuation, log)
        continuation = np.where(np.isnan(continuation), np.nanmean(continuation), continuation)
        rows = lists.pairs, lists.positions, lists.clicked
        users = attractiveness, satisfaction, continuation, isinstance(self, DCM)
        chances = np.empty(lists.pairs.size)
        threads.over_queries(_read_from_the_top, lists.offsets, *rows, *users, chances)
        return chances

    @classmethod
    def estimate(cls, log: Log, how: Estimation) -> Estimate:
        """Estimate by EM; with a prior, satisfaction is drawn to the share of last clicks."""
        lists, added = cls._sessions_of(log), how.added
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
        while step < how.iterations and change > how.tolerance:
            current = attractiveness, satisfaction, continuation
            rows = lists.pairs, lists.clicked, lists.weights
            threads.over_queries(_forward_backward, lists.offsets, *rows, *current, examined, satisfied)
            attractive = em.ratio(clicks + added[0], added_up(examined) + strength)
            attractiveness = np.where(np.isnan(attractive), attractiveness, attractive)
            satisfaction = em.ratio(added_up(satisfied) + strength * mean, informative + strength)
            unsatisfied = float((examined - satisfied)[above].sum())
            continuation = float(examined[below].sum()) / unsatisfied if unsatisfied > 0.0 else continuation
            moved = np.fmax(abs(attractiveness - current[0]), abs(satisfaction - current[1]))
            change = max(float(np.nansum(moved * shown) / shown.sum()), abs(continuation - current[2]))
            step += 1
        going_on = np.full(log.n_positions, continuation)
        parameters = {"attractiveness": attractive, "satisfaction": satisfaction, "continuation": going_on}
        return parameters, change, ()


@kernel
def _read_from_the_top(  # type: ignore[no-untyped-def]
    first, last, offsets, pairs, positions, clicked, attractiveness, satisfaction, continuation, dependent, out
):
    """Fill the probability of a click on each row, given the clicks above; a dependent click model ends at clicks."""
    for n in range(first, last):
        present = 1.0
        for row in range(offsets[n], offsets[n + 1]):
            attractive, onward = attractiveness[pairs[row]], continuation[positions[row] - 1]
            out[row] = present * attractive
            if clicked[row]:
                present = onward * (1.0 - satisfaction[pairs[row]])
            elif out[row] < 1.0:
                present *= (1.0 - attractive) / (1.0 - out[row])
                if not dependent:
                    present *= onward


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


class SDBN(DBN):
    """Simplified dynamic Bayesian network: users never give up, and leave after the last click."""

    model, title = "sdbn", "simplified dynamic Bayesian network"

    @classmethod
    def estimate(cls, log: Log, how: Estimation) -> Estimate:
        """Estimate by counting; with a prior, satisfaction is drawn to the share of last clicks."""
        attractiveness, clicks, ends = _counted(log, cls._sessions_of(log), how.added, "pairs")
        strength = sum(how.added)
        satisfaction = em.ratio(ends + strength * ends.sum() / clicks.sum(), clicks + strength)
        always = np.ones(log.n_positions)
        parameters = {"attractiveness": attractiveness, "satisfaction": satisfaction, "continuation": always}
        return parameters, 0.0, ()


class DCM(DBN):
    """Dependent click model: users read on until a click, and after it with a probability of its position."""

    model, title = "dcm", "dependent click model"

    @classmethod
    def estimate(cls, log: Log, how: Estimation) -> Estimate:
        """Return the parameters of a log."""
        attractiveness, clicks, ends = _counted(log, cls._sessions_of(log), how.added, "positions")
        return {"attractiveness": attractiveness, "continuation": (1.0 - em.ratio(ends, clicks))[1:]}, 0.0, ()


def _counted(log: Log, lists: Sessions, added: tuple[Array, Array], by: str) -> tuple[Array, Array, Array]:
    """Return attractiveness if users leave after the last click, or read all without one; clicks and last clicks."""
    sizes = np.diff(lists.offsets)
    rows, weights = np.arange(lists.pairs.size), np.repeat(lists.weights, sizes)
    last = np.repeat(np.maximum.reduceat(np.where(lists.clicked, rows, -1), lists.offsets[:-1]), sizes)

    def added_up(rows: NDArray[np.bool_], by: Column, length: int) -> Array:
        return np.bincount(by[rows], weights[rows], length).astype(np.float64)

    examined = added_up((rows <= last) | (last < 0), lists.pairs, log.n_pairs)
    attractiveness = em.ratio(added_up(lists.clicked, lists.pairs, log.n_pairs) + added[0], examined + sum(added))
    of = (lists.pairs, log.n_pairs) if by == "pairs" else (lists.positions, log.n_positions + 1)
    return attractiveness, added_up(lists.clicked, *of), added_up(rows == last, *of)


MODELS: dict[str, type[ClickModel]] = {kind.model: kind for kind in (PBM, UBM, DBN, SDBN, DCM)}
