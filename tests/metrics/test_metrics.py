"""Metrics by pencil arithmetic, their order of documents, and what they say about bad input."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rankwise as rw
from rankwise.metrics import AP, ERR, METRICS, NDCG, RBP, Metric
from rankwise.metrics.gains import discounts, gains
from rankwise.metrics.sorting import AVERAGE, order_in, ranking, scratch_for
from tests.refusals import refusal, refuses

THREE = [3.0, 2.0, 1.0]


def order(scores: list[float]) -> list[int]:
    out = np.empty(len(scores), np.int64)
    order_in(np.array(scores, np.float64), out, scratch_for(out.size))
    return out.tolist()


LABELLED = [name for name, kind in METRICS.items() if "labels" in kind.reads]


@pytest.mark.parametrize("name", LABELLED)
def test_values_are_within_the_bounds_of_the_metric(name):
    rng = np.random.default_rng(0)
    sizes = rng.integers(1, 12, 300)
    offsets = np.r_[0, np.cumsum(sizes)]
    labels, scores = rng.integers(0, 5, offsets[-1]).astype(float), np.round(rng.normal(size=offsets[-1]), 1)
    low, high = rw.metric(name).bounds
    for order in (scores, labels, -labels):
        values = rw.metric(name)(order, labels, offsets)
        assert low <= np.nanmin(values)
        assert np.nanmax(values) <= high + 1e-12
    if name != "infndcg":  # which exceeds 1 for samples alone
        assert np.isinf(high) == (np.nanmax(rw.metric(name)(labels, labels, offsets)) > 1.0 + 1e-12)


# One list in ranked order 2, 0, 1 and what each definition gives for it.
PENCIL = {
    "dcg": 3 + 1 / 2,
    "dcg(gain=linear)": 2 + 1 / 2,
    "dcg(gain=(0, 5, 6))": 6 + 5 / 2,
    "dcg@2": 3,
    "ndcg": 3.5 / (3 + 1 / math.log2(3)),
    "ndcg@1": 1,
    "ndcg(discount=jarvelin)": (3 + 1 / math.log2(3)) / (3 + 1),
    "ndcg(short=zero)@4": 0,
    "ndcg(short=zero)@3": 3.5 / (3 + 1 / math.log2(3)),
    "mean_ndcg": (1 + 3 / (3 + 1 / math.log2(3)) + 3.5 / (3 + 1 / math.log2(3))) / 3,
    "mean_ndcg(discount=jarvelin)@2": (1 + 3 / 4) / 2,
    "kendall": 1 / 3,
    "spearman": 1 / 2,
    "ndcg@2": 3 / (3 + 1 / math.log2(3)),
    "ap": (1 + 2 / 3) / 2,
    "ap@2": 1 / 2,
    "ap(relevant=2)": 1,
    "rr": 1,
    "rr(relevant=1.5)": 1,
    "precision": 2 / 3,
    "precision@2": 1 / 2,
    "precision@10": 2 / 10,
    "recall@2": 1 / 2,
    "recall@10": 1,
    "hit@1": 1,
    "rbp": 0.2 * (1 + 0.64),
    "rbp@2": 0.2,
    "nrbp": 0.2 * (1 + 0.64) / (1 - 0.8**2),
    "nrbp@1": 1,
    "err": 3 / 16 + 13 / 16 * 1 / 16 / 3,
    "err@2": 3 / 16,
    "err(highest=2)": 3 / 4 + 1 / 4 * 1 / 4 / 3,
    "ap(divide=cutoff)@1": 1,
    "precision(divide=retrieved)@10": 2 / 3,
    "rprec": 1 / 2,
    "rprec(relevant=2)": 1,
    "bpref": (1 + 0) / 2,
    "judged@2": 1,
    "num_q": 1,
    "num_ret@2": 2,
    "num_rel": 2,
    "num_rel_ret@2": 1,
}


@pytest.mark.parametrize(("text", "value"), PENCIL.items())
def test_values_by_hand(text: str, value: float) -> None:
    assert rw.metric(text)(THREE, [2, 0, 1], [0, 3])[0] == pytest.approx(value, rel=1e-14)


# The documents of labels 1 and 2 in this list were not retrieved; that of label 1 stands at rank 2.
MISSED = {
    "precision": 1 / 2,
    "precision@2": 1 / 2,
    "recall": 1 / 3,
    "ap": (1 / 2) / 3,
    "rr": 1 / 2,
    "hit@1": 0,
    "hit@9": 1,
    "rbp(p=0.5)": 1 / 4,
    "nrbp(p=0.5)": (1 / 4) / (7 / 8),
    "dcg": 1 / math.log2(3),
    "ndcg": 1 / math.log2(3) / (3 + 1 / math.log2(3) + 1 / 2),
    "err": 1 / 16 / 2,
    "rprec": 1 / 3,
    "bpref": 0,
    "infap": (1 / 2 + 1 / 2 * 1e-5 / (1 + 2e-5)) / 3,
    "xinfap": (1 / 2 + 1 / 2 * 1e-5 / (1 + 3e-5)) / 3,
    "infndcg": 1 / math.log2(3) / (3 + 1 / math.log2(3) + 1 / 2),
    "num_ret": 2,
    "num_rel": 3,
    "num_rel_ret": 1,
    "judged": 1,
}


@pytest.mark.parametrize("ties", ["average", "row", "worst", "best"])
@pytest.mark.parametrize(("text", "value"), MISSED.items())
def test_documents_that_were_not_retrieved(text: str, value: float, ties: str) -> None:
    scores = [-np.inf, 0.5, -np.inf, 0.25]
    assert rw.metric(text, ties=ties)(scores, [1, 0, 2, 1], [0, 4])[0] == pytest.approx(value, rel=1e-14)
    nothing = rw.metric(text, ties=ties)([-np.inf] * 2, [0, 2], [0, 2])[0]
    assert nothing == (1.0 if text == "num_rel" else 0.0)


def test_fact_sheet_of_ties() -> None:
    """Labels 0 2 1 0 with equal scores: what LightGBM, scikit-learn and CatBoost were seen to give."""
    scores, labels = [0.0] * 4, [0, 2, 1, 0]
    for text, value in {
        "ndcg(ties=row)": 0.659,
        "ndcg(gain=linear)": 0.730,
        "ndcg(ties=worst)": 0.494,
        "ndcg(ties=best)": 1.0,
    }.items():
        assert rw.metric(text)(scores, labels, [0, 4])[0] == pytest.approx(value, abs=5e-4)
    assert rw.metric("ndcg(ties=row)")(scores, labels[::-1], [0, 4])[0] == pytest.approx(0.587, abs=5e-4)


def test_thesis_mean_of_average_precision() -> None:
    assert AP()([1.0] * 3, [1, 1, 0], [0, 3])[0] == pytest.approx(29 / 36)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([0.0, -0.0, 1.5, -2.0, 1e300, -1e308, -np.inf, 5e-324, 0.1, 0.3]), max_size=90)
    | st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=90)
)
def test_order_is_the_stable_sort(scores: list[float]) -> None:
    assert order(scores) == sorted(range(len(scores)), key=lambda i: -scores[i])


@pytest.mark.parametrize("kind", ["normal", "few values", "outlier", "ascending", "descending", "powers", "equal"])
@pytest.mark.parametrize("n", [1, 24, 25, 26, 100, 1000])
def test_order_of_hard_lists(kind: str, n: int) -> None:
    rng = np.random.default_rng(n)
    scores = {
        "normal": rng.normal(size=n),
        "few values": rng.integers(0, 5, n).astype(float),
        "outlier": np.append(rng.normal(size=n - 1), 1e12),
        "ascending": np.arange(n, dtype=float),
        "descending": -np.arange(n, dtype=float),
        "powers": rng.permutation(2.0 ** -np.arange(n, dtype=float)),
        "equal": np.ones(n),
    }[kind]
    stable = np.argsort(-scores, kind="stable")
    assert order(scores.tolist()) == stable.tolist()
    for cutoff in (1, 3, 10, 40, 300):
        out = np.empty(n, np.int64)
        count = ranking(scores, np.zeros(n), cutoff, AVERAGE, out, scratch_for(n))
        tied_with_last = scores >= scores[stable[min(cutoff, n) - 1]]
        assert out[:count].tolist() == stable[: tied_with_last.sum()].tolist()


@pytest.mark.parametrize("text", [*LABELLED, "ndcg@10", "err@10", "ap(ties=row)@10", "ndcg(ties=worst)@10"])
def test_queries_are_independent_of_each_other_and_of_threads(text: str) -> None:
    """The whole at once in four threads, and every query alone in one, give the same bits."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 200, 400)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    scores = np.round(rng.normal(size=offsets[-1]), 1)
    labels = rng.choice(5, size=scores.size, p=[0.8, 0.1, 0.05, 0.03, 0.02]).astype(float)
    metric = rw.metric(text)
    with rw.use_threads(4):
        whole = metric(scores, labels, offsets)
    with rw.use_threads(1):
        np.testing.assert_array_equal(metric(scores, labels, offsets), whole)
        for q in range(0, 400, 37):
            mine = slice(offsets[q], offsets[q + 1])
            np.testing.assert_array_equal(metric(scores[mine], labels[mine], [0, sizes[q]]), whole[q : q + 1])


