"""CatBoost: the adapter of boosted trees, and the ranker.

CatBoost takes no objective that looks at whole lists, so its rounds are driven from outside: each is one call that
grows one tree, on data that were binned once. For our objectives the tree fits −numerator / Hessian by weighted least
squares, which is Newton's step; CatBoost's own objectives start each tree from the scores so far. Every round has a
seed of its own, of (seed, number of trees), so that a continued model is the uninterrupted one even where
CatBoost samples.
"""

import functools
import inspect
import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np

from rankwise import check
from rankwise.arrays import Array, Keywords
from rankwise.data.dataset import RankingDataset
from rankwise.objectives.base import Objective
from rankwise.objectives.table import native
from rankwise.rankers.table import Recipe
from rankwise.rankers.trees import monotone
from rankwise.rankers.trees.catboost_model import (
    CatBoostForest,
    catboost,
    content_of,
    first_line,
    forest,
    make_pool,
    scores_of,
    strip,
)
from rankwise.rankers.trees.formats import catboost as cbm_format
from rankwise.rankers.trees.protocol import (
    LARGE_DATA,
    SMALL_DATA,
    Derive,
    Library,
    ObjectiveParameter,
    Refusal,
    Settings,
)
from rankwise.rankers.trees.ranker import TreeRanker
from rankwise.stream import Stream
from rankwise.threads import thread_count

if TYPE_CHECKING:
    from catboost import CatBoost as Model
    from catboost import Pool

_ALIASES = {
    "objective": "loss_function",
    "eta": "learning_rate",
    "n_estimators": "iterations",
    "num_boost_round": "iterations",
    "num_trees": "iterations",
    "max_depth": "depth",
    "reg_lambda": "l2_leaf_reg",
    "colsample_bylevel": "rsm",
    "random_state": "random_seed",
    "max_bin": "border_count",
    "num_leaves": "max_leaves",
    "min_child_samples": "min_data_in_leaf",
}
_BINNING = ("border_count", "feature_border_type", "per_float_feature_quantization", "nan_mode", "ignored_features")
_ACROSS_ROUNDS = (
    "langevin",
    "posterior_sampling",
    "diffusion_temperature",
    "model_shrink_mode",
    "model_shrink_rate",
    "first_feature_use_penalties",
    "per_object_feature_penalties",
    "approx_on_full_history",
)
_ELSEWHERE = (
    "save_snapshot",
    "snapshot_file",
    "snapshot_interval",
    "use_best_model",
    "best_model_min_trees",
    "eval_fraction",
    "boost_from_average",
    "text_features",
    "embedding_features",
    "input_borders",
    "output_borders",
)
_YETI = ("mode", "permutations", "decay", "top", "dcg_type", "dcg_denominator", "noise", "noise_power", "num_neighbors")
_METRIC = ("metric", "top", "type", "denominator", "sigma", "decay")
_OPTIONS = {
    "YetiRank": _YETI,
    "YetiRankPairwise": _YETI,
    "StochasticRank": (*_METRIC, "mu", "nu", "lambda", "num_estimations"),
    "LambdaMart": (*_METRIC, "norm"),
}
"""What stands behind the colon of an objective of CatBoost's; of the others CatBoost refuses what it does not know."""
_BY_PAIRS = ("YetiRank", "PairLogit")
_DEEPEST = 16  # CatBoost grows no deeper trees
_SUMMED = 64  # one-tree models that wait to be added to the model: each holds the borders of every feature


