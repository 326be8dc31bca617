"""Names of arguments of other libraries, for hints in errors."""

from collections.abc import Collection, Mapping

ARGUMENTS = ("qid", "group", "sample_weight", "valid")
"""Of ``fit``, where others may take them for parameters of a ranker."""
_ROUNDS = ("rounds", "epochs")
_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("n_estimators", "num_iterations", "iterations", "num_boost_round", "num_round"), _ROUNDS),
    **dict.fromkeys(("num_trees", "n_iter", "max_iter", "num_epochs", "n_epochs", "max_epochs"), _ROUNDS),
    **dict.fromkeys(("rounds", "epochs"), _ROUNDS),
    **dict.fromkeys(("num_leaves", "max_leaves", "max_leaf_nodes"), ("leaves",)),
    **dict.fromkeys(("min_child_samples", "min_data_in_leaf", "min_samples_leaf"), ("min_documents",)),
    **dict.fromkeys(("random_state", "random_seed"), ("seed",)),
    **dict.fromkeys(("n_jobs", "nthread", "num_threads", "thread_count"), ("threads",)),
    **dict.fromkeys(("early_stopping_rounds", "early_stopping_round", "early_stopping", "od_wait"), ("patience",)),
    **dict.fromkeys(("eval_metric", "metric", "eval_at", "custom_metric"), ("metrics",)),
    **dict.fromkeys(("verbose", "verbosity", "verbose_eval", "silent", "logging_level"), ("progress",)),
    **dict.fromkeys(("eta", "lr"), ("learning_rate",)),
    **dict.fromkeys(("loss", "loss_function"), ("objective",)),
    "batch_size": ("batch_queries", "batch_users"),
    "l2": ("weight_decay",),
    **dict.fromkeys(("layers", "hidden_layers", "hidden_layer_sizes", "hidden_units"), ("hidden",)),
    **dict.fromkeys(("n_factors", "embedding_dim", "num_factors"), ("factors",)),
}
"""Theirs -> ours, of which a ranker has one or none."""

_VALID = "`pass valid=`, a RankingDataset or (X, y, qid): fit(X, y, qid=qid, valid=(X2, y2, qid2))"
_VALID_WEIGHTS = "pass valid=RankingDataset(…, weights=…)"
_CATEGORICAL = "pass RankingDataset(…, categorical=…), or a table whose columns are categories"
_NAMES = "pass RankingDataset(…, feature_names=…), or a table"
_CONTINUE = "pass init_model=, a trained ranker or its folder, which is continued"
_CALLBACK = "pass callback=, a function of the round and the history, called after each; set progress=True for a bar"
_IDS = "pass qid=, an id for each document, or group=, the number of documents of each query"
_WEIGHTS = "pass sample_weight=, the same for all documents of a query, or RankingDataset(…, weights=…)"
_CHECKPOINT = "`set checkpoint=` and `checkpoint_every=` on the ranker, and `pass resume=True` to resume"
_BEST = "`pass valid=`, and the best round is kept"
_FIT: Mapping[str, str] = {
    **dict.fromkeys(("eval_set", "eval_X", "eval_y", "eval_group", "eval_qid", "eval_names", "valid_sets"), _VALID),
    **dict.fromkeys(("validation_data", "eval_data", "test_data"), _VALID),
    **dict.fromkeys(("eval_sample_weight", "sample_weight_eval_set", "eval_class_weight"), _VALID_WEIGHTS),
    **dict.fromkeys(("categorical_feature", "cat_features", "categorical_features"), _CATEGORICAL),
    **dict.fromkeys(("feature_name", "feature_names"), _NAMES),
    **dict.fromkeys(("init_score", "eval_init_score", "base_margin", "base_margin_eval_set", "baseline"), _CONTINUE),
    "xgb_model": _CONTINUE,
    **dict.fromkeys(("callbacks", "plot", "plot_file", "log_cout", "log_cerr", "metric_period"), _CALLBACK),
    **dict.fromkeys(("group_id", "query_id", "query_ids", "qids", "groups", "subgroup_id"), _IDS),
    **dict.fromkeys(("group_weight", "weight", "weights", "sample_weights"), _WEIGHTS),
    **dict.fromkeys(("save_snapshot", "snapshot_file", "snapshot_interval"), _CHECKPOINT),
    "use_best_model": _BEST,
    "pairs": "pass grades as y; pairs are made of documents of one query with different grades",
    "pairs_weight": "choose the weight of pairs in the objective: rw.objectives.Pairwise",
}

_EXPLAIN = "call explain(data)"
_CUT = "set rounds= and train again; with valid= the best round is kept"
_PREDICT: Mapping[str, str] = {
    **dict.fromkeys(("pred_contrib", "pred_contribs", "pred_interactions"), _EXPLAIN),
    **dict.fromkeys(("num_iteration", "start_iteration", "iteration_range", "ntree_end", "ntree_start"), _CUT),
    "ntree_limit": _CUT,
    **dict.fromkeys(("raw_score", "output_margin"), "leave it out: scores are raw ones"),
    "pred_leaf": "ask the library itself: model_.booster",
    **dict.fromkeys(("qid", "group"), "leave it out, or call rank(data, qid=…), which sorts by score"),
    **dict.fromkeys(("thread_count", "n_jobs"), "set threads= on the ranker"),
}

_OF_TREES = {
    *("leaves", "num_leaves", "max_leaves", "max_leaf_nodes", "max_depth", "depth", "max_bin"),
    *("subsample", "bagging_fraction", "feature_fraction", "colsample_bytree"),
    *("min_documents", "min_child_samples", "min_child_weight", "min_data_in_leaf"),
    *("lambda_l1", "lambda_l2", "reg_alpha", "reg_lambda", "l2_leaf_reg"),
    *("monotone_constraints", "interaction_constraints"),
}


def parameter(name: str, parameters: Collection[str]) -> str:
    """Return what a parameter of another library is called, if it is among a ranker's ``parameters``; else nothing.

    >>> parameter("n_estimators", ["objective", "epochs"]), parameter("num_leaves", ["objective", "epochs"])
    ('epochs', '')
    """
    return next((ours for ours in _PARAMETERS.get(name, ()) if ours in parameters), "")


def of_fit(name: str) -> str:
    """Return the hint about a name that belongs to ``fit`` and not to a ranker; nothing if it does not.

    >>> of_fit("qid")
    'pass it to fit'
    """
    return "pass it to fit" if name in ARGUMENTS else _FIT.get(name, "")


def of_trees(name: str) -> str:
    """Return the hint about a parameter that rankers of trees have, for those without; nothing if it is none.

    >>> of_trees("monotone_constraints")
    'leave it out, or train trees, such as rw.LightGBMRanker'
    """
    return "leave it out, or train trees, such as rw.LightGBMRanker" if name in _OF_TREES else ""


def of_argument(method: str, name: str, parameters: Collection[str]) -> str:
    """Return the hint about an argument that a method does not have, of a ranker with ``parameters``; else nothing."""
    ours = name if name in parameters else parameter(name, parameters)
    hint = (_FIT if method == "fit" else _PREDICT).get(name, "")
    return hint or (f"set {ours}= on the ranker" if ours else "")
