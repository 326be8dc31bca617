"""LightGBM: the adapter of boosted trees, and the ranker."""

import functools
import re
import sys
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.arrays import Array, Floats, Keywords
from rankwise.data.dataset import RankingDataset
from rankwise.data.disk import mapped as disk
from rankwise.rankers.table import Recipe
from rankwise.rankers.trees import blocks, monotone
from rankwise.rankers.trees.formats import lightgbm as text_format
from rankwise.rankers.trees.formats.lightgbm import with_objective
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
from rankwise.rankers.trees.refusals import without_lines
from rankwise.sparse import dense, for_library, is_sparse
from rankwise.threads import openmp

if TYPE_CHECKING:
    from lightgbm import Booster, Dataset

# Left at these values, nothing is drawn and a continued model is the uninterrupted one, bit for bit.
_NOTHING_DRAWN = {
    "bagging_fraction": 1.0,
    "pos_bagging_fraction": 1.0,
    "neg_bagging_fraction": 1.0,
    "feature_fraction": 1.0,
    "feature_fraction_bynode": 1.0,
    "extra_trees": False,
    "use_quantized_grad": False,
}
_MACHINES = "num_machines"
_LABEL_GAINS = 31  # of LightGBM itself: 2^label - 1 as long as that fits into an int
_FATAL = b"[LightGBM] [Fatal]"
_TRIES = 20  # to draw features, or thresholds, with which there is a split
_METHOD = "monotone_constraints_method"
# Trees that differ more gain more from being added up: each sees part of the documents and of the features.
_DIVERSE = SMALL_DATA | {"extra_trees": True, "feature_fraction": 0.5, "bagging_fraction": 0.7, "bagging_freq": 1}
_POSITION_BIAS = "lambdarank_position_bias_regularization"
_LAMBDARANK = ("lambdarank",)
_NO_RANKING = (
    "alpha",
    "auc_mu_weights",
    "boost_from_average",
    "fair_c",
    "is_unbalance",
    "multi_error_top_k",
    "num_class",
    "poisson_max_delta_step",
    "reg_sqrt",
    "scale_pos_weight",
    "tweedie_variance_power",
)
_OBJECTIVE_PARAMETERS = {
    "sigmoid": ObjectiveParameter(_LAMBDARANK, "lambdarank(sigma={})"),
    "lambdarank_truncation_level": ObjectiveParameter(_LAMBDARANK, "lambdarank(truncation={})"),
    "lambdarank_norm": ObjectiveParameter(_LAMBDARANK, "lambdarank(norm={})"),
    "label_gain": ObjectiveParameter(_LAMBDARANK, "lambdarank(gain={})"),
    "lambdarank_position_bias_regularization": ObjectiveParameter(
        _LAMBDARANK, "`debias=True`, with propensities in the data"
    ),
    "objective_seed": ObjectiveParameter(("rank_xendcg",), "`seed={}`"),
    **dict.fromkeys(_NO_RANKING, ObjectiveParameter(())),
}
_PROGRAM = (
    "config",
    "convert_model",
    "convert_model_language",
    "data",
    "header",
    "ignore_column",
    "input_model",
    "is_provide_training_metric",
    "label_column",
    "local_listen_port",
    "machine_list_filename",
    "machines",
    "metric_freq",
    "num_iteration_predict",
    "num_machines",
    "output_model",
    "output_result",
    "parser_config_file",
    "pre_partition",
    "precise_float_parser",
    "pred_early_stop",
    "pred_early_stop_freq",
    "pred_early_stop_margin",
    "predict_contrib",
    "predict_disable_shape_check",
    "predict_leaf_index",
    "predict_raw_score",
    "refit_decay_rate",
    "save_binary",
    "snapshot_freq",
    "start_iteration_predict",
    "task",
    "time_out",
    "two_round",
    "valid",
)
"""What the program ``lightgbm`` reads, and what is set when a model is used."""


