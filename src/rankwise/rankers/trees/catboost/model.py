"""CatBoost's training.

CatBoost takes no objective that looks at whole lists, so its rounds are driven from outside: each is one call that
grows one tree, on data that were binned once. For our objectives the tree fits −numerator / Hessian by weighted least
squares, which is Newton's step; CatBoost's own objectives start each tree from the scores so far. Every round has a
seed of its own, of (seed, number of trees), so that a continued model is the uninterrupted one even where
CatBoost samples.
"""

import json
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Keywords
from rankwise.base.stream import Stream
from rankwise.data.dataset import RankingDataset
from rankwise.models.forests.catboost import CatBoostForest, catboost, content_of, make_pool, scores_of, strip
from rankwise.models.forests.library_errors import first_line
from rankwise.models.schema import Schema
from rankwise.rankers.trees.protocol import ONE_SCORE, Derive, ForeignModel, Settings, cannot_wrap, untrained

if TYPE_CHECKING:
    from catboost import CatBoost as Model
    from catboost import Pool

BINNING = ("border_count", "feature_border_type", "per_float_feature_quantization", "nan_mode", "ignored_features")
"""Parameters that are read when data are binned."""
_SUMMED = 64  # one-tree models that wait to be added to the model: each holds the borders of every feature


class CatBoostMatrices(NamedTuple):
    """The data as CatBoost holds them; no pools if no feature can be split."""

    data: RankingDataset
    labels: Array
    train: "Pool | None"
    held_out: "list[Pool]"


def matrices(
    settings: Settings, train: RankingDataset, held_out: Sequence[RankingDataset], seed: int
) -> CatBoostMatrices:
    """Build CatBoost's own data once; the bins of the training documents too, from a sample where these are many."""
    builtin = settings.builtin is not None
    labels = train.labels
    if not builtin and (not train.categorical or (labels == labels[0]).all()):
        labels = np.zeros(train.n_docs)  # the steps are all in the baseline; CatBoost refuses equal labels
        labels[:1] = 1.0
    columns = (train.categorical, _feature_names(train), settings.threads)
    pool = make_pool(
        train.features,
        *columns,
        label=labels,
        group_id=np.repeat(np.arange(train.n_queries), train.sizes) if builtin else None,
        group_weight=np.repeat(train.weights, train.sizes) if builtin and train.weights is not None else None,
    )
    native = settings.native
    try:
        sample = int(Stream(seed).child("bins").key >> np.uint64(33))
        pool.quantize(**{name: native[name] for name in BINNING if name in native}, random_seed=sample)
    except catboost().CatBoostError as failed:
        if "constant or ignored" not in str(failed):
            raise
        return CatBoostMatrices(train, labels, None, [])
    return CatBoostMatrices(train, labels, pool, [make_pool(data.features, *columns) for data in held_out])