class CatBoost(Library):
    """The adapter of CatBoost."""

    name = "catboost"
    file = "model.cbm"
    builtins = (
        "YetiRank",
        "YetiRankPairwise",
        "PairLogit",
        "PairLogitPairwise",
        "QueryRMSE",
        "QuerySoftMax",
        "StochasticRank",
        "LambdaMart",
    )
    ours: Mapping[str, str] = {
        "loss_function": "objective",
        "iterations": "rounds",
        "learning_rate": "learning_rate",
        "max_leaves": "leaves",
        "min_data_in_leaf": "min_documents",
        "random_seed": "seed",
        "thread_count": "threads",
        "eval_metric": "metrics",
        "custom_metric": "metrics",
        "early_stopping_rounds": "patience",
        "od_wait": "patience",
        "od_type": "patience",
        "od_pval": "patience",
        "cat_features": "RankingDataset(categorical=…)",
        "verbose": "progress",
        "silent": "progress",
    }
    aliases = _ALIASES
    losses: Mapping[str, ObjectiveParameter] = {
        "target_border": ObjectiveParameter(builtins, "labels made by rw.binarize")
    }
    idle = ("metric_period",)
    least_code = -np.inf
    format = cbm_format

    def known(self) -> Collection[str]:
        """Return all names of parameters, aliases included."""
        return _names()

    def refusal(self, settings: Settings, *, stopping: bool, checkpoints: bool) -> Refusal | None:
        """Return why settings cannot be trained; None if they can."""
        native, reason = settings.native, ""
        across = next((name for name in _ACROSS_ROUNDS if name in native), None)
        elsewhere = next((name for name in _ELSEWHERE if name in native), None)
        policy = native.get("grow_policy", "SymmetricTree")
        if not settings.floor_hessian:
            reason = "floor_hessian=False, where Hessians are weights of documents, which CatBoost wants to be positive"
        elif native.get("boosting_type", "Plain") != "Plain":
            reason = (
                "boosting_type=Ordered keeps a model for each of its permutations, and here every round is one call"
            )
        elif native.get("task_type", "CPU") != "CPU":
            reason = "task_type=GPU would copy the data to the device for every tree"
        elif monotone.NAME in native and policy != "SymmetricTree":
            reason = f"grow_policy={policy}, whose trees cannot keep {monotone.NAME} in CatBoost"
        elif monotone.NAME in native and str(settings.builtin).startswith(_BY_PAIRS):
            reason = f"native:{settings.builtin}, whose scores do not always keep {monotone.NAME} in CatBoost"
        elif across is not None:
            reason = f"{across} acts across rounds, and here every round is one call"
        elif elsewhere is not None:
            reason = f"{elsewhere} is what rankwise takes care of itself"
        return Refusal(reason) if reason else None

    def threads(self) -> int:
        """How many threads it may use; its own begin anew in a forked process."""
        return thread_count()

    def least_documents(self, settings: Settings) -> int | None:
        """How many documents a leaf must hold to be split; symmetric trees split all leaves alike and count none."""
        policy = settings.native.get("grow_policy", "SymmetricTree")
        return None if policy == "SymmetricTree" else settings.min_documents

    def draws(self, settings: Settings) -> bool:
        """Whether a continued model would differ: never, since every round has a seed of its own."""
        return False

    def matrices(
        self, settings: Settings, train: RankingDataset, held_out: Sequence[RankingDataset]
    ) -> "CatBoostMatrices":
        """Build CatBoost's own data once; the bins of the training documents too."""
        builtin = settings.builtin is not None
        labels = train.labels
        if not builtin and (not train.categorical or (labels == labels[0]).all()):
            labels = np.zeros(train.n_docs)  # the steps are all in the baseline; CatBoost refuses equal labels
            labels[:1] = 1.0
        pool = make_pool(
            train.features,
            train.categorical,
            _feature_names(train),
            settings.threads,
            label=labels,
            group_id=np.repeat(np.arange(train.n_queries), train.sizes) if builtin else None,
            group_weight=np.repeat(train.weights, train.sizes) if builtin and train.weights is not None else None,
        )
        native = settings.native
        try:
            pool.quantize(**{name: native[name] for name in _BINNING if name in native})
        except catboost().CatBoostError as failed:
            if "constant or ignored" not in str(failed):
                raise _refused(settings, failed) from None
            return CatBoostMatrices(train, labels, None, [])
        columns = (train.categorical, _feature_names(train), settings.threads)
        return CatBoostMatrices(train, labels, pool, [make_pool(data.features, *columns) for data in held_out])

    def grow(
        self, settings: Settings, matrices: "CatBoostMatrices", seed: int, start: bytes | None
    ) -> "CatBoostGrowth":
        """Start growing, from nothing or from the trees of ``start``."""
        parameters = self._parameters(settings, bool(matrices.data.categorical))
        return CatBoostGrowth(settings, parameters, matrices, seed, None if start is None else self.forest(start))

    def forest(self, content: bytes) -> CatBoostForest:
        """Read a model."""
        return forest(content)

    def sum(self, forests: Sequence[CatBoostForest], factors: Sequence[float]) -> CatBoostForest | None:
        """Make one forest that scores as their weighted sum; None if they hold statistics of categories, each its own.

        CatBoost keeps one table for a statistic, whichever model it came from.
        """
        if any(one.has_statistics() for one in forests):
            return None
        models = [one.booster for one in forests]
        return forest(content_of(strip(catboost().sum_models(models, weights=list(factors)))))

    def _parameters(self, settings: Settings, categories: bool) -> Keywords:
        native = {name: value for name, value in settings.native.items() if name not in _BINNING}
        parameters: Keywords = {"logging_level": "Silent", "allow_writing_files": False}
        parameters["has_time"] = not categories  # only statistics of categories gain from documents being shuffled
        if settings.builtin is None:
            parameters |= {"random_strength": 0.0, "boost_from_average": False}
            if not {"subsample", "bagging_temperature", "mvs_reg"} & native.keys():
                parameters["bootstrap_type"] = "No"
        if monotone.NAME in native:
            native[monotone.NAME] = list(native[monotone.NAME])
            parameters["model_shrink_rate"] = (
                0.0  # CatBoost would set it for every tree, and say each time that it cannot
            )
        if native.get("grow_policy") == "Lossguide":
            parameters |= {"max_leaves": settings.leaves, "depth": min(settings.leaves - 1, _DEEPEST)}
        else:
            parameters["depth"] = depth(settings.leaves)
        if (least := self.least_documents(settings)) is not None:
            parameters["min_data_in_leaf"] = least
        return (
            parameters
            | native
            | {
                "loss_function": _loss(settings),
                "iterations": 1,
                "boosting_type": "Plain",
                "learning_rate": settings.learning_rate,
                "thread_count": settings.threads,
            }
        )