class LightGBM(Library):
    """The adapter of LightGBM."""

    name = "lightgbm"
    file = "model.txt"
    builtins: Sequence[str] = ("lambdarank", "rank_xendcg")
    ours: Mapping[str, str] = {
        "objective": "objective",
        "num_iterations": "rounds",
        "learning_rate": "learning_rate",
        "num_leaves": "leaves",
        "min_data_in_leaf": "min_documents",
        "seed": "seed",
        "num_threads": "threads",
        "metric": "metrics",
        "eval_at": "metrics",
        "first_metric_only": "stop_on",
        "early_stopping_round": "patience",
        "early_stopping_min_delta": "patience",
        "categorical_feature": "RankingDataset(categorical=…)",
        "weight_column": "RankingDataset(weights=…)",
        "group_column": "qid",
    }
    losses = _OBJECTIVE_PARAMETERS
    idle = _PROGRAM
    small_data = Defaults(leaves=7, min_documents=50, smoothing=10, native={"extra_trees": True})
    weighs_documents = True
    format = text_format

    def known(self) -> Collection[str]:
        """Return all names of parameters, aliases included."""
        return _names()

    def canonical(self, name: str) -> str:
        """Return the main name of a parameter that may be written as an alias."""
        return _names().get(name, name)

    def refusal(self, settings: Settings, *, stopping: bool, checkpoints: bool) -> Refusal | None:
        """Return why settings cannot be trained; None if they can."""
        native = settings.native
        modes = {str(native.get("boosting", "gbdt")), str(native.get("data_sample_strategy", "bagging"))}
        if native.get("bagging_by_query") and settings.builtin is None:
            reason = "with bagging_by_query, LightGBM 4.7 grows useless trees of two leaves for objectives not its own"
            return Refusal(reason)
        if "rf" in modes:
            return Refusal("boosting=rf averages trees that know nothing of each other, and the loop here boosts")
        if monotone.NAME in native and native.get("linear_tree"):
            return Refusal(f"linear_tree, whose leaves do not keep {monotone.NAME}")
        if monotone.NAME in native and (method := native.get(_METHOD, "basic")) != "basic":
            reason = f"{_METHOD}={method}, with which scores of LightGBM 4.7 do not always keep {monotone.NAME}"
            return Refusal(reason)
        if "dart" in modes and (stopping or checkpoints):
            reason = "boosting=dart changes earlier trees in later rounds, so that the best round cannot be kept and a"
            hint = WITHOUT_VALID if stopping else WITHOUT_CHECKPOINT
            return Refusal(f"{reason} checkpoint cannot be continued", hint)
        if "goss" in modes and checkpoints:
            reason = "GOSS does not sample in its first rounds, and every block would begin with them again after a"
            return Refusal(f"{reason} checkpoint", WITHOUT_CHECKPOINT)
        if checkpoints and any(name.startswith("cegb_") for name in native):
            reason = "the cegb_ penalties remember which features were used, and a checkpoint does not"
            return Refusal(reason, WITHOUT_CHECKPOINT)
        return None

    def threads(self) -> int:
        """How many threads it may use."""
        return openmp(_one_thread)

    def least_documents(self, settings: Settings) -> int | None:
        """How many documents a leaf holds at least."""
        return settings.min_documents

    def draws(self, settings: Settings) -> bool:
        """Whether training draws random numbers of LightGBM's own."""
        return settings.builtin == "rank_xendcg" or any(
            settings.native.get(name, quiet) != quiet for name, quiet in _NOTHING_DRAWN.items()
        )

    def matrices(
        self, settings: Settings, train: RankingDataset, held_out: Sequence[RankingDataset]
    ) -> "LightGBMMatrices":
        """Build LightGBM's own data once."""
        parameters = self._parameters(settings, 0)
        _check_parameters(parameters)
        if blocks.on_disk(train) is not None:
            parameters.setdefault("bin_construct_sample_cnt", blocks.lightgbm_sample(train.n_docs))
        dataset = _dataset(
            train,
            _labels(settings, train),
            group=train.sizes,
            weight=_row_weights(train) if settings.builtin is not None else None,
            position=_positions(parameters, train),
            feature_name=_feature_names(train),
            categorical_feature=list(train.categorical),
            params=parameters,
            free_raw_data=False,
        )
        options: Keywords = {"reference": dataset, "params": parameters, "free_raw_data": False}
        return LightGBMMatrices(
            dataset, [_dataset(data, data.labels, group=data.sizes, **options) for data in held_out]
        )

    def grow(
        self, settings: Settings, matrices: "LightGBMMatrices", seed: int, start: bytes | None
    ) -> "LightGBMGrowth":
        """Start growing, from nothing or from the trees of ``start``."""
        tries = _TRIES if settings.keep_constants and self.draws(settings) else 1
        older = None if start is None else self.forest(start)
        return LightGBMGrowth(self._parameters(settings, seed), matrices, older, tries)

    def forest(self, content: bytes) -> "LightGBMForest":
        """Read a model."""
        lightgbm = _lightgbm()
        self.threads()  # trees are read in parallel
        try:
            text = content.decode()
            if not text.startswith("tree\n") or "\nend of trees\n" not in text:
                raise ValueError("a file that does not begin as a model and end as one")
            with without_lines(_FATAL):
                booster = lightgbm.Booster(model_str=text)
            return LightGBMForest(booster, content, int(booster.num_trees()))
        except (UnicodeDecodeError, ValueError, lightgbm.basic.LightGBMError) as broken:
            raise check.error("cannot read as a LightGBM model", got=str(broken)) from None

    def sum(self, forests: "Sequence[LightGBMForest]", factors: Sequence[float]) -> "LightGBMForest":
        """Make one forest that scores as their weighted sum; LightGBM itself writes the rest of its file."""
        joined = self.forest(text_format.joined([one.content() for one in forests], factors))
        return self.forest(with_objective(joined.booster.model_to_string(num_iteration=-1)).encode())

    def _parameters(self, settings: Settings, seed: int) -> Keywords:
        parameters = {"verbosity": -1, **settings.native}
        if not {"force_col_wise", "force_row_wise"} & parameters.keys():
            # Otherwise LightGBM times both and takes the faster, and the last bits depend on the clock.
            parameters["force_col_wise"] = True
        return parameters | {
            "objective": "none" if settings.builtin is None else settings.builtin,
            "metric": "None",
            "learning_rate": settings.learning_rate,
            "num_leaves": settings.leaves,
            "min_data_in_leaf": settings.min_documents,
            "num_threads": settings.threads,
            "seed": seed,
        }


