"""XGBoost: the adapter of boosted trees, and the ranker."""

import functools
import json
from collections.abc import Collection, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from rankwise import check
from rankwise.arrays import Array, Floats, Json, Keywords
from rankwise.data.dataset import RankingDataset
from rankwise.data.disk import mapped as disk
from rankwise.rankers.table import Recipe
from rankwise.rankers.trees import blocks
from rankwise.rankers.trees.formats import xgboost as ubj_format
from rankwise.rankers.trees.protocol import (
    LARGE_DATA,
    SMALL_DATA,
    WITHOUT_CHECKPOINT,
    WITHOUT_VALID,
    Defaults,
    Derive,
    ForestByTree,
    Library,
    ObjectiveParameter,
    Refusal,
    Settings,
    numbers,
)
from rankwise.rankers.trees.ranker import TreeRanker
from rankwise.sparse import dense
from rankwise.threads import openmp

if TYPE_CHECKING:
    from torch import Tensor
    from xgboost import Booster, DMatrix

_ALIASES = {
    "eta": "learning_rate",
    "gamma": "min_split_loss",
    "lambda": "reg_lambda",
    "alpha": "reg_alpha",
    "n_jobs": "nthread",
    "random_state": "seed",
    "n_estimators": "num_boost_round",
}
# Left at these values, nothing is drawn and a continued model is the uninterrupted one, bit for bit.
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


class XGBoost(Library):
    """The adapter of XGBoost."""

    name = "xgboost"
    file = "model.ubj"
    builtins = _BUILTINS
    aliases = _ALIASES
    ours: Mapping[str, str] = {
        "objective": "objective",
        "num_boost_round": "rounds",
        "learning_rate": "learning_rate",
        "max_leaves": "leaves",
        "seed": "seed",
        "nthread": "threads",
        "eval_metric": "metrics",
        "disable_default_eval_metric": "metrics",
        "early_stopping_rounds": "patience",
        "feature_types": "RankingDataset(categorical=…)",
        "enable_categorical": "RankingDataset(categorical=…)",
    }
    losses = _OBJECTIVE_PARAMETERS
    idle = ("feature_selector", "refresh_leaf", "updater_seq")
    small_data = Defaults(leaves=7, min_documents=50, smoothing=10, native={"subsample": 0.7, "colsample_bynode": 0.5})
    format = ubj_format

    def known(self) -> Collection[str]:
        """Return all names of parameters, aliases included."""
        return _names()

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
            return Refusal("base_score moves all scores alike, which changes no ranking")
        if native.get("booster") == "dart" and (stopping or checkpoints):
            reason = "booster=dart changes earlier trees in later rounds, so that the best round cannot be kept and a"
            hint = WITHOUT_VALID if stopping else WITHOUT_CHECKPOINT
            return Refusal(f"{reason} checkpoint cannot be continued", hint)
        return None

    def threads(self) -> int:
        """How many threads it may use."""
        return openmp(_one_thread)

    def least_documents(self, settings: Settings) -> int | None:
        """How many average documents a leaf holds at least; None where XGBoost's own limit is in force."""
        absolute = settings.builtin is not None or "min_child_weight" in settings.native
        return None if absolute else settings.min_documents

    def draws(self, settings: Settings) -> bool:
        """Whether training draws random numbers of XGBoost's own."""
        return any(settings.native.get(name, quiet) != quiet for name, quiet in _NOTHING_DRAWN.items())

    def device(self, settings: Settings) -> str | None:
        """The GPU of ``device="cuda"``, where XGBoost is built for one: it reads derivatives there."""
        name = str(settings.native.get("device", "cpu")).replace("gpu", "cuda", 1)
        return name if name.startswith("cuda") and _xgboost().build_info()["USE_CUDA"] else None

    def matrices(
        self, settings: Settings, train: RankingDataset, held_out: Sequence[RankingDataset]
    ) -> "XGBoostMatrices":
        """Build XGBoost's own data once."""
        return XGBoostMatrices(train, _binned(settings, train), [_raw(settings, data) for data in held_out])

    def grow(self, settings: Settings, matrices: "XGBoostMatrices", seed: int, start: bytes | None) -> "XGBoostGrowth":
        """Start growing, from nothing or from the trees of ``start``."""
        return XGBoostGrowth(settings, self._parameters(settings, seed), matrices, start)

    def forest(self, content: bytes) -> "XGBoostForest":
        """Read a model."""
        xgboost = _xgboost()
        self.threads()  # trees are read in parallel
        try:
            if not content.startswith(b"{"):
                raise ValueError("a file that does not begin as a model")
            booster = xgboost.Booster(model_file=bytearray(content))
            return XGBoostForest(booster, bytes(content), int(booster.num_boosted_rounds()))
        except (ValueError, xgboost.core.XGBoostError) as broken:
            raise check.error("cannot read as an XGBoost model", got=_first_line(broken)) from None

    def sum(self, forests: "Sequence[XGBoostForest]", factors: Sequence[float]) -> "XGBoostForest":
        """Make one forest that scores as their weighted sum."""
        self.threads()  # trees are written in parallel
        joined = ubj_format.joined([one.content() for one in forests], factors)
        return self.forest(bytes(_xgboost().Booster(model_file=bytearray(joined)).save_raw("ubj")))

    def _parameters(self, settings: Settings, seed: int) -> Keywords:
        parameters = {"verbosity": 0, "tree_method": "hist", "grow_policy": "lossguide", "max_depth": 0}
        return (
            parameters
            | settings.native
            | {
                # Other tools refuse a file without an objective of XGBoost's. With ours it only stands in the file:
                # scores of rank:ndcg are the plain sums of the leaves.
                "objective": settings.builtin or "rank:ndcg",
                "base_score": 0.0,
                "disable_default_eval_metric": 1,
                "learning_rate": settings.learning_rate,
                "max_leaves": settings.leaves,
                "nthread": settings.threads,
                "seed": seed,
            }
        )


