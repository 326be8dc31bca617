"""How other libraries compute NDCG, as options that make ours agree with theirs."""

from rankwise import check
from rankwise.plain import Keywords

_CONVENTIONS: dict[str, Keywords] = {
    "lightgbm": {"gain": "exponential", "ties": "row", "empty": 1},
    "xgboost": {"gain": "exponential", "ties": "row", "empty": 1},
    "catboost": {"gain": "linear", "ties": "worst", "empty": 1},
    "sklearn": {"gain": "linear", "ties": "average", "empty": 0},
    # Ties go by document id, descending: judge puts tied rows in that order.
    "trec_eval": {"gain": "linear", "ties": "row", "empty": 0},
}


def conventions(library: str) -> Keywords:
    """Give the options with which ``ndcg`` computes what ``library`` does by default.

    ``library`` is lightgbm, xgboost, catboost, sklearn or trec_eval. trec_eval orders documents with equal scores by
    their id, descending; metrics see no ids, so the rows must be in that order, as :func:`rankwise.judge` puts them.

    >>> from rankwise.metrics import metric
    >>> metric("ndcg@10", **conventions("catboost"))
    ndcg(gain=linear, ties=worst, empty=1)@10
    """
    return dict(_CONVENTIONS[check.choice("library", library, _CONVENTIONS)])