class CatBoostGrowth:
    """Trees that are grown one by one."""

    def __init__(
        self,
        settings: Settings,
        parameters: Keywords,
        matrices: CatBoostMatrices,
        seed: int,
        start: CatBoostForest | None,
    ) -> None:
        self.settings, self.parameters, self.matrices, self.seed = settings, parameters, matrices, seed
        data = matrices.data
        self.model: Model | None = None if start is None else start.booster
        if self.model is not None:  # sums of models must have the same names
            self.model.set_feature_names(_feature_names(data))
        self.fresh: list[Model] = []
        self.started = start is not None
        self.waiting = 1 if self.started else _SUMMED  # whether trees can be added to those of another is seen at once
        self.trees = 0 if start is None else start.n_trees
        self.so_far = np.zeros(data.n_docs) if start is None else start.scores(data.features)
        self.held_out = [
            np.zeros(pool.num_row()) if start is None else scores_of(start.booster, pool) for pool in matrices.held_out
        ]

    def add(self, derive: Derive | None) -> bool:
        """Grow one tree; False if CatBoost found no split for it."""
        pool = self.matrices.train
        if derive is not None:
            numerator, hessian = derive(self.so_far if self.trees else self.so_far + self.settings.base_score)
            if pool is not None:
                pool.set_weight(hessian)
                _set_baseline(pool, self.matrices.labels + numerator.astype(np.float64) / hessian)
        elif pool is not None:
            _set_baseline(pool, self.so_far)
        if pool is None:
            return False
        tree: Model = catboost().CatBoost(self.parameters | self._drawing())
        tree.fit(pool)
        leaves = np.asarray(tree.get_leaf_values(), np.float64)
        if (leaves == leaves[0]).all():
            return False
        if not self.trees and self.settings.base_score:
            leaves = leaves + self.settings.base_score
            tree.set_leaf_values(leaves)
        # predict would add the baseline to it
        self.so_far = self.so_far + leaves[tree.calc_leaf_indexes(pool, thread_count=self.settings.threads)[:, 0]]
        pairs = zip(self.held_out, self.matrices.held_out, strict=True)
        self.held_out = [scores + scores_of(tree, each) for scores, each in pairs]
        self.fresh.append(strip(tree))
        self.trees += 1
        if len(self.fresh) >= self.waiting:
            self._sum()
        return True

    def _drawing(self) -> Keywords:
        """Seed and noise of the next tree: CatBoost lets the noise fade as the model grows, and sees one tree here."""
        drawing: Keywords = {"random_seed": int(Stream(self.seed, self.trees).key >> np.uint64(33))}
        strength = self.parameters.get("random_strength", 1.0)
        if strength and self.parameters.get("random_score_type") != "Gumbel":
            n = self.so_far.size
            left = n * math.exp(-self.trees * self.settings.learning_rate)
            drawing["random_strength"] = strength * (left / (1.0 + left)) / (n / (1.0 + n))
        return drawing

    def _sum(self) -> None:
        """Add the trees that wait to the model."""
        parts = [*([] if self.model is None else [self.model]), *self.fresh]
        try:
            self.model = strip(catboost().sum_models(parts, ctr_merge_policy="LeaveMostDiversifiedTable"))
        except catboost().CatBoostError as failed:
            hint = "train with the grow_policy of the model that is continued"
            raise check.error("CatBoost cannot add trees to this model", got=first_line(failed), hint=hint) from None
        self.fresh, self.waiting = [], _SUMMED
        if self.matrices.data.categorical and self.started:
            some = self.matrices.data.features[:1000]
            total = CatBoostForest(Schema.of(self.matrices.data), self.model, b"", self.trees)
            if not np.array_equal(total.scores(some), self.so_far[: len(some)]):
                raise check.error(
                    "a CatBoost model that holds statistics of categories cannot be continued on other data",
                    hint="train on all data at once, or `set one_hot_max_size=255` in both trainings",
                )

    def scores(self, number: int) -> Array:
        """Return the scores of a held-out data set."""
        return self.held_out[number]

    def content(self) -> bytes:
        """Return all trees so far in CatBoost's binary format."""
        if self.fresh:
            self._sum()
        return b"" if self.model is None else content_of(self.model)


def _feature_names(data: RankingDataset) -> list[str]:
    return [str(j) for j in range(data.n_features)] if data.feature_names is None else list(data.feature_names)


def _set_baseline(pool: "Pool", values: Array) -> None:
    """Set what CatBoost takes for the scores so far; it reads a table faster than an array."""
    import polars as pl

    pool.set_baseline(pl.DataFrame({"baseline": values}))


def read_foreign(model: Any) -> ForeignModel | None:
    """Read a model; None if it is of another library."""
    if not isinstance(model, catboost().CatBoost):
        return None
    if not model.is_fitted() or not model.tree_count_:
        raise untrained(model)
    for what, columns in (
        ("categories, of which CatBoost keeps hashes and not the values", model.get_cat_feature_indices()),
        ("texts", model.get_text_feature_indices()),
        ("embeddings", model.get_embedding_feature_indices()),
    ):
        if columns:
            raise cannot_wrap(model, f"features that are {what}")
    scores = np.size(model.get_scale_and_bias()[1])
    if scores > 1:
        raise cannot_wrap(model, f"{scores} scores of each document (multiclass or several targets)", ONE_SCORE)
    names, numbers = list(model.feature_names_), list(map(str, range(len(model.feature_names_))))
    copy: Any = model.copy()
    if names == numbers:
        copy.set_feature_names(numbers)  # without, the file has none at all
    schema = Schema(len(names), None if names == numbers else tuple(names))
    return ForeignModel(content_of(strip(copy)), schema, _loss(model))


def _loss(model: Any) -> str:
    """What it was trained with, if the model holds it."""
    notes = model.get_metadata()
    text = notes["params"] if "params" in notes.keys() else ""  # noqa: SIM118 (not a dictionary)
    parameters = json.loads(text or "{}")  # it may be empty
    return str(parameters.get("loss_function", {}).get("type", "custom"))
