"""LightGBM: the adapter of boosted trees, and the ranker."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from rankwise.base.arrays import Keywords
from rankwise.check.docstrings import documented
from rankwise.models.forests.lightgbm import LightGBMForest, lightgbm, read_booster, threads
from rankwise.rankers.table import Recipe
from rankwise.rankers.trees import monotone
from rankwise.rankers.trees.lightgbm.data import POSITION_BIAS, matrices, training_parameters
from rankwise.rankers.trees.lightgbm.model import LightGBMGrowth, LightGBMMatrices, read_foreign
from rankwise.rankers.trees.protocol import (
    LARGE_DATA,
    SMALL_DATA,
    WITHOUT_CHECKPOINT,
    Defaults,
    Library,
    ObjectiveParameter,
    Refusal,
    Settings,
    changes_trees,
)
from rankwise.rankers.trees.ranker import TreeRanker

_NOTHING_DRAWN = {
    "bagging_fraction": 1.0,
    "pos_bagging_fraction": 1.0,
    "neg_bagging_fraction": 1.0,
    "feature_fraction": 1.0,
    "feature_fraction_bynode": 1.0,
    "extra_trees": False,
    "use_quantized_grad": False,
}
_LAMBDARANK = ("lambdarank",)
_NO_RANKING = (
    *("alpha", "auc_mu_weights", "boost_from_average", "fair_c", "is_unbalance", "multi_error_top_k", "num_class"),
    *("poisson_max_delta_step", "reg_sqrt", "scale_pos_weight", "tweedie_variance_power"),
)
_OBJECTIVE_PARAMETERS = {
    "sigmoid": ObjectiveParameter(_LAMBDARANK, "lambdarank(sigma={})"),
    "lambdarank_truncation_level": ObjectiveParameter(_LAMBDARANK, "lambdarank(truncation={})"),
    "lambdarank_norm": ObjectiveParameter(_LAMBDARANK, "lambdarank(norm={})"),
    "label_gain": ObjectiveParameter(_LAMBDARANK, "lambdarank(gain={})"),
    POSITION_BIAS: ObjectiveParameter(_LAMBDARANK, "`debias=True`, with propensities in the data"),
    "objective_seed": ObjectiveParameter(("rank_xendcg",), "`seed={}`"),
    **dict.fromkeys(_NO_RANKING, ObjectiveParameter(())),
}
_PROGRAM = (
    *("config", "convert_model", "convert_model_language", "data", "header", "ignore_column", "input_model"),
    *("is_provide_training_metric", "label_column", "local_listen_port", "machine_list_filename", "machines"),
    *("metric_freq", "num_iteration_predict", "num_machines", "output_model", "output_result", "parser_config_file"),
    *("pre_partition", "precise_float_parser", "pred_early_stop", "pred_early_stop_freq", "pred_early_stop_margin"),
    *("predict_contrib", "predict_disable_shape_check", "predict_leaf_index", "predict_raw_score"),
    *("refit_decay_rate", "save_binary", "snapshot_freq", "start_iteration_predict", "task", "time_out"),
    *("two_round", "valid"),
)
"""What the program ``lightgbm`` reads, and what is set when a model is used."""
_TRIES = 20  # to draw features, or thresholds, with which there is a split
_METHOD = "monotone_constraints_method"
# Trees that differ more gain more from being added up: each sees part of the documents and of the features.
_DIVERSE = SMALL_DATA | {"extra_trees": True, "feature_fraction": 0.5, "bagging_fraction": 0.7, "bagging_freq": 1}


@functools.cache
def _names() -> dict[str, str]:
    """Every name of a parameter -> its main name."""
    aliases = lightgbm().basic._ConfigAliases._get_all_param_aliases()
    return {alias: main for main, other in aliases.items() for alias in (main, *other)}


class LightGBM(Library):
    """The adapter of LightGBM."""

    name, title = "lightgbm", "LightGBM"
    forest = LightGBMForest
    builtins: Sequence[str] = ("lambdarank", "rank_xendcg")
    ours: Mapping[str, str] = {
        "first_metric_only": "stop_on",
        "early_stopping_min_delta": "patience",
        "categorical_feature": "RankingDataset(categorical=…)",
        "weight_column": "RankingDataset(weights=…)",
        "group_column": "qid",
    }
    losses = _OBJECTIVE_PARAMETERS
    idle = _PROGRAM
    small_data = Defaults(leaves=7, min_documents=50, smoothing=10, native={"extra_trees": True})
    nothing_drawn: Mapping[str, object] = _NOTHING_DRAWN
    weighs_documents = True
    known = staticmethod(_names)
    threads = staticmethod(threads)
    matrices = staticmethod(matrices)
    foreign = staticmethod(read_foreign)

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
            return changes_trees("boosting=dart", stopping=stopping)
        if "goss" in modes and checkpoints:
            reason = "GOSS does not sample in its first rounds, and every block would begin with them again after a"
            return Refusal(f"{reason} checkpoint", WITHOUT_CHECKPOINT)
        if checkpoints and any(name.startswith("cegb_") for name in native):
            reason = "the cegb_ penalties remember which features were used, and a checkpoint does not"
            return Refusal(reason, WITHOUT_CHECKPOINT)
        return None

    def draws(self, settings: Settings) -> bool:
        """Whether training draws random numbers of LightGBM's own."""
        return settings.builtin == "rank_xendcg" or super().draws(settings)

    def grow(self, settings: Settings, matrices: LightGBMMatrices, seed: int, start: bytes | None) -> LightGBMGrowth:
        """Start growing, from nothing or from the trees of ``start``."""
        tries = _TRIES if settings.keep_constants and self.draws(settings) else 1
        older = None if start is None else read_booster(start)
        base_score = settings.base_score if older is None else 0.0  # its first tree has it
        for data in (matrices.train, *matrices.held_out) if base_score else ():
            labels: Any = data.get_label()
            data.set_init_score(np.full(len(labels), base_score))
        return LightGBMGrowth(training_parameters(settings, seed), matrices, start, older, tries, base_score)


