"""The interface of scikit-learn: parameters, clones, routing. It is imported inside methods that it calls itself."""

import copy
import inspect
from collections.abc import Collection
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Column, Keywords
from rankwise.check.parameters import declared
from rankwise.models.model import no_shares
from rankwise.rankers import migration_hints

_Ranker = TypeVar("_Ranker", bound="Estimator")
_ROUTED = {"fit": ("qid", "group", "sample_weight"), "score": ("qid", "group", "sample_weight")}


class Estimator:
    """What ``clone``, ``cross_val_score``, ``GridSearchCV`` and pipelines ask of an estimator.

    With ``sklearn.set_config(enable_metadata_routing=True)``, ``qid`` travels to ``fit`` and ``score`` without being
    asked for, since a ranker is nothing without it:
    ``cross_val_score(ranker, X, y, cv=GroupKFold(), params={"qid": qid, "groups": qid})``.
    """

    has_importances: ClassVar[bool] = False
    """Whether every trained one has ``feature_importances_``, or says what of it has none."""
    native: Any = MappingProxyType({})
    """Parameters of a library by their own names."""
    model_: Any
    _metadata_request: Any

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A parameter, which the constructor assigned."""

    @property
    def feature_names_in_(self) -> Column:
        """The names of the features, where training data had them."""
        names = self.model_.schema.names if self.__sklearn_is_fitted__() else None
        if names is None:
            raise AttributeError(f"this {type(self).__name__} was trained on features without names, or not at all")
        return np.array(names, dtype=object)

    @property
    def feature_importances_(self) -> Array:
        """The share of each feature in the total gain of all splits, of trees and what is made of trees alone."""
        if self.has_importances:
            check_fitted(self)
        try:
            shares: Array = self.model_.shares()
        except AttributeError:
            raise no_shares(type(self).__name__) from None
        return shares

    @classmethod
    def own_parameters(cls) -> Keywords:
        """The names of the ranker's own parameters, with their defaults."""
        return {name: one.default for name, one in declared(cls).items()}

    def get_params(self, deep: bool = True) -> Keywords:
        """Return every parameter, those of the library among them."""
        return {name: getattr(self, name) for name in self.own_parameters()} | dict(self.native)

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; those of the library by their own names."""
        own_parameters = self.own_parameters()
        self._check_native({name: value for name, value in parameters.items() if name not in own_parameters})
        for name, value in parameters.items():
            if name in own_parameters:
                setattr(self, name, value)
            else:
                self.native[name] = value
        return self

    def _check_native(self, native: Keywords) -> None:
        parameters = list(self.own_parameters())
        for name in native:
            if ours := migration_hints.parameter(name, parameters):
                raise check.error(f"{name!r} has another name here", hint=f"`set {ours}=`")
            hint = migration_hints.of_fit(name) or migration_hints.of_trees(name)
            hint = hint or check.suggestion(name, parameters)
            raise check.error(f"{type(self).__name__} has no such parameter", got=repr(name), hint=hint)

    def set_fit_request(self, **requests: bool | str | None) -> Self:
        """Set which columns scikit-learn routes to ``fit``: ``qid=True``."""
        return _request(self, "fit", requests)

    def set_score_request(self, **requests: bool | str | None) -> Self:
        """Set which columns scikit-learn routes to ``score``: ``qid=True``."""
        return _request(self, "score", requests)

    def get_metadata_routing(self) -> Any:
        """Return which columns scikit-learn routes."""
        from sklearn.utils.metadata_routing import MetadataRequest

        if not hasattr(self, "_metadata_request"):
            request = MetadataRequest(owner=self)
            for method, names in _ROUTED.items():
                for name in names:
                    getattr(request, method).add_request(param=name, alias=True if name == "qid" else None)
            return request
        return self._metadata_request

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True),
            input_tags=InputTags(allow_nan=True, sparse=True),
            requires_fit=True,
            non_deterministic=False,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_clone__(self) -> Self:
        parameters = self.get_params(deep=False)
        cloned = type(self)(**{name: clone(value) for name, value in parameters.items()})
        if hasattr(self, "_metadata_request"):
            cloned._metadata_request = copy.deepcopy(self._metadata_request)
        return cloned


def clone(value: Any) -> Any:
    """Return a parameter of a clone: rankers are cloned, also those in a list."""
    if isinstance(value, list | tuple) and any(isinstance(one, Estimator) for one in value):
        return [clone(one) for one in value]
    return value.__sklearn_clone__() if isinstance(value, Estimator) else copy.deepcopy(value)


def check_fitted(ranker: Any) -> None:
    """Raise if a ranker is not trained."""
    if not ranker.__sklearn_is_fitted__():
        raise check.error(f"this {type(ranker).__name__} is not trained yet", hint="call fit, or rw.load a model")


def reject(ranker: Any, method: str, unknown: Keywords, without: Collection[str] = ()) -> None:
    """Raise an error about arguments that a method does not have, with what they are called here.

    Those in ``without`` are of other rankers.
    """
    for name in unknown:
        has = inspect.signature(getattr(type(ranker), method)).parameters
        names = [name for name in has if name not in ("self", "others", *without)]
        hint = migration_hints.of_argument(method, name, ranker.own_parameters())
        raise check.unexpected(method, name, hint or check.suggestion(name, names))


def _request(ranker: _Ranker, method: str, requests: dict[str, bool | str | None]) -> _Ranker:
    request = ranker.get_metadata_routing()
    for name, alias in requests.items():
        check.choice(f"column for {method}", name, _ROUTED[method])
        getattr(request, method).add_request(param=name, alias=alias)
    ranker._metadata_request = request
    return ranker
