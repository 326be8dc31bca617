"""XGBoost's models: a booster that grows, and the finished trees."""

import functools
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise import check
from rankwise.arrays import Array, Floats, Keywords
from rankwise.data.disk import mapped as disk
from rankwise.rankers.trees.protocol import Derive, ForestByTree, Settings, numbers
from rankwise.rankers.trees.refusals import first_line
from rankwise.rankers.trees.xgboost.data import XGBoostMatrices, raw_matrix, xgboost
from rankwise.sparse import dense
from rankwise.threads import openmp

if TYPE_CHECKING:
    from torch import Tensor
    from xgboost import Booster


def threads() -> int:
    """Return the number of threads that XGBoost may use."""
    return openmp(_one_thread)


def _one_thread() -> None:
    """Make XGBoost use one thread, also where no number is set."""
    xgboost().set_config(nthread=1)


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
        differ = not np.array_equal(binned, _margins(self.booster, self.matrices.data.features))
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
        return _content(self.booster, self.trees)


class XGBoostForest(ForestByTree):
    """A finished booster."""

    booster: "Booster"

    def cut(self, n_trees: int) -> "XGBoostForest":
        """Return the model of the first ``n_trees`` trees."""
        return self if n_trees >= self.n_trees else read_forest(_content(self.booster, n_trees))

    def predict(self, features: Floats, trees: tuple[int, int] = (0, 0)) -> Array:
        """Score documents, by all trees or by some; XGBoost adds up in float32."""
        self.booster.set_param({"nthread": threads()})
        return numbers(_margins(self.booster, features, trees))

    def tree(self, features: Floats, number: int) -> Array:
        """Return what one tree, counted from 0, adds to the scores."""
        return self.predict(features, (number, number + 1)) - self.base_score

    @functools.cached_property
    def base_score(self) -> float:  # type: ignore[override]
        """The score of a model without trees."""
        parameters = json.loads(self.booster.save_config())["learner"]["learner_model_param"]
        return float(parameters["base_score"].strip("[]"))

    def explain(self, features: Floats) -> Array:
        """SHAP contributions, in float32."""
        self.booster.set_param({"nthread": threads()})
        matrix = xgboost().DMatrix(
            dense(features),
            feature_names=self.booster.feature_names,
            feature_types=self.booster.feature_types,
            enable_categorical=True,
            nthread=threads(),
        )
        try:
            return numbers(self.booster.predict(matrix, pred_contribs=True))
        except xgboost().core.XGBoostError as failed:
            raise check.error("XGBoost cannot explain these trees", got=first_line(failed)) from None

    def importances(self, kind: str) -> Array:
        """Return one number per feature: total gain of its splits, or how many there are."""
        scores: Any = self.booster.get_score(importance_type={"gain": "total_gain", "split": "weight"}[kind])
        names = self.booster.feature_names or [f"f{j}" for j in range(self.booster.num_features())]
        return np.array([scores.get(name, 0.0) for name in names], np.float64)


def read_forest(content: bytes) -> XGBoostForest:
    """Read a model."""
    threads()  # trees are read in parallel
    try:
        if not content.startswith(b"{"):
            raise ValueError("a file that does not begin as a model")
        booster = xgboost().Booster(model_file=bytearray(content))
        return XGBoostForest(booster, bytes(content), int(booster.num_boosted_rounds()))
    except (ValueError, xgboost().core.XGBoostError) as broken:
        raise check.error("cannot read as an XGBoost model", got=first_line(broken)) from None


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


def _content(booster: "Booster", n_trees: int) -> bytes:
    threads()  # trees are written in parallel
    part = booster if n_trees == booster.num_boosted_rounds() else booster[:n_trees]
    return bytes(part.save_raw("ubj"))
