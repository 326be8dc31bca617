"""The one table of objectives and wrappers, by name; objectives from expressions, and as losses of torch."""

import functools
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from rankwise import check
from rankwise.base import hooks
from rankwise.language import grammar, registry
from rankwise.objectives.base import Objective
from rankwise.objectives.distil.objectives import Distil, MarginMSE
from rankwise.objectives.function_objective import Adapted, as_objective
from rankwise.objectives.pairwise.objectives import BPR, LambdaRank, Pairwise, RankNet
from rankwise.objectives.pairwise.yeti import Yeti
from rankwise.objectives.plackett_luce.objectives import ListMLE, PLRank
from rankwise.objectives.smooth.objectives import ApproxNDCG, SmoothAP, SmoothRBP
from rankwise.objectives.softmax.objectives import XENDCG, Calibrated, ListNet, SoftmaxCE
from rankwise.objectives.wrappers.goal import on
from rankwise.objectives.wrappers.stochastic import stochastic
from rankwise.objectives.wrappers.weighted import weighted

if TYPE_CHECKING:
    from rankwise.objectives.torch import TorchLoss

ObjectiveLike = Objective | str | Callable[..., object]
"""An objective, its expression, or a function ``f(scores, labels, offsets)``."""
OBJECTIVES: dict[str, type[Objective]] = {
    cls.name: cls
    for cls in (
        *(ListNet, SoftmaxCE, XENDCG, PLRank, ApproxNDCG, SmoothAP, SmoothRBP, LambdaRank, RankNet, Yeti, Pairwise),
        *(BPR, ListMLE, Calibrated, Distil, MarginMSE),
    )
}
WRAPPERS: Mapping[str, type[Objective]] = hooks.ByName("wrapper", {cls.name: cls for cls in (stochastic, weighted, on)})
"""Those of wings, too."""


def objective(expression: ObjectiveLike) -> Objective:
    """Return an objective: from its expression, from a function, or the objective itself.

    >>> objective("0.7*xendcg + 0.3*approx_ndcg(eta=5)")
    0.7*xendcg + 0.3*approx_ndcg(eta=5)
    >>> objective("0.5*3")
    Traceback (most recent call last):
    rankwise.errors.InputError: * does not go between these in the objective expression: got '0.5*3' at character 4 of
    '0.5*3'. Hint: write numbers out: nothing is computed.
    """
    if not isinstance(expression, str):
        return as_objective(expression)
    if expression in OBJECTIVES:  # a plain name needs no grammar
        return OBJECTIVES[expression]()
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


def torch_loss(objective: ObjectiveLike, reduction: str = "mean", seed: int = 0) -> "TorchLoss":
    """Return an objective, or its expression, as a loss of torch: a module that is called with flat, ragged tensors.

    ``loss(scores, labels, offsets, weights=None, stream=None)`` takes the scores of all documents in one row;
    ``offsets`` says where each query starts, so nothing is padded. ``loss.padded(scores, labels, mask)`` is for data
    that is padded already. ``reduction`` is ``"mean"`` (Σ weight · loss / Σ weight), ``"sum"`` or ``"none"``: one value
    per query.

    Objectives that draw random numbers (``"xendcg"``, ``stochastic``) draw anew at each step: ``seed`` and a counter of
    steps, which ``state_dict`` saves, make the numbers of the queries of a batch by their place in it. With ``stream=``
    they depend on query ids instead, whatever the batches (see docs/randomness.md).

    >>> import torch
    >>> scores = torch.tensor([0.0, 0.0, 1.0, 2.0, 3.0], requires_grad=True)
    >>> loss = torch_loss("softmax_ce")(scores, labels=[1, 0, 0, 0, 1], offsets=[0, 2, 5])
    >>> loss.backward()
    >>> round(loss.item(), 4)  # the mean of log 2 and log(1 + 1/e + 1/e²)
    0.5504
    >>> scores.grad[:2]  # 1/2 minus 1 and 1/2 minus 0, half of each as there are two queries
    tensor([-0.2500,  0.2500])
    """
    check.optional("torch", "torch")
    from rankwise.objectives.torch import TorchLoss

    return TorchLoss(objective, reduction, seed)
