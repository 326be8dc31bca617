"""A ranker of one's own: ridge regression on features that are normalised within queries. It works wherever ours do.

python examples/own_ranker.py
rankwise --import examples/own_ranker.py train train.txt --ranker "ridge(alpha=10)" -o model
"""

import tempfile

import numpy as np

import rankwise as rw


@rw.register("ridge")
class Ridge(rw.Ranker):
    """Ridge regression of labels, the means of their queries taken out, on features normalised within queries."""

    needs_lists = True  # a score depends on the other documents of the query
    search_space = {"alpha": "log(0.01, 1000, start=1)"}  # noqa: RUF012 (what rw.tune searches by default)

    def __init__(self, alpha=1.0):
        self.alpha = alpha

    def _fit(self, train, valid):
        features = within_queries(train.features, train.offsets)
        labels = within_queries(train.labels[:, None], train.offsets, scale=False)[:, 0]
        penalty = self.alpha * np.eye(train.n_features)
        self.weights_ = np.linalg.solve(features.T @ features + penalty, features.T @ labels)

    def _predict(self, features, offsets):
        return within_queries(features, offsets) @ self.weights_


def within_queries(columns, offsets, scale=True):
    """Take the mean of its query from every number, and divide by the standard deviation."""
    sizes = np.diff(offsets)[:, None]
    centred = columns - np.repeat(np.add.reduceat(columns, offsets[:-1]) / sizes, sizes[:, 0], axis=0)
    spread = np.sqrt(np.add.reduceat(centred**2, offsets[:-1]) / sizes)
    return centred / np.repeat(np.where(spread > 0, spread, 1.0), sizes[:, 0], axis=0) if scale else centred


if __name__ == "__main__":
    data = rw.synthetic(n_queries=120, n_features=10, n_docs=15, seed=1)
    train, valid, test = rw.split(data, (0.5, 0.25, 0.25), seed=0)
    tuned = rw.tune(train, valid, ranker="ridge", trials=5, progress=False)
    recipes = [Ridge(), "ridge(alpha=100)", "lightgbm(lambdarank, rounds=20, leaves=7)"]
    found = rw.AutoRanker(None, recipes=recipes, folds=3, threads=1, progress=False).fit(train, valid)
    systems = {
        "ridge": Ridge().fit(train),
        "tuned": tuned.ranker().fit(train),
        "a bag": rw.ranker("bagged(ridge(alpha=10), folds=3)").fit(train, valid),  # as bagged(Ridge(10), 3) prints
        f"auto: {found.leaderboard_.chosen.recipe}": found,
    }
    with tempfile.TemporaryDirectory() as folder:
        systems["a bag"].save(f"{folder}/bag")
        systems["read again"] = rw.load(f"{folder}/bag")
        methods = {"ridge": "ridge(alpha=10)", "bag": "bagged(ridge, folds=3)"}
        spec = rw.lab.Spec(name="mine", data=("synthetic(n_queries=60)",), methods=methods, trials=2)
        print(rw.lab.reproduce(spec, f"{folder}/results", jobs=1))
    print(rw.compare(systems, test, ["ndcg@10"]))
