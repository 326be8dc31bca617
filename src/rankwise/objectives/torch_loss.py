"""Objectives as losses of torch, for your own training loop."""

from typing import TYPE_CHECKING

from rankwise import check

if TYPE_CHECKING:
    from rankwise.objectives.table import ObjectiveLike
    from rankwise.objectives.torch import TorchLoss


def torch_loss(objective: "ObjectiveLike", reduction: str = "mean", seed: int = 0) -> "TorchLoss":
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
