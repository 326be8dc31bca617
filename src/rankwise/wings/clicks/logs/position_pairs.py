"""Documents that were shown at two positions: what tells the effect of a position from that of relevance."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from rankwise import check
from rankwise.base import tables
from rankwise.base.arrays import Array
from rankwise.base.compiling import kernel

if TYPE_CHECKING:
    from rankwise.wings.clicks.logs.log import Log

_MOST_POSITIONS = 500
_MORE_LOGS = (
    "log several rankers on the same queries, shuffle a part of the traffic, or pass curves that are known from "
    "elsewhere to rw.clicks.Bias.known"
)
_NUMBERED = "number positions from 1 without gaps, as users see them, before the log is read"


_Kind = Literal["shown", "moved", "exchanged", "clicked", "clicks"]
_Counts = Array | NDArray[np.int64]


@dataclass(frozen=True)
class Gap:
    """Why position bias is not identified: what examinations, propensities and click models all go by."""

    kind: _Kind
    groups: tuple[str, ...]
    """The positions that are concerned; several groups cannot be compared with each other."""
    usable: int
    """The last position of the first ones that do identify it; 0 if there are none."""

    def error(self, what: str = "a document") -> ValueError:
        """Return the error; ``what`` is exchanged between positions."""
        start, got = "position bias is not identified", None
        if self.kind == "shown":
            start, got = "position bias needs impressions at every position", f"none at {self.groups[0]}"
        elif self.kind == "moved":
            start += f": {what} at two positions, and clicks on it, are needed"
            got = "one position each, as one ranker shows that always ranks alike"
        elif self.kind == "clicks":
            start = "position bias needs clicks at every position"
            got = f"none at {self.groups[0]} on {what} that was shown elsewhere too"
        else:
            why = f"never exchange {what}" if self.kind == "exchanged" else "exchange no click"
            start += f": positions {' and '.join(self.groups)} {why}"
        return check.error(start, got=got, hint=self.hint)

    @property
    def hint(self) -> str:
        """What to do."""
        if not self.usable:
            return _NUMBERED if self.kind == "shown" else _MORE_LOGS
        return f"keep the first positions with log.only(positions=range(1, {self.usable + 1})), or {_MORE_LOGS}"


def gap_of(positions: NDArray[np.int64], documents: _Counts, clicks: _Counts) -> Gap | None:
    """Return what is missing to compare positions: None if all can be compared.

    ``documents`` and ``clicks`` are by pair of positions, as in :class:`Exchanges`.

    >>> swapped = np.array([[0, 5, 0], [5, 0, 0], [0, 0, 0]])
    >>> gap = gap_of(np.array([1, 2, 3]), swapped, swapped)
    >>> gap.groups, gap.usable
    (('1 to 2', '3'), 2)
    """
    absent = np.setdiff1d(np.arange(1, int(positions[-1]) + 1), positions)
    kind, groups = _missing(positions, documents, clicks)
    if absent.size:
        kind, groups = "shown", (tables.spans(absent),)
    if kind is None:
        return None
    shown = int(absent[0]) - 1 if absent.size else positions.size
    firsts = range(shown, 1, -1)
    usable = next((n for n in firsts if not _missing(positions[:n], documents[:n, :n], clicks[:n, :n])[0]), 0)
    return Gap(kind, groups, usable)


def _missing(positions: NDArray[np.int64], documents: _Counts, clicks: _Counts) -> tuple[_Kind | None, tuple[str, ...]]:
    """Return the kind of gap and the groups of positions; None where all positions can be compared."""
    if positions.size == 1:
        return None, ()  # nothing to compare
    clicked = clicks + clicks.T
    if not documents.any():
        return "moved", ()
    steps: tuple[tuple[_Kind, NDArray[np.bool_]], ...] = (("exchanged", documents > 0), ("clicked", clicked > 0))
    for kind, joined in steps:
        count, numbers = connected_components(joined, directed=False)
        if count > 1:
            return kind, tuple(tables.spans(positions[numbers == number]) for number in range(count))
    unclicked = positions[clicks.sum(1) == 0]
    return ("clicks", (tables.spans(unclicked),)) if unclicked.size else (None, ())


@dataclass(frozen=True, kw_only=True, eq=False)
class Exchanges:
    """Positions as a graph: a document of a query that was shown at two positions joins them."""

    positions: NDArray[np.int64]
    """Positions that were shown, at most 500; the other fields are in their order."""
    documents: NDArray[np.int64]
    """Number of documents of a query that both positions of a pair have shown."""
    clicks: Array
    """Clicks at the first position of a pair on these documents."""
    information: Array
    """Fisher information about the ratio of both positions' propensities."""

    @classmethod
    def of(cls, log: "Log") -> Self:
        """Return the exchanges of a log, over all rankers; a document in two segments is two, as for propensities."""
        positions, code = np.unique(log.positions, return_inverse=True)
        size = min(positions.size, _MOST_POSITIONS)
        inside = (code < size) & (log.impressions > 0)
        shown, clicked = (np.bincount(code[inside], values[inside], size) for values in (log.impressions, log.clicks))
        key = (log.pairs[inside] * len(log.segment_names) + log.segments[inside]) * size + code[inside]
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(np.diff(key[order], prepend=-1))
        clicks, impressions = (
            np.add.reduceat(values[inside][order], starts) for values in (log.clicks, log.impressions)
        )
        pairs, places = np.divmod(key[order][starts], size)
        offsets = np.append(np.flatnonzero(np.diff(pairs, prepend=-1)), pairs.size)
        counts = np.zeros((size, size), np.int64), np.zeros((size, size)), np.zeros((size, size))
        _exchange(offsets, places, clicks, impressions * (clicked / np.maximum(shown, 1e-300))[places], *counts)
        return cls(positions=positions[:size], documents=counts[0], clicks=counts[1], information=counts[2])

    @property
    def gap(self) -> Gap | None:
        """What is missing to compare all positions."""
        return gap_of(self.positions, self.documents, self.clicks)

    def components(self) -> NDArray[np.int64]:
        """Return the number of each position's group; groups are joined by documents that were clicked."""
        numbers: NDArray[np.int64] = connected_components(self.information > 0, directed=False)[1].astype(np.int64)
        return numbers

    def errors(self) -> Array:
        """Return the standard error that each log propensity would have at best, relative to the first position.

        Cov(log θ) is the pseudo-inverse of the graph's Laplacian. NaN: a position that is not joined to the first.

        >>> table = np.array([[0, 50.0], [50.0, 0]])  # 100 clicks at each of both positions: 1 / (1/100 + 1/100)
        >>> graph = Exchanges(positions=np.array([1, 2]), documents=table > 0, clicks=2 * table, information=table)
        >>> graph.errors()
        array([0.        , 0.14142136])
        """
        components = self.components()
        errors = np.full(components.size, np.nan)
        joined = np.flatnonzero(components == components[0])
        weights = self.information[np.ix_(joined, joined)]
        covariance = np.linalg.pinv(np.diag(weights.sum(1)) - weights, hermitian=True)
        errors[joined] = np.sqrt(np.maximum(np.diag(covariance) + covariance[0, 0] - 2 * covariance[0], 0.0))
        return errors


@kernel
def _exchange(offsets, places, clicks, exposures, documents, harvested, information):  # type: ignore[no-untyped-def]
    """Add up documents, clicks and information over all pairs of positions of each document.

    A document with M clicks, of which a share p_k is expected at position k, is worth M p_j p_k to log θ_j − log θ_k:
    the information about the ratio of Poisson rates after the document's relevance is eliminated. Shares are expected
    from click-through, so that a single click counts too.
    """
    for pair in range(offsets.size - 1):
        first, last = offsets[pair], offsets[pair + 1]
        total = exposure = 0.0
        for i in range(first, last):
            total += clicks[i]
            exposure += exposures[i]
        for i in range(first, last):
            for j in range(first, last):
                if i != j:
                    a, b = places[i], places[j]
                    documents[a, b] += 1
                    harvested[a, b] += clicks[i]
                    if exposure > 0.0:
                        information[a, b] += total * (exposures[i] / exposure) * (exposures[j] / exposure)
