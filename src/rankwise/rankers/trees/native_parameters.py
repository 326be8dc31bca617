"""Parameters of the libraries that would be taken and have no effect, so that they are refused.

Most belong to the libraries' own objectives: ``native:…`` is handed them, and ours have arguments of their own. Every
table is by the main name of a parameter.
"""

from collections.abc import Mapping
from typing import NamedTuple

from rankwise import check


class Loss(NamedTuple):
    """A parameter of some objectives."""

    builtins: tuple[str, ...]
    """The library's own objectives that it belongs to; none of those that rank where there are none."""
    instead: str = ""
    """What says the same to ours; ``{}`` stands for the value."""


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
LIGHTGBM_LOSSES: Mapping[str, Loss] = {
    "sigmoid": Loss(_LAMBDARANK, "lambdarank(sigma={})"),
    "lambdarank_truncation_level": Loss(_LAMBDARANK, "lambdarank(truncation={})"),
    "lambdarank_norm": Loss(_LAMBDARANK, "lambdarank(norm={})"),
    "label_gain": Loss(_LAMBDARANK, "lambdarank(gain={})"),
    "lambdarank_position_bias_regularization": Loss(_LAMBDARANK, "debias=True, with propensities in the data"),
    "objective_seed": Loss(("rank_xendcg",), "seed={}"),
    **dict.fromkeys(_NO_RANKING, Loss(())),
}
LIGHTGBM_PROGRAM = (
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
"""What the program ``lightgbm`` reads, and what is said when a model is used."""
_XGBOOST_RANKING = ("rank:ndcg", "rank:map", "rank:pairwise")
XGBOOST_LOSSES: Mapping[str, Loss] = {
    "lambdarank_pair_method": Loss(_XGBOOST_RANKING, "lambdarank(truncation=…), or truncation=None for all pairs"),
    "lambdarank_num_pair_per_sample": Loss(_XGBOOST_RANKING, "lambdarank(truncation={})"),
    "lambdarank_normalization": Loss(_XGBOOST_RANKING, "lambdarank(norm={})"),
    "lambdarank_score_normalization": Loss(_XGBOOST_RANKING, "lambdarank(norm={})"),
    "lambdarank_unbiased": Loss(_XGBOOST_RANKING, "debias={}, with propensities in the data"),
    "lambdarank_bias_norm": Loss(_XGBOOST_RANKING, "debias=True, with propensities in the data"),
    "ndcg_exp_gain": Loss(("rank:ndcg",), "lambdarank(gain='exponential') or gain='linear'"),
    "multi_strategy": Loss(()),
}
_YETI = ("mode", "permutations", "decay", "top", "dcg_type", "dcg_denominator", "noise", "noise_power", "num_neighbors")
_METRIC = ("metric", "top", "type", "denominator", "sigma", "decay")
CATBOOST_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "YetiRank": _YETI,
    "YetiRankPairwise": _YETI,
    "StochasticRank": (*_METRIC, "mu", "nu", "lambda", "num_estimations"),
    "LambdaMart": (*_METRIC, "norm"),
}
"""What stands behind the colon of an objective of CatBoost's; of the others CatBoost refuses what it does not know."""


def check_parameters(
    library: str,
    losses: Mapping[str, Loss],
    native: Mapping[str, object],
    canonical: Mapping[str, str],
    objective: object,
    builtin: str | None,
) -> None:
    """Refuse parameters that the objective does not take; ``canonical`` has the main names of those in ``native``."""
    for name, value in native.items():
        loss = losses.get(canonical[name])
        if loss is None or (builtin is not None and _takes(builtin, loss)):
            continue
        ours = loss.instead.format(_shown(value))
        hints = ["leave it out"]
        if builtin is None and ours:
            place = "on the ranker" if ours.startswith(("seed", "debias")) else "on the objective"
            hints.append(f"set it {place}, {ours}")
        hints += [f"train native:{other}" for other in loss.builtins[:1]]
        what = f"{name!r} belongs to other objectives of {library} and would have no effect"
        raise check.error(what, got=f"the objective {objective}", hint=", or ".join(hints))


def check_options(builtin: str, options: str) -> None:
    """Refuse what stands behind the colon of a CatBoost objective and that CatBoost would overlook."""
    known = CATBOOST_OPTIONS.get(builtin)
    for option in filter(None, options.split(";")):
        name = option.partition("=")[0].strip()
        if known is not None and name not in (*known, "hints"):
            hint = check.suggestion(name, known).rstrip("?")
            raise check.error(f"CatBoost's {builtin} has no such parameter", got=repr(name), hint=hint)


def _takes(builtin: str, loss: Loss) -> bool:
    """Whether the library's own objective, with or without options behind a colon, has the parameter."""
    return any(builtin == one or builtin.startswith(f"{one}:") for one in loss.builtins)


def _shown(value: object) -> str:
    """A value as one writes it in the expression of an objective."""
    return repr(tuple(value)) if isinstance(value, list) else repr(value)
