"""Self-attention among the documents of a query: what a document is worth beside the others of its list.

After Pobrotyn et al., "Context-aware learning to rank with self-attention", SIGIR eCom 2020, and Qin et al., "Are
neural rankers still outperformed by gradient boosted decision trees?", ICLR 2021. Documents have no positions: a list's
scores do not depend on its order, nor on the other lists of a batch.
"""

import torch
from torch import nn

from rankwise.rankers.nets.lists import buckets, on_device


class ListAttention(nn.Module):
    """Adds to every document what its ``heads`` find in the documents of its list, itself among them.

    Values are (documents, width), or (documents, members, width), in which every member looks at itself alone.

    >>> attention = ListAttention(8, heads=2, dropout=0.0)
    >>> attention(torch.ones(5, 8), torch.tensor([0, 2, 5])).shape
    torch.Size([5, 8])
    """

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """Look through the lists: query q has the documents ``offsets[q]`` to ``offsets[q + 1]``."""
        n_docs, width = values.shape[0], values.shape[-1]
        projected = self.project(self.norm(values)).reshape(n_docs, -1, 3 * width)
        found, (lists, places) = [], buckets(offsets)
        for bucket in lists:
            rows, inside = (on_device(one, values.device) for one in (bucket.rows, bucket.inside))
            found.append(self._look(projected[rows], None if bucket.full else inside).flatten(0, 1))
        seen = torch.cat(found)[on_device(places, values.device)].reshape(values.shape)
        return values + self.dropout(self.join(seen))  # type: ignore[no-any-return]

    def _look(self, projected: torch.Tensor, inside: torch.Tensor | None) -> torch.Tensor:
        """Attend within lists, (lists, length, members, 3 · width), of which some are padded or (None) none are."""
        n_lists, length, members, triple = projected.shape
        width = triple // 3
        apart = projected.reshape(n_lists, length, members, 3, self.heads, width // self.heads)
        query, key, value = apart.permute(3, 0, 2, 4, 1, 5).flatten(1, 2)  # (lists · members, heads, length, part)
        mask = None if inside is None else inside.repeat_interleave(members, dim=0)[:, None, None, :]
        found = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return found.reshape(n_lists, members, self.heads, length, -1).permute(0, 3, 1, 2, 4).flatten(3)