class CatBoostMatrices(NamedTuple):
    """The data as CatBoost holds them; no pools if no feature can be split."""

    data: RankingDataset
    labels: Array
    train: "Pool | None"
    held_out: "list[Pool]"


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
        self.so_far = np.zeros(data.n_docs) if start is None else start.predict(data.features)
        self.held_out = [
            np.zeros(pool.num_row()) if start is None else scores_of(start.booster, pool) for pool in matrices.held_out
        ]

    def add(self, derive: Derive | None) -> bool:
        """Grow one tree; False if CatBoost found no split for it."""
        pool = self.matrices.train
        if derive is not None:
            numerator, hessian = derive(self.so_far)
            if pool is not None:
                pool.set_weight(hessian)
                _set_baseline(pool, self.matrices.labels + numerator.astype(np.float64) / hessian)
        elif pool is not None:
            _set_baseline(pool, self.so_far)
        if pool is None:
            return False
        tree: Model = catboost().CatBoost(self.parameters | self._drawing())
        try:
            tree.fit(pool)
        except catboost().CatBoostError as failed:
            raise _refused(self.settings, failed) from None
        leaves = np.asarray(tree.get_leaf_values(), np.float64)
        if (leaves == leaves[0]).all():
            return False
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
            if not np.array_equal(CatBoostForest(self.model, b"").predict(some), self.so_far[: len(some)]):
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


