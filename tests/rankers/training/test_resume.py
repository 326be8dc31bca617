"""The digest of data, by which work that is kept is recognised."""

import rankwise as rw
from rankwise.data.io.disk import mapped
from rankwise.rankers.training.resume import fingerprint


def test_data_are_hashed_once(monkeypatch):
    """A search trains many bags on the same data, each with the same queries for training and for validation."""
    hashed, blocks = [], mapped.blocks

    def counted(part):
        hashed.append(part.shape)
        return blocks(part)

    monkeypatch.setattr(mapped, "blocks", counted)
    data = rw.synthetic(n_queries=30, n_docs=5, n_features=4, seed=1)
    recipes = [rw.LightGBMRanker(loss, rounds=4, leaves=3, min_documents=2) for loss in ("xendcg", "lambdarank")]
    rw.AutoRanker(None, recipes=recipes, folds=2, threads=1, progress=False).fit(data)
    assert hashed.count(data.features.shape) == 1
    assert fingerprint(data.with_(labels=data.labels + 1)) != fingerprint(data) == fingerprint(data.with_())