class XGBoostMatrices(NamedTuple):
    """The data as XGBoost holds them."""

    data: RankingDataset
    train: "DMatrix"
    held_out: "list[DMatrix]"


class XGBoostGrowth:
    """A booster that grows."""

    def __init__(
        self, settings: Settings, parameters: Keywords, matrices: XGBoostMatrices, start: bytes | None
    ) -> None:
        self.settings, self.matrices, self.train = settings, matrices, matrices.train
        model = None if start is None else bytearray(start)
        if start is not None:  # which has its own: not 0 if it was trained elsewhere
            parameters = {name: value for name, value in parameters.items() if name != "base_score"}
        self.booster: Booster = _xgboost().Booster(parameters, [self.train], model_file=model)
        self.trees = 0 if start is None else self.booster.num_boosted_rounds()
        if start is not None and not self._bins_fit():
            self.train = _raw(settings, matrices.data)
        # Of average documents, where the user says nothing: a loss times a constant grows the same trees.
        self.relative = {
            name: share
            for name, share in {"min_child_weight": float(settings.min_documents), "reg_lambda": 1.0}.items()
            if name not in settings.native
        }

    def _bins_fit(self) -> bool:
        """Whether bins tell documents apart as the trees so far do; those of other data have other borders."""
        binned = self.booster.predict(self.train, output_margin=True)
        differ = not np.array_equal(binned, _margins(self.booster, self.matrices.data.features))
        return not _total(differ)[0]  # on a worker, of all workers

    def add(self, derive: Derive | None) -> bool:
        """Grow one tree; False if XGBoost found no split for it, unless constants are kept."""
        xgboost = _xgboost()
        if derive is None:
            try:
                self.booster.update(self.train, self.trees)
            except xgboost.core.XGBoostError as failed:
                raise check.error(
                    f"XGBoost cannot train with native:{self.settings.builtin}", got=_first_line(failed)
                ) from None
        else:
            # Names were compared when the booster was made; to compare them again takes a millisecond.
            scores = self.booster.predict(self.train, output_margin=True, training=True, validate_features=False)
            numerator, hessian = derive(scores)
            average = average_hessian(hessian)
            self.booster.set_param({name: share * average for name, share in self.relative.items()})
            self.booster.boost(self.train, self.trees, grad=numerator, hess=hessian)
        last = self.booster[self.trees : self.trees + 1].get_dump()
        constant = all(tree.count("\n") <= 1 for tree in last)  # which XGBoost keeps
        if constant and not self.settings.keep_constants:
            return False
        self.trees += 1
        return True

    def scores(self, number: int) -> Array:
        """Return the scores of a held-out data set; XGBoost adds the new tree to those that it has."""
        data = self.matrices.held_out[number]
        return numbers(self.booster.predict(data, output_margin=True, validate_features=False))

    def content(self) -> bytes:
        """Return all trees so far as XGBoost's binary JSON."""
        return _content(self.booster, self.trees)


