"""Linear models: a weight for every feature, and with values within the query another for those."""

import itertools
import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Floats, Json, Offsets, read_only, row_blocks
from rankwise.base.compiling import REORDERED, kernel
from rankwise.base.sparse import Matrix, dense
from rankwise.base.threads import over_queries
from rankwise.models import storage
from rankwise.models.column_statistics import KNOTS, ColumnMoments, check_finite, lines, sample
from rankwise.models.model import Contributions, Model, require_lists
from rankwise.models.schema import Schema

TRANSFORMS = ("quantile+query", "quantile", "standard")
_FILE = "linear.npz"
_ROWS = 2**14  # documents that are transformed at a time


@dataclass(frozen=True, eq=False)
class LinearTransform:
    """Features as weights multiply them: float32, NaN nowhere.

    ``"quantile"`` gives the normal quantile of a value's rank among training data, with straight lines between 256
    knots, and a missing value the mean; ``"+query"`` appends these values once more, standardised within the query.
    ``"standard"`` subtracts the mean and divides by the standard deviation. Without a transform values are only divided
    by the deviation, which is the scale that penalties go by, and a missing value is 0, as search engines take it.
    """

    kind: str | None
    center: Array
    scale: Array
    fill: Array
    """What a missing value becomes."""
    knots: Floats
    """(n_features, 256), or no rows without quantiles."""
    heights: Floats

    @classmethod
    def fit(cls, kind: str | None, features: Matrix) -> tuple[Self, bool]:
        """Learn from training data; return whether any feature tells documents apart, too."""
        count, curved = features.shape[1], kind is not None and kind.startswith("quantile")
        moments = ColumnMoments(count)
        center, scale, fill = np.zeros(count), np.ones(count), np.zeros(count)
        rows = sample(features) if curved else np.zeros((0, 0))
        knots, heights = map(read_only, lines(rows))
        for part in row_blocks(*features.shape):
            block = dense(features[part])
            check_finite(block, part.start, "a linear model")
            if not curved:
                moments.add(block.astype(np.float64))
        if not curved:
            center = moments.mean if kind == "standard" else center
            return cls(kind, center, moments.deviation, fill, knots, heights), bool(moments.varied.any())
        missing = cls("quantile", center, scale, np.full(count, np.nan), knots, heights).rows(rows.astype(np.float32))
        moments.add(missing.astype(np.float64))
        return cls(kind, center, scale, moments.mean, knots, heights), bool(moments.varied.any())

    @classmethod
    def raw(cls, count: int) -> Self:
        """Return features as they are, NaN where missing, with values within the query: nothing is learned for it."""
        lines = np.zeros((0, KNOTS), np.float32)
        return cls("raw+query", np.zeros(count), np.ones(count), np.full(count, np.nan), lines, lines)

    @property
    def query(self) -> bool:
        """Whether values within the query follow those of the feature itself."""
        return self.kind is not None and self.kind.endswith("+query")

    @property
    def width(self) -> int:
        """How many weights there are."""
        return self.center.size * (1 + self.query)

    def rows(self, features: Floats, offsets: Offsets | None = None, out: Floats | None = None) -> Floats:
        """Return transformed rows of a dense matrix, in ``out`` if that is given; without ``offsets`` as one query."""
        count = features.shape[0]
        if offsets is None:
            step = count if self.query else 64
            offsets = np.append(np.arange(0, count, max(step, 1)), count)
        out = np.empty((count, self.width), np.float32) if out is None else out
        shape = (self.center, self.scale, self.fill, self.knots, self.heights, self.query)
        work = 100.0 * self.width * np.diff(offsets)
        over_queries(_transform, offsets, read_only(features), *shape, out, work=work)
        return out

    def blocks(self, features: Matrix, offsets: Offsets | None) -> "list[tuple[slice, Offsets | None]]":
        """Return the rows that are transformed at a time, whole queries where these matter, and their offsets."""
        if not self.query or offsets is None:
            step = features.shape[0] if self.query else _ROWS
            return [(slice(a, min(a + step, features.shape[0])), None) for a in range(0, features.shape[0], step or 1)]
        cuts = np.searchsorted(offsets, np.arange(_ROWS, offsets[-1], _ROWS))
        cuts = np.unique([0, *cuts, offsets.size - 1]).tolist()
        return [
            (slice(int(offsets[a]), int(offsets[b])), offsets[a : b + 1] - offsets[a])
            for a, b in itertools.pairwise(cuts)
        ]

    def all(self, features: Matrix, offsets: Offsets) -> Floats:
        """Return all rows of training data, transformed."""
        out = np.empty((features.shape[0], self.width), np.float32)
        for rows, inside in self.blocks(features, offsets):
            self.rows(dense(features[rows]), inside, out[rows])
        return out


