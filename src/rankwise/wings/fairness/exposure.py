"""Exposure of groups of documents, and its disparity: the deviation from their shares of the query's merit.

The exposure of a document is the weight of its rank, in expectation where rankings are drawn. The exposure of a query
has the same sum whatever the ranking, and a group g has a share s_g of it. Its fair share is that of the query's merit,
t_g: of the documents (``merit="equal"``: all deserve the same) or of the gains (``"proportional"``). Exposure over
merit is a_g = s_g / t_g, which is 1 for every group of a fair ranking, and the disparity of a query is its variance
between groups, weighted by merit:

    D = Σ_g t_g (a_g − ā)²,  ā = Σ_g t_g a_g,  dD / ds_g = 2 (a_g − ā).

For two groups that is t_1 t_2 (a_1 − a_2)²: the squared difference of demographic parity ("equal") or of disparate
treatment ("proportional") in Singh and Joachims (2018, 2019). Groups without merit in a query are left out of its
disparity, and a query with fewer than two other groups has none.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.base.arrays import Array, Ids, Offsets
from rankwise.metrics.gains import Gain, gains_and_ideal

MERITS: Final = ("equal", "proportional")
_LEAST = 1e-6  # a smaller share of the merit counts as none: exposure over it would mean nothing


@dataclass(frozen=True, eq=False)
class GroupShares:
    """The groups of every query: a *cell* is a group in a query, and cells of a query are adjacent."""

    names: Ids
    """The groups of all queries."""
    cells: NDArray[np.int64]
    """(n_docs,) the cell of each document."""
    queries: NDArray[np.int64]
    """(n_cells,) the query of each cell."""
    groups: NDArray[np.int64]
    """(n_cells,) the group of each cell, as an index into ``names``."""
    merit: Array
    """(n_cells,) its share t of the query's merit; 0 where it has none."""

    @property
    def deserving(self) -> NDArray[np.int64]:
        """(n_queries,) number of groups of each query that have merit."""
        return np.bincount(self.queries, self.merit > 0.0).astype(np.int64)

    def share(self, exposure: Array) -> Array:
        """(n_cells,) the share s of its query's exposure, from the exposure of each document."""
        total = np.bincount(self.queries[self.cells], exposure)
        seen = np.bincount(self.cells, exposure, self.queries.size)
        return np.asarray(seen / np.where(total > 0.0, total, 1.0)[self.queries])

    def deviations(self, exposure: Array) -> Array:
        """(n_cells,) a_g − ā: how far exposure over merit is from the query's mean; 0 for cells without merit."""
        share = self.share(exposure)
        fair = self.merit > 0.0
        mean = np.bincount(self.queries, np.where(fair, share, 0.0))[self.queries]
        return np.where(fair, share / np.where(fair, self.merit, 1.0) - mean, 0.0)

    def disparity(self, squares: Array) -> Array:
        """(n_queries,) the disparity of each query, from the squares of its deviations; NaN where it has none."""
        return np.where(self.deserving > 1, np.bincount(self.queries, self.merit * squares), np.nan)


def group_shares(
    groups: ArrayLike, labels: Array, offsets: Offsets, merit: str = "equal", gain: Gain = "exponential"
) -> GroupShares:
    """Compute the share of its query's merit that each group has.

    >>> shares = group_shares(["a", "b", "b"], np.array([2.0, 0.0, 1.0]), np.array([0, 3]), "proportional", "linear")
    >>> shares.merit, shares.disparity(shares.deviations(np.array([1.0, 0.5, 0.5])) ** 2)
    (array([0.66666667, 0.33333333]), array([0.125]))
    """
    check.choice("merit", merit, MERITS)
    names, codes = np.unique(check.groups(groups, labels.size), return_inverse=True)
    sizes = np.diff(offsets)
    keys = np.repeat(np.arange(sizes.size) * max(names.size, 1), sizes) + codes
    cell_keys, cells = np.unique(keys, return_inverse=True)
    queries, places = np.divmod(cell_keys, max(names.size, 1))
    merits = np.ones(labels.size) if merit == "equal" else gains_and_ideal(labels, offsets, gain).gains
    sums = np.bincount(cells, merits, cell_keys.size)
    for least in (_LEAST, 0.0):  # after cells of next to no merit, the shares add up to 1
        total = np.bincount(queries, sums, sizes.size)[queries]
        share = sums / np.where(total > 0.0, total, 1.0)
        sums = np.where(share > least, sums, 0.0)
    return GroupShares(names, cells, queries, places, share)
