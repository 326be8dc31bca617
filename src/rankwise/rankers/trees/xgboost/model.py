"""Boosters of XGBoost: one that grows, and models that were trained elsewhere."""

from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Floats, Keywords
from rankwise.models.forests.forest import numbers
from rankwise.models.forests.library_errors import first_line
from rankwise.models.forests.xgboost import content_of, margins, threads, xgboost
from rankwise.models.formats.xgboost import XGBoostDocument
from rankwise.models.schema import Schema
from rankwise.rankers.trees.protocol import ONE_SCORE, Derive, ForeignModel, Settings, cannot_wrap, untrained
from rankwise.rankers.trees.xgboost.data import XGBoostMatrices, raw_matrix

if TYPE_CHECKING:
    from torch import Tensor
    from xgboost import Booster


class XGBoostGrowth:
    """A booster that grows."""

    def __init__(
        self, settings: Settings, parameters: Keywords, matrices: XGBoostMatrices, start: bytes | None
    ) -> None:
        self.settings, self.matrices, self.train = settings, matrices, matrices.train
        model = None if start is None else bytearray(start)
        if start is not None:  # which has its own: not 0 if it was trained elsewhere
            parameters = {name: value for name, value in parameters.items() if name != "base_score"}
        self.booster: Booster = xgboost().Booster(parameters, [self.train], model_file=model)
        self.trees = 0 if start is None else self.booster.num_boosted_rounds()
        if start is not None and not self._bins_fit():
            self.train = raw_matrix(settings, matrices.data)
        # Of average documents, where the user says nothing: a loss times a constant grows the same trees.
        self.relative = {
            name: share
            for name, share in {"min_child_weight": float(settings.min_documents), "reg_lambda": 1.0}.items()
            if name not in settings.native
        }

    def _bins_fit(self) -> bool:
        """Whether bins tell documents apart as the trees so far do; those of other data have other borders."""
        binned = self.booster.predict(self.train, output_margin=True)
        differ = not np.array_equal(binned, margins(self.booster, self.matrices.data.features))
        return not _total(differ)[0]  # on a worker, of all workers

    def add(self, derive: Derive | None) -> bool:
        """Grow one tree; False if XGBoost found no split for it, unless constants are kept."""
        if derive is None:
            try:
                self.booster.update(self.train, self.trees)
            except xgboost().core.XGBoostError as failed:
                raise check.error(
                    f"XGBoost cannot train with native:{self.settings.builtin}", got=first_line(failed)
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
        return content_of(self.booster, self.trees)


def average_hessian(hessian: "Floats | Tensor") -> float:
    """Return the mean size of Hessians, over the documents of all workers."""
    size = np.abs(hessian).sum(dtype=np.float64) if isinstance(hessian, np.ndarray) else hessian.abs().double().sum()
    total, count = _total(float(size), hessian.shape[0])
    return float(total / count)


def _total(*values: float) -> Array:
    """Add up numbers over all workers that train together; alone, they stay what they are."""
    collective = xgboost().collective
    numbers = np.array(values, np.float64)
    if collective.is_distributed():
        numbers = collective.allreduce(numbers, collective.Op.SUM)
    return numbers


def queries_before(n_queries: int) -> int:
    """Return how many queries the workers before this one have: numbers of its own would repeat on every worker."""
    collective = xgboost().collective
    if not collective.is_distributed():
        return 0
    rank, counts = collective.get_rank(), np.zeros(collective.get_world_size(), np.int64)
    counts[rank] = n_queries
    return int(collective.allreduce(counts, collective.Op.SUM)[:rank].sum())


def read_foreign(model: Any) -> ForeignModel | None:
    """Read a model, with the trees that its own ``predict`` uses; None if it is of another library.

    Margins are a base score and sums of leaves. What the base score means depends on the objective (of
    ``binary:logistic`` it is a probability), so that of a model which was not trained to rank becomes its margin.
    """
    library = xgboost()
    if not isinstance(model, library.Booster | library.XGBModel):
        return None
    threads()  # trees are written in parallel
    booster = _booster(library, model)
    document = XGBoostDocument(bytes(booster.save_raw("ubj")))
    if document.booster["name"] == "gblinear":
        raise cannot_wrap(model, "booster=gblinear, a linear model without trees")
    scores = max(int(document.parameters[name]) for name in ("num_class", "num_target"))
    if scores > 1:
        raise cannot_wrap(model, f"{scores} scores of each document (multiclass or several targets)", ONE_SCORE)
    if not document.model["trees"]:
        raise untrained(model)
    objective = str(document.learner["objective"]["name"])
    try:
        categories = document.take_categories()
    except UnicodeDecodeError:
        raise cannot_wrap(model, "names of categories that are not whole") from None
    ranks = objective.startswith("rank:")
    if not ranks:
        document.parameters["base_score"] = f"[{_base(library, booster):.9g}]"
        plain = library.Booster({"objective": "rank:ndcg", "num_feature": booster.num_features()})
        document.learner["objective"] = XGBoostDocument(bytes(plain.save_raw("ubj"))).learner["objective"]
    if categories or not ranks:
        booster = library.Booster(model_file=bytearray(document.json()))
    names, types = booster.feature_names, booster.feature_types or []
    categorical = tuple(column for column, kind in enumerate(types) if kind == "c")
    schema = Schema(booster.num_features(), None if names is None else tuple(names), categorical, categories)
    return ForeignModel(bytes(booster.save_raw("ubj")), schema, objective)


def _booster(library: Any, model: Any) -> Any:
    """The trees; an estimator stops at its best round, and a booster of its own does not."""
    if isinstance(model, library.Booster):
        return model
    if not model.__sklearn_is_fitted__():
        raise untrained(model)
    if model.missing is not None and not np.isnan(model.missing):
        hint = "wrap its get_booster(), and put NaN in the place of missing values"
        raise check.error(
            "missing values are NaN here", got=f"a {type(model).__name__} with missing={model.missing!r}", hint=hint
        )
    booster = model.get_booster()
    best = booster.attributes().get("best_iteration")
    return booster if best is None else booster[: int(best) + 1]


def _base(library: Any, booster: Any) -> np.float32:
    """Return what XGBoost adds to the leaves: the margin of the same trees with nothing in their leaves."""
    document = XGBoostDocument(bytes(booster.save_raw("ubj")))
    document.scale(np.float32(0.0))
    empty = library.Booster(model_file=bytearray(document.json()))
    nothing = np.full((1, empty.num_features()), np.nan, np.float32)
    margin: np.float32 = empty.inplace_predict(nothing, predict_type="margin", validate_features=False)[0]
    return margin
