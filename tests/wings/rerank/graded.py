"""Lists of texts in which a word of a document says how relevant it is, whatever the query."""

import numpy as np

from rankwise.wings.rerank.data.lists import Lists
from tests.wings.rerank.tiny import WORDS

_OTHERS = [word for word in WORDS if word not in ("good", "great")]

_TOLD = ((), ("good", "good"), ("great", "great"))


def lists(n_queries: int = 24, seed: int = 0, longest: int = 9) -> Lists:
    """Ragged lists of three documents and more: "great" is of label 2, "good" of label 1."""
    draw = np.random.default_rng(seed)
    queries, documents, labels = [], [], []
    for _ in range(n_queries):
        queries.append(" ".join(draw.choice(_OTHERS, 3)))
        grades = [2, 0, *draw.integers(0, 3, draw.integers(1, longest - 1)).tolist()]
        texts = [[*draw.choice(_OTHERS, draw.integers(2, 9)), *_TOLD[grade]] for grade in grades]
        for text in texts:
            draw.shuffle(text)
        documents.append([" ".join(text) for text in texts])
        labels.append(grades)
    return Lists.from_lists(queries, documents, labels, query_ids=[f"q{number}" for number in range(n_queries)])
