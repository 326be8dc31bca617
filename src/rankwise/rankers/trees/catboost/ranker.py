"""CatBoost: the adapter of boosted trees, and the ranker."""

import functools
import inspect
from collections.abc import Mapping
from typing import ClassVar

from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.base.threads import thread_count
from rankwise.check.docstrings import documented
from rankwise.models.forests.catboost import CatBoostForest, catboost
from rankwise.models.schema import Schema
from rankwise.rankers.table import Recipe
from rankwise.rankers.trees import monotone
from rankwise.rankers.trees.catboost.model import BINNING, CatBoostGrowth, CatBoostMatrices, matrices, read_foreign
from rankwise.rankers.trees.protocol import LARGE_DATA, SMALL_DATA, Library, ObjectiveParameter, Refusal, Settings
from rankwise.rankers.trees.ranker import TreeRanker

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
_ACROSS_ROUNDS = (
    *("langevin", "posterior_sampling", "diffusion_temperature", "model_shrink_mode", "model_shrink_rate"),
    *("first_feature_use_penalties", "per_object_feature_penalties", "approx_on_full_history"),
)
_ELSEWHERE = (
    *("save_snapshot", "snapshot_file", "snapshot_interval", "use_best_model", "best_model_min_trees"),
    *("eval_fraction", "boost_from_average", "text_features", "embedding_features"),
    *("input_borders", "output_borders"),
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


@functools.cache
def _names() -> frozenset[str]:
    """Every name of a parameter."""
    return frozenset(inspect.signature(catboost().CatBoostRanker).parameters) | {*_ALIASES, *CatBoost.ours}


class CatBoost(Library):
    """The adapter of CatBoost."""

    name, title = "catboost", "CatBoost"
    forest = CatBoostForest
    builtins = (
        *("YetiRank", "YetiRankPairwise", "PairLogit", "PairLogitPairwise"),
        *("QueryRMSE", "QuerySoftMax", "StochasticRank", "LambdaMart"),
    )
    ours: Mapping[str, str] = {
        "od_type": "patience",
        "od_pval": "patience",
        "cat_features": "RankingDataset(categorical=…)",
        "verbose": "progress",
        "silent": "progress",
    }
    aliases = _ALIASES
    losses: Mapping[str, ObjectiveParameter] = {
        "target_border": ObjectiveParameter(builtins, "labels made by rw.data.binarize")
    }
    idle = ("metric_period",)
    known = staticmethod(_names)
    threads = staticmethod(thread_count)  # its own begin anew in a forked process
    matrices = staticmethod(matrices)
    foreign = staticmethod(read_foreign)

    def check_builtin(self, builtin: str) -> None:
        """Check an objective of CatBoost's own, and its parameters behind a colon."""
        name, _, parameters = builtin.partition(":")
        super().check_builtin(name)
        allowed = _OPTIONS.get(name)
        for option in filter(None, parameters.split(";")):
            key = option.partition("=")[0].strip()
            if allowed is not None and key not in (*allowed, "hints"):
                hint = check.suggestion(key, allowed)
                raise check.error(f"CatBoost's {name} has no such parameter", got=repr(key), hint=hint)

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

    def least_documents(self, settings: Settings) -> int | None:
        """How many documents a leaf must hold to be split; symmetric trees split all leaves alike and count none."""
        policy = settings.native.get("grow_policy", "SymmetricTree")
        return None if policy == "SymmetricTree" else settings.min_documents

    def grow(self, settings: Settings, matrices: CatBoostMatrices, seed: int, start: bytes | None) -> CatBoostGrowth:
        """Start growing, from nothing or from the trees of ``start``."""
        parameters = self._parameters(settings, bool(matrices.data.categorical))
        older = None if start is None else CatBoostForest.read(start, Schema.of(matrices.data))
        return CatBoostGrowth(settings, parameters, matrices, seed, older)

    def _parameters(self, settings: Settings, categories: bool) -> Keywords:
        native = {name: value for name, value in settings.native.items() if name not in BINNING}
        parameters: Keywords = {"logging_level": "Silent", "allow_writing_files": False}
        parameters["has_time"] = not categories  # only statistics of categories gain from documents being shuffled
        if settings.builtin is None:
            parameters |= {"random_strength": 0.0, "boost_from_average": False}
            if not {"subsample", "bagging_temperature", "mvs_reg"} & native.keys():
                parameters["bootstrap_type"] = "No"
        if monotone.NAME in native:
            native[monotone.NAME] = list(native[monotone.NAME])
            parameters["model_shrink_rate"] = 0.0  # CatBoost would set it for every tree, and say that it cannot
        if native.get("grow_policy") == "Lossguide":
            parameters |= {"max_leaves": settings.leaves, "depth": min(settings.leaves - 1, _DEEPEST)}
        else:
            parameters["depth"] = depth(settings.leaves)
        if (least := self.least_documents(settings)) is not None:
            parameters["min_data_in_leaf"] = least
        fixed = {"loss_function": _loss(settings), "iterations": 1, "boosting_type": "Plain"}
        fixed |= {"learning_rate": settings.learning_rate, "thread_count": settings.threads}
        return parameters | native | fixed


@documented
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
    first_round_pace = 2.0
    search_space: ClassVar[Keywords] = {
        "leaves": "whole_log(7, 63)",
        "l2_leaf_reg": "log(0.1, 30.0, start=3.0)",
        "random_strength": "uniform(0.0, 2.0, start=1.0)",
    }
    portfolio = (
        Recipe("yeti", SMALL_DATA, small=(22,)),
        Recipe("xendcg", SMALL_DATA | {"leaves": 31}, small=(23,)),
        Recipe("yeti", LARGE_DATA | {"learning_rate": 0.1}, middle=(4,), large=(5,)),
    )


def depth(leaves: int) -> int:
    """Return the least depth at which a tree that splits all its leaves at once has at least so many.

    >>> depth(7), depth(8), depth(31), depth(64)
    (3, 3, 5, 6)
    """
    return (leaves - 1).bit_length()


def _loss(settings: Settings) -> str:
    """What CatBoost is told to minimise."""
    loss, _, options = (settings.builtin or "RMSE").partition(":")
    if loss in ("StochasticRank", "LambdaMart") and "metric=" not in options:
        options = ";".join(filter(None, ("metric=NDCG", options)))
    return f"{loss}:{options}" if options else loss