class CatBoostRanker(TreeRanker):
    """Boosted trees of CatBoost, trained with any objective.

    Beside the arguments that all tree rankers have (see ``TreeRanker``), every parameter of
    CatBoost is taken by its own name: ``CatBoostRanker("xendcg", l2_leaf_reg=1.0, rsm=0.5)``. CatBoost's own
    objectives take their parameters as it writes them: ``"native:YetiRank:mode=NDCG;top=10"``.

    Trees are symmetric, as CatBoost's are: all leaves are split at once and by the same question, so that there are
    2^depth of them. ``leaves`` is rounded up to such a number (31 gives 32, a depth of 5; 64 is CatBoost's usual
    depth of 6), and ``min_documents`` has no effect. With ``grow_policy="Lossguide"`` trees grow leaf by leaf and
    have ``leaves`` at most, as those of the other libraries; with ``"Depthwise"`` level by level. In both a leaf
    must hold ``min_documents`` to be split, and what it is split into may hold fewer. With our objectives nothing
    is drawn unless ``random_strength``, ``bootstrap_type``, ``subsample`` or ``rsm`` says so. Categories are
    replaced by statistics of the labels, as CatBoost does.

    >>> import rankwise as rw
    >>> train, valid = rw.split(rw.synthetic(n_queries=40, n_docs=20, seed=1), (0.75, 0.25), seed=1)
    >>> ranker = CatBoostRanker("xendcg", rounds=20, leaves=8, threads=1).fit(train, valid)
    >>> ranker.history_["loss"][0] > ranker.history_["loss"][-1]
    True
    >>> ranker.predict(valid).shape == (valid.n_docs,)
    True
    """

    library = CatBoost()
    extra, modules, packages = "catboost", ("catboost",), ("catboost",)
    magic = (b"CBM1",)
    search_space: ClassVar[Keywords] = {
        "learning_rate": "log(0.02, 0.3)",
        "leaves": "whole_log(7, 63)",
        "l2_leaf_reg": "log(0.1, 30.0, start=3.0)",
        "random_strength": "uniform(0.0, 2.0, start=1.0)",
    }
    portfolio = (
        Recipe("yeti", SMALL_DATA, small=(3,)),
        Recipe("xendcg", SMALL_DATA | {"leaves": 31}, small=(10,)),
        Recipe("yeti", LARGE_DATA, middle=(5,), large=(6,)),
    )

    def _chosen(self) -> tuple[str | None, Objective | None]:
        """The library's own objective with its parameters, or ours."""
        expression = native(self.objective)
        if expression is None:
            return super()._chosen()
        builtin, colon, parameters = expression.partition(":")
        check.choice("objective of catboost itself", builtin, self.library.builtins)
        _check_options(builtin, parameters)
        return builtin + colon + parameters, None


def depth(leaves: int) -> int:
    """Return the least depth at which a tree that splits all its leaves at once has at least so many.

    >>> depth(7), depth(8), depth(31), depth(64)
    (3, 3, 5, 6)
    """
    return (leaves - 1).bit_length()


def _check_options(builtin: str, options: str) -> None:
    """Reject what stands behind the colon of a CatBoost objective and that CatBoost would overlook."""
    allowed = _OPTIONS.get(builtin)
    for option in filter(None, options.split(";")):
        name = option.partition("=")[0].strip()
        if allowed is not None and name not in (*allowed, "hints"):
            hint = check.suggestion(name, allowed).rstrip("?")
            raise check.error(f"CatBoost's {builtin} has no such parameter", got=repr(name), hint=hint)


@functools.cache
def _names() -> frozenset[str]:
    """Every name of a parameter."""
    return frozenset(inspect.signature(catboost().CatBoostRanker).parameters) | {*_ALIASES, *CatBoost.ours}


def _loss(settings: Settings) -> str:
    """What CatBoost is told to minimise."""
    loss, _, options = (settings.builtin or "RMSE").partition(":")
    if loss in ("StochasticRank", "LambdaMart") and "metric=" not in options:
        options = ";".join(filter(None, ("metric=NDCG", options)))
    return f"{loss}:{options}" if options else loss


def _feature_names(data: RankingDataset) -> list[str]:
    return [str(j) for j in range(data.n_features)] if data.feature_names is None else list(data.feature_names)


def _set_baseline(pool: "Pool", values: Array) -> None:
    """Set what CatBoost takes for the scores so far; it reads a table faster than an array."""
    import polars as pl

    pool.set_baseline(pl.DataFrame({"baseline": values}))


def _refused(settings: Settings, failed: Exception) -> ValueError:
    what = "our objectives" if settings.builtin is None else f"native:{settings.builtin}"
    return check.error(f"CatBoost cannot train so with {what}", got=first_line(failed))