@pytest.mark.parametrize("text", LABELLED)
def test_a_perfect_ranking_has_the_highest_value(text: str) -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 5, 80).astype(float)
    metric = rw.metric(text)
    perfect = metric(labels, labels, [0, 80])[0]
    if text in ("ndcg", "nrbp", "ap", "rr", "recall", "hit"):
        assert perfect == pytest.approx(1.0, rel=1e-14)
        assert perfect <= 1.0
    others = np.array([metric(rng.permutation(80).astype(float), labels, [0, 80])[0] for _ in range(50)])
    assert (others <= perfect + 1e-12).all()


def test_other_input_types_have_equal_results() -> None:
    labels = np.array([2, 0, 1, 0], np.int32)
    wanted = NDCG()(np.array([0.5, 0.25, 1.0, 2.0]), labels.astype(float), np.array([0, 3, 4]))
    strided = np.array([0.5, 9, 0.25, 9, 1.0, 9, 2.0, 9])[::2]
    for scores in (np.array([0.5, 0.25, 1.0, 2.0], np.float32), [0.5, 0.25, 1, 2], strided):
        np.testing.assert_array_equal(NDCG()(scores, labels, (0, 3, 4)), wanted)
    assert NDCG()([], [], [0]).shape == (0,)


def test_inputs_are_not_written_to() -> None:
    scores, labels, offsets = np.array(THREE), np.array([1.0, 0.0, 2.0]), np.array([0, 3])
    before = scores.copy(), labels.copy(), offsets.copy()
    for name in LABELLED:
        rw.metric(name)(scores, labels, offsets)
    for array, old in zip((scores, labels, offsets), before, strict=True):
        np.testing.assert_array_equal(array, old)
        assert array.flags.writeable


