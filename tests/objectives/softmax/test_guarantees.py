"""Lower bounds hold for every list and every order of ties, and are tight where they can be."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import rankwise as rw
from tests.refusals import refusal

LISTS = st.lists(
    st.lists(st.tuples(st.floats(-20, 20) | st.sampled_from([0.0, 1.0]), st.integers(0, 4)), min_size=1, max_size=12),
    min_size=1,
    max_size=4,
)


def flat(lists):
    scores = np.array([s for one in lists for s, _ in one])
    labels = np.array([y for one in lists for _, y in one], float)
    return scores, labels, np.concatenate(([0], np.cumsum([len(one) for one in lists])))


@given(LISTS, st.booleans())
def test_no_metric_falls_below_its_bound(lists, binary):
    scores, labels, offsets = flat(lists)
    if binary:
        labels = np.minimum(labels, 1.0)
    if not labels.any():
        with refusal(what="no list has a relevant document, so there is nothing to guarantee"):
            rw.objectives.guarantees(scores, labels, offsets)
        return
    actual = rw.objectives.guarantees(scores, labels, offsets)
    is_binary = bool(np.isin(labels, (0.0, 1.0)).all())
    assert [g.metric for g in actual] == (["rr", "ndcg"] if is_binary else []) + ["ndcg", "ndcg"]
    for guarantee in actual:
        for ties in ("worst", "average"):
            values = rw.metric(guarantee.metric, ties=ties)(scores, labels, offsets)
            np.testing.assert_array_equal(np.isnan(values), np.isnan(guarantee.bound))
            scored = ~np.isnan(values)
            assert (values[scored] >= guarantee.bound[scored] - 1e-9).all()
            assert np.nanmean(values) >= guarantee.mean - 1e-9
        assert guarantee.vacuous == (guarantee.bound == 0).sum()


def test_bounds_are_tight_where_the_order_is_certain():
    # One relevant document far ahead: cross entropy 0, every bound 1, every metric 1.
    scores, labels = np.array([50.0, 0.0, 0.0]), np.array([1.0, 0.0, 0.0])
    actual = {g.source: g for g in rw.objectives.guarantees(scores, labels, [0, 3])}
    for source, guarantee in actual.items():
        if "2021" not in source:
            np.testing.assert_allclose(guarantee.bound, 1.0, err_msg=source)
    # The 2021 bound subtracts 1/IDCG: it comes near 1 as the gains grow.
    labels = np.array([12.0, 0.0, 0.0])
    (theorem,) = [g for g in rw.objectives.guarantees(scores, labels, [0, 3]) if "2021" in g.source]
    np.testing.assert_allclose(theorem.bound, 1.0, atol=1e-3)


def test_equal_scores_are_the_tight_case_of_the_rank_bound():
    # All tied and one relevant: its worst rank is n, and 1/rank = rho = 1/n exactly.
    n = 7
    actual = rw.objectives.guarantees(np.zeros(n), np.eye(1, n)[0], [0, n])[0]
    np.testing.assert_allclose(actual.bound, rw.metric("rr(ties=worst)")(np.zeros(n), np.eye(1, n)[0], [0, n]))


def test_the_2021_bound_is_mostly_vacuous_and_the_direct_one_is_not():
    data = rw.synthetic(n_queries=50, n_features=8, seed=3)
    scores = data.features[:, 0]
    theorem, direct = rw.objectives.guarantees(np.nan_to_num(scores), data.labels, data.offsets)[-2:]
    assert theorem.vacuous > 40
    assert direct.vacuous == 0
    assert direct.mean > 0