@documented
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
    search_space: ClassVar[Keywords] = {
        "learning_rate": "log(0.02, 0.2)",
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
        # The default, beside which others are judged. On small data, what is listed once has to prove what it adds.
        Recipe("lambdarank", {}, small=(0, 5, 9), middle=(0,), large=(0,)),
        # What errs otherwise: values within the query, a loss that also learns the level of a query, a sum of losses.
        Recipe("lambdarank", {"transform": "raw+query"}, small=(2, 6, 10)),
        Recipe("calibrated", {}, small=(3, 7, 11)),
        Recipe("0.5*lambdarank + 0.5*softmax_ce", {}, small=(4, 8)),
        Recipe("xendcg", {}, small=(13,)),
        Recipe("xendcg", _DIVERSE, small=(14,)),
        Recipe("stochastic(lambdarank, scale=0.25)", _DIVERSE, small=(16,)),
        Recipe("yeti", _DIVERSE, small=(17,)),
        Recipe("xendcg", _DIVERSE | {"leaves": 7}, small=(19,)),
        Recipe("listnet", _DIVERSE, small=(20,)),
        Recipe("ranknet", _DIVERSE | {"leaves": 7}, small=(21,)),
        # By docs/benchmarks/auto.md#large-sets: a rate of 0.05 is level with 0.1 or ahead, 255 leaves are behind.
        Recipe("lambdarank", LARGE_DATA, middle=(3,)),
        Recipe("lambdarank", LARGE_DATA | {"leaves": 127}, large=(3,)),
        Recipe("xendcg", LARGE_DATA, middle=(5,), large=(4,)),
        Recipe("yeti", _DIVERSE | {"leaves": 31}, middle=(6,)),
        Recipe("stochastic(lambdarank, scale=0.25)", LARGE_DATA, middle=(8,)),
        Recipe("listnet", _DIVERSE | {"leaves": 31}, middle=(9,)),
        Recipe("ranknet", _DIVERSE | {"leaves": 31}, middle=(10,)),
    )
