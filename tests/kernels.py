"""Compile the kernels that most tests use: ``python -m tests.kernels``.

``make`` runs it on the core that the installation leaves idle, with the core's packages alone. Tests then load what
each of their processes would compile, often at the same time.
"""

import tempfile
from pathlib import Path

import numpy as np

import rankwise as rw
from rankwise.data.columns import column_of
from rankwise.metrics.table import METRICS
from rankwise.objectives.table import OBJECTIVES, WRAPPERS

OPTIONS = ("approx_ndcg(kernel=laplace)", "stochastic(xendcg)", "bounded(plrank)")


def around(name: str, inner: str) -> str:
    """The expression of a wrapper around an objective; ``on`` is given a label, too."""
    return f"{name}({'purchase, ' if name == 'on' else ''}{inner})"


def main() -> None:
    """Call them with a few lists."""
    plain = rw.synthetic(n_queries=8, n_features=3, n_docs=5, seed=1)
    scores, noise = plain.features[:, 0].astype(float), rw.Stream(1)
    model = rw.LightGBMRanker("xendcg", rounds=2, leaves=4, min_documents=2, threads=1).fit(plain)
    model.scorer()(plain)
    rw.evaluate(model, plain.with_(document_rewards=plain.labels, more_labels={"aspect": plain.labels}), METRICS)
    lists = plain.with_(groups=np.arange(plain.n_docs) % 2, teacher_scores=scores, init_scores=scores)
    lists = lists.with_(positions=np.arange(plain.n_docs) % 5 + 1, more_labels={"purchase": plain.labels})
    for text in (*OBJECTIVES, *(around(name, "approx_ndcg") for name in WRAPPERS), *OPTIONS):
        objective = rw.objective(text)
        columns = {name: column_of(lists, name) for name in objective.reads}
        objective(scores, lists.labels, lists.offsets, noise, **columns)
    with tempfile.TemporaryDirectory() as folder:
        rw.read_letor(rw.data.write_letor(plain, Path(folder) / "lists.txt"))
    rw.compare({"one": scores, "other": -scores}, plain)
    rw.diversify(scores, plain, similarity=plain.features)
    rw.diversify(scores, plain, aspects=np.eye(5)[np.arange(plain.n_docs) % 5])
    rw.objectives.sample_rankings(scores, plain.offsets, noise)
    rw.LinearRanker(l2=0.1, threads=1).fit(plain)
    pages = rw.text.Documents({"a": {"title": "sun", "text": "sun and rain"}, "b": {"title": "wind", "text": "rain"}})
    rw.text.dataset(pages, {"q": "rain"}, {"bm25": pages.search({"q": "rain"}, k=2)}, {"q": {"a": 1}})
    rw.recommend.ItemKNN().fit(rw.recommend.synthetic_ratings(8, 8, n_ratings=4, seed=1))


if __name__ == "__main__":
    main()
