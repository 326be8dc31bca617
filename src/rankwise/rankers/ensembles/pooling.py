"""The queries that rankers made of rankers learn from: those of the training and of the validation data alike."""

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.data.concatenation import concatenate
from rankwise.data.dataset import RankingDataset
from rankwise.rankers import inputs
from rankwise.rankers.schema import Documents


def pooled(
    data: Documents,
    labels: ArrayLike | RankingDataset | None,
    *,
    valid: inputs.Validation,
    qid: ArrayLike | None,
    group: ArrayLike | None,
    sample_weight: ArrayLike | None,
) -> RankingDataset:
    """Give all queries that ``fit`` is passed, those of the training data first.

    >>> import rankwise as rw
    >>> train, valid = rw.split(rw.synthetic(n_queries=5, n_docs=5, seed=1), (0.6, 0.4), seed=0)
    >>> pooled(train, valid, valid=None, qid=None, group=None, sample_weight=None).n_queries
    5
    """
    train, held_out = inputs.parts(
        data, labels, valid=valid, qid=qid, group=group, sample_weight=sample_weight, extend=True
    )
    if held_out is None:
        return train
    if train.query_ids is not None and held_out.query_ids is not None:
        common = np.intersect1d(train.query_ids, held_out.query_ids)
        if common.size:
            what = "a bag pools training and validation queries, and these have ids in common"
            hint = "leave queries of the training data out of valid, or give its queries ids of their own"
            raise check.error(what, got=f"{common[0]!s} in both", hint=hint)
    return concatenate([train, held_out])
