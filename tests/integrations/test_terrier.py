"""Our rankers as the learned model of a pipeline of PyTerrier: real transformers, on frames and over a real index."""

import shutil

import numpy as np
import pytest

import rankwise as rw
from tests.integrations.pages import run_section

pytestmark = pytest.mark.integration("pyterrier")


def results(data):
    """Return the documents of a data set as a pipeline's feature union returns them, without labels."""
    import pandas as pd

    columns = {"qid": data.qids().astype(str), "docno": [f"d{row}" for row in range(data.n_docs)]}
    return pd.DataFrame(columns | {"query": "any", "features": list(data.features)})


def qrels(data):
    frame = results(data)[["qid", "docno"]]
    frame["label"] = data.labels.astype(int)
    return frame


def as_sorted_by_pyterrier(data):
    """Return the data set with queries in the order in which PyTerrier passes them to ``fit``."""
    frame = results(data).merge(qrels(data), on=["qid", "docno"]).sort_values("qid")
    sizes = frame.groupby("qid", sort=False).size().to_numpy()
    return rw.RankingDataset(np.stack(frame["features"]), frame["label"].to_numpy(), np.append(0, sizes.cumsum()))


RANKERS = {
    "lightgbm": lambda: rw.LightGBMRanker(rounds=30, patience=5, threads=1),
    "bagged": lambda: rw.bagged(rw.LightGBMRanker(rounds=5, threads=1), folds=2),
    "blended": lambda: rw.blended([rw.LightGBMRanker(rounds=5, threads=1), 0], folds=2),
    "auto": lambda: rw.AutoRanker(minutes=None, recipes=["lightgbm(xendcg, rounds=3)"], folds=2, threads=1),
}


@pytest.mark.parametrize("name", RANKERS)
def test_a_pipeline_trains_the_model_of_fit_bit_for_bit(name, data, valid):
    import pyterrier as pt

    stage = pt.ltr.apply_learned_model(RANKERS[name](), form="ltr")
    stage.fit(results(data), qrels(data), results(valid), qrels(valid))
    ranker = RANKERS[name]().fit(as_sorted_by_pyterrier(data), as_sorted_by_pyterrier(valid))
    assert stage.learner.history_ == ranker.history_
    ranked = stage(results(valid))
    np.testing.assert_array_equal(ranked["score"], ranker.predict(valid.features))
    best = ranked.sort_values(["qid", "rank"]).groupby("qid").head(1)
    assert (best["score"] == ranked.groupby("qid")["score"].max().to_numpy()).all()


def test_parts_of_a_pipeline_before_the_ranker(data, valid):
    import pyterrier as pt

    stage = pt.ltr.keep_features([0, 3]) >> pt.ltr.apply_learned_model(RANKERS["lightgbm"](), form="ltr")
    stage.fit(results(data), qrels(data), results(valid), qrels(valid))
    assert stage[-1].learner.n_features_in_ == 2
    scores = stage[-1].learner.predict(valid.features[:, [0, 3]])
    np.testing.assert_array_equal(stage(results(valid))["score"], scores)


def test_a_form_without_queries_is_rejected_with_the_form_that_has_them(data):
    import pyterrier as pt

    stage = pt.ltr.apply_learned_model(rw.LightGBMRanker(), form="regression")
    with pytest.raises(ValueError, match="either qid or group .*form='ltr'"):
        stage.fit(results(data), qrels(data))


WORDS = ("apple", "bread", "chair", "dance", "eagle", "fruit", "grape", "house", "island", "juice", "knife", "lemon")


def collection():
    """Return documents of ten random words, and those as relevant to a word that hold it twice or more."""
    rng = np.random.default_rng(0)
    texts = {f"d{number}": rng.choice(WORDS, 10).tolist() for number in range(150)}
    relevant = [(word, docno, 1) for word in WORDS for docno, text in texts.items() if text.count(word) > 1]
    return [{"docno": docno, "text": " ".join(text)} for docno, text in texts.items()], relevant


@pytest.mark.skipif(shutil.which("java") is None, reason="needs Java, in which Terrier is written")
def test_a_real_index_gives_the_features(tmp_path):
    import pandas as pd
    import pyterrier as pt

    try:
        pt.java.init()
    except Exception as missing:
        pytest.skip(f"Terrier's jar can neither be found nor downloaded: {missing}")
    documents, relevant = collection()
    index = pt.IterDictIndexer(str(tmp_path / "index")).index(documents)
    candidates = pt.terrier.Retriever(index, wmodel="BM25")
    features = candidates >> (pt.terrier.Retriever(index, wmodel="Tf") ** pt.ltr.score_to_feature())
    topics = pd.DataFrame({"qid": WORDS, "query": WORDS})
    qrels = pd.DataFrame(relevant, columns=["qid", "docno", "label"])
    pipeline = features >> pt.ltr.apply_learned_model(rw.LightGBMRanker(rounds=5, threads=1), form="ltr")
    pipeline.fit(topics[:8], qrels, topics[8:10], qrels)
    table = pt.Experiment([pipeline], topics[10:], qrels, ["ndcg_cut_10"])
    assert table["ndcg_cut_10"][0] == pytest.approx(1.0)  # the frequency of the word tells the relevant ones


def test_the_page_runs(capsys):
    run_section("PyTerrier")
    assert "ndcg_cut_10" in capsys.readouterr().out