class LightGBMMatrices(NamedTuple):
    """The data as LightGBM holds them."""

    train: "Dataset"
    held_out: "list[Dataset]"


class LightGBMGrowth:
    """A booster that grows."""

    def __init__(
        self, parameters: Keywords, matrices: LightGBMMatrices, start: "LightGBMForest | None", tries: int = 1
    ) -> None:
        self.parameters, self.matrices, self.start, self.tries = parameters, matrices, start, tries
        self.booster: Booster | None = None

    def add(self, derive: Derive | None) -> bool:
        """Grow one tree; False if LightGBM found no split for it, with other draws each time that it is tried."""
        return any(self._grown(derive) for _ in range(self.tries))

    def _grown(self, derive: Derive | None) -> bool:
        lightgbm = _lightgbm()
        objective: Callable[..., Any] | None = None
        if derive is not None:

            def objective(scores: Array, _: "Dataset") -> tuple[Floats, Floats]:
                return derive(numbers(scores))

        if self.booster is not None:
            return not self.booster.update(fobj=objective)
        alone = _MACHINES not in self.parameters  # what one machine cannot split, another may
        if alone and self.start is None and not _has_splits(self.matrices.train):
            return False
        # lgb.train sets a booster up with the trees that it continues; the rounds after the first are ours.
        try:
            self.booster = lightgbm.train(
                self.parameters if objective is None else {**self.parameters, "objective": objective},
                self.matrices.train,
                num_boost_round=1,
                valid_sets=self.matrices.held_out or None,
                init_model=None if self.start is None else self.start.booster,
                keep_training_booster=True,
            )
        except lightgbm.basic.LightGBMError as failed:
            if "num_features" in str(failed):  # none is left that could be split
                return False
            raise
        trees = 0 if self.start is None else self.start.n_trees
        if self.booster.num_trees() > trees and self._splits():
            return True
        if not trees:  # a first tree without a split is kept as a constant; a later one is dropped
            self.booster, self.parameters = None, {**self.parameters, "seed": self.parameters["seed"] + 1}
        return False

    def _splits(self) -> bool:
        booster: Any = self.booster
        last: str = booster.model_to_string(num_iteration=1, start_iteration=booster.num_trees() - 1)
        return "num_leaves=1\n" not in last

    def scores(self, number: int) -> Array:
        """Return the scores of a held-out data set, as LightGBM keeps them up to date."""
        copies: list[Array] = []

        def copy(scores: Array, _: "Dataset") -> tuple[str, float, bool]:  # LightGBM has no public accessor
            copies.append(numbers(scores))
            return "copied", 0.0, True

        booster: Any = self.booster
        booster.eval(self.matrices.held_out[number], "held out", copy)
        return copies[0]

    def content(self) -> bytes:
        """Return all trees so far as LightGBM's text."""
        if self.booster is None:
            return self.start.content() if self.start is not None else b""
        return with_objective(self.booster.model_to_string(num_iteration=-1)).encode()