def test_real_labels_and_many_grades() -> None:
    labels = np.linspace(0.0, 3.0, 50)
    scores = np.sin(np.arange(50.0))
    ranked = 2.0 ** labels[np.argsort(-scores, kind="stable")] - 1
    best = 2.0 ** labels[::-1] - 1
    for k in (5, 50):
        discount = 1 / np.log2(np.arange(2, k + 2))
        wanted = (ranked[:k] @ discount) / (best[:k] @ discount)
        assert NDCG(cutoff=k)(scores, labels, [0, 50])[0] == pytest.approx(wanted, rel=1e-13)


def test_a_table_of_gains_need_not_ascend() -> None:
    """The ideal order is by gain, not by label."""
    metric = NDCG(gain=(0, 3, 9, 3, 4.5))
    assert metric([2.0, 1.0], [4, 2], [0, 2])[0] == pytest.approx(
        (4.5 + 9 / math.log2(3)) / (9 + 4.5 / math.log2(3)), rel=1e-14
    )
    # a query whose labels are all worth nothing is empty
    assert np.isnan(NDCG(gain=(0, 0, 1))([1.0], [1], [0, 1])[0])


def test_gains_and_discounts() -> None:
    np.testing.assert_array_equal(gains([0, 1, 2, 4]), [0, 1, 3, 15])
    np.testing.assert_array_equal(gains([0, 1.5], "linear"), [0, 1.5])
    np.testing.assert_allclose(gains([0.5, 40]), [math.sqrt(2) - 1, 2.0**40 - 1])
    np.testing.assert_allclose(discounts(5000), 1 / np.log2(np.arange(2, 5002)))
    assert discounts(3).size == 3


