"""Rankers made of rankers: nested parameters, and delegation to what training made of them.

A bag, a blend, a distillation and a search are rankers too. What they share is here, as in scikit-learn's
meta-estimators.
"""

from abc import abstractmethod
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rankwise import check
from rankwise.arrays import Array, Floats, Json, Keywords, Offsets
from rankwise.models.contributions import Contributions
from rankwise.models.schema import Documents
from rankwise.rankers.base import Ranker
from rankwise.rankers.ensembles.ensemble import Ensemble
from rankwise.rankers.ensembles.oof import HeldOut
from rankwise.rankers.trees.ranker import TreeRanker

if TYPE_CHECKING:
    from rankwise.models.scoring.scorer import Scorer
    from rankwise.statistics.evaluation import Evaluation
    from rankwise.statistics.reliability import Event


def kind_of(value: object) -> str:
    """Return what an argument is, for errors: a class, or an object of one."""
    return f"the class {value.__name__}" if isinstance(value, type) else type(value).__name__


class MetaRanker(Ranker):
    """A ranker made of rankers, which stay untrained: clones of them are trained."""

    def _nested(self) -> Mapping[str, Ranker]:
        """Return the rankers that it is made of, by the names that their parameters begin with: ``name__leaves``."""
        return {}

    @property
    @abstractmethod
    def _delegate(self) -> Ranker | Ensemble:
        """What scores documents once it is trained: a ranker, or several that score as one."""

    def get_params(self, deep: bool = True) -> Keywords:
        """Return every parameter, and those of the rankers that it is made of as ``ranker__…``."""
        nested = self._nested().items() if deep else ()
        inner = {f"{name}__{key}": value for name, ranker in nested for key, value in ranker.get_params().items()}
        return super().get_params(deep=False) | inner

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters, its own or those of the rankers that it is made of: ``ranker__leaves=15``."""
        super().set_params(**{name: value for name, value in parameters.items() if "__" not in name})
        rankers, changes = self._nested(), dict[str, Keywords]()
        for name in parameters:
            of, _, key = name.partition("__")
            if key:
                inner = check.choice(f"ranker inside {type(self).__name__}", of, rankers)
                changes.setdefault(inner, {})[key] = parameters[name]
        for of, inner_changes in changes.items():
            rankers[of].set_params(**inner_changes)
        return self

    @property
    def _least_code(self) -> float:  # type: ignore[override]
        return max((ranker._least_code for ranker in self._nested().values()), default=0.0)

    @property
    def feature_importances_(self) -> Array:
        """The share of each feature in the total gain of all splits, where everything that scores is made of trees."""
        self._check_fitted()
        return self._delegate.feature_importances_

    def contributions(self, data: Documents) -> Contributions:
        """Return what :meth:`explain` returns, with its method and what that left over."""
        self._check_fitted()
        return self._delegate.contributions(data)

    def scorer(self) -> "Scorer":
        """Return what scores one query's documents in the least time."""
        self._check_fitted()
        delegate = self._delegate
        return delegate.scorer() if isinstance(delegate, Ranker) else super().scorer()

    def _exponential_labels(self) -> Collection[str | None]:
        return set[str | None]().union(*(ranker._exponential_labels() for ranker in self._nested().values()))

    def _check_named(self) -> None:
        super()._check_named()
        for ranker in self._nested().values():
            ranker._check_named()

    @property
    def needs_lists(self) -> bool:
        """Whether a score depends on the other documents of its query."""
        return self.__sklearn_is_fitted__() and self._delegate.needs_lists

    def _score_lists(self, features: Floats, offsets: Offsets | None) -> Array:
        return self._delegate._score_lists(features, offsets)


class EnsembleRanker(MetaRanker):
    """A ranker that adds up trained members, each of which has scored the queries that it has not seen."""

    _ensemble = Ensemble()
    """The members added up."""
    _held_out: HeldOut
    """Out-of-fold scores; a checkpoint has none."""

    @property
    def _delegate(self) -> Ranker | Ensemble:
        return self._ensemble.delegate

    @property
    def ranker_(self) -> TreeRanker:
        """Where all members are trees of one library: the one ranker that they became."""
        return self._ensemble.ranker

    @property
    def oof_scores_(self) -> Array:
        """One score per document of the training and then the validation data, by models that never saw its query.

        Members are those of the rounds that were chosen on all queries: a metric of these scores is a little too good,
        and ``out_of_fold_`` is not.
        """
        return self._held_out.scores

    @property
    def out_of_fold_(self) -> "Evaluation":
        """How good it is on new queries, by query and with intervals: an estimate without a validation set.

        No query is scored by a member that has seen it, nor after a number of rounds, or with weights, that were chosen
        on it. Members have seen fewer queries than there are, and those of a bag are not averaged here, so that it is a
        little too low.
        """
        return self._out_of_fold().evaluation()

    def _out_of_fold(self) -> HeldOut:
        self._check_fitted()
        if not hasattr(self, "_held_out"):
            raise check.error("a checkpoint holds no out-of-fold scores", hint="resume its training")
        return self._held_out


class DelegatingRanker(MetaRanker):
    """A ranker that training turns into another, ``ranker_``: it predicts with that, and saves it."""

    ranker_: Any

    @property
    def _delegate(self) -> Ranker:
        ranker: Ranker = self.ranker_
        return ranker

    @property
    def _least_code(self) -> float:  # type: ignore[override]
        return self._delegate._least_code

    @property
    def predicts_(self) -> "Event | None":
        """What the scores are probabilities of, where it became a calibrated ranker."""
        return getattr(self.ranker_, "predicts_", None)

    def _become(self, ranker: Ranker) -> None:
        """Be this trained ranker from now on."""
        self.ranker_, self._schema, self.trained_on_ = ranker, ranker._schema, ranker.trained_on_
        self.history_, self.best_round_, self.stopped_ = ranker.history_, ranker.best_round_, ranker.stopped_
        self.trained_queries_ = ranker.trained_queries_

    def _save(self, path: str | Path, card: str, *, force: bool) -> Path:
        """Write ``ranker_``: what ``rw.load`` reads is that ranker, with the same scores, bit for bit."""
        return self._delegate._save(path, card, force=force)

    def _check_named(self) -> None:
        self._delegate._check_named()

    def _description(self) -> Json:
        return self._delegate._description()

    def _files(self) -> dict[str, bytes]:
        return self._delegate._files()
