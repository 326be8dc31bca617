"""Features brought to the normal distribution by their ranks in training data: a line through knots for each column."""

import numpy as np
import torch

from rankwise.arrays import Array

KNOTS = 256
SAMPLE = 2**15
"""How many rows of the training data are ranked at most, evenly spaced."""
SAMPLED_NUMBERS = 2**22
"""How many numbers they may have: 16 MiB."""
LEAST = 2**12
"""How many rows are ranked however many features there are."""


class Quantiles(torch.nn.Module):
    """The normal quantile of a value's rank among training data; equal values have the mean of their ranks.

    Ranks are those at 256 knots, with straight lines between; what lies outside the training data is as its end.

    >>> quantiles = Quantiles(1)
    >>> quantiles.fit(np.array([[3.0], [3.0], [8.0], [np.nan], [900.0]]))
    >>> quantiles(torch.tensor([[3.0], [8.0], [454.0], [1e9]]))
    tensor([[-0.6745],
            [ 0.3186],
            [ 0.7345],
            [ 1.1503]])
    """

    knots: torch.Tensor
    values: torch.Tensor

    def __init__(self, n_features: int) -> None:
        super().__init__()
        for name in ("knots", "values"):
            self.register_buffer(name, torch.zeros(n_features, KNOTS))

    def fit(self, rows: Array) -> None:
        """Learn the ranks in a sample of documents; NaN has none."""
        for number, column in enumerate(rows.T):
            known = column[~np.isnan(column)].astype(np.float32)
            if known.size:
                self.knots[number], self.values[number] = map(torch.from_numpy, _line(known))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Give the normal quantiles; NaN stays NaN."""
        columns = features.T.contiguous()
        left = (torch.searchsorted(self.knots, columns, right=True) - 1).clamp(0, KNOTS - 2)
        low, high = self.knots.gather(1, left), self.knots.gather(1, left + 1)
        start, end = self.values.gather(1, left), self.values.gather(1, left + 1)
        apart = high - low
        share = ((columns - low) / torch.where(apart > 0, apart, 1)).clamp(0, 1)
        return (start + share * (end - start)).T.contiguous()  # the order of memory is in the last bit of products


def _line(known: Array) -> tuple[Array, Array]:
    """Knots of one column and their values; where there are fewer than 256 the last is repeated."""
    values, counts = np.unique(known, return_counts=True)
    ranks = (np.cumsum(counts) - counts / 2) / known.size
    if values.size > KNOTS:
        chosen = np.searchsorted(ranks, np.linspace(ranks[0], ranks[-1], KNOTS))
        places = np.unique(chosen.clip(0, values.size - 1))
        values, ranks = values[places], ranks[places]
    normal = torch.special.ndtri(torch.from_numpy(ranks)).numpy()
    missing = (0, KNOTS - values.size)
    return np.pad(values, missing, mode="edge").astype(np.float32), np.pad(normal, missing, mode="edge").astype(
        np.float32
    )