BAD_INPUT = [
    (
        "ndcg",
        [1.0, np.nan, 0.0],
        [1, 0, 0],
        {"what": "scores must be finite", "got": "nan", "where": "row 1 (query number 0)", "hint": "look at…"},
    ),
    (
        "ap",
        [1.0, 1.0, np.inf],
        [1, 0, 1],
        {"what": "scores must be finite", "got": "inf", "where": "row 2 (query number 1)"},
    ),
    (
        "rr",
        [1.0, 1.0],
        [1, 0, 1],
        {"what": "scores must be one number per document", "got": "shape (2,) of float64 for 3 documents"},
    ),
    ("err", [1.0, np.nan, 0.0], [1, 0, 0], {"what": "scores must be finite", "got": "nan", "where": "row 1…"}),
    ("hit", [1.0, np.nan, 0.0], [1, 0, 0], {"what": "scores must be finite", "got": "nan", "where": "row 1…"}),
    (
        "rbp",
        THREE,
        [1.0, -1.0, 0.0],
        {"what": "labels must be at least 0", "got": "-1", "where": "row 1 (query number 0)"},
    ),
    ("ndcg", THREE, [1.0, np.nan, 0.0], {"what": "labels must be finite", "got": "nan", "where": "row 1…"}),
    ("recall", THREE, [1.0, 0.0, np.inf], {"what": "labels must be finite", "got": "inf", "where": "row 2…"}),
    (
        "ndcg(gain=(0, 1))",
        THREE,
        [1, 0, 2],
        {"what": "a label is beyond the gain table, which ends at 1", "got": "2", "where": "row 2 (query…"},
    ),
    (
        "dcg(gain=(0, 1))",
        THREE,
        [1, 0.5, 1],
        {"what": "a gain table needs whole labels", "got": "0.5", "where": "row 1 (query number 0)"},
    ),
    (
        "ndcg",
        THREE,
        [1, 0, 5000],
        {
            "what": "a label is too large for the gain exponential",
            "got": "5000",
            "where": "row 2…",
            "hint": "set gain=linear",
        },
    ),
    (
        "dcg",
        THREE,
        [1, 0, 1000.5],
        {"what": "a label is too large for the gain exponential", "got": "1000.5", "where": "row 2…"},
    ),
    (
        "dcg(gain=linear)",
        THREE,
        [1, 0, 1e301],
        {"what": "a label is too large for the gain linear", "got": "1e+301", "where": "row 2…", "hint": "divide…"},
    ),
    (
        "err",
        THREE,
        [1, 0, 6],
        {"what": "a label is above err's highest grade of 4", "got": "6", "where": "row 2…", "hint": "…err(highest=6)"},
    ),
]


