"""xinfAP and infNDCG: full judgments, all samples of small pools, one stratum, and numbers of sample_eval."""

import itertools
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from tests.refusals import refusal

# What NIST's sample_eval.pl prints for this topic, but for %.4f: query 0 document stratum grade; −1 was not judged.
QRELS = "1 0 a 1 2\n1 0 b 1 0\n1 0 c 2 -1\n1 0 d 2 1\n1 0 e 2 0\n1 0 f 2 -1\n1 0 g 1 1\n1 0 h 2 -1\n"
RUN = {"1": {document: 9.0 - place for place, document in enumerate("xbcadfge")}}


@pytest.mark.parametrize(("name", "value"), [("infNDCG", 0.4985), ("xinfAP", 0.4921)])
def test_sample_evals_numbers(name: str, value: float, tmp_path: Any) -> None:
    (tmp_path / "qrels").write_text(QRELS)
    assert rw.evaluate(RUN, tmp_path / "qrels", name).mean[str(rw.metric(name))] == pytest.approx(value, abs=5e-5)


def lists(seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    offsets = np.append(0, np.cumsum(rng.integers(1, 30, 40)))
    return rng.integers(0, 9, offsets[-1]).astype(float), rng.choice(4, offsets[-1], p=[0.6, 0.2, 0.1, 0.1]), offsets


@pytest.mark.parametrize("cutoff", ["", "@5"])
@pytest.mark.parametrize(("sampled", "exact"), [("infndcg", "ndcg"), ("xinfap", "ap"), ("infap", "ap")])
def test_judgments_of_all_documents_give_the_exact_metric(sampled: str, exact: str, cutoff: str) -> None:
    scores, labels, offsets = lists(1)
    strata = np.arange(labels.size) % 3
    columns = {} if sampled == "infap" else {"strata": strata}
    found = rw.metric(sampled + cutoff)(scores, labels, offsets, **columns)
    tolerance = 1e-12 if exact == "ndcg" else 1e-3  # of ε
    np.testing.assert_allclose(found, rw.metric(exact + cutoff)(scores, labels, offsets), atol=tolerance)


def test_one_stratum_is_infap_where_something_above_was_judged() -> None:
    scores, labels, offsets = lists(2)
    scores[offsets[:-1]] = 10.0  # first of its list, and judged
    judged = np.where(labels > 0, 1, np.arange(labels.size) % 3 - 1)
    judged[offsets[:-1]] = 1
    for strata in (None, np.full(labels.size, "pool")):
        found = rw.metric("xinfap(ties=row)")(scores, labels, offsets, judged, None, strata)
        expected = rw.metric("infap(ties=row)")(scores, labels, offsets, judged)
        np.testing.assert_allclose(found, expected, atol=3e-4)


def every_sample(labels: list[int], strata: list[int], sizes: dict[int, int]) -> Any:
    """Labels and judgments of all equally likely samples with so many documents of each stratum."""
    pools = [[row for row, one in enumerate(strata) if one == s] for s in sizes]
    draws = itertools.product(*(itertools.combinations(pool, n) for pool, n in zip(pools, sizes.values(), strict=True)))
    judged = np.array([[1 if row in sum(draw, ()) else -1 for row in range(len(labels))] for draw in draws])
    return np.where(judged == 1, labels, 0), judged


def mean_over_samples(metric: str, labels: list[int], strata: list[int], sizes: dict[int, int]) -> float:
    drawn, judged = every_sample(labels, strata, sizes)
    scores = np.tile(-np.arange(len(labels), dtype=float), len(drawn))
    offsets = np.arange(len(drawn) + 1) * len(labels)
    columns = {"strata": np.tile(strata, len(drawn))}
    return float(rw.metric(metric, empty=0)(scores, drawn.ravel(), offsets, judged.ravel(), **columns).mean())


@pytest.mark.parametrize("sizes", [{0: 1, 1: 4}, {0: 2, 1: 4}, {0: 3, 1: 4}])
def test_dcg_is_unbiased_over_all_samples(sizes: dict[int, int]) -> None:
    """The first four documents are sampled; the ideal order is known, as the others are all judged."""
    labels, strata = [1, 0, 2, 1, 3, 3, 3, 3], [0] * 4 + [1] * 4
    exact = rw.metric("ndcg@4")(-np.arange(8.0), labels, [0, 8])[0]
    assert mean_over_samples("infndcg@4", labels, strata, sizes) == pytest.approx(exact, rel=1e-12)


@pytest.mark.parametrize(("metric", "exact"), [("infndcg", "ndcg(gain=linear)"), ("xinfap", "ap")])
def test_estimates_are_close_over_all_samples_and_closer_with_more_judgments(metric: str, exact: str) -> None:
    """Ratios of estimates have a bias, of a few hundredths with half of a small pool judged."""
    labels, strata = [1, 0, 1, 1, 0, 0, 1, 0, 0, 1, 0, 0], [0] * 4 + [1] * 8
    true = rw.metric(exact)(-np.arange(12.0), labels, [0, 12])[0]
    metric = "infndcg(gain=linear)" if metric == "infndcg" else metric
    few, more, nearly = (mean_over_samples(metric, labels, strata, {0: 3, 1: n}) - true for n in (2, 4, 7))
    assert abs(few) < 0.15
    assert abs(more) < 0.04
    assert abs(nearly) < 0.015


def test_strata_matter_and_probabilities_alone_are_rejected() -> None:
    labels, judged = [1, 0, 1, 0, 0, 0], [1, 1, 1, -1, -1, -1]
    data = rw.RankingDataset(np.zeros((6, 1)), labels, [0, 6], judged=judged, strata=[0, 0, 1, 1, 1, 1])
    scores = -np.arange(6.0)
    for name in ("infndcg", "xinfap"):
        assert rw.metric(name).of(scores, data) != pytest.approx(rw.metric(name).of(scores, data.with_(strata=None)))
        sampled = data.with_(strata=None, inclusion_probabilities=np.full(6, 0.5))
        with pytest.raises(ValueError, match=f"{name} needs the strata of a sample: got inclusion probabilities alone"):
            rw.evaluate(scores, sampled, name)
    with refusal(what="strata must be one integer or string per document"):
        rw.metric("infndcg")(scores, labels, [0, 6], judged, strata=[0, 1])
