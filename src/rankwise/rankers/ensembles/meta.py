"""Rankers made of rankers: nested parameters, and delegation to what training made of them.

A bag, a blend, a distillation and a search are rankers too. What they share is here, as in scikit-learn's
meta-estimators.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Json, Keywords
from rankwise.models.forests.forest import ForestModel
from rankwise.models.model import Model
from rankwise.rankers.base import Ranker
from rankwise.rankers.ensembles.out_of_fold import HeldOut
from rankwise.rankers.sklearn import check_fitted

if TYPE_CHECKING:
    from rankwise.statistics.evaluation import Evaluation
    from rankwise.statistics.reliability import Event


def kind_of(value: object) -> str:
    """Return what an argument is, for errors: a class, or an object of one."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


class MetaRanker(Ranker):
    """A ranker made of rankers, which stay untrained: clones of them are trained."""

    has_importances = True

    def nested(self) -> Mapping[str, Ranker]:
        """Return the rankers that it is made of, by the names that their parameters begin with: ``name__leaves``."""
        return {}

    def get_params(self, deep: bool = True) -> Keywords:
        """Return every parameter, and those of the rankers that it is made of as ``ranker__…``."""
        nested = self.nested().items() if deep else ()
        inner = {f"{name}__{key}": value for name, ranker in nested for key, value in ranker.get_params().items()}
        return super().get_params(deep=False) | inner

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters, its own or those of the rankers that it is made of: ``ranker__leaves=15``."""
        super().set_params(**{name: value for name, value in parameters.items() if "__" not in name})
        rankers, changes = self.nested(), dict[str, Keywords]()
        for name in parameters:
            of, _, key = name.partition("__")
            if key:
                inner = check.choice(f"ranker inside {type(self).__name__}", of, rankers)
                changes.setdefault(inner, {})[key] = parameters[name]
        for of, inner_changes in changes.items():
            rankers[of].set_params(**inner_changes)
        return self

    @property
    def feature_importances_(self) -> Array:
        """The share of each feature in the total gain of all splits, where everything that scores is made of trees."""
        check_fitted(self)
        if hasattr(self, "ranker_"):
            became: Array = self.ranker_.feature_importances_
            return became
        return np.asarray(np.mean([one.feature_importances_ for one in getattr(self, "members_", ())], axis=0))


class EnsembleRanker(MetaRanker):
    """A ranker that adds up trained members, each of which has scored the queries that it has not seen."""

    pools = True
    held_out_: HeldOut
    """Out-of-fold scores, and what they are worth; a checkpoint has none."""
    _forest: Any = None

    @property
    def ranker_(self) -> Any:
        """Where all members are trees of one library: the one ranker that they became."""
        if self._forest is None:  # so that hasattr is false
            raise AttributeError("only trees of one library become one ranker, once they are trained")
        return self._forest

    def _become_sum(self, model: Model, like: Any, settings: Keywords) -> None:
        """Score by this model; one forest is also a ranker ``like`` an untrained one, with these settings."""
        from rankwise.models.forests.query_forest import QueryForest

        self.model_, self._forest = model, None
        if isinstance(model, ForestModel | QueryForest):
            ranker = like.__sklearn_clone__()
            ranker.model_, ranker.settings_, ranker.trained_queries_ = model, settings, self.trained_queries_
            ranker.history_, ranker.best_round_, ranker.stopped_ = self.history_, self.best_round_, self.stopped_
            self._forest = ranker

    @property
    def oof_scores_(self) -> Array:
        """One score per document of the training and then the validation data, by models that never saw its query.

        Members are those of the rounds that were chosen on all queries: a metric of these scores is a little too good,
        and ``out_of_fold_`` is not.
        """
        return self.held_out_.scores

    @property
    def out_of_fold_(self) -> "Evaluation":
        """How good it is on new queries, by query and with intervals: an estimate without a validation set.

        No query is scored by a member that has seen it, nor after a number of rounds, or with weights, that were chosen
        on it. Members have seen fewer queries than there are, and those of a bag are not averaged here, so that it is a
        little too low.
        """
        return out_of_fold_of(self).evaluation()

    def saved(self) -> tuple[Json, dict[str, bytes]]:
        """Return the description and the files of the model, and out-of-fold scores."""
        description, files = super().saved()
        return description, files | (self.held_out_.files() if hasattr(self, "held_out_") else {})


def out_of_fold_of(ensemble: Any) -> HeldOut:
    """Return the out-of-fold scores of a trained bag or blend."""
    check_fitted(ensemble)
    if not hasattr(ensemble, "held_out_"):
        raise check.error("a checkpoint holds no out-of-fold scores", hint="resume its training")
    held_out: HeldOut = ensemble.held_out_
    return held_out


class DelegatingRanker(MetaRanker):
    """A ranker that training turns into another, ``ranker_``: it predicts with that, and saves it."""

    ranker_: Ranker

    @property
    def predicts_(self) -> "Event | None":
        """What the scores are probabilities of, where it became a calibrated ranker."""
        return getattr(self.ranker_, "predicts_", None)

    def _become(self, ranker: Ranker) -> None:
        """Be this trained ranker from now on."""
        self.ranker_, self.model_, self.trained_on_ = ranker, ranker.model_, ranker.trained_on_
        self.history_, self.best_round_, self.stopped_ = ranker.history_, ranker.best_round_, ranker.stopped_
        self.trained_queries_ = ranker.trained_queries_

    def description(self) -> Json:
        """Return that of ``ranker_``: what ``rw.load`` reads is that ranker, with the same scores, bit for bit."""
        return self.ranker_.description()

    def saved(self) -> tuple[Json, dict[str, bytes]]:
        """Return the description and the files of ``ranker_``."""
        return self.ranker_.saved()
