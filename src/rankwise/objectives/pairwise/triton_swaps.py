"""Changes of average precision and the reciprocal rank by a document that leaves its rank, and by one that comes."""

import torch
import triton.language as tl
from torch import Tensor

from rankwise.device.launching import list_bounds, triton_kernel
from rankwise.device.ragged import Ragged
from rankwise.objectives.pairwise.weights import AVERAGE_PRECISION, RECIPROCAL_RANK

BY_SWAPS = (AVERAGE_PRECISION, RECIPROCAL_RANK)
"""The weights of pairs that depend on which documents stand between the two."""
_PRECISION = tl.constexpr(AVERAGE_PRECISION)


@triton_kernel
def _swaps(offsets, gains, upper, lower, reaches, truncation, weight: tl.constexpr, block: tl.constexpr):
    """Fill what leaves and what comes, by rank, and up to which rank pairs count: ``weights.py``."""
    query = tl.program_id(0)
    first, size = list_bounds(offsets, query)
    lanes = tl.arange(0, block)
    if weight == _PRECISION:
        nothing = tl.sum(tl.zeros([block], gains.dtype.element_ty))
        count, hits, between = nothing, nothing, nothing
        for start in range(0, size, block):
            places = start + lanes
            count += tl.sum(tl.load(gains + first + places, mask=places < size, other=0.0))
        for start in range(0, size, block):
            places = start + lanes
            inside = places < size
            hit = tl.load(gains + first + places, mask=inside, other=0.0)
            rank = (places + 1).to(hit.dtype)
            c = hits + tl.cumsum(hit)
            passed = between + tl.cumsum(hit / rank)
            tl.store(upper + first + places, ((c + 1.0 - hit) / rank - passed) / count, mask=inside)
            tl.store(lower + first + places, ((c + hit) / rank - passed) / count, mask=inside)
            hits += tl.sum(hit)
            between += tl.sum(hit / rank)
        tl.store(reaches + query, tl.minimum(truncation, size))
    else:
        first_hit, second_hit = size, size
        for start in range(0, size, block):
            places = start + lanes
            hit = tl.load(gains + first + places, mask=places < size, other=0.0) > 0.0
            block_hit = tl.min(tl.where(hit, places, size))
            next_hit = tl.min(tl.where(hit & (places != block_hit), places, size))
            second_hit = tl.minimum(second_hit, tl.where(first_hit < size, block_hit, next_hit))
            first_hit = tl.minimum(first_hit, block_hit)
        # of the reciprocal rank: 0 if there is no such document
        for start in range(0, size, block):
            places = start + lanes
            inside = places < size
            hit = tl.load(gains + first + places, mask=inside, other=0.0)
            reciprocal = 1.0 / (places + 1).to(hit.dtype)
            best = 1.0 / (first_hit + 1).to(hit.dtype)
            second = tl.where(second_hit < size, 1.0 / (second_hit + 1).to(hit.dtype), 0.0)
            comes = tl.where(hit > 0.0, 0.0, tl.maximum(reciprocal, second))
            leaves = tl.where(places < first_hit, reciprocal - best, tl.where(places == first_hit, best, 0.0))
            tl.store(upper + first + places, leaves, mask=inside)
            tl.store(lower + first + places, comes, mask=inside)
        tl.store(reaches + query, tl.minimum(tl.minimum(truncation, size), first_hit + 1))


def swaps(lists: Ragged, gains: Tensor, weight: int, truncation: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return what leaves and what comes at each rank, and how many ranks of each list there are pairs with."""
    upper, lower = torch.empty_like(gains), torch.empty_like(gains)
    reaches = torch.empty(lists.n_queries, dtype=torch.int32, device=lists.device)
    _swaps[(lists.n_queries,)](lists.offsets, gains, upper, lower, reaches, truncation, weight, lists.block())
    return upper, lower, reaches