class XGBoostForest(ForestByTree):
    """A finished booster."""

    booster: "Booster"

    def cut(self, n_trees: int) -> "XGBoostForest":
        """Return the model of the first ``n_trees`` trees."""
        return self if n_trees >= self.n_trees else XGBoost().forest(_content(self.booster, n_trees))

    def predict(self, features: Floats) -> Array:
        """Score documents; XGBoost adds up in float32."""
        self.booster.set_param({"nthread": openmp(_one_thread)})
        return numbers(_margins(self.booster, features))

    def tree(self, features: Floats, number: int) -> Array:
        """Return what one tree, counted from 0, adds to the scores."""
        self.booster.set_param({"nthread": openmp(_one_thread)})
        return numbers(_margins(self.booster, features, (number, number + 1)))

    def explain(self, features: Floats) -> Array:
        """SHAP contributions, in float32."""
        self.booster.set_param({"nthread": openmp(_one_thread)})
        matrix = _xgboost().DMatrix(
            dense(features),
            feature_names=self.booster.feature_names,
            feature_types=self.booster.feature_types,
            enable_categorical=True,
            nthread=openmp(_one_thread),
        )
        try:
            return numbers(self.booster.predict(matrix, pred_contribs=True))
        except _xgboost().core.XGBoostError as failed:
            raise check.error("XGBoost cannot explain these trees", got=_first_line(failed)) from None

    def importances(self, kind: str) -> Array:
        """Return one number per feature: total gain of its splits, or how many there are."""
        scores: Any = self.booster.get_score(importance_type={"gain": "total_gain", "split": "weight"}[kind])
        names = self.booster.feature_names or [f"f{j}" for j in range(self.booster.num_features())]
        return np.array([scores.get(name, 0.0) for name in names], np.float64)


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
    magic = (b'{"learner"', b"{L")
    search_space: ClassVar[Keywords] = {
        "learning_rate": "log(0.02, 0.3)",
        "leaves": "whole_log(7, 127)",
        "min_child_weight": "log(1e-3, 10.0)",
        "colsample_bynode": "uniform(0.3, 1.0, start=1.0)",
        "reg_lambda": "log(1e-3, 100.0, start=1.0)",
    }
    portfolio = (
        Recipe("xendcg", _DIVERSE | {"leaves": 7}, small=(2,)),
        Recipe("lambdarank", _DIVERSE, small=(7,)),
        Recipe("lambdarank", LARGE_DATA, middle=(2,), large=(4,)),
        Recipe("xendcg", _DIVERSE | {"leaves": 31}, middle=(7,)),
        Recipe("xendcg", LARGE_DATA | {"leaves": 255}, large=(9,)),
    )


def _xgboost() -> ModuleType:
    return check.optional("xgboost", "xgboost")


def _one_thread() -> None:
    """Make XGBoost use one thread, also where no number is set."""
    _xgboost().set_config(nthread=1)


