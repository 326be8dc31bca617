"""Peers of the objectives: LightGBM's objectives alone, and smooth metrics in torch on padded batches."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Lists = tuple[Array, Array, NDArray[np.int64]]


LONGEST = 1_251  # of MSLR's lists


def make_lists(n_queries: int, seed: int = 0, *, longest: bool = False) -> Lists:
    """Lists of log-normal length like MSLR's (117 documents in the mean), five grades, scores that know something.

    With ``longest`` the first list has as many documents as MSLR's longest.
    """
    draw = np.random.default_rng(seed)
    sizes = np.clip(draw.lognormal(4.53, 0.7, n_queries), 1, LONGEST).astype(np.int64)
    if longest:
        sizes[0] = LONGEST
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    labels = draw.choice(5, size=int(offsets[-1]), p=[0.52, 0.32, 0.13, 0.02, 0.01]).astype(np.float64)
    return draw.normal(size=labels.size) + 0.4 * labels, labels, offsets


def lightgbm_update(lists: Lists, threads: int, settings: dict[str, Any] | None) -> Callable[[], object]:
    """One iteration of LightGBM on one feature with two leaves; without settings, with derivatives given to it.

    The difference of the two is the time of LightGBM's objective. It meets the scores that ours meets (as initial
    scores, hardly moved by a tiny learning rate).
    """
    import lightgbm as lgb

    scores, labels, offsets = lists
    draw = np.random.default_rng(1)
    feature = (labels + draw.normal(size=labels.size) > 1.0).astype(np.float64)[:, None]
    common = {"verbosity": -1, "num_threads": threads, "feature_pre_filter": False}
    growth = {"num_leaves": 2, "learning_rate": 1e-6, "min_data_in_leaf": 1, "min_sum_hessian_in_leaf": 0.0}
    data = lgb.Dataset(feature, label=labels, group=np.diff(offsets), init_score=scores, params=common)
    booster = lgb.Booster({"metric": "none"} | common | growth | (settings or {"objective": "none"}), data)
    if settings is not None:
        return booster.update
    gradient = (draw.normal(size=labels.size) - feature[:, 0]).astype(np.float32)
    constants = gradient, np.ones_like(gradient)
    return lambda: booster.update(fobj=lambda _scores, _data: constants)


class TorchSmooth:
    """A smooth metric in torch, as one writes it: every batch of lists padded to its longest one, single precision."""

    def __init__(self, metric: str, eta: float, lists: Lists, batch: int, threads: int) -> None:
        torch: Any = importlib.import_module("torch")
        torch.set_num_threads(threads)
        self.torch, self.metric, self.eta = torch, metric, eta
        scores, labels, offsets = lists
        gains = 2.0**labels - 1.0 if metric == "approx_ndcg" else (labels >= 1.0).astype(np.float64)
        self.batches: list[tuple[Any, ...]] = []
        for first in range(0, offsets.size - 1, batch):
            cuts = offsets[first : first + batch + 1]
            sizes = np.diff(cuts)
            inside = np.arange(sizes.max()) < sizes[:, None]
            padded = np.zeros((2, *inside.shape), np.float32)
            padded[0][inside], padded[1][inside] = scores[cuts[0] : cuts[-1]], gains[cuts[0] : cuts[-1]]
            ideal = (-np.sort(-padded[1]) / np.log2(np.arange(inside.shape[1]) + 2.0)).sum(1)
            tensors = (torch.from_numpy(part) for part in (padded[0], padded[1], inside, ideal.astype(np.float32)))
            self.batches.append(tuple(tensors))

    def __call__(self) -> tuple[Array, Array]:
        """Loss of each list, and the gradient of each document."""
        values, gradients = [], []
        for scores, worths, inside, ideal in self.batches:
            scores.requires_grad_(True)
            scores.grad = None
            loss = self.loss(scores, worths, inside, ideal)
            loss.sum().backward()
            values.append(loss.detach().numpy())
            gradients.append(scores.grad[inside].numpy())
        return np.concatenate(values).astype(np.float64), np.concatenate(gradients).astype(np.float64)

    def loss(self, scores: Any, worths: Any, inside: Any, ideal: Any) -> Any:
        torch = self.torch
        above = torch.sigmoid(self.eta * (scores[:, None, :] - scores[:, :, None])) * inside[:, None, :]
        ranks = above.sum(-1) + 0.5  # a document's sigmoid with itself is 0.5 already
        if self.metric == "approx_ndcg":
            return -(worths / torch.log2(1.0 + ranks)).sum(-1) / ideal.clamp(min=1e-9)
        count = worths.sum(-1)
        if self.metric == "smooth_ap":
            among = (above * worths[:, None, :]).sum(-1) + 0.5
            return -(worths * among / ranks).sum(-1) / count.clamp(min=1.0)
        return (worths * (ranks - 1.0)).sum(-1) - count * (count - 1.0) / 2.0
