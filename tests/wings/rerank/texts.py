"""Ragged lists of words of the tiny model's vocabulary, and what is compared of two trained models."""

import numpy as np
import torch

from rankwise.base.arrays import offsets_of
from tests.wings.rerank import tiny


class RandomLists:
    """Queries, documents and graded labels; ``sizes`` documents each, of 1 to ``longest`` words."""

    def __init__(self, sizes=(3, 1, 7, 12, 5), longest=20, seed=0):
        random = np.random.default_rng(seed)

        def text():
            return " ".join(random.choice(tiny.WORDS, random.integers(1, longest + 1)))

        self.queries = [text() for _ in sizes]
        self.documents = [[text() for _ in range(size)] for size in sizes]
        self.labels = [torch.tensor(random.integers(0, 4, size)) for size in sizes]
        self.offsets = offsets_of(sizes)

    @property
    def inputs(self):
        return [self.queries, self.documents]

    @property
    def flat_labels(self):
        return torch.cat(self.labels)

    @property
    def pairs(self):
        return [(query, document) for query, some in zip(*self.inputs, strict=True) for document in some]

    def take(self, numbers):
        part = RandomLists(())
        part.queries = [self.queries[number] for number in numbers]
        part.documents = [self.documents[number] for number in numbers]
        part.labels = [self.labels[number] for number in numbers]
        part.offsets = offsets_of([len(some) for some in part.documents])
        return part


def gradients(model):
    """A copy of the gradient of every parameter in one row."""
    return torch.cat([p.grad.flatten() if p.grad is not None else torch.zeros(p.numel()) for p in model.parameters()])