@functools.cache
def _names() -> frozenset[str]:
    """Every name of a parameter: XGBoost lists those that it used."""
    xgboost = _xgboost()
    one = xgboost.DMatrix(np.zeros((1, 1), np.float32), nthread=1)
    names = {*_ALIASES, *_ALIASES.values(), *XGBoost.ours, "verbosity", "feature_selector", "max_cached_hist_node"}

    def walk(node: Json, inside: str) -> None:
        for name, value in node.items():
            if isinstance(value, dict):
                walk(value, name)
            elif inside.endswith("_param"):
                names.add(name)

    for booster in ("gbtree", "dart"):
        for objective in XGBoost.builtins:
            settings = {"booster": booster, "objective": objective, "verbosity": 0}  # it may warn of dart
            walk(json.loads(xgboost.Booster(settings, [one]).save_config()), "")
    return frozenset(names - _NOT_FOR_USERS)


def _columns(settings: Settings, data: RankingDataset) -> Keywords:
    """What a matrix is told beside the features. Weights go to XGBoost's own objectives alone."""
    names = data.feature_names
    builtin = settings.builtin is not None
    return {
        "label": data.labels if builtin else None,
        "group": data.sizes,
        "weight": data.weights if builtin else None,
        # XGBoost's text of a tree could not be read with other names.
        "feature_names": None if names is None or any(set(name) & set("[]<\n") for name in names) else list(names),
        "feature_types": ["c" if j in data.categorical else "q" for j in range(data.n_features)]
        if data.categorical
        else None,
        "enable_categorical": True,
        "nthread": settings.threads,
    }


def _raw(settings: Settings, data: RankingDataset) -> "DMatrix":
    file, columns = blocks.on_disk(data), _columns(settings, data)
    matrix: DMatrix = (
        _xgboost().DMatrix(blocks.dense_matrix(data.features), **columns)
        if file is None
        else blocks.xgboost_matrix(file, columns, bins=None, binned=False)
    )
    return matrix


def _binned(settings: Settings, data: RankingDataset) -> "DMatrix":
    """Bins in place of numbers: a byte for each, where a raw matrix takes eight and makes the same bins beside."""
    if settings.native.get("tree_method", "hist") not in ("hist", "auto"):
        return _raw(settings, data)
    bins = settings.native.get("max_bin")
    file, columns = blocks.on_disk(data), _columns(settings, data)
    if data.is_sparse:
        sparse: DMatrix = blocks.binned_sparse(data.features, columns, bins)
        return sparse
    matrix: DMatrix = (
        _xgboost().QuantileDMatrix(data.features, max_bin=bins, **columns)
        if file is None
        else blocks.xgboost_matrix(file, columns, bins=bins, binned=True)
    )
    return matrix


def _margins(booster: "Booster", features: Floats, trees: tuple[int, int] = (0, 0)) -> Any:
    options = {"iteration_range": trees, "predict_type": "margin", "validate_features": False}
    return np.concatenate([booster.inplace_predict(block, **options) for block in disk.blocks(features)])


def average_hessian(hessian: "Floats | Tensor") -> float:
    """Return the mean size of Hessians, over the documents of all workers."""
    size = np.abs(hessian).sum(dtype=np.float64) if isinstance(hessian, np.ndarray) else hessian.abs().double().sum()
    total, count = _total(float(size), hessian.shape[0])
    return float(total / count)


def _total(*values: float) -> Array:
    """Add up numbers over all workers that train together; alone, they stay what they are."""
    collective = _xgboost().collective
    numbers = np.array(values, np.float64)
    if collective.is_distributed():
        numbers = collective.allreduce(numbers, collective.Op.SUM)
    return numbers


def _content(booster: "Booster", n_trees: int) -> bytes:
    openmp(_one_thread)  # trees are written in parallel
    part = booster if n_trees == booster.num_boosted_rounds() else booster[:n_trees]
    return bytes(part.save_raw("ubj"))


def _first_line(failed: Exception) -> str:
    """What XGBoost says, without its clock and its stack."""
    return str(failed).partition("\n")[0].rpartition("Check failed: ")[2].rstrip(". ")
