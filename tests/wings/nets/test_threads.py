"""Nets that train side by side in one process do not disturb each other."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np

import rankwise as rw


def test_nets_of_two_threads_are_those_that_they_are_alone():
    """Torch's random state is shared by threads: nets that draw dropout in turns would differ from run to run."""
    data = rw.synthetic(n_queries=60, n_docs=10, n_features=6, seed=3)

    def trained(seed: int) -> np.ndarray:
        net = rw.NeuralRanker(hidden=(16,), dropout=0.5, epochs=8, seed=seed, threads=1, device="cpu", progress=False)
        return net.fit(data).predict(data)

    alone = [trained(seed) for seed in range(4)]
    with ThreadPoolExecutor(4) as pool:
        beside = list(pool.map(trained, range(4)))
    assert all(np.array_equal(one, other) for one, other in zip(alone, beside, strict=True))
