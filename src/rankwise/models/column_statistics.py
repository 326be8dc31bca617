"""What transforms learn of the columns of training data, without torch: ranks at knots, means and deviations."""

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.arrays import Array, Floats
from rankwise.base.sparse import Matrix, dense

KNOTS = 256
SAMPLE = 2**15
"""The number of rows of the training data that are ranked at most, evenly spaced."""
SAMPLED_NUMBERS = 2**22
"""How many numbers they may have: 16 MiB."""
LEAST = 2**12
"""The number of rows that are ranked however many features there are."""


class ColumnMoments:
    """Mean and deviation of columns, of what is not missing, in one pass over blocks."""

    def __init__(self, n_features: int) -> None:
        self.count, self.mean, self.squares = (np.zeros(n_features) for _ in range(3))
        self.low, self.high = np.full(n_features, np.inf), np.full(n_features, -np.inf)

    def add(self, block: Array) -> None:
        """Add a block; sums of squares are about the means, so that nothing cancels."""
        present = ~np.isnan(block)
        count = present.sum(0)
        mean = np.where(present, block, 0.0).sum(0) / np.maximum(count, 1)
        squares = (np.where(present, block - mean, 0.0) ** 2).sum(0)
        self.low = np.fmin(self.low, np.fmin.reduce(block, axis=0, initial=np.inf))
        self.high = np.fmax(self.high, np.fmax.reduce(block, axis=0, initial=-np.inf))
        total = np.maximum(self.count + count, 1)
        apart = mean - self.mean
        self.squares += squares + apart**2 * self.count * count / total
        self.mean += apart * count / total
        self.count += count

    @property
    def varied(self) -> NDArray[np.bool_]:
        """Which columns have more than one value."""
        return self.low < self.high

    @property
    def deviation(self) -> Array:
        """The standard deviation; 1 for columns that never change."""
        return np.where(self.varied, np.sqrt(self.squares / np.maximum(self.count, 1)), 1.0)


def lines(rows: Array) -> Floats:
    """Return knots of each column and the normal quantiles of their ranks, (2, columns, 256); 0 where all is missing.

    Where there are fewer knots the last is repeated.
    """
    from scipy.special import ndtri

    found = np.zeros((2, rows.shape[1], KNOTS), np.float32)
    for number, column in enumerate(rows.T):
        present = column[~np.isnan(column)].astype(np.float32)
        if present.size:
            values, counts = np.unique(present, return_counts=True)
            ranks = (np.cumsum(counts) - counts / 2) / present.size
            if values.size > KNOTS:
                chosen = np.searchsorted(ranks, np.linspace(ranks[0], ranks[-1], KNOTS))
                places = np.unique(chosen.clip(0, values.size - 1))
                values, ranks = values[places], ranks[places]
            padding = (0, KNOTS - values.size)
            found[:, number] = [np.pad(array, padding, mode="edge") for array in (values, ndtri(ranks))]
    return found


def sample(features: Matrix) -> Array:
    """Return some rows, evenly spaced; of many features fewer, so that what lies on disk is never all in memory."""
    most = min(SAMPLE, max(SAMPLED_NUMBERS // max(features.shape[1], 1), LEAST))
    step = max(-(-features.shape[0] // most), 1)
    return np.array(dense(features[::step]))


def check_finite(block: Floats, start: int, who: str = "a net") -> None:
    """Raise if a feature of some rows is infinite; the first of them is number ``start``."""
    infinite = np.isinf(block)
    if infinite.any():
        row, column = np.argwhere(infinite)[0]
        raise check.error(
            f"{who} needs features that are finite, or NaN where they are missing",
            got=block[row, column],
            where=f"row {start + row}, column {column}",
            hint="clip the feature, or make it NaN",
        )
