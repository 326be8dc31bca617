"""How other libraries compute metrics, as options that make ours agree with theirs."""

from dataclasses import fields

from rankwise import check
from rankwise.metrics.base import RankMetric
from rankwise.metrics.dcg import NDCG
from rankwise.plain import Keywords

OWN, TREC_EVAL = "rankwise", "trec_eval"
_EVERY = ""
_CONVENTIONS: dict[str, dict[str, Keywords]] = {
    # Of each library: the options of every metric that has them, then what is different for some metrics.
    OWN: {},
    "lightgbm": {_EVERY: {"gain": "exponential", "ties": "row", "empty": 1}, "ap": {"divide": "cutoff"}},
    "xgboost": {
        _EVERY: {"gain": "exponential", "ties": "row", "empty": 1},
        "ap": {"divide": "cutoff"},
        "precision": {"empty": 0, "divide": "retrieved"},
    },
    "catboost": {
        _EVERY: {"gain": "linear", "ties": "worst", "empty": 1},
        "ap": {"empty": 0, "divide": "cutoff"},
        "dcg": {"empty": 0},
        "precision": {"empty": 0, "divide": "retrieved"},
        "rr": {"empty": 0},
    },
    "sklearn": {_EVERY: {"gain": "linear", "ties": "average", "empty": 0}},
    # Ties go by document id, descending: judge puts tied rows in that order.
    TREC_EVAL: {_EVERY: {"gain": "linear", "ties": "row", "empty": 0}},
}


def conventions(library: str) -> Keywords:
    """Give the options with which ``ndcg`` computes what ``library`` does by default.

    ``library`` is lightgbm, xgboost, catboost, sklearn or trec_eval, or rankwise, which changes nothing. For other
    metrics ``rw.metric("ap@10", conventions=library)`` takes those of the options that the metric has. trec_eval orders
    documents with equal scores by their id, descending; metrics see no ids, so the rows must be in that order, as
    :func:`rankwise.judge` puts them.

    >>> from rankwise.metrics import metric
    >>> metric("ndcg@10", **conventions("catboost"))
    ndcg(gain=linear, ties=worst, empty=1)@10
    """
    return options_of(library, NDCG)


def options_of(library: str, kind: type[RankMetric]) -> Keywords:
    """Give the options that a convention sets of this kind of metric; options that it does not have are left out.

    >>> from rankwise.metrics import AP
    >>> options_of("lightgbm", AP)
    {'ties': 'row', 'empty': 1, 'divide': 'cutoff'}
    """
    known = _CONVENTIONS[check.choice("library", library, _CONVENTIONS)]
    options = known.get(_EVERY, {}) | known.get(kind.name, {})
    open_here = {field.name for field in fields(kind)} - ({"empty"} if kind.of_every_query else set())
    return {name: value for name, value in options.items() if name in open_here}
