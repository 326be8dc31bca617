"""What can be evaluated: scores, rankers, models of other libraries, and functions of features."""

import importlib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.base import hooks
from rankwise.base.arrays import Array, Floats, Keywords
from rankwise.data.dataset import RankingDataset
from rankwise.data.io.tables import Table

if TYPE_CHECKING:
    from rankwise.models.model import Contributions
    from rankwise.models.schema import ModelInput


@runtime_checkable
class Predictor(Protocol):
    """Anything that scores documents: of a data set, or, if it is a scikit-learn estimator, of a matrix of features."""

    def predict(self, data: Any, /) -> ArrayLike:
        """Return one score per document."""


class FeaturePredictor(Predictor, Protocol):
    """A trained ranker of features."""

    def predict(self, data: "ModelInput", /) -> Array:
        """Return one score per document."""

    def contributions(self, data: "ModelInput") -> "Contributions":
        """Return what each feature adds to the score of every document."""

    def columns_to_score(self) -> Keywords:
        """Return the arguments of ``from_frame`` for a table that is to be scored."""


@runtime_checkable
class IrDataset(Protocol):
    """A data set of the package ir_datasets: what ``ir_datasets.load`` returns."""

    def has_qrels(self) -> bool:
        """Whether documents are judged."""

    def has_scoreddocs(self) -> bool:
        """Whether documents are retrieved and scored."""


Run = Table | Mapping[str, Mapping[str, float]] | str | Path | IrDataset
"""A run, or qrels: a table of any library, nested dictionaries, a file, or a data set of ir_datasets."""
Scored = ArrayLike | Predictor | Callable[[Floats], ArrayLike] | Run
"""Scores, a model, a function from the matrix of features to scores, or a run."""
Evaluated = RankingDataset | Run
"""Data that systems are evaluated on: a data set, for rerankers with texts; a table with labels; qrels of a run."""


def on_data(system: Scored, data: Evaluated) -> tuple[Scored, RankingDataset]:
    """Return a system and the data that it is evaluated on; a run is joined with qrels."""
    if isinstance(data, RankingDataset):
        return system, data
    from rankwise.evaluation import trec  # brings polars, which takes long to load
    from rankwise.models.schema import Schema, is_frame, lists_of

    if trec.is_qrels(data):
        return trec.join(cast("Run", system), data)
    if is_frame(data):
        trained_on = getattr(getattr(system, "model_", None), "schema", None)
        return system, lists_of(data, trained_on if isinstance(trained_on, Schema) else None)
    hint = "make one, or pass a table with columns qid and label"
    raise check.error("scores are evaluated on a RankingDataset", got=type(data).__name__, hint=hint)


def scores_of(system: Scored, data: RankingDataset) -> ArrayLike:
    """Return the scores of a system, not checked yet.

    Models of LightGBM, XGBoost and CatBoost are wrapped as :func:`wrap` does. A classifier, theirs or scikit-learn's,
    scores documents by its decision function or the probability of its second class, and by the expected grade where
    there are more than two classes.
    """
    lists = data.without_rows()
    if isinstance(system, type):
        raise check.error("a trained model is needed, and not its class", got=system.__name__, hint="train one first")
    estimator = all(hasattr(system, name) for name in ("predict", "get_params", "fit"))
    classes = getattr(system, "classes_", None) if estimator else None
    if classes is not None and len(classes) > 2:
        return _expected_grade(system, classes, lists)
    ranker = _ranker_of(system)
    if ranker is not None:
        return ranker.predict(lists)  # type: ignore[no-any-return]
    if estimator:  # of scikit-learn
        scored = next((name for name in ("decision_function", "predict_proba") if hasattr(system, name)), "predict")
        predictions = np.asarray(getattr(system, scored)(_input(system, lists)))
        single = scored == "predict_proba" or predictions.shape[1:] == (1,)
        return predictions[:, -1] if single else predictions
    if isinstance(system, Predictor):
        return system.predict(lists)
    columns = set(getattr(system, "columns", ()))
    if isinstance(system, Mapping | str | Path) or {"query", "document", "score"} <= columns:
        from rankwise.evaluation.trec import scores_of_run

        return scores_of_run(cast("Run", system), lists)
    return system(lists.features) if callable(system) else cast("ArrayLike", system)


def _ranker_of(system: object) -> Any:
    """Return the ranker of a model, by the function that is registered for the package of its class or of a base."""
    packages = {base.__module__.partition(".")[0] for base in type(system).__mro__} & hooks.places("ranker").keys()
    read = (hooks.find("ranker", package)(system) for package in sorted(packages))
    return next((ranker for ranker in read if ranker is not None), None)


def _expected_grade(classifier: object, classes: object, data: RankingDataset) -> ArrayLike:
    """Σ grade · probability, of a classifier whose classes are grades."""
    grades = np.asarray(classes)
    if grades.dtype.kind not in "iufb" or not hasattr(classifier, "predict_proba"):
        raise check.error(
            "a classifier of more than two classes ranks by the expected grade, of classes that are numbers and have "
            "probabilities",
            got=f"{type(classifier).__name__} of {grades.size} classes",
            hint="train it on the grades, with probabilities, or pass a function from features to scores",
        )
    return np.asarray(classifier.predict_proba(_input(classifier, data))) @ grades.astype(np.float64)


def _input(estimator: object, data: RankingDataset) -> Any:
    """The features as the estimator was trained on them: a table if it knows names, else a matrix."""
    count, names = getattr(estimator, "n_features_in_", None), getattr(estimator, "feature_names_in_", None)
    if count is None and names is None:
        return data.features
    from rankwise.models.schema import Schema

    column_names = None if names is None else tuple(map(str, names))
    schema = Schema(data.n_features if count is None else int(count), column_names)
    matrix = schema.align(data.with_(categorical=(), categories={})).features
    if column_names is None:
        return matrix
    check.dense_features(matrix, "an estimator that was trained on a table", "")
    columns: Keywords = {name: matrix[:, number] for number, name in enumerate(column_names)}
    for number, listed in data.categories.items():
        name = (data.feature_names or column_names)[number]
        columns[name] = [None if np.isnan(code) else listed[int(code)] for code in columns[name].tolist()]
    # Estimators that were trained on a table ask for one; those of scikit-learn take either.
    return (sys.modules.get("pandas") or importlib.import_module("polars")).DataFrame(columns)
