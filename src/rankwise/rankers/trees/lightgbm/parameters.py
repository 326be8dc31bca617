"""LightGBM's parameters: their names, those of its own objectives, and those that training sets."""

import functools

from rankwise.base.arrays import Keywords
from rankwise.models.forests.lightgbm import lightgbm
from rankwise.rankers.trees.protocol import ObjectiveParameter, Settings

NETWORK = ("num_machines", "machines", "local_listen_port", "time_out", "tree_learner", "pre_partition")
POSITION_BIAS = "lambdarank_position_bias_regularization"
# Left at these values, nothing is drawn and a continued model is the uninterrupted one, bit for bit.
NOTHING_DRAWN = {
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
OBJECTIVE_PARAMETERS = {
    "sigmoid": ObjectiveParameter(_LAMBDARANK, "lambdarank(sigma={})"),
    "lambdarank_truncation_level": ObjectiveParameter(_LAMBDARANK, "lambdarank(truncation={})"),
    "lambdarank_norm": ObjectiveParameter(_LAMBDARANK, "lambdarank(norm={})"),
    "label_gain": ObjectiveParameter(_LAMBDARANK, "lambdarank(gain={})"),
    POSITION_BIAS: ObjectiveParameter(_LAMBDARANK, "`debias=True`, with propensities in the data"),
    "objective_seed": ObjectiveParameter(("rank_xendcg",), "`seed={}`"),
    **dict.fromkeys(_NO_RANKING, ObjectiveParameter(())),
}
PROGRAM = (
    *("config", "convert_model", "convert_model_language", "data", "header", "ignore_column", "input_model"),
    *("is_provide_training_metric", "label_column", "local_listen_port", "machine_list_filename", "machines"),
    *("metric_freq", "num_iteration_predict", "num_machines", "output_model", "output_result", "parser_config_file"),
    *("pre_partition", "precise_float_parser", "pred_early_stop", "pred_early_stop_freq", "pred_early_stop_margin"),
    *("predict_contrib", "predict_disable_shape_check", "predict_leaf_index", "predict_raw_score"),
    *("refit_decay_rate", "save_binary", "snapshot_freq", "start_iteration_predict", "task", "time_out"),
    *("two_round", "valid"),
)
"""What the program ``lightgbm`` reads, and what is set when a model is used."""


@functools.cache
def names() -> dict[str, str]:
    """Every name of a parameter -> its main name."""
    aliases = lightgbm().basic._ConfigAliases._get_all_param_aliases()
    return {alias: main for main, other in aliases.items() for alias in (main, *other)}


def training_parameters(settings: Settings, seed: int) -> Keywords:
    """Return what LightGBM is trained with."""
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
