"""The one table of objectives and wrappers: name, class, text."""

from collections.abc import Callable
from typing import Any

from rankwise import check, grammar
from rankwise.metrics.base import Metric
from rankwise.objectives.bounded import bounded
from rankwise.objectives.classic import ListMLE, RankNet
from rankwise.objectives.lambdarank import LambdaRank
from rankwise.objectives.plrank import PLRank
from rankwise.objectives.smooth import ApproxNDCG, SmoothAP, SmoothRBP
from rankwise.objectives.softmax import XENDCG, ListNet, SoftmaxCE
from rankwise.objectives.wrappers import stochastic, weighted

OBJECTIVES: dict[str, Callable[..., Any]] = {
    "listnet": ListNet,
    "softmax_ce": SoftmaxCE,
    "xendcg": XENDCG,
    "plrank": PLRank,
    "approx_ndcg": ApproxNDCG,
    "smooth_ap": SmoothAP,
    "smooth_rbp": SmoothRBP,
    "lambdarank": LambdaRank,
    "ranknet": RankNet,
    "listmle": ListMLE,
}
WRAPPERS: dict[str, Callable[..., Any]] = {"stochastic": stochastic, "bounded": bounded, "weighted": weighted}


def name_of(cls: type) -> str:
    """The text name of a class of objectives; its own name for one that users wrote."""
    for name, known in (OBJECTIVES | WRAPPERS).items():
        if known is cls:
            return name
    return cls.__name__


def objective(text: Any) -> Any:
    """Build an objective from its text, or give back one that is an object already.

    >>> objective("0.7*xendcg + 0.3*approx_ndcg(eta=5)")
    0.7*xendcg + 0.3*approx_ndcg(eta=5)
    >>> objective("0.5*3")
    Traceback (most recent call last):
    ValueError: * does not go between these in the objective expression: got '0.5*3' at character 4 of '0.5*3'. Cure:
    write numbers out: nothing is computed.
    """
    if isinstance(text, str):
        return grammar.parse(text, OBJECTIVES | WRAPPERS, "objective")
    if not callable(text) or isinstance(text, type | Metric):
        raise check.error(
            "an objective is an expression, an object of one of its classes, or a function",
            got=repr(text),
            cure="write 'xendcg', XENDCG(), or a function of scores, labels and offsets",
        )
    return text
