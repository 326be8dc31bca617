"""Transforms of features: fitted on training data in one pass, and saved with the model."""

import numpy as np
import torch

from rankwise.base.arrays import Array, Floats, row_blocks
from rankwise.base.sparse import dense
from rankwise.models.column_statistics import KNOTS, ColumnMoments, check_finite, lines, sample
from rankwise.wings.nets.layers import on_device


class Transform(torch.nn.Module):
    """Features at the scale that nets learn at.

    ``log1p`` takes sign(x) · log(1 + abs x), which tames the long tails of counts and lengths; ``standardize`` then
    subtracts the mean and divides by the standard deviation. ``quantile`` gives the normal quantile of a value's rank
    instead. A missing value (NaN) becomes the mean of the column in training: 0 after standardising. A column of
    one value is not divided. ``+query`` appends every column once more, standardised within its query; ``query`` is
    that alone.

    >>> transform = Transform(2, "log1p+standardize")
    >>> transform.fit(np.array([[0.0, 5.0], [np.e - 1, 5.0], [np.nan, 5.0]], np.float32))
    True
    >>> transform(torch.tensor([[0.0, 5.0], [float("nan"), 5.0]]))
    tensor([[-1.,  0.],
            [ 0.,  0.]])
    """

    mean: torch.Tensor
    """What a missing value becomes, before standardising."""
    center: torch.Tensor
    scale: torch.Tensor

    def __init__(self, n_features: int, kind: str) -> None:
        super().__init__()
        words = kind.split("+")
        self.own, self.query = words != ["query"], "query" in words
        """Whether a net sees values among those of training data, and among those of their query."""
        self.log, self.standardize = "log1p" in words, "standardize" in words
        self.quantiles = Quantiles(n_features) if "quantile" in words else None
        for name, value in {"mean": 0.0, "center": 0.0, "scale": 1.0}.items():
            self.register_buffer(name, torch.full((n_features,), value))

    def fit(self, features: Floats) -> bool:
        """Compute means and deviations; return whether any feature tells documents apart."""
        moments = ColumnMoments(features.shape[1])
        if self.quantiles is not None:
            self.quantiles.fit(sample(features))
        for rows in row_blocks(*features.shape):
            block = dense(features[rows])
            check_finite(block, rows.start)
            moments.add(self._shaped(block))
        self.mean = torch.from_numpy(moments.mean).float()
        if self.standardize:
            self.center, self.scale = self.mean.clone(), torch.from_numpy(moments.deviation).float()
        return bool(moments.varied.any())

    def _shaped(self, block: Floats) -> Array:
        """Rows of training data as they are before standardising."""
        if self.quantiles is not None:
            return self.quantiles(torch.from_numpy(np.require(block, requirements="W"))).numpy().astype(np.float64)  # type: ignore[no-any-return]
        numbers = block.astype(np.float64)
        return np.sign(numbers) * np.log1p(np.abs(numbers)) if self.log else numbers

    def forward(self, features: torch.Tensor, offsets: torch.Tensor | None = None) -> torch.Tensor:
        """Transform raw features; ``offsets`` of their queries are needed for values within these."""
        if self.log:
            features = torch.sign(features) * torch.log1p(torch.abs(features))
        if self.quantiles is not None:
            features = self.quantiles(features)
        views = []
        if self.own:
            filled = torch.where(torch.isnan(features), self.mean, features)
            views.append((filled - self.center) / self.scale if self.standardize else filled)
        if self.query and offsets is not None:
            views.append(standardized(features, offsets))
        return torch.cat(views, dim=1) if len(views) > 1 else views[0]

    @property
    def width(self) -> int:
        """How many columns a net sees."""
        return self.mean.numel() * (self.own + self.query)

    @property
    def linear(self) -> bool:
        """Whether features are only shifted and scaled."""
        return not self.log and self.quantiles is None

    def average(self) -> torch.Tensor:
        """The mean document of the training data, transformed."""
        return (self.mean - self.center) / self.scale


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
        self.knots[:], self.values[:] = map(torch.from_numpy, lines(rows))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Return the normal quantiles; NaN stays NaN."""
        columns = features.T.contiguous()
        left = (torch.searchsorted(self.knots, columns, right=True) - 1).clamp(0, KNOTS - 2)
        low, high = self.knots.gather(1, left), self.knots.gather(1, left + 1)
        start, end = self.values.gather(1, left), self.values.gather(1, left + 1)
        apart = high - low
        share = ((columns - low) / torch.where(apart > 0, apart, 1)).clamp(0, 1)
        return (start + share * (end - start)).T.contiguous()  # the order of memory is in the last bit of products


def standardized(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Standardise every column within each query; missing values and constant columns become 0.

    >>> values = torch.tensor([[1.0, 5.0], [3.0, 5.0], [float("nan"), 5.0], [7.0, 2.0]])
    >>> standardized(values, torch.tensor([0, 3, 4]))
    tensor([[-1.,  0.],
            [ 1.,  0.],
            [ 0.,  0.],
            [ 0.,  0.]])
    """
    offsets = on_device(offsets, values.device)
    sizes, present = offsets.diff(), ~torch.isnan(values)

    def each(column: torch.Tensor, how: str) -> torch.Tensor:
        return torch.segment_reduce(column, how, offsets=offsets, axis=0)

    def spread(by_query: torch.Tensor) -> torch.Tensor:
        return by_query.repeat_interleave(sizes, dim=0, output_size=values.shape[0])

    # From the lowest value on: what is all the same is exactly 0, and rounding does not pass for a difference.
    lowest = each(torch.where(present, values, torch.inf), "min")
    away = torch.where(present, values - spread(lowest), 0.0)
    count = each(present.to(values.dtype), "sum").clamp(min=1.0)
    rest = torch.where(present, away - spread(each(away, "sum") / count), 0.0)
    deviation = torch.sqrt(each(rest**2, "sum") / count)
    return rest / spread(torch.where(deviation > 0, deviation, 1.0))
