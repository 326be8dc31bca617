"""XGBoost: the adapter of boosted trees, and the ranker."""

import functools
import json
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from rankwise.base.arrays import Json, Keywords
from rankwise.check.docstrings import documented
from rankwise.models.forests.xgboost import XGBoostForest, threads, xgboost
from rankwise.rankers.table import Recipe
from rankwise.rankers.trees.protocol import (
    LARGE_DATA,
    SMALL_DATA,
    Defaults,
    Library,
    ObjectiveParameter,
    Refusal,
    Settings,
    changes_trees,
)
from rankwise.rankers.trees.ranker import TreeRanker
from rankwise.rankers.trees.xgboost.data import CACHE_PARAMETERS, XGBoostMatrices, gpu, matrices
from rankwise.rankers.trees.xgboost.model import XGBoostGrowth, read_foreign

_ALIASES = {
    "eta": "learning_rate",
    "gamma": "min_split_loss",
    "lambda": "reg_lambda",
    "alpha": "reg_alpha",
    "n_jobs": "nthread",
    "random_state": "seed",
    "n_estimators": "num_boost_round",
}
_NOTHING_DRAWN = {
    "subsample": 1.0,
    "colsample_bytree": 1.0,
    "colsample_bylevel": 1.0,
    "colsample_bynode": 1.0,
    "lambdarank_pair_method": "topk",
}
# Of a model rather than of training; set here, or of no use for ranking.
_NOT_FOR_USERS = {"num_class", "num_feature", "num_target", "num_trees", "boost_from_average", "size_leaf_vector"}

_BUILTINS = ("rank:ndcg", "rank:map", "rank:pairwise")
_OBJECTIVE_PARAMETERS = {
    "lambdarank_pair_method": ObjectiveParameter(
        _BUILTINS, "lambdarank(truncation=…), or truncation=None for all pairs"
    ),
    "lambdarank_num_pair_per_sample": ObjectiveParameter(_BUILTINS, "lambdarank(truncation={})"),
    "lambdarank_normalization": ObjectiveParameter(_BUILTINS, "lambdarank(norm={})"),
    "lambdarank_score_normalization": ObjectiveParameter(_BUILTINS, "lambdarank(norm={})"),
    "lambdarank_unbiased": ObjectiveParameter(_BUILTINS, "`debias={}`, with propensities in the data"),
    "lambdarank_bias_norm": ObjectiveParameter(_BUILTINS, "`debias=True`, with propensities in the data"),
    "ndcg_exp_gain": ObjectiveParameter(("rank:ndcg",), "lambdarank(gain='exponential') or gain='linear'"),
    "multi_strategy": ObjectiveParameter(()),
}
# Trees that differ more gain more from being added up: each sees part of the documents and of the features.
_DIVERSE = SMALL_DATA | {"colsample_bynode": 0.5, "subsample": 0.7}


@functools.cache
def _names() -> frozenset[str]:
    """Every name of a parameter: XGBoost lists those that it used."""
    one = xgboost().DMatrix(np.zeros((1, 1), np.float32), nthread=1)
    names = {*_ALIASES, *_ALIASES.values(), *XGBoost.ours, *CACHE_PARAMETERS}
    names |= {
        "verbosity",
        "feature_selector",
        "max_cached_hist_node",
        "objective",
        "eval_metric",
        "early_stopping_rounds",
    }

    def walk(node: Json, inside: str) -> None:
        for name, value in node.items():
            if isinstance(value, dict):
                walk(value, name)
            elif inside.endswith("_param"):
                names.add(name)

    for booster in ("gbtree", "dart"):
        for objective in XGBoost.builtins:
            settings = {"booster": booster, "objective": objective, "verbosity": 0}  # it may warn of dart
            walk(json.loads(xgboost().Booster(settings, [one]).save_config()), "")
    return frozenset(names - _NOT_FOR_USERS)


