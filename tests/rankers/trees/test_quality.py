"""Our objectives rank as well as LightGBM's own: the short form of what benchmarks/quality/objectives.py measures.

Here training ends after 25 rounds without a better NDCG@5 instead of 60, at 150 rounds instead of 600. Folds, seeds,
learning rate and leaves are the same, and so is what counts in the verdict: paired by query, over all five folds of
MQ2008, the 95% interval of the mean difference lies above −0.01. Fewer seeds would leave that to luck: one seed's mean
moves by ±0.005.
"""

import functools

import numpy as np
import pytest

import rankwise as rw
from tests import shared, tiers

METRICS = ("ndcg@5", "ndcg@10")
FOLDS, SEEDS = 5, 5


def order_of_documents(data: rw.RankingDataset, seed: int) -> rw.RankingDataset:
    """LambdaRank draws nothing; another order of documents breaks ties in another way, and is what a seed changes."""
    draws = np.random.default_rng(seed).random(data.n_docs)
    order = np.lexsort((draws, np.repeat(np.arange(data.n_queries), data.sizes)))
    return rw.RankingDataset(data.features[order], data.labels[order], data.offsets, query_ids=data.query_ids)


@functools.cache
def values(objective: str) -> rw.Evaluation:
    """NDCG of every test query of the five folds, averaged over seeds."""
    folder = shared.data("mq2008")
    queries: list[int] = []
    columns: dict[str, list[np.ndarray]] = {name: [] for name in METRICS}
    for fold in range(1, FOLDS + 1):
        train, valid, test = rw.load_dataset("mq2008", fold=fold, folder=folder, cache=False)
        evaluations = [
            rw.evaluate(
                rw.LightGBMRanker(
                    objective,
                    rounds=150,
                    learning_rate=0.05,
                    leaves=15,
                    min_documents=20,
                    patience=25,
                    metrics=METRICS[0],
                    seed=seed,
                    threads=1,
                ).fit(order_of_documents(train, seed), valid),
                test,
                METRICS,
            )
            for seed in range(SEEDS)
        ]
        queries += evaluations[0].query_ids.tolist()
        for name in METRICS:
            columns[name].append(np.mean([one[name] for one in evaluations], axis=0))
    return rw.Evaluation({name: np.concatenate(parts) for name, parts in columns.items()}, queries)


@tiers.only_all
@pytest.mark.parametrize(("ours", "native"), [("lambdarank", "lambdarank"), ("xendcg", "rank_xendcg")])
def test_our_objectives_rank_as_well_as_the_native_ones(ours, native):
    both = {"native": values(f"native:{native}"), "ours": values(ours)}
    assert both["ours"].query_ids.size == 784  # every query of MQ2008 is tested once
    for pair in rw.compare(both, baseline="native").pairs:
        assert pair.low > -0.01, pair


@tiers.only_all
def test_the_short_form_can_tell_a_worse_objective():
    """With γ = 1 documents that are not relevant share no mass, which is known to rank worse."""
    both = {"native": values("native:rank_xendcg"), "worse": values("xendcg(gamma=one)")}
    for pair in rw.compare(both, baseline="native").pairs:
        assert pair.low < -0.01, pair
