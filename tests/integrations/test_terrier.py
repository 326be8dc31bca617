"""PyTerrier's transformers around our rankers."""

import numpy as np
import pytest

import rankwise as rw

pytestmark = pytest.mark.integration("pyterrier")


def frame(data):
    """Return a data set as the frame that PyTerrier's feature unions return."""
    import pandas as pd

    return pd.DataFrame(
        {
            "qid": [str(qid) for qid in data.qids()],
            "docno": [f"d{row}" for row in range(data.n_docs)],
            "label": data.labels.astype(int),
            "features": list(data.features),
        }
    )


def test_a_trained_ranker_scores_the_frames_of_a_pipeline(data, valid):
    import pyterrier as pt

    ranker = rw.LightGBMRanker(rounds=5).fit(data)
    scored = pt.ltr.apply_learned_model(ranker, form="ltr")(frame(valid))
    assert np.array_equal(scored["score"], ranker.predict(valid))
