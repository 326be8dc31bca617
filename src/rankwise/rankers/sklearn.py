"""The interface of scikit-learn: parameters, clones, routing. It is imported inside methods that it calls itself."""

import copy
import inspect
import sys
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rankwise import check
from rankwise.arrays import Array, Column, Keywords
from rankwise.rankers import argument_names

if TYPE_CHECKING:
    from rankwise.models.schema import Schema

_ROUTED = {"fit": ("qid", "group", "sample_weight"), "score": ("qid", "group", "sample_weight")}


class Estimator:
    """What ``clone``, ``cross_val_score``, ``GridSearchCV`` and pipelines ask of an estimator.

    With ``sklearn.set_config(enable_metadata_routing=True)``, ``qid`` travels to ``fit`` and ``score`` without being
    asked for, since a ranker is nothing without it:
    ``cross_val_score(ranker, X, y, cv=GroupKFold(), params={"qid": qid, "groups": qid})``.
    """

    native: Keywords
    _schema: "Schema"
    """The columns that it was trained on."""
    _metadata_request: Any

    @property
    def feature_names_in_(self) -> Column:
        """The names of the features, where training data had them."""
        names = self._schema.names if self.__sklearn_is_fitted__() else None
        if names is None:
            raise AttributeError(f"this {type(self).__name__} was trained on features without names, or not at all")
        return np.array(names, dtype=object)

    @property
    def feature_importances_(self) -> Array:
        """The share of each feature in what was learned, of rankers that know it: trees, and what is made of them."""
        raise AttributeError(
            f"{type(self).__name__} has no feature_importances_, which are shares in the gain of splits. Hint: "
            "abs(ranker.explain(data))[:, :-1].mean(axis=0) says how much each feature moves scores."
        )

    @classmethod
    def own_parameters(cls) -> Keywords:
        """The names of the ranker's own parameters, with their defaults."""
        arguments = inspect.signature(cls).parameters.values()
        return {argument.name: argument.default for argument in arguments if argument.kind is not argument.VAR_KEYWORD}

    def get_params(self, deep: bool = True) -> Keywords:
        """Return every parameter, those of the library among them."""
        return {name: getattr(self, name) for name in self.own_parameters()} | getattr(self, "native", {})

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
            if ours := argument_names.parameter(name, parameters):
                raise check.error(f"{name!r} has another name here", hint=f"`set {ours}=`")
            hint = argument_names.of_fit(name) or argument_names.of_trees(name)
            hint = hint or check.suggestion(name, parameters).rstrip("?")
            raise check.error(f"{type(self).__name__} has no such parameter", got=repr(name), hint=hint)

    def _reject(self, method: str, unknown: Keywords) -> None:
        """Raise an error about arguments that a method does not have, with what they are called here."""
        has = inspect.signature(getattr(type(self), method)).parameters
        argument_names.reject(
            method, unknown, [name for name in has if name not in ("self", "others")], self.own_parameters()
        )

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise check.error(f"this {type(self).__name__} is not trained yet", hint="call fit, or rw.load a model")

    def set_fit_request(self, **requests: bool | str | None) -> Self:
        """Set which columns scikit-learn routes to ``fit``: ``qid=True``."""
        return self._request("fit", requests)

    def set_score_request(self, **requests: bool | str | None) -> Self:
        """Set which columns scikit-learn routes to ``score``: ``qid=True``."""
        return self._request("score", requests)

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

    def _request(self, method: str, requests: dict[str, bool | str | None]) -> Self:
        request = self.get_metadata_routing()
        for name, alias in requests.items():
            check.choice(f"column for {method}", name, _ROUTED[method])
            getattr(request, method).add_request(param=name, alias=alias)
        self._metadata_request = request
        return self

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags

        _check_score_gets_queries()
        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=True),
            input_tags=InputTags(allow_nan=True, sparse=True),
            requires_fit=True,
            non_deterministic=False,
        )

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_schema")

    def __sklearn_clone__(self) -> Self:
        parameters = self.get_params(deep=False)
        cloned = type(self)(**{name: self._cloned(name, value) for name, value in parameters.items()})
        if hasattr(self, "_metadata_request"):
            cloned._metadata_request = copy.deepcopy(self._metadata_request)
        return cloned

    def _cloned(self, name: str, value: Any) -> Any:
        """Return a parameter of a clone: rankers are cloned, also those in a list."""
        if isinstance(value, list | tuple) and any(isinstance(one, Estimator) for one in value):
            return [self._cloned(name, one) for one in value]
        return value.__sklearn_clone__() if isinstance(value, Estimator) else copy.deepcopy(value)


def _check_score_gets_queries() -> None:
    """Raise if a tool of scikit-learn is about to train with query ids that it will not pass to ``score``.

    Such a tool makes nan of what ``score`` raises, and some of what ``fit`` raises, but not of what tags raise, which
    it reads before each fit; pipelines let a RuntimeError pass, as scikit-learn raises where routing is off.
    """
    tools = sys.modules.get("sklearn.model_selection._validation")
    code = getattr(getattr(tools, "_fit_and_score", None), "__code__", None)
    frame = None if code is None else sys._getframe()
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    if frame is None:
        return
    fit, score, scorer = (frame.f_locals.get(name) for name in ("fit_params", "score_params", "scorer"))
    scorers = getattr(scorer, "_scorers", {"score": scorer}).values()
    own_score = any(type(each).__name__ == "_PassthroughScorer" for each in scorers)  # not a scoring= of the user's
    has_queries = any(name.rpartition("__")[2] == "qid" for name in fit or ())  # of the ranker or a pipeline's step
    if own_score and has_queries and not set(score or ()) - {"sample_weight"}:
        import sklearn

        enabled = sklearn.get_config()["enable_metadata_routing"]
        line = "ranker.set_score_request(qid=True)" if enabled else "sklearn.set_config(enable_metadata_routing=True)"
        raise RuntimeError(
            "scikit-learn would pass qid to fit but not to score, and every score would be nan. Hint: call "
            f"{line} first, and pass qid and groups together: search.fit(X, y, qid=qid, groups=qid), "
            'params={"qid": qid, "groups": qid} of cross_validate; or set scoring=, a function of (ranker, X, y).'
        )