class XGBoost(Library):
    """The adapter of XGBoost."""

    name, title = "xgboost", "XGBoost"
    forest = XGBoostForest
    builtins = _BUILTINS
    aliases = _ALIASES
    ours: Mapping[str, str] = {
        "disable_default_eval_metric": "metrics",
        "feature_types": "RankingDataset(categorical=…)",
        "enable_categorical": "RankingDataset(categorical=…)",
    }
    losses = _OBJECTIVE_PARAMETERS
    idle = ("feature_selector", "refresh_leaf", "updater_seq")
    small_data = Defaults(leaves=7, min_documents=50, smoothing=10, native={"subsample": 0.7, "colsample_bynode": 0.5})
    nothing_drawn: Mapping[str, object] = _NOTHING_DRAWN
    known = staticmethod(_names)
    threads = staticmethod(threads)
    matrices = staticmethod(matrices)
    foreign = staticmethod(read_foreign)
    device = staticmethod(gpu)

    def refusal(self, settings: Settings, *, stopping: bool, checkpoints: bool) -> Refusal | None:
        """Return why settings cannot be trained; None if they can."""
        native = settings.native
        if native.get("booster") == "gblinear":
            return Refusal("booster=gblinear grows no trees")
        if native.get("tree_method") == "exact":
            return Refusal("tree_method=exact counts the depth of a tree and not its leaves")
        if native.get("process_type", "default") != "default":
            return Refusal("process_type=update grows no trees")
        if "base_score" in native:
            return Refusal("base_score moves all scores alike: the objective says where training starts")
        if native.get("booster") == "dart" and (stopping or checkpoints):
            return changes_trees("booster=dart", stopping=stopping)
        return None

    def least_documents(self, settings: Settings) -> int | None:
        """How many average documents a leaf holds at least; None where XGBoost's own limit is in force."""
        absolute = settings.builtin is not None or "min_child_weight" in settings.native
        return None if absolute else settings.min_documents

    def grow(self, settings: Settings, matrices: XGBoostMatrices, seed: int, start: bytes | None) -> XGBoostGrowth:
        """Start growing, from nothing or from the trees of ``start``."""
        return XGBoostGrowth(settings, self._parameters(settings, seed), matrices, start)

    def _parameters(self, settings: Settings, seed: int) -> Keywords:
        parameters = {"verbosity": 0, "tree_method": "hist", "grow_policy": "lossguide", "max_depth": 0}
        native = {name: value for name, value in settings.native.items() if name not in CACHE_PARAMETERS}
        return {
            **parameters,
            **native,
            # Other tools refuse a file without an objective of XGBoost's. With ours it only stands in the file: scores
            # of rank:ndcg are the plain sums of the leaves.
            "objective": settings.builtin or "rank:ndcg",
            "base_score": settings.base_score,
            "disable_default_eval_metric": 1,
            "learning_rate": settings.learning_rate,
            "max_leaves": settings.leaves,
            "nthread": settings.threads,
            "seed": seed,
        }


@documented
class XGBoostRanker(TreeRanker):
    """Boosted trees of XGBoost, trained with any objective.

    Beside the arguments that all tree rankers have (see ``TreeRanker``), every parameter of
    XGBoost is taken by its own name: ``XGBoostRanker("xendcg", gamma=0.1, colsample_bytree=0.8)``. Trees grow leaf
    by leaf as LightGBM's do; ``max_depth`` limits their depth.

    XGBoost does not count documents in leaves but adds up their Hessians, whose size depends on the objective. So
    ``min_documents`` means that many times the average Hessian, and ``reg_lambda`` is one average Hessian. Whoever sets
    ``min_child_weight`` or ``reg_lambda`` gets XGBoost's own, absolute meaning. Objectives of XGBoost's own
    (``native:rank:ndcg``, ``native:rank:map``, ``native:rank:pairwise``) keep its defaults for both, and with them
    ``min_documents`` has no effect.

    With ``device="cuda"``, and an XGBoost and a torch that have CUDA, trees grow on the GPU, and objectives that have a
    device kernel give their derivatives there: XGBoost reads them where they are. The scores alone travel, once to the
    host and back, since XGBoost hands them out in no other way.

    Features of :func:`rankwise.open_data` stay on disk then, too. The GPU sees them a block at a time, twice, and keeps
    their bins, about a byte for each number, as far as there is room; the rest is in the memory of the host.
    ``cache_host_ratio`` sets the share that is there (XGBoost 3.1), ``min_cache_page_bytes`` how much of it travels at
    once. Every split reads all of it; ``grow_policy="depthwise", max_depth=5`` does so once for all splits of a depth.

    >>> import rankwise as rw
    >>> train, valid = rw.split(rw.synthetic(n_queries=40, n_docs=20, seed=1), (0.75, 0.25), seed=1)
    >>> ranker = XGBoostRanker("xendcg", rounds=20, leaves=7, min_documents=5, threads=1).fit(train, valid)
    >>> ranker.history_["loss"][0] > ranker.history_["loss"][-1]
    True
    >>> ranker.predict(valid).shape == (valid.n_docs,)
    True
    """

    library = XGBoost()
    extra, modules, packages = "xgboost", ("xgboost",), ("xgboost-cpu", "xgboost")
    first_round_pace = 2.0
    search_space: ClassVar[Keywords] = {
        "min_child_weight": "log(1e-3, 10.0)",
        "colsample_bynode": "uniform(0.3, 1.0, start=1.0)",
        "reg_lambda": "log(1e-3, 100.0, start=1.0)",
    }
    portfolio = (
        Recipe("xendcg", _DIVERSE | {"leaves": 7}, small=(15,)),
        Recipe("lambdarank", _DIVERSE, small=(18,)),
        Recipe("lambdarank", LARGE_DATA, middle=(2,)),
        Recipe("lambdarank", LARGE_DATA | {"leaves": 127}, large=(1,)),
        Recipe("xendcg", _DIVERSE | {"leaves": 31}, middle=(7,)),
    )
