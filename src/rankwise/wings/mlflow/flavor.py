"""Rankers as models of MLflow: the saved folder with a signature, metrics with intervals, and reports. No pickle."""

import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise import Ranker, __version__, check
from rankwise.base import hooks
from rankwise.base.arrays import Keywords
from rankwise.base.tables import as_csv
from rankwise.data.categories import Values
from rankwise.models import model_card
from rankwise.rankers import check_fitted, expressions, table

if TYPE_CHECKING:
    from rankwise import Comparison

_FORBIDDEN = re.compile(r"[^\w.\- /]+_?")
"""Characters that MLflow does not allow in the name of a metric."""


def log_model(
    ranker: Ranker,
    name: str = "model",
    *,
    evaluation: model_card.Evaluations = None,
    comparison: "Comparison | None" = None,
    **options: Any,
) -> Any:
    """Log a trained ranker to the active run of MLflow, and return its ``ModelInfo``.

    The model is the folder of :meth:`Ranker.save <rankwise.Ranker.save>`, which ``mlflow.pyfunc.load_model`` reads by
    this module: nothing is pickled, and its ``predict`` returns the ranker's scores, bit for bit, for a table of
    features. Its signature has the names and types of the features.

    Args:
        ranker: The ranker, also one made of others.
        name: The name of the model, and the folder of the artifacts below.
        evaluation: What :func:`rankwise.evaluate` returned, or several by the names of their data. Means are logged as
            metrics ``ndcg_at_10``, the ends of their intervals as ``ndcg_at_10.low`` and ``ndcg_at_10.high``, after
            the name of the data where there are several; ``evaluation.json`` has all of them.
        comparison: What :func:`rankwise.compare` returned, logged as the page ``report.html``.
        options: Further arguments of ``mlflow.pyfunc.log_model``, such as ``registered_model_name``.

    The leaderboard of an :class:`rankwise.AutoRanker` is logged as ``leaderboard.csv`` and ``leaderboard.html``.
    """
    mlflow: Any = check.optional("mlflow", "mlflow")
    check.optional("pandas", "mlflow")
    check_fitted(ranker)
    if not ranker.n_features_in_:
        hint = "log the folder of its save(): mlflow.log_artifacts(folder)"
        raise check.error("a model of MLflow scores tables of features", got=f"a {type(ranker).__name__}", hint=hint)
    evaluations = model_card.by_name(evaluation)
    metrics: dict[str, float] = {}
    for data, one in evaluations.items():
        prefix = "" if len(evaluations) == 1 else f"{data}/"
        for metric, mean in one.mean.items():
            low, high = one.interval[metric]
            check.require_unique_names([*metrics, title := _title(prefix + metric)])
            metrics |= {title: mean, f"{title}.low": low, f"{title}.high": high}
    with tempfile.TemporaryDirectory() as temporary:
        folder = ranker.save(Path(temporary, "ranker"), evaluation=evaluation)
        settings: Keywords = {
            "signature": signature(ranker),
            "pip_requirements": [requirement(ranker)],
            "params": {"ranker": repr(ranker), "objective": expressions.objective_of(ranker)},
        }
        info = mlflow.pyfunc.log_model(
            name=name, loader_module="rankwise.mlflow", data_path=str(folder), **settings | options
        )
        for path in _reports(ranker, evaluations, comparison, Path(temporary)):
            mlflow.log_artifact(str(path), artifact_path=name)
    if evaluations:
        mlflow.log_dict({data: one.to_dict() for data, one in evaluations.items()}, f"{name}/evaluation.json")
        finite = {title: value for title, value in metrics.items() if value == value}  # few queries have no interval
        mlflow.log_metrics(finite, model_id=info.model_id)
    return info


def signature(ranker: Ranker) -> Any:
    """Return the signature of a ranker: its features by name and type, or a matrix of numbers, to one score each."""
    check.optional("mlflow", "mlflow")
    import numpy as np
    from mlflow.models import ModelSignature
    from mlflow.types.schema import AnyType, ColSpec, DataType, TensorSpec
    from mlflow.types.schema import Schema as Columns

    schema, score = ranker.model_.schema, Columns([TensorSpec(np.dtype(np.float64), (-1,))])
    if schema.names is None:
        return ModelSignature(Columns([TensorSpec(np.dtype(np.float64), (-1, schema.count))]), score)
    types = [DataType[_type(schema.categories.get(column, ()))] for column in range(schema.count)]
    columns = [ColSpec(kind, name, required=False) for kind, name in zip(types, schema.names, strict=True)]
    if ranker.model_.needs_lists:
        columns.append(ColSpec(AnyType(), "qid"))
    return ModelSignature(Columns(columns), score)


def requirement(ranker: Ranker) -> str:
    """Return what pip must install to score with a ranker: rankwise, and the extras of the libraries inside it.

    >>> from rankwise import XGBoostRanker, bagged, synthetic
    >>> requirement(bagged(XGBoostRanker(rounds=1, threads=1), folds=2).fit(synthetic(n_queries=9, seed=1)))
    'rankwise[xgboost]==0.2.0'
    """
    names = [name for name in _rankers(ranker.description()) if name in table.RANKERS]
    extras = ",".join(sorted({extra for name in names if (extra := table.ranker_class(name).extra)}))
    return f"rankwise{f'[{extras}]' if extras else ''}=={__version__}"


def _load_pyfunc(path: str) -> Any:
    """Read a logged ranker; MLflow calls this function by its name."""
    return table.load(path)


def _type(values: Values) -> str:
    """Return the type of a column in MLflow, by its categories if it has some.

    >>> _type(()), _type(("red", "blue")), _type((1999, 2026)), _type((0.5, 2)), _type((False, True))
    ('double', 'string', 'long', 'double', 'boolean')
    """
    kinds = set(map(type, values))
    return {str: "string", int: "long", bool: "boolean"}.get(kinds.pop(), "double") if len(kinds) == 1 else "double"


def _title(metric: str) -> str:
    """Return the name of a metric in MLflow.

    >>> _title("ndcg(gain=linear)@5"), _title("rbp(p=0.5)")
    ('ndcg_gain_linear_at_5', 'rbp_p_0.5')
    """
    return _FORBIDDEN.sub("_", metric.replace("@", "_at_")).rstrip("_")


def _rankers(description: object) -> Iterator[str]:
    """Iterate over the names of the rankers in a description, and of those that they are made of."""
    if isinstance(description, dict):
        for key, value in description.items():
            if key in ("ranker", "forest") and isinstance(value, str):
                yield value
            yield from _rankers(value)
    elif isinstance(description, list):
        for value in description:
            yield from _rankers(value)


def _reports(ranker: Any, evaluations: Any, comparison: "Comparison | None", folder: Path) -> Iterator[Path]:
    """Write the pages and tables about a ranker into a folder."""
    if comparison is not None:
        yield comparison.to_report(folder / "report.html")
    if (leaderboard := getattr(ranker, "leaderboard_", None)) is not None:
        write_leaderboard = hooks.find("report", "Leaderboard")
        csv = folder / "leaderboard.csv"
        csv.write_text(as_csv(leaderboard.to_frame()), encoding="utf-8")
        yield csv
        tested = next(iter(evaluations.values()), None)
        yield write_leaderboard(leaderboard, folder / "leaderboard.html", tested=tested)
