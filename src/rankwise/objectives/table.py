"""The one table of objectives and wrappers, by the name that each has in expressions."""

import functools
from collections.abc import Callable

from rankwise import grammar, registry
from rankwise.objectives.adapted import Adapted, as_objective
from rankwise.objectives.base import Objective
from rankwise.objectives.distil.objectives import Distil, MarginMSE
from rankwise.objectives.pairwise.objectives import BPR, LambdaRank, Pairwise, RankNet
from rankwise.objectives.pairwise.yeti import Yeti
from rankwise.objectives.plackett_luce.objectives import ListMLE, PLRank
from rankwise.objectives.smooth.objectives import ApproxNDCG, SmoothAP, SmoothRBP
from rankwise.objectives.softmax.objectives import XENDCG, ListNet, SoftmaxCE
from rankwise.objectives.wrappers.bounded import bounded
from rankwise.objectives.wrappers.clickwise import clickwise
from rankwise.objectives.wrappers.fair import fair
from rankwise.objectives.wrappers.stochastic import stochastic
from rankwise.objectives.wrappers.weighted import weighted

ObjectiveLike = Objective | str | Callable[..., object]
"""An objective, its expression, or a function ``f(scores, labels, offsets)``."""
OBJECTIVES: dict[str, type[Objective]] = {
    cls.name: cls
    for cls in (
        ListNet,
        SoftmaxCE,
        XENDCG,
        PLRank,
        ApproxNDCG,
        SmoothAP,
        SmoothRBP,
        LambdaRank,
        RankNet,
        Yeti,
        Pairwise,
        BPR,
        ListMLE,
        Distil,
        MarginMSE,
    )
}
WRAPPERS: dict[str, type[Objective]] = {cls.name: cls for cls in (stochastic, bounded, weighted, clickwise, fair)}


def objective(expression: ObjectiveLike) -> Objective:
    """Return an objective: from its expression, from a function, or the objective itself.

    >>> objective("0.7*xendcg + 0.3*approx_ndcg(eta=5)")
    0.7*xendcg + 0.3*approx_ndcg(eta=5)
    >>> objective("0.5*3")
    Traceback (most recent call last):
    ValueError: * does not go between these in the objective expression: got '0.5*3' at character 4 of '0.5*3'. Hint:
    write numbers out: nothing is computed.
    """
    if not isinstance(expression, str):
        return as_objective(expression)
    return as_objective(grammar.parse(expression, makers(), "objective", otherwise=registry.HINT))


def makers() -> dict[str, Callable[..., Objective]]:
    """Return the constructor of each name: of our objectives, and of registered ones."""
    registered = {
        name: thing if isinstance(thing, type) else functools.partial(Adapted, thing)
        for name, thing in registry.of("objective").items()
    }
    return {**OBJECTIVES, **WRAPPERS, **registered}


def native(expression: ObjectiveLike) -> str | None:
    """Return the name of a library's own objective in ``"native:…"``; None for one of ours.

    >>> native("native:rank_xendcg"), native("xendcg")
    ('rank_xendcg', None)
    """
    is_native = isinstance(expression, str) and expression.startswith("native:")
    return str(expression).removeprefix("native:") if is_native else None
