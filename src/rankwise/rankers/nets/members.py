"""Many nets for little more than the weights of one: members that share matrices and differ by vectors.

Gorishniy, Kotelnikov and Babenko, "TabM: advancing tabular deep learning with parameter-efficient ensembling", ICLR
2025 (arXiv 2410.24210), after BatchEnsemble (Wen, Tran and Ba, ICLR 2020). Values are (documents, members, width).
"""

import math

import torch
from torch import nn


class MemberLinear(nn.Module):
    """A linear layer of every member: that of member i has the matrix diag(after_i) · weight · diag(before_i).

    As in TabM all members start alike but for the signs of the ``first`` layer's inputs, which are drawn.

    >>> MemberLinear(3, 5, members=4, first=True)(torch.zeros(7, 3)).shape
    torch.Size([7, 4, 5])
    """

    def __init__(self, width: int, size: int, members: int, *, first: bool = False) -> None:
        super().__init__()
        self.first = first
        plain = nn.Linear(width, size)
        self.weight = plain.weight
        signs = torch.randint(0, 2, (members, width)) * 2.0 - 1.0
        self.before = nn.Parameter(signs if first else torch.ones(members, width))
        self.after = nn.Parameter(torch.ones(members, size))
        self.bias = nn.Parameter(plain.bias.detach().repeat(members, 1))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Apply each member's layer; what comes into the first is the same for all, and has no axis of members."""
        values = values[:, None] if self.first else values
        return nn.functional.linear(values * self.before, self.weight) * self.after + self.bias


class MemberHeads(nn.Module):
    """The last layer: a vector of each member's own, and one score from each; no bias, as in other nets."""

    def __init__(self, width: int, members: int) -> None:
        super().__init__()
        bound = 1 / math.sqrt(width)
        self.weight = nn.Parameter(torch.empty(members, width).uniform_(-bound, bound))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Give (documents, members) scores."""
        return (values * self.weight).sum(-1)
