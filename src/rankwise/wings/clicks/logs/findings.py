"""What a person should know about a click log before estimating anything from it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import betaln, gammaln

from rankwise.base import tables
from rankwise.base.arrays import Array
from rankwise.statistics import Diagnostic
from rankwise.wings.clicks.logs.position_pairs import Exchanges, Gap

if TYPE_CHECKING:
    from rankwise.wings.clicks.logs.log import Log
    from rankwise.wings.clicks.logs.sessions import Sessions

_PRECISE = 0.1  # relative error of a propensity
_FEW_ROWS = 10  # of a user who has clicked all of them
_HEAVY = 0.05  # of all impressions, for one user
_NAMED = 5  # users
_DOUBLED = 0.01  # of all impressions
_CHANCE = 1e-6  # of a rate that the spread of users has
_LEAST = 20.0  # documents shown to a user
_LEFT_OUT = 0.1  # users with the highest rates, of the first fit: many robots would widen the spread that hides them
_FITS = 20
_SUSPECT = 3.0  # standard deviations: what is below needs no sum over the tail


class LogFinding(Diagnostic):
    """A sentence about a click log.

    ``"error"``: propensities are not identified; ``"warning"``: estimates may be poor or biased.
    """


def identification(log: "Log", exchanges: Exchanges) -> Iterator[LogFinding]:
    """Iterate over findings on positions that cannot be compared."""
    size = log.n_positions + 1
    at_one = np.bincount(np.unique(log.pairs * size + log.positions) // size, minlength=log.n_pairs) == 1
    gap = exchanges.gap
    if not log.clicks.any():
        yield LogFinding("error", "identification", "Nothing was clicked: nothing can be estimated.")
    elif at_one.all() and exchanges.positions.size > 1:
        cause = "one deterministic ranker" if len(log.ranker_names) == 1 else "rankers that agree"
        sentence = (
            f"Every document was always at the same position ({cause}): what position and what relevance contribute to "
            "clicks cannot be told apart. Show some lists in another order."
        )
        yield LogFinding("error", "identification", sentence)
    else:
        if gap is not None:
            yield LogFinding("error", "identification", _unidentified(gap))
        if at_one.any():
            share = log.impressions[at_one[log.pairs]].sum() / log.impressions.sum()
            sentence = (
                f"{at_one.mean():.0%} of the documents of a query ({share:.0%} of what was shown) were at one position "
                "only: they say nothing about propensities."
            )
            yield LogFinding("note", "exchange", sentence)


def _unidentified(gap: Gap) -> str:
    """Write what is missing, and which positions could be used."""
    if gap.kind == "shown":
        sentence = f"Nothing was shown at position {gap.groups[0]}: propensities need every position."
    elif gap.kind == "moved":
        sentence = "No document that was shown at two positions was clicked: positions cannot be compared."
    elif gap.kind == "clicks":
        sentence = (
            f"No document that was shown elsewhere too was clicked at position {gap.groups[0]}: its propensity cannot "
            "be estimated."
        )
    else:
        names = f"{'; '.join(gap.groups[:-1])} and {gap.groups[-1]}"
        clicked = " that was clicked" if gap.kind == "clicked" else ""
        sentence = f"Positions {names} never exchange a document{clicked}: their propensities cannot be compared."
    return sentence + (f" Those of positions 1 to {gap.usable} can." if gap.usable else "")


def precision(exchanges: Exchanges, ends: Array) -> Iterator[LogFinding]:
    """Iterate over findings on the intervals that propensities would have; ``ends`` are their upper ends over them."""
    if np.count_nonzero(~np.isnan(ends)) > 1:
        worst = int(np.nanargmax(ends))
        sentence = f"Propensities would be known within {relative(ends[worst])} at best (position "
        sentence += f"{exchanges.positions[worst]} is the worst)."
        if ends[worst] <= 1 + _PRECISE:
            yield LogFinding("note", "precision", sentence)
        else:
            times = (np.log(ends[worst]) / np.log1p(_PRECISE)) ** 2
            more = f" About {times:,.{0 if times >= 10 else 1}f} times as many clicks make that ±{_PRECISE:.0%}."
            yield LogFinding("warning", "precision", sentence + more)


def rankers(log: "Log") -> Iterator[LogFinding]:
    """Iterate over findings on logs with a single ranker."""
    if len(log.ranker_names) == 1:
        named = "There is one ranker" if log.ranker_names[0] else "Rankers are not named (ranker=)"
        sentence = f"{named}: propensities cannot be checked on a ranker that is held out."
        yield LogFinding("warning", "rankers", sentence)


def positions(log: "Log", exchanges: Exchanges, low: Array, high: Array) -> Iterator[LogFinding]:
    """Iterate over findings on positions; ``low`` and ``high`` are the intervals of click-through."""
    last = int(exchanges.positions[-1])
    if log.n_positions > last:
        yield LogFinding("note", "positions", f"Positions beyond {last} are not examined.")
    better = exchanges.positions[low > high[0]]
    if better.size:
        sentence = (
            f"Click-through is higher at position {tables.spans(better)} than at {exchanges.positions[0]}: see whether "
            "positions count what users see."
        )
        yield LogFinding("warning", "positions", sentence)


def lists(sessions: "Sessions") -> Iterator[LogFinding]:
    """Iterate over findings on whole impressions."""
    short, middle, long = np.quantile(np.diff(sessions.offsets), [0.05, 0.5, 0.95])
    if long > 2 * short:
        sentence = (
            f"Impressions are of very different length: 5% have at most {tables.count(int(short), 'document')}, 5% at "
            f"least {long:.0f} (median {middle:.0f}). The last positions come from other queries than the first."
        )
        yield LogFinding("warning", "length", sentence)
    clicked = np.logical_or.reduceat(sessions.clicked, sessions.offsets[:-1])
    if clicked.all() and clicked.size > 1:
        sentence = "Every impression has a click: if those without were left out, click-through is too high."
        yield LogFinding("warning", "selection", sentence)


def users(sessions: "Sessions") -> Iterator[LogFinding]:
    """Iterate over findings on users: who clicks everything, who searches too much, who has the same list twice."""
    if sessions.users is None:
        sentence = "There are no users (user=): doubled impressions and robots are not examined."
        yield LogFinding("note", "users", sentence)
        return
    user_of_row = np.repeat(sessions.users, np.diff(sessions.offsets))
    shown, clicked = np.bincount(user_of_row), np.bincount(user_of_row, sessions.clicked)
    marked = robots(sessions)
    eager = (shown >= _FEW_ROWS) & (clicked == shown) & ~marked
    if marked.any():
        yield LogFinding("warning", "users", _sentence_on_robots(sessions, marked))
    if eager.any():
        count = tables.count(int(eager.sum()), "user")
        share = clicked[eager].sum() / clicked.sum()
        sentence = f"{count} clicked everything shown ({share:.1%} of all clicks): leave out robots and tests."
        yield LogFinding("warning", "users", sentence)
    share = np.bincount(sessions.users).max() / sessions.n_impressions
    if share > _HEAVY and shown.size >= 1 / _HEAVY:
        sentence = f"One user made {share:.0%} of the impressions: a robot, or a missing id?"
        yield LogFinding("warning", "users", sentence)
    rows = pl.Series(sessions.pairs.astype(np.int64) << 16 | sessions.positions).hash().to_numpy()
    lists = pl.DataFrame({"list": np.add.reduceat(rows, sessions.offsets[:-1]), "user": sessions.users})
    if doubled := lists.height - lists.n_unique():
        share = doubled / sessions.n_impressions
        sentence = (
            f"{doubled:,} impressions ({share:.1%}) repeat the query and the list of an earlier one of the same user: "
            "reloads, or doubled records?"
        )
        yield LogFinding("warning" if share > _DOUBLED else "note", "doubled", sentence)


def _sentence_on_robots(sessions: "Sessions", marked: NDArray[np.bool_]) -> str:
    """Write how many users click far more than the others, who, and what clicks at the first and last position lose."""
    rows = np.repeat(marked[sessions.users], np.diff(sessions.offsets))
    weights = np.repeat(sessions.weights, np.diff(sessions.offsets))
    shown, clicks = (np.bincount(sessions.positions, weights * column) for column in (1.0, sessions.clicked))
    theirs = np.bincount(sessions.positions[rows], (weights * sessions.clicked)[rows], clicks.size)
    first, last = np.flatnonzero(clicks)[[0, -1]]
    names = "" if sessions.user_ids is None else ", ".join(map(repr, sessions.user_ids[marked][:_NAMED].tolist()))
    names = f" ({names}{', …' if marked.sum() > _NAMED else ''})" if names else ""
    them = tables.count(int(marked.sum()), "user")
    return (
        f"{them} click more than the spread of users explains{names}: {weights[rows].sum() / shown.sum():.1%} of what "
        f"was shown, {theirs.sum() / clicks.sum():.1%} of the clicks; without them there are "
        f"{theirs[last] / clicks[last]:.0%} less at position {last} and {theirs[first] / clicks[first]:.0%} less at "
        f"{first}. Leave robots out: log.only(users=~log.robots), or where the log is read."
    )


def relative(end: float) -> str:
    """Write the end of an interval over its middle.

    >>> relative(1.052), relative(7.31), relative(float("nan"))
    ('±5.2%', 'a factor of 7.3', '–')
    """
    if np.isnan(end):
        return tables.NOTHING
    return f"±{100 * (end - 1):.2g}%" if end < 1.995 else f"a factor of {end:.1f}" if end < 100 else "a factor over 100"


def robots(sessions: "Sessions") -> NDArray[np.bool_]:
    """Return whether each user clicks more often than all but 10⁻⁶ of such users would, by a beta-binomial model.

    Rates of users have a beta distribution, fitted by maximum likelihood to the users that are not marked; users with
    less than 20 documents are never marked.
    """
    if sessions.users is None or not sessions.users.size:
        return np.zeros(0, np.bool_)
    sizes = np.diff(sessions.offsets)
    clicked = np.add.reduceat(sessions.clicked, sessions.offsets[:-1], dtype=np.float64)
    shown, clicks = (np.bincount(sessions.users, sessions.weights * column) for column in (sizes, clicked))
    counts, kind, users = np.unique(np.stack([shown, clicks], 1), axis=0, return_inverse=True, return_counts=True)
    n, c = counts.T
    marked = c / n > np.quantile(clicks / shown, 1.0 - _LEFT_OUT)
    marks = [marked]
    for _ in range(_FITS):
        shape = _fitted(n[~marked], c[~marked], users[~marked])
        marked = (n >= _LEAST) & _beyond(n, c, *shape)
        if any((marked == earlier).all() for earlier in marks[1:]):
            break
        marks.append(marked)
    return np.asarray(marked[kind.ravel()], np.bool_)


def _fitted(n: Array, c: Array, users: NDArray[np.int64]) -> tuple[float, float]:
    """Return the parameters of the beta distribution of rates."""
    mean = (c @ users + 0.5) / (n @ users + 1.0)

    def loss(free: Array) -> float:
        a, b = np.exp(free)
        return float(-(users @ (betaln(c + a, n - c + b) - betaln(a, b))) / users.sum())

    start = np.log([10.0 * mean, 10.0 * (1.0 - mean)])
    a, b = np.exp(minimize(loss, start, method="L-BFGS-B", bounds=[(-10.0, 15.0)] * 2).x)
    return float(a), float(b)


def _beyond(n: Array, c: Array, a: float, b: float) -> NDArray[np.bool_]:
    """Return whether a user with n documents has c clicks or more with a chance below 10⁻⁶."""
    mean = a / (a + b)
    deviation = np.sqrt(n * mean * (1.0 - mean) * (a + b + n) / (a + b + 1.0))
    beyond = c > n * mean + _SUSPECT * deviation
    for i in np.flatnonzero(beyond):
        k = np.arange(c[i], n[i] + 1.0).clip(max=n[i])
        choose = gammaln(n[i] + 1.0) - gammaln(k + 1.0) - gammaln(n[i] - k + 1.0)
        beyond[i] = np.exp(choose + betaln(k + a, n[i] - k + b) - betaln(a, b)).sum() < _CHANCE
    return beyond
