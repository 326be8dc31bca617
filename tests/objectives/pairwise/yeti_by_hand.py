"""YetiLoss written without any regard to speed, to hold the kernel to: each Δ by swapping two neighbours."""

import itertools

import numpy as np

import rankwise as rw

METRICS = {"ndcg": "ndcg", "map": "ap", "mrr": "rr"}


def quality(objective: rw.objectives.Yeti, labels) -> float:
    """The metric of documents in this order, by the library's own metrics."""
    cut = "" if objective.cutoff is None else f"@{objective.cutoff}"
    inside = f"gain={objective.gain}" if objective.metric == "ndcg" else f"relevant={objective.relevant}"
    metric = rw.metric(f"{METRICS[objective.metric]}({inside}, empty=0){cut}")
    return float(metric(-np.arange(float(labels.size)), labels, [0, labels.size])[0])


def pairs(objective: rw.objectives.Yeti, ranked, labels):
    """The better and the worse document of each two neighbours of a ranking, and the pair's weight."""
    for k, (i, j) in enumerate(itertools.pairwise(ranked)):
        swapped = np.array(ranked)
        swapped[[k, k + 1]] = j, i
        if objective.metric == "classic":
            weight = (1.0 - objective.decay) * objective.decay**k * abs(labels[i] - labels[j])
        else:
            weight = abs(quality(objective, labels[swapped]) - quality(objective, labels[np.array(ranked)]))
        if weight > 0.0:
            better, worse = (i, j) if labels[i] > labels[j] else (j, i)
            yield better, worse, weight


def derivatives(objective: rw.objectives.Yeti, scores, parts):
    """Value, gradient and Hessian of weighed pairs."""
    value, gradient, hessian = 0.0, np.zeros(len(scores)), np.zeros(len(scores))
    for better, worse, weight in parts:
        margin = objective.sigma * (scores[better] - scores[worse])
        wrong = np.exp(-np.logaddexp(0.0, margin))
        value += weight * np.logaddexp(0.0, -margin)
        gradient[better] -= weight * objective.sigma * wrong
        gradient[worse] += weight * objective.sigma * wrong
        hessian[[better, worse]] += weight * objective.sigma**2 * wrong * (1.0 - wrong)
    return value, gradient, hessian


def drawn(objective: rw.objectives.Yeti, scores, labels, offsets, stream):
    """The weighed pairs of each query over all rankings drawn, whose noise is that of ``sample_scores``."""
    scores, labels = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    n, scale, noise = objective.permutations, objective.scale, objective.noise
    noisy = rw.objectives.sample_scores(scores, offsets, stream, n, scale=scale, noise=noise)
    lists = []
    for start, stop in itertools.pairwise(np.asarray(offsets).tolist()):
        ranked = np.argsort(-noisy[:, start:stop], axis=1, kind="stable")
        actual = (pair for one in ranked for pair in pairs(objective, one, labels[start:stop]))
        lists.append([(start + i, start + j, w / objective.permutations) for i, j, w in actual])
    return lists


def frozen(objective: rw.objectives.Yeti, scores, labels, offsets, stream):
    """Return the loss as a function of the scores, with draws and weights held at those of ``scores``."""
    lists = drawn(objective, scores, labels, offsets, stream)
    return lambda at: np.array([derivatives(objective, at, parts)[0] for parts in lists])
