"""Trees that also split by values within the query: a forest whose columns are those of a transform."""

from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Floats, Json, Offsets
from rankwise.base.sparse import Matrix, dense
from rankwise.data.dataset import RankingDataset
from rankwise.data.io.disk.mapped import DiskDataset
from rankwise.models.column_statistics import check_finite
from rankwise.models.forests.forest import TRANSFORMS, ForestModel, summed
from rankwise.models.linear import LinearTransform
from rankwise.models.model import Contributions, Model, Score, require_lists
from rankwise.models.schema import Schema


class QueryForest(Model):
    """A forest that sees every feature twice: as it is, and standardised within its query as linear models and nets do.

    Column k + n of n features is column k less its mean in the query, divided by its deviation there; 0 where it is
    missing, or all the same.
    """

    trained_by, needs_lists = "ranker of trees with values within the query", True

    def __init__(self, schema: Schema, forest: ForestModel) -> None:
        self.schema, self.forest, self.transform = schema, forest, LinearTransform.raw(schema.count)
        self.kind, self.least_code = f"{forest.kind}, with values within the query", forest.least_code
        self.rounds, self.n_trees, self.booster = forest.rounds, forest.n_trees, forest.booster

    def scores(self, features: Matrix, offsets: Offsets | None = None) -> Array:
        """Return one score per document."""
        scores = np.empty(features.shape[0])
        for rows, columns in self._blocks(features, offsets):
            scores[rows] = self.forest.scores(columns)
        return scores

    def contributions(self, features: Matrix, offsets: Offsets | None = None) -> Contributions:
        """Return the SHAP values of every document; what a feature adds within its query counts for the feature."""
        n_docs, count = features.shape
        parts = np.empty((n_docs, count + 1))
        for rows, columns in self._blocks(features, offsets):
            each = self.forest.explain(columns)
            parts[rows, :-1], parts[rows, -1] = each[:, :count] + each[:, count:-1], each[:, -1]
        method, start = f"SHAP values of {self.forest.library}", "mean score"
        return Contributions.exact(parts, features, self.schema, method=method, start=start)

    def serving(self) -> Score:
        """Return the transform before what serves the forest."""
        score = self.forest.serving()
        return lambda documents, offsets: score(self._columns(documents, offsets), None)

    def importances(self, kind: str = "gain") -> Array:
        """Return one number per feature: of its splits, and of those by its values within the query."""
        summed: Array = self.forest.importances(kind).reshape(2, -1).sum(axis=0)
        return summed

    def content(self) -> bytes:
        """Return the trees in the library's own file format, in which there are twice as many features."""
        return self.forest.content()

    def files(self) -> dict[str, bytes]:
        """Return the library's own file."""
        return self.forest.files()

    def description(self) -> Json:
        """Return the description of the forest, and the transform."""
        return self.forest.description() | {"transform": self.transform.kind}

    @classmethod
    def from_files(cls, description: Json, files: dict[str, bytes], schema: Schema, read: Any = None) -> Self:
        """Read the forest by ``read``."""
        check.choice("transform of trees", description["transform"], TRANSFORMS)
        return cls(schema, read(description, files, doubled(schema)))

    def _blocks(self, features: Matrix, offsets: Offsets | None) -> Iterator[tuple[slice, Floats]]:
        """Yield rows of whole queries, and the columns that the forest sees of them."""
        require_lists(self, offsets)
        for rows, inside in self.transform.blocks(features, offsets):
            yield rows, self._columns(dense(features[rows]), inside, rows.start)

    def _columns(self, rows: Floats, offsets: Offsets | None, start: int = 0) -> Floats:
        check_finite(rows, start, "a transform within the query")
        return self.transform.rows(rows, offsets)


def summed_within(models: Sequence[Model], factors: Sequence[float]) -> QueryForest | None:
    """Return one model that scores as the weighted sum of such forests of one library; None where there is none."""
    forests = [one.forest for one in models if isinstance(one, QueryForest)]
    forest = summed(forests, factors) if len(forests) == len(models) else None
    return None if forest is None else QueryForest(models[0].schema, forest)


def doubled(schema: Schema) -> Schema:
    """Return the columns that a forest sees."""
    names = () if schema.names is None else (*schema.names, *(f"within({name})" for name in schema.names))
    unique = names if names and len(set(names)) == len(names) else None
    return Schema(2 * schema.count, unique, schema.categorical, schema.categories, schema.init_scores)


def widened(data: RankingDataset) -> RankingDataset:
    """Return data with the columns that a forest sees, dense and in memory."""
    if isinstance(data, DiskDataset):
        hint = "train without `transform`, or read the data into memory"
        raise check.error("values within the query are made in memory", got="features on disk", hint=hint)
    transform, schema = LinearTransform.raw(data.n_features), Schema.of(data)
    for rows, _ in transform.blocks(data.features, data.offsets):
        check_finite(dense(data.features[rows]), rows.start, "a transform within the query")
    features = transform.all(data.features, data.offsets)
    features[:, [data.n_features + column for column in data.categorical]] = 0.0  # codes are no numbers: never split
    return data.with_(features=features, feature_names=doubled(schema).names)
