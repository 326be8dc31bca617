"""How the pairs of a step are cut into mini-batches: by tokens or by count, the longest first."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankwise import check

TOKEN_BUDGET = 16_384
"""Tokens of a mini-batch, padding included, where nothing is set: 128 pairs of 128 tokens."""


@dataclass(frozen=True)
class Batching:
    """The size of a mini-batch: a budget of tokens, padding included, or a number of pairs; one or the other.

    The size decides memory and speed, never the loss. A budget uses a device evenly whatever the lengths of texts; a
    number of pairs is for models whose tokens cannot be counted.

    >>> [rows.tolist() for rows in Batching(token_budget=20).cut(np.array([3, 9, 2, 10]))]
    [[3, 1], [0, 2]]
    """

    token_budget: int | None = None
    mini_batch_size: int | None = None

    def __post_init__(self) -> None:
        if self.token_budget is not None and self.mini_batch_size is not None:
            raise check.error(
                "a mini-batch has one size",
                got=f"token_budget={self.token_budget} and mini_batch_size={self.mini_batch_size}",
                hint="set token_budget= (tokens) or mini_batch_size= (pairs)",
            )
        if self.mini_batch_size is not None:
            check.integer("mini_batch_size", self.mini_batch_size, least=1)
        elif self.token_budget is not None:
            check.integer("token_budget", self.token_budget, least=1)
        else:
            object.__setattr__(self, "token_budget", TOKEN_BUDGET)

    def cut(self, lengths: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Give the rows of each mini-batch; ``lengths`` are the tokens of each pair.

        Pairs of like length stand together, since the longest decides how far the others are padded. The longest come
        first: what does not fit into memory fails at once, and what is freed is large enough for all that follows.
        """
        order = np.argsort(-lengths, kind="stable")
        batches, first = [], 0
        while first < order.size:
            longest = max(int(lengths[order[first]]), 1)
            count = self.mini_batch_size or max((self.token_budget or TOKEN_BUDGET) // longest, 1)
            batches.append(order[first : first + count])
            first += count
        return batches
