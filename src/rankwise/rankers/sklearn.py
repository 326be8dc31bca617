"""The face that scikit-learn sees. It is imported only inside methods that scikit-learn, or its users, call."""

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rankwise.arrays import Array, Column

if TYPE_CHECKING:
    from rankwise.rankers.schema import Schema

_ROUTED = {"fit": ("qid", "group", "sample_weight"), "score": ("qid", "group", "sample_weight")}


class Estimator:
    """What ``clone``, ``cross_val_score``, ``GridSearchCV`` and pipelines ask of an estimator.

    With ``sklearn.set_config(enable_metadata_routing=True)``, ``qid`` travels to ``fit`` and ``score`` without being
    asked for, since a ranker is nothing without it:
    ``cross_val_score(ranker, X, y, cv=GroupKFold(), params={"qid": qid, "groups": qid})``.
    """

    _schema: "Schema"
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

    def set_fit_request(self, **requests: bool | str | None) -> Self:
        """Say which columns scikit-learn routes to ``fit``: ``qid=True``."""
        return self._request("fit", requests)

    def set_score_request(self, **requests: bool | str | None) -> Self:
        """Say which columns scikit-learn routes to ``score``: ``qid=True``."""
        return self._request("score", requests)

    def get_metadata_routing(self) -> Any:
        """Tell scikit-learn which columns to route."""
        from sklearn.utils.metadata_routing import MetadataRequest

        if not hasattr(self, "_metadata_request"):
            request = MetadataRequest(owner=self)
            for method, names in _ROUTED.items():
                for name in names:
                    getattr(request, method).add_request(param=name, alias=True if name == "qid" else None)
            return request
        return self._metadata_request

    def _request(self, method: str, requests: dict[str, bool | str | None]) -> Self:
        from rankwise import check

        request = self.get_metadata_routing()
        for name, alias in requests.items():
            check.choice(f"column for {method}", name, _ROUTED[method])
            getattr(request, method).add_request(param=name, alias=alias)
        self._metadata_request = request
        return self

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
        return hasattr(self, "_schema")

    def __sklearn_clone__(self) -> Self:
        import copy

        given: dict[str, Any] = self.get_params(deep=False)  # type: ignore[attr-defined]
        parameters = {
            name: value.__sklearn_clone__() if isinstance(value, Estimator) else copy.deepcopy(value)
            for name, value in given.items()
        }
        cloned = type(self)(**parameters)
        if hasattr(self, "_metadata_request"):
            cloned._metadata_request = copy.deepcopy(self._metadata_request)
        return cloned