class LightGBMForest(ForestByTree):
    """A finished booster."""

    booster: "Booster"

    def cut(self, n_trees: int) -> "LightGBMForest":
        """Return the model of the first ``n_trees`` trees."""
        if n_trees >= self.n_trees:
            return self
        openmp(_one_thread)  # trees are written in parallel
        text = with_objective(self.booster.model_to_string(num_iteration=n_trees))
        return LightGBM().forest(text.encode())

    def predict(self, features: Floats) -> Array:
        """Score documents."""
        return self._predicted(features)

    def tree(self, features: Floats, number: int) -> Array:
        """Return what one tree, counted from 0, adds to the scores."""
        return self._predicted(features, start_iteration=number, num_iteration=1)

    def explain(self, features: Floats) -> Array:
        """SHAP contributions."""
        if b"\nis_linear=1\n" in self._content:  # of a model that was read from a file LightGBM explains them wrongly
            raise check.error(
                "LightGBM cannot explain these trees", got="linear leaves", hint="train without linear_tree"
            )
        return numbers(self.booster.predict(dense(features), pred_contrib=True, num_threads=openmp(_one_thread)))

    def _predicted(self, features: Floats, **trees: int) -> Array:
        options: Keywords = {**trees, "raw_score": True, "num_threads": openmp(_one_thread)}
        if is_sparse(features):
            return numbers(self.booster.predict(for_library(features), **options))
        return numbers(np.concatenate([self.booster.predict(block, **options) for block in disk.blocks(features)]))

    def importances(self, kind: str) -> Array:
        """Return one number per feature: total gain of its splits, or how many there are."""
        return numbers(self.booster.feature_importance(kind))


class LightGBMRanker(TreeRanker):
    """Boosted trees of LightGBM, trained with any objective.

    Beside the arguments that all tree rankers have (see ``TreeRanker``), every parameter of
    LightGBM is taken by its own name: ``LightGBMRanker("xendcg", lambda_l2=1.0, extra_trees=True)``.

    >>> import rankwise as rw
    >>> train, valid = rw.split(rw.synthetic(n_queries=40, n_docs=20, seed=1), (0.75, 0.25), seed=1)
    >>> ranker = LightGBMRanker("xendcg", rounds=20, leaves=7, min_documents=5, threads=1).fit(train, valid)
    >>> ranker.history_["loss"][0] > ranker.history_["loss"][-1]
    True
    >>> ranker.predict(valid).shape == (valid.n_docs,)
    True
    """

    library = LightGBM()
    packages = ("lightgbm",)
    magic = (b"tree\n",)
    search_space: ClassVar[Keywords] = {
        "learning_rate": "log(0.02, 0.2)",
        "leaves": "whole_log(7, 127)",
        "min_documents": "whole_log(5, 200)",
        "feature_fraction": "uniform(0.3, 1.0, start=1.0)",
        "lambda_l2": "log(1e-3, 100.0, start=1e-3)",
        "min_sum_hessian_in_leaf": "log(1e-5, 0.1, start=1e-3)",
        "extra_trees": "choice(False, True, start=False)",
    }
    native_search_space: ClassVar[dict[str, Keywords]] = {
        "native:lambdarank": {
            "sigmoid": "log(0.25, 4.0, start=1.0)",
            "lambdarank_truncation_level": "whole_log(5, 100, start=30)",
            "lambdarank_norm": "choice(True, False, start=True)",
        },
    }
    portfolio = (
        Recipe("lambdarank", {}, small=(0,), middle=(0,), large=(0,)),  # the default, beside which others are judged
        Recipe("xendcg", _DIVERSE, small=(1,)),
        Recipe("xendcg", _DIVERSE | {"leaves": 7}, small=(8,)),
        Recipe("yeti", _DIVERSE, small=(6,)),
        Recipe("stochastic(lambdarank, scale=0.25)", _DIVERSE, small=(5,)),
        Recipe("listnet", _DIVERSE, small=(9,)),
        Recipe("ranknet", _DIVERSE | {"leaves": 7}, small=(12,)),
        Recipe("lambdarank", LARGE_DATA, middle=(3,), large=(1,)),
        Recipe("xendcg", LARGE_DATA, middle=(1,), large=(2,)),
        Recipe("ranknet", _DIVERSE | {"leaves": 31}, middle=(10,)),
        Recipe("yeti", _DIVERSE | {"leaves": 31}, middle=(6,)),
        Recipe("stochastic(lambdarank, scale=0.25)", LARGE_DATA, middle=(8,)),
        Recipe("listnet", _DIVERSE | {"leaves": 31}, middle=(9,)),
        Recipe("lambdarank", LARGE_DATA | {"leaves": 255}, large=(3,)),
        Recipe("xendcg", LARGE_DATA | {"leaves": 255, "learning_rate": 0.05}, large=(7,)),
        Recipe("ranknet", LARGE_DATA, large=(8,)),
    )