@pytest.mark.parametrize(("text", "scores", "labels", "fields"), BAD_INPUT)
def test_invalid_input_is_located(text: str, scores: list[float], labels: list[float], fields: dict[str, str]) -> None:
    refuses(lambda: rw.metric(text)(scores, labels, [0, 2, 3]), **fields)


def test_documents_that_were_not_judged_are_checked() -> None:
    call = rw.metric("bpref")
    with refusal(what="judged must be 1, 0 or -1", got="2", where="row 1 (query number 0)", hint="1 is…"):
        call(THREE, [1, 0, 1], [0, 2, 3], [1, 2, 0])
    with refusal(what="…not judged must have label 0", got="label 1", where="row 2 (query number 1)"):
        call(THREE, [1, 0, 1], [0, 2, 3], [True, True, False])
    refuses(lambda: call(THREE, [1, 0, 1], [0, 2, 3], [1]), what="judged must be one number per document")
    with refusal(what="num_ret is defined for every query,…", got="empty=1", hint="leave empty out"):
        rw.metric("num_ret", empty=1)


def test_invalid_offsets_are_located() -> None:
    with refusal(what="offsets must cover every row: begin with 0 and end with the number of rows"):
        NDCG()(THREE, [1, 0, 1], [0, 2])
    with refusal(what="a label is beyond the gain table, which ends at 1", got="3", where="row 1…"):
        gains([1, 3], (0, 1))


def test_metrics_are_values() -> None:
    assert rw.metric("rbp(p=0.95)") == RBP(p=0.95)
    assert len({NDCG(), NDCG(cutoff=5), rw.metric("ndcg"), rw.metric("ndcg@5")}) == 2
    assert isinstance(ERR(), Metric)
    with pytest.raises(AttributeError):
        NDCG().cutoff = 5  # type: ignore[misc]


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_reads_labels_by_name(name):
    data = rw.synthetic(n_queries=30, n_docs=9, n_features=1, seed=4)
    goal = np.maximum(data.labels[::-1] - 2.0, 0.0)  # so that some queries have nothing relevant
    data = data.with_(more_labels={"purchase": goal}, document_rewards=goal)
    plain, scores = rw.metric(name), data.features[:, 0]
    cut = "" if "cutoff" in plain.fixed else "@5"
    if "labels" not in plain.reads:
        with pytest.raises(ValueError, match=f"{name} reads (no|several) labels: got label=purchase"):
            rw.metric(name, label="purchase")
        return
    metric = rw.metric(f"{name}(label=purchase){cut}")
    assert str(metric) == f"{name}(label=purchase){cut}"
    assert rw.metric(str(metric)) == metric == rw.metric(f"{name}{cut}", label="purchase")
    expected = rw.metric(f"{name}{cut}")(scores, goal, data.offsets)
    np.testing.assert_array_equal(metric.of(scores, data), expected)
    # Which documents were judged, and how they were drawn, says nothing about other labels.
    sampled = data.with_(judged=np.ones(data.n_docs), inclusion_probabilities=np.ones(data.n_docs))
    np.testing.assert_array_equal(metric.of(scores, sampled), expected)
    np.testing.assert_array_equal(metric(scores, data.labels, data.offsets, more_labels={"purchase": goal}), expected)
    with refusal(what="the data have no labels called 'purchase'", got="more_labels: none"):
        metric(scores, data.labels, data.offsets)
    with refusal(what="the data have no labels called 'sale'", got="more_labels: 'purchase'"):
        rw.metric(name, label="sale").of(scores, data)


def test_names_of_labels_are_identifiers():
    with refusal(what="a name in more_labels must be an identifier, of letters, digits and _", got="'net sales'"):
        rw.metric("ndcg", label="net sales")
    assert rw.metric("ndcg_cut_10", label="sales") == rw.metric("nDCG(label=sales)@10")