class LinearModel(Model):
    """A weighted sum of transformed features.

    >>> features = np.array([[0.0, 1.0], [2.0, 1.0]], np.float32)
    >>> transform, _ = LinearTransform.fit("standard", features)
    >>> LinearModel(Schema(2), transform, np.array([2.0, 1.0])).scores(features)
    array([-2.,  2.])
    """

    kind, trained_by = "a linear model", "LinearRanker"

    def __init__(
        self,
        schema: Schema,
        transform: LinearTransform,
        weights: Array,
        intercept: float = 0.0,
        average: Array | None = None,
        penalty: tuple[float, float] = (0.0, 0.0),
        rounds: int = 1,
    ) -> None:
        self.schema, self.transform, self.weights, self.intercept = schema, transform, read_only(weights), intercept
        self.average = np.zeros(transform.width) if average is None else average
        """Transformed features of the mean document of the training data."""
        self.penalty, self.rounds, self.needs_lists = penalty, rounds, transform.query

    def scores(self, features: Matrix, offsets: Offsets | None = None) -> Array:
        """Return one score per document."""
        require_lists(self, offsets)
        scores = np.empty(features.shape[0])
        for rows, inside in self.transform.blocks(features, offsets):
            block = self.transform.rows(dense(features[rows]), inside)
            products(block, self.weights, self.intercept, scores[rows])
        if not np.isfinite(scores).all():
            row = int(np.argmin(np.isfinite(scores)))
            what, hint = "a linear model needs features that are finite, or NaN", "clip what is infinite"
            raise check.error(what, got=f"a score of {scores[row]}", where=f"row {row}", hint=hint)
        return scores

    def contributions(self, features: Matrix, offsets: Offsets | None = None) -> Contributions:
        """Return weight times distance from the mean document: the SHAP values, where features are independent.

        What a feature adds within its query counts for the feature.
        """
        require_lists(self, offsets)
        n_docs, count = features.shape
        parts = np.empty((n_docs, count + 1))
        for rows, inside in self.transform.blocks(features, offsets):
            added = (self.transform.rows(dense(features[rows]), inside) - self.average) * self.weights
            parts[rows, :-1] = added.reshape(len(added), -1, count).sum(axis=1)
        parts[:, -1] = self.intercept + float(self.average @ self.weights)
        return Contributions(
            parts=parts,
            left=np.zeros(n_docs),
            method="SHAP values of a linear model",
            start="score of the mean document",
            features=features,
            schema=self.schema,
        )

    def files(self) -> dict[str, bytes]:
        """Return weights and transform as one file of arrays."""
        one = self.transform
        arrays = {"weights": self.weights, "average": self.average, "intercept": np.array(self.intercept)}
        arrays |= {"center": one.center, "scale": one.scale, "fill": one.fill}
        return {_FILE: storage.npz(arrays | {"knots": one.knots, "heights": one.heights})}

    def description(self) -> Json:
        """Return the transform, the penalty and the number of the strength."""
        l1, l2 = self.penalty
        return {"transform": self.transform.kind, "penalty": {"l1": l1, "l2": l2}, "rounds": self.rounds}

    @classmethod
    def from_files(cls, description: Json, files: dict[str, bytes], schema: Schema) -> Self:
        """Read the arrays, and check their shapes and numbers."""
        kind, n = description["transform"], schema.count
        with check.library("the weights of a linear model", _FILE):
            arrays = storage.arrays(files[_FILE])
        with storage.rejecting():
            if kind not in (None, *TRANSFORMS):
                raise storage.InvalidModelError(f"a transform {kind!r}")
            width, curves = n * (1 + str(kind).endswith("+query")), n * str(kind).startswith("quantile")
            shapes = {"weights": (width,), "average": (width,), "intercept": (), "center": (n,), "scale": (n,)}
            shapes |= {"fill": (n,), "knots": (curves, KNOTS), "heights": (curves, KNOTS)}
            for name, shape in shapes.items():
                dtype = np.float32 if name in ("knots", "heights") else np.float64
                if name not in arrays or arrays[name].shape != shape or arrays[name].dtype != np.dtype(dtype):
                    raise storage.InvalidModelError(f"no {name} of the shape {shape}")
                if not np.isfinite(arrays[name]).all():
                    raise storage.InvalidModelError(f"{name} that are not finite")
            if (arrays["scale"] <= 0).any() or (np.diff(arrays["knots"]) < 0).any():
                raise storage.InvalidModelError("scales that are not positive, or knots that are not in order")
        lines = (read_only(arrays[name]) for name in ("knots", "heights"))
        transform = LinearTransform(kind, arrays["center"], arrays["scale"], arrays["fill"], *lines)
        penalty = (float(description["penalty"]["l1"]), float(description["penalty"]["l2"]))
        return cls(
            schema,
            transform,
            arrays["weights"],
            float(arrays["intercept"]),
            arrays["average"],
            penalty,
            int(description["rounds"]),
        )