def _check_parameters(parameters: Keywords) -> None:
    """Raise what LightGBM rejects of its parameters, read without data: later it would also write lines."""
    lightgbm = _lightgbm()
    if _MACHINES in parameters:  # it would ask the others
        return
    with without_lines(_FATAL):
        lightgbm.Dataset(np.zeros((2, 1)), np.zeros(2), params={**parameters, "verbosity": -1}).construct()


def _has_splits(data: "Dataset") -> bool:
    """Whether there is a feature that LightGBM could split; it ends with lines of its own where there is none."""
    data.construct()
    return any(data.feature_num_bin(feature) > 0 for feature in range(data.num_feature()))


@functools.cache
def _lightgbm() -> Any:
    """The library; it prints lines to standard output, unless a logger of the user's receives them."""
    import lightgbm

    if type(lightgbm.basic._LOGGER).__module__ == lightgbm.basic.__name__:
        lightgbm.register_logger(_StandardError())
    return lightgbm


class _StandardError:
    """A logger that does what LightGBM's own does, but for the stream."""

    def info(self, message: str) -> None:
        print(message, file=sys.stderr)

    def warning(self, message: str) -> None:
        warnings.warn(message, stacklevel=3)


@functools.cache
def _names() -> dict[str, str]:
    """Every name of a parameter -> its main name."""
    aliases = _lightgbm().basic._ConfigAliases._get_all_param_aliases()
    return {alias: main for main, other in aliases.items() for alias in (main, *other)}


def _one_thread() -> None:
    """Make LightGBM use one thread, which it remembers."""
    lightgbm = _lightgbm()
    lightgbm.Dataset(np.zeros((2, 1)), params={"num_threads": 1, "verbosity": -1}).construct()


def _dataset(data: RankingDataset, label: Array, **options: Any) -> "Dataset":
    """LightGBM's own data, from memory or from disk."""
    lightgbm = _lightgbm()
    file = blocks.on_disk(data)
    dataset: Dataset = (
        lightgbm.Dataset(for_library(data.features), label, **options)
        if file is None
        else blocks.lightgbm_dataset(file, label, **options)
    )
    return dataset


def _labels(settings: Settings, data: RankingDataset) -> Array:
    """LightGBM's own objectives take grades."""
    integral = data.labels == np.floor(data.labels)
    if settings.builtin is not None and not integral.all():
        row = int(np.argmin(integral))
        raise check.error(
            f"native:{settings.builtin} needs whole labels",
            got=f"{data.labels[row]:g}",
            where=check.query_of_row(row, data.offsets, data.query_ids),
            hint="use our own objective, which takes real ones, or round the labels",
        )
    if settings.builtin == "lambdarank" and data.labels.max(initial=0.0) >= (most := _gains(settings)):
        row = int(np.argmax(data.labels))
        raise check.error(
            f"native:lambdarank needs labels below {most}, the number of its gains",
            got=f"{data.labels[row]:g}",
            where=check.query_of_row(row, data.offsets, data.query_ids),
            hint="set label_gain to a gain for each label, or use our own objective",
        )
    return data.labels


def _gains(settings: Settings) -> int:
    """How many labels LightGBM's lambdarank has gains for."""
    gains = settings.native.get("label_gain")
    if gains is None:
        return _LABEL_GAINS
    return len(gains.split(",") if isinstance(gains, str) else gains)


def _row_weights(data: RankingDataset) -> Array | None:
    """Weights as LightGBM's own objectives take them: of rows."""
    by_query = None if data.weights is None else np.repeat(data.weights, data.sizes)
    if by_query is None or data.document_weights is None:
        return data.document_weights if by_query is None else by_query
    return by_query * data.document_weights


def _positions(parameters: Mapping[str, object], data: RankingDataset) -> NDArray[np.int64] | None:
    """Displayed positions, which make LightGBM's lambdarank learn a bias of each; only where that is asked for."""
    if _POSITION_BIAS not in parameters:
        return None
    if data.positions is None:
        hint = "use click data that has them, as 'rankwise data clicks' makes` (rw.simulate_clicks)|`"
        raise check.error(f"{_POSITION_BIAS} needs displayed positions", got="data without positions", hint=hint)
    return data.positions


def _feature_names(data: RankingDataset) -> list[str] | Literal["auto"]:
    """Names that LightGBM's file can hold: it splits them at spaces and refuses what JSON must escape."""
    names = data.feature_names
    return list(names) if names is not None and all(map(re.compile(r"[\w.+/()-]+").fullmatch, names)) else "auto"
