"""Documents that were shown at two positions: what tells the effect of a position from that of relevance."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from rankwise.arrays import Array
from rankwise.compiling import kernel

if TYPE_CHECKING:
    from rankwise.clicks.logs.log import Log

_MOST_POSITIONS = 500


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
        """Return the exchanges of a log, over all rankers and segments."""
        positions, code = np.unique(log.positions, return_inverse=True)
        size = min(positions.size, _MOST_POSITIONS)
        inside = code < size
        shown, clicked = (np.bincount(code[inside], values[inside], size) for values in (log.impressions, log.clicks))
        key = log.pairs[inside] * size + code[inside]
        order = np.argsort(key, kind="stable")
        starts = np.flatnonzero(np.diff(key[order], prepend=-1))
        clicks, impressions = (
            np.add.reduceat(values[inside][order], starts) for values in (log.clicks, log.impressions)
        )
        pairs, places = np.divmod(key[order][starts], size)
        offsets = np.append(np.flatnonzero(np.diff(pairs, prepend=-1)), pairs.size)
        counts = np.zeros((size, size), np.int64), np.zeros((size, size)), np.zeros((size, size))
        _exchange(offsets, places, clicks, impressions * (clicked / shown)[places], *counts)
        return cls(positions=positions[:size], documents=counts[0], clicks=counts[1], information=counts[2])

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
