"""What a cross-validation found: the values of all tested queries, and how they spread over folds."""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwise.arrays import Array
from rankwise.metrics.base import weighted_mean
from rankwise.statistics import tables
from rankwise.statistics.evaluation import Evaluation
from rankwise.statistics.titles import Titles

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False, repr=False)
class CrossValidation(Evaluation):
    """The values of all tested queries, each under the model of a fold that did not see it."""

    _: KW_ONLY
    fold: NDArray[np.int64]
    """(n_queries,) the number of the fold, from 1, that tested each query."""
    scores: NDArray[np.float64]
    """Out-of-fold scores: one per document of the data, NaN in queries that no fold tested. With prepared folds, those
    of the test parts one after the other."""
    models: tuple[Any, ...]
    """The model of each fold."""

    @cached_property
    def fold_means(self) -> dict[str, Array]:
        """Metric -> its mean in each fold; NaN where it scores no query of the fold."""
        return {name: np.array([self._mean(column, k) for k in self._folds()]) for name, column in self.values.items()}

    @cached_property
    def spread(self) -> dict[str, float]:
        """Metric -> the standard deviation of its means over the folds.

        Folds share most of their training queries, so this is no standard error: ``interval`` and :func:`compare` go by
        queries.
        """
        return {name: float(np.nanstd(means, ddof=1)) for name, means in self.fold_means.items()}

    def to_frame(self) -> "pl.DataFrame":
        """One row per query: its id, its weight, its fold, and one column per metric (null where it is skipped)."""
        import polars as pl

        frame = super().to_frame()
        return frame.insert_column(2, pl.Series("fold", self.fold))

    def summary(self) -> "pl.DataFrame":
        """One row per metric: mean, ends of the interval, queries scored and skipped, and the spread over folds."""
        import polars as pl

        means = self.fold_means.values()
        return super().summary().with_columns(
            pl.Series("folds_sd", list(self.spread.values())),
            pl.Series("folds_low", [float(np.nanmin(one)) for one in means]),
            pl.Series("folds_high", [float(np.nanmax(one)) for one in means]),
        )  # fmt: skip

    def table(self, *, titles: Titles | None = None) -> tables.Table:
        """Give the summary as a table that prints as text, Markdown, LaTeX or HTML; ``titles`` name the metrics."""
        plain = super().table(titles=titles)
        rows = tuple(
            (*row, f"{tables.number(float(np.nanmin(means)))} to {tables.number(float(np.nanmax(means)))}, sd {sd:.4f}")
            for row, means, sd in zip(plain.rows, self.fold_means.values(), self.spread.values(), strict=True)
        )
        header = (*plain.header, f"over {len(self.models)} folds")
        return tables.Table(header=header, rows=rows, align=plain.align + "l", notes=plain.notes)

    def _folds(self) -> range:
        return range(1, len(self.models) + 1)

    def _mean(self, column: Array, number: int) -> float:
        rows = (self.fold == number) & ~np.isnan(column)
        weights = None if self.weights is None else self.weights[rows]
        return weighted_mean(column[rows], weights) if rows.any() and (weights is None or weights.any()) else np.nan
