"""Off-policy comparison by segment: the part of the log alone, at Holm's levels."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.off_policy.compare import compare
from rankwise.wings.clicks.off_policy.decision import OffPolicyComparison, OffPolicyComparisons
from tests.refusals import refuses

CURVE = (1.0, 0.6, 0.4, 0.3, 0.2)
BIAS = rw.clicks.Bias.known(CURVE)
DATA = rw.synthetic(n_queries=90, n_docs=8, seed=3)
DATA = DATA.with_(query_ids=[f"q{number}" for number in range(90)], document_ids=np.arange(DATA.n_docs))
NOISE = np.random.default_rng(1).normal(size=(2, DATA.n_docs))
MARKET = np.array(["de", "fr", "it"], object)[np.searchsorted([40, 85], np.arange(90), side="right")]
IN_GERMANY = np.repeat(MARKET == "de", DATA.sizes)
OLD = DATA.labels + NOISE[0]
NEW = np.where(IN_GERMANY, DATA.labels + 0.2 * NOISE[1], NOISE[1])  # better in one market, worse in the others
SYSTEMS = {"new": NEW, "production": OLD}
OF_QUERY = dict(zip(DATA.query_ids.tolist(), MARKET, strict=True))  # type: ignore[union-attr]


@pytest.fixture(scope="module")
def log() -> Log:
    rankers = {"production": OLD, "other": DATA.features[:, 0], "third": DATA.features[:, 1]}
    return rw.clicks.simulate(DATA, rankers=rankers, curve=CURVE, impressions=300, seed=1)


def one_of(systems: dict[str, np.ndarray], log: Log, **how: Any) -> OffPolicyComparison:
    result = compare(systems, log, BIAS, DATA, **how)
    assert isinstance(result, OffPolicyComparison)
    return result


def test_each_part_is_compared_alone_at_holms_level(log):
    result = one_of(SYSTEMS, log, segment={"market": OF_QUERY})
    assert [(one.value, one.verdict) for one in result.segments] == [
        ("de", "gains"), ("fr", "loses"), ("it", "cannot tell"),
    ]  # fmt: skip
    assert [one.level for one in result.segments] == pytest.approx([1.0 - 0.05 / 3, 1.0 - 0.05 / 3, 0.95])
    for one in result.segments[:2]:
        part = log.only(queries=np.isin(log.query_ids, [q for q, market in OF_QUERY.items() if market == one.value]))
        alone = one_of(SYSTEMS, part, level=one.level, blends=(1.0,)).alone
        assert (one.difference, one.low, one.high) == (alone.difference, alone.low, alone.high)
        assert one.impressions == part.n_impressions
    assert result.segments[2].reason
    plain = one_of(SYSTEMS, log)
    assert (result.alone, result.verdict, plain.segments) == (plain.alone, plain.verdict, ())
    assert result.to_dict()["segments"][0]["verdict"] == "gains"
    assert "it cannot tell" in " ".join(result.to_text().split())


def test_segments_of_the_log_and_of_several_candidates(log):
    codes = np.isin(log.query_ids, [q for q, market in OF_QUERY.items() if market != "de"])[log.queries]
    logged = replace(log, segments=codes.astype(np.int64), segment_names=("de", "rest"), sessions=None)
    systems = {"new": NEW, "again": OLD, "production": OLD}
    several = compare(systems, logged, BIAS, DATA, segment="segment", blends=(1.0,))
    assert isinstance(several, OffPolicyComparisons)
    assert [one.verdict for one in several["new"].segments] == ["gains", "loses"]
    assert {one.verdict for one in several["again"].segments} == {"cannot tell"}
    assert {one.level for one in several["again"].segments} == {0.975}  # two of four tests are left
    assert len(several.tables()) == 3
    head = one_of(SYSTEMS, log, segment={"half": np.arange(90) < 45}).segments
    assert [one.value for one in head] == ["False", "True"]


def test_refusals(log):
    refuses(lambda: compare(SYSTEMS, log, BIAS, DATA, segment="segment"), what="the log has no segments")
    of_pairs = {name: np.arange(log.n_pairs, dtype=float) for name in SYSTEMS}
    refuses(lambda: compare(of_pairs, log, BIAS, segment={"market": OF_QUERY}), what="scores in the order…")
    refuses(lambda: compare(SYSTEMS, log, BIAS, DATA, segment={"q1": "de"}), what="a segment is missing")