def products(rows: Floats, weights: Array, intercept: float, out: Array) -> None:
    """Fill the score of every row: rows times weights, summed in float64."""
    count = rows.shape[0]
    starts = np.append(np.arange(0, count, 256), count)
    work = 0.5 * rows.shape[1] * np.diff(starts)
    over_queries(_products, starts, rows, read_only(weights), intercept, out, work=work)


@kernel(fastmath=REORDERED)
def _products(first, last, offsets, rows, weights, intercept, out):  # type: ignore[no-untyped-def]
    for row in range(offsets[first], offsets[last]):
        total = 0.0
        for column in range(weights.size):
            total += rows[row, column] * weights[column]
        out[row] = total + intercept


@kernel
def _transform(first, last, offsets, features, center, scale, fill, knots, heights, query, out):  # type: ignore[no-untyped-def]
    curved, count, longest = knots.shape[0] > 0, features.shape[1], 0
    for number in range(first, last):
        longest = max(longest, offsets[number + 1] - offsets[number])
    values = np.empty(longest)
    for number in range(first, last):
        start, size = offsets[number], offsets[number + 1] - offsets[number]
        for column in range(count):
            lowest, present = math.inf, 0
            for row in range(size):
                value = np.float64(features[start + row, column])
                if not math.isnan(value):
                    if curved:
                        value = _height(value, knots[column], heights[column])
                    else:
                        value = (value - center[column]) / scale[column]
                    lowest, present = min(lowest, value), present + 1
                values[row] = value
                out[start + row, column] = fill[column] if math.isnan(value) else value
            if query:
                # From the lowest value on: what is all the same is exactly 0, as in nets.
                mean = squares = 0.0
                for row in range(size):
                    if not math.isnan(values[row]):
                        mean += (values[row] - lowest) / present
                for row in range(size):
                    if not math.isnan(values[row]):
                        squares += (values[row] - lowest - mean) ** 2 / present
                deviation = math.sqrt(squares) if squares > 0.0 else 1.0
                for row in range(size):
                    missing = math.isnan(values[row])
                    out[start + row, count + column] = 0.0 if missing else (values[row] - lowest - mean) / deviation


@kernel
def _height(value, knots, heights):  # type: ignore[no-untyped-def]
    """Return the height of the broken line at a value; outside the knots that of its end."""
    low, high = 0, knots.size - 1
    if value <= knots[low]:
        return np.float64(heights[low])
    if value >= knots[high]:
        return np.float64(heights[high])
    while high - low > 1:
        middle = (low + high) // 2
        if knots[middle] <= value:
            low = middle
        else:
            high = middle
    share = (value - knots[low]) / (np.float64(knots[high]) - knots[low])
    return heights[low] + share * (np.float64(heights[high]) - heights[low])
