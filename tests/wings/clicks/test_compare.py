"""The off-policy comparison of a candidate with production, and its verdict."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.rankers.ensembles.blend_weights import score_deviation
from rankwise.statistics.significance import t_test
from rankwise.wings.clicks import regression
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.off_policy import assumptions, decision
from rankwise.wings.clicks.off_policy.compare import _blended, _by_holm, _scale, compare
from rankwise.wings.clicks.off_policy.decision import Blend, OffPolicyComparison, OffPolicyComparisons
from rankwise.wings.clicks.off_policy.estimators import Estimated
from tests.refusals import refusal, refuses

CURVE = (1.0, 0.6, 0.4, 0.3, 0.2)
BIAS = rw.clicks.Bias.known(CURVE)


@pytest.fixture(scope="module")
def data() -> rw.RankingDataset:
    made = rw.synthetic(n_queries=80, n_docs=10, seed=3)
    return made.with_(query_ids=[f"q{number}" for number in range(80)], document_ids=np.arange(made.n_docs))


@pytest.fixture(scope="module")
def systems(data: rw.RankingDataset) -> dict[str, np.ndarray]:
    noise = np.random.default_rng(1).normal(size=(3, data.n_docs))
    return {
        "production": data.labels + noise[0],
        "good": data.labels + 0.3 * noise[1],
        "poor": noise[1],
        "close": data.labels + noise[0] + 0.1 * noise[2],
    }


@pytest.fixture(scope="module")
def log(data: rw.RankingDataset, systems: dict[str, np.ndarray]) -> Log:
    rankers = {"production": systems["production"], "other": data.features[:, 0], "third": data.features[:, 1]}
    counts = np.random.default_rng(2).integers(20, 200, data.n_queries)
    return rw.clicks.simulate(data, rankers=rankers, curve=CURVE, impressions=counts, seed=1)


def run(name: str, systems: Any, *args: Any, **how: Any) -> OffPolicyComparison:
    return one(compare({name: systems[name], "production": systems["production"]}, *args, **how))


def one(result: Any) -> OffPolicyComparison:
    assert isinstance(result, OffPolicyComparison)
    return result


def seen(scores: np.ndarray, data: rw.RankingDataset) -> np.ndarray:
    """Return α at the rank of each document."""
    queries = np.repeat(np.arange(data.n_queries), data.sizes)
    order = np.lexsort((-scores, queries))
    ranks = np.empty(scores.size, np.int64)
    ranks[order] = np.arange(scores.size) - data.offsets[queries]
    return np.append(CURVE, np.zeros(data.n_docs))[ranks]


def test_the_difference_is_that_of_doubly_robust_targets_by_traffic(data, systems, log) -> None:
    result = run("good", systems, log, BIAS, data)
    targets = rw.clicks.estimates(log, data, BIAS)
    gains = (seen(systems["good"], data) - seen(systems["production"], data)) * targets.dr
    by_query = np.add.reduceat(gains, data.offsets[:-1])
    traffic = targets.impressions[data.offsets[:-1]]
    test = t_test(by_query, traffic)
    assert result.alone.difference == pytest.approx(test.mean, abs=1e-12)
    # Fewer degrees of freedom than queries, since these have different traffic.
    freedom = round(traffic.sum() ** 2 / (traffic**2).sum()) - 1
    assert freedom < data.n_queries - 2
    assert (result.alone.low, result.alone.high) == pytest.approx(test._replace(freedom=freedom).interval(), abs=1e-12)
    assert result.production_clicks == pytest.approx(
        np.average(np.add.reduceat(seen(systems["production"], data) * targets.dr, data.offsets[:-1]), weights=traffic)
    )


def test_better_is_shipped_and_worse_is_not(data, systems, log) -> None:
    users = rw.clicks.Users(curve=CURVE)
    counts = np.bincount(log.queries, log.impressions * (log.positions == 1))
    counts = counts[np.argsort(np.argsort(data.query_ids))]
    for name, verdict in (("good", "ship"), ("poor", "do not ship")):
        result = run(name, systems, log, BIAS, data)
        truth = users.expected_clicks(data, systems[name]) - users.expected_clicks(data, systems["production"])
        assert result.verdict == verdict
        assert (result.recommended > 0.0) == (verdict == "ship")
        assert result.alone.low < np.average(truth, weights=counts) < result.alone.high
        assert result.reason.startswith("Ship a blend, 0.5" if verdict == "ship" else "Do not ship poor:")


def test_rows_of_features_and_queries_may_come_in_any_order(data, systems, log) -> None:
    result = run("good", systems, log, BIAS, data)
    turned = data.take(np.arange(data.n_queries)[::-1])
    rows = turned.document_ids
    other = run("good", {name: scores[rows] for name, scores in systems.items()}, log, BIAS, turned)
    assert other.alone.difference == pytest.approx(result.alone.difference, abs=0.02)  # the folds of R̂ differ


def test_features_may_have_queries_that_were_not_logged(data, systems) -> None:
    rankers, counts = {"a": systems["production"], "b": systems["poor"]}, np.arange(data.n_queries) % 2 * 100
    few = rw.clicks.simulate(data, rankers=rankers, curve=CURVE, impressions=counts, seed=1)
    logged = data.take(counts > 0)
    rows = logged.document_ids
    result = run("good", systems, few, BIAS, data)
    assert result.n_units == 40
    part = run("good", {name: scores[rows] for name, scores in systems.items()}, few, BIAS, logged)
    assert result.alone.difference == pytest.approx(part.alone.difference, abs=1e-12)


def test_intervals_by_user(data, systems) -> None:
    rankers = {"production": systems["production"], "other": data.features[:, 0]}
    log = rw.clicks.simulate(data, rankers=rankers, curve=CURVE, impressions=100, seed=1)
    assert log.sessions is not None
    users = np.arange(log.sessions.n_impressions) % 500
    log = replace(log, sessions=replace(log.sessions, users=users))
    by_query, by_user = (run("good", systems, log, BIAS, data, by=by) for by in ("query", "user"))
    assert by_user.n_units == 500
    assert by_user.alone.difference == pytest.approx(by_query.alone.difference, abs=1e-12)
    assert by_user.alone.effective_size == pytest.approx(by_query.alone.effective_size)
    # Users are a mixture of all queries, so that they differ less.
    assert by_user.alone.high - by_user.alone.low < by_query.alone.high - by_query.alone.low


def test_it_refuses_where_the_check_alarms_or_cannot_run(data, systems, log, monkeypatch) -> None:
    outcomes = {
        "fails its check": SimpleNamespace(
            alarm=True, alarms=(), possible=True, reason="", sentence="ALARM: clicks are off."
        ),
        "fails its check: relevance changed": SimpleNamespace(
            alarm=True, alarms=("relevance changed",), possible=False, reason="one ranker", sentence="ALARM."
        ),
        "cannot be checked: one ranker": SimpleNamespace(
            alarm=False,
            alarms=(),
            possible=False,
            reason="one ranker",
            sentence="This bias cannot be checked: one ranker.",
        ),
    }
    for words, outcome in outcomes.items():
        monkeypatch.setattr(rw.clicks.Bias, "check", lambda _bias, _log, outcome=outcome: outcome)
        result = run("good", systems, log, BIAS, data)
        assert result.verdict == "cannot tell"
        assert result.recommended == 0.0
        assert "This log cannot tell, because the click model" in result.reason
        assert words in result.reason
        assert all(blend.failure for blend in result.blends)
        anyway = run("good", systems, log, BIAS, data, unchecked=True)
        assert anyway.verdict == "ship"
        assert "Unchecked, although the click model" in " ".join(repr(anyway).split())


def test_with_the_check_of_the_log(data, systems, log) -> None:
    right, wrong = BIAS, rw.clicks.Bias.known([1.0, 0.9, 0.8, 0.7, 0.6])
    assert run("good", systems, log, right, data).verdict == "ship"
    refused = run("good", systems, log, wrong, data)
    assert refused.bias_check is not None
    assert refused.bias_check.alarm
    assert refused.verdict == "cannot tell"
    alone = rw.clicks.simulate(data, ranker=systems["production"], curve=CURVE, impressions=100, seed=1)
    result = run("good", systems, alone, right, data)
    assert result.verdict == "cannot tell"
    assert "cannot be checked: the log has one ranker" in result.reason


def test_unsure_propensities_leave_the_verdict_open(data, systems, log) -> None:
    # The candidate sorts the lists of production by relevance: worse where users look at the end of lists.
    ranks = ranks_of(systems["production"], data)
    systems = systems | {"good": np.where(ranks < len(CURVE), 10.0 + data.labels, 0.0) - 0.01 * ranks}
    turned = BIAS.alpha[::-1]
    at_end = run("good", systems, log, rw.clicks.Bias.known(turned), data, blends=[1.0])
    assert at_end.alone.low < 0.0
    result = run("good", systems, log, replace(BIAS, alpha_high=turned), data, blends=[1.0])
    assert result.alone.low > 0.0
    assert result.verdict == "cannot tell"
    assert "propensities are not known well enough" in result.reason
    steeper = replace(BIAS, alpha_low=BIAS.alpha**1.1, alpha_high=BIAS.alpha**0.9)
    assert run("good", systems, log, steeper, data, blends=[1.0]).verdict == "ship"


def ranks_of(scores: np.ndarray, data: rw.RankingDataset) -> np.ndarray:
    queries = np.repeat(np.arange(data.n_queries), data.sizes)
    ranks = np.empty(scores.size, np.int64)
    ranks[np.lexsort((-scores, queries))] = np.arange(scores.size) - data.offsets[queries]
    return ranks


def test_propensities_without_intervals_do_not_decide(data, systems, log) -> None:
    for end in (np.nan, np.inf):
        result = run("good", systems, log, replace(BIAS, alpha_high=np.full(5, end)), data)
        assert result.verdict == "cannot tell"
        assert "propensities have no intervals" in result.reason
    assert run("good", systems, log, replace(BIAS, alpha_high=np.full(5, np.nan)), data, unchecked=True).alone.low > 0.0


def test_a_log_without_production_does_not_decide(data, systems) -> None:
    # Half of what production shows was never shown: its clicks would be those of mean documents.
    rankers = {"a": -systems["production"], "b": systems["poor"] - 10.0 * systems["production"]}
    log = rw.clicks.simulate(data, rankers=rankers, curve=CURVE, impressions=100, seed=1)
    poor = {"poor": -systems["production"], "production": systems["production"]}
    assert "click model cannot be checked" in one(compare(poor, log, BIAS, data)).reason
    result = one(compare(poor, log, BIAS, data, unchecked=True))
    assert result.alone.unsupported < 0.01
    assert result.verdict == "cannot tell"
    assert "it shows too little of production: 58% of its exposure" in result.reason
    assert "Not checked, production's own clicks: no ranker of the log is production" in " ".join(repr(result).split())


def test_runs_without_features(data, systems, log) -> None:
    def as_run(scores: np.ndarray) -> dict[str, dict[str, float]]:
        rows = zip(data.qids(), data.document_ids, scores, strict=True)
        runs: dict[str, dict[str, float]] = {}
        for query, document, score in rows:
            runs.setdefault(str(query), {})[str(document)] = float(score)
        return runs

    runs = {name: as_run(scores) for name, scores in systems.items()}
    result = run("good", runs, log, BIAS)
    with_features = run("good", systems, log, BIAS, data)
    assert result.verdict == with_features.verdict == "ship"
    assert result.alone.unsupported == pytest.approx(with_features.alone.unsupported)
    short = {query: dict(sorted(scores.items(), key=lambda one: -one[1])[:3]) for query, scores in runs["good"].items()}
    with refusal(what="…same length…", got="at most 5 of 'good' and 3 of 'production'", hint="…cutoff=3…"):
        run("good", runs | {"production": short}, log, BIAS)
    fewer = {query: scores for query, scores in runs["good"].items() if query != "q7"}
    with refusal(got="'production' without 1 of 80 queries", where="query 'q7'"):
        run("good", runs | {"production": fewer}, log, BIAS)
    more = {query: scores | {"new": 100.0} for query, scores in runs["good"].items()}
    with refusal(what="every document of a run needs features", got="80 of 'good' without"):
        run("good", runs | {"good": more}, log, BIAS, data)
    # A run of nothing but documents that were never shown.
    new = {query: {f"new {number}": 1.0 / number for number in range(1, 6)} for query in runs["good"]}
    nothing = one(compare({"new": new, "production": runs["production"]}, log, BIAS, blends=[1.0]))
    assert nothing.alone.unsupported == 1.0
    assert nothing.alone.effective_size == 0.0
    assert nothing.verdict == "cannot tell"


def test_unsupported_is_the_exposure_of_documents_that_were_never_or_hardly_shown(data, systems, log) -> None:
    result = run("poor", systems, log, BIAS, data)
    targets = rw.clicks.estimates(log, data, BIAS, regression=np.zeros(data.n_docs))
    exposure = targets.impressions * seen(systems["poor"], data)
    known = np.minimum(targets.rho / targets.clip, 1.0)  # 0 where a document was never shown
    assert result.alone.unsupported == pytest.approx(np.average(1.0 - known, weights=exposure))
    last = result.blends[-1]
    assert last.likely_low is not None
    assert last.lowest < last.likely_low < result.alone.low < result.alone.high < last.highest
    assert "likely low" in repr(result)


def hiding(rank: int, *, seldom: bool) -> tuple[Log, rw.RankingDataset, dict[str, np.ndarray]]:
    """Documents that nobody clicks, hidden by all rankers but not by the features; the candidate shows one a list.

    It is at the candidate's ``rank``. Where that is ``seldom``, one ranker showed it last in a part of the traffic.
    """
    random = np.random.default_rng(rank)
    labels = random.integers(0, 5, 80 * 12)
    ids: Any = {"query_ids": np.arange(80), "document_ids": np.arange(80 * 12)}
    features = labels[:, None] + random.normal(scale=0.1, size=(labels.size, 1))
    made = rw.RankingDataset(features, labels, np.arange(0, labels.size + 1, 12), **ids)
    hidden = random.random(made.n_docs) < 0.4
    first = hidden & (ranks_of(features[:, 0] + 100.0 * hidden, made) == 0)
    rankers = dict(zip(("production", "b", "c"), random.normal(size=(3, made.n_docs)) - 100.0 * hidden, strict=True))
    ranks = ranks_of(rankers["production"], made)
    new, last = (-np.where(first, place - 1.5, ranks) for place in (rank, len(CURVE)))
    truth = made.with_(labels=np.where(hidden, 0.0, made.labels))
    log = rw.clicks.simulate(truth, rankers=rankers, curve=CURVE, impressions=100, seed=rank)
    if seldom:
        few = rw.clicks.simulate(truth, rankers={"d": last}, curve=CURVE, impressions=2, seed=rank)
        log = joined(log, few)
    return log, truth, {"new": new, "production": rankers["production"]}


def joined(*logs: Log) -> Log:
    rows = []
    for number, log in enumerate(logs):
        assert log.sessions is not None
        lists = np.repeat(np.arange(log.sessions.n_impressions), np.diff(log.sessions.offsets))
        columns = {
            "query": log.query_ids[log.query_of_pair[log.sessions.pairs]],
            "document": log.document_ids[log.sessions.pairs],
            "impression": len(logs) * lists + number,
            "position": log.sessions.positions,
            "clicked": log.sessions.clicked,
            "ranker": np.array(log.ranker_names)[log.sessions.rankers[lists]],
        }
        rows.append(pl.DataFrame(columns))
    return Log.from_rows(pl.concat(rows).lazy())


@pytest.mark.parametrize("seldom", [False, True])
@pytest.mark.parametrize(("rank", "words"), [(1, "of its exposure goes to"), (3, "its gain rests on documents")])
def test_what_was_never_or_hardly_shown_ships_nothing(rank: int, words: str, seldom: bool) -> None:
    log, data, systems = hiding(rank, seldom=seldom)
    users = rw.clicks.Users(curve=CURVE)
    truth = np.mean(users.expected_clicks(data, systems["new"]) - users.expected_clicks(data, systems["production"]))
    result = run("new", systems, log, BIAS, data, blends=[1.0])
    assert result.bias_check is not None
    assert not result.bias_check.alarm
    assert truth < 0.0 < result.alone.low  # R̂ is that of documents that were chosen for being good
    assert result.verdict == "cannot tell"
    assert words in result.reason
    assert result.blends[-1].lowest < truth < result.blends[-1].highest


def test_a_candidate_does_not_pass_by_what_production_alone_shows() -> None:
    random = np.random.default_rng(0)
    ids: Any = {"query_ids": np.arange(80), "document_ids": np.arange(80 * 12)}
    made = rw.RankingDataset(np.zeros((960, 1)), random.integers(0, 3, 960), np.arange(0, 961, 12), **ids)
    unknown = np.arange(960) % 12 == 0  # the best of each query, which only production knows
    made = made.with_(labels=np.where(unknown, 4, made.labels))
    noise, known = random.normal(size=(2, 960)), -100.0 * unknown
    rankers = {"a": noise[0] + 0.25 * made.labels + known, "b": noise[1] + known}
    log = rw.clicks.simulate(made, rankers=rankers, curve=CURVE, impressions=300, seed=1)
    systems = {"a": rankers["a"], "production": -np.where(unknown, 1.5, ranks_of(rankers["b"], made))}
    result = run("a", systems, log, BIAS, made, blends=[1.0])
    users = rw.clicks.Users(curve=CURVE)
    truth = np.mean(users.expected_clicks(made, systems["a"]) - users.expected_clicks(made, systems["production"]))
    assert truth < 0.0 < result.blends[-1].lowest
    assert own_clicks(result).outcome == "not checked"
    assert result.verdict == "cannot tell"
    assert (
        "because production shows documents that were never or hardly shown: the interval begins at −" in result.reason
    )
    assert "16% of the exposure of production goes to documents" in result.reason


def personalised(taste: float) -> tuple[Log, rw.RankingDataset, dict[str, np.ndarray]]:
    """Two kinds of users; production's lists follow them, and its scores do not."""
    made = rw.synthetic(n_queries=120, n_docs=8, seed=5)
    made = made.with_(query_ids=np.arange(made.n_queries), document_ids=np.arange(made.n_docs))
    random = np.random.default_rng(1)
    old, other, _ = random.normal(size=(3, made.n_docs))
    kinds = [made, made.with_(labels=random.permutation(made.labels))]
    logs = [
        rw.clicks.simulate(
            kind, rankers={"live": old + taste * kind.labels, "other": other}, curve=CURVE, impressions=100, seed=seed
        )
        for seed, kind in enumerate(kinds)
    ]
    new = old + 0.5 * (kinds[0].labels + kinds[1].labels)
    return joined(*logs), made, {"new": new, "live": old}


def own_clicks(result: OffPolicyComparison) -> Any:
    (found,) = (one for one in result.assumptions if one.name == "production's own clicks")
    return found


def test_productions_own_log_contradicts_its_estimate() -> None:
    log, data, systems = personalised(0.3)
    result = one(compare(systems, log, BIAS, data))
    assert result.verdict == "cannot tell"
    assert result.alone.low > 0.0
    own = log.rankers == 0
    logged = log.clicks[own].sum() / log.impressions[own & (log.positions == 1)].sum()
    found = own_clicks(result)
    assert found.outcome == "fails"
    assert f"the log contradicts the estimate of live: {result.production_clicks:.2f}" in result.reason
    assert f"{logged:.4f} logged" in result.reason
    assert "its lists are as scored in" in result.reason
    assert one(compare(systems, log, BIAS, data, unchecked=True)).verdict == "ship"


@pytest.mark.parametrize(
    ("production", "outcome", "words"),
    [
        ("live", "holds", "impressions of 'live', within chance"),
        ("another name", "holds", "impressions of 'live', within chance"),
        ("changed", "not checked", "no ranker of the log is production, by its name or by its lists"),
    ],
)
def test_production_is_found_in_the_log_by_its_name_or_its_lists(production: str, outcome: str, words: str) -> None:
    log, data, systems = personalised(0.0)
    old = systems["live"][::-1] if production == "changed" else systems["live"]
    name = production if production == "live" else "production"
    for by_query in (True, False):  # aggregated, and impressions one by one with users as units
        how: Any = {}
        part = replace(log, sessions=None)
        if not by_query:
            assert log.sessions is not None
            users = np.arange(log.sessions.n_impressions) % 500
            part, how = replace(log, sessions=replace(log.sessions, users=users)), {"by": "user"}
        found = own_clicks(one(compare({"new": systems["new"], name: old}, part, BIAS, data, **how)))
        assert found.outcome == outcome
        assert words in found.sentence


def test_production_that_is_scored_otherwise_than_it_was_shown_is_a_caveat() -> None:
    log, data, systems = personalised(0.0)
    others = systems["live"] + np.random.default_rng(3).normal(size=data.n_docs)
    result = one(compare(systems | {"live": others}, log, BIAS, data))
    found = own_clicks(result)
    assert found.outcome == "not checked"
    assert "within chance; its lists are as scored in" in found.sentence
    assert "live is compared by its scores, which are not what it showed" in result.reason


def below(result: OffPolicyComparison) -> Any:
    (found,) = (one for one in result.assumptions if one.name == "the independence of clicks")
    return found


def two_documents(**patterns: int) -> Log:
    rows = [
        {
            "query": q,
            "document": f"d{k}",
            "impression": clicks,
            "position": k + 1,
            "clicked": int(clicks[k + 1]),
            "weight": n,
        }
        for q in range(5)
        for clicks, n in patterns.items()
        for k in range(2)
    ]
    return Log.from_rows(pl.LazyFrame(rows))


def test_clicks_below_a_click_by_hand() -> None:
    # The second document is clicked in 1 of 5 impressions with a click above, and in 2 of 5 without.
    log = two_documents(_11=20, _10=80, _01=40, _00=60)
    found = assumptions.independent_clicks(log, "query", 0.95)
    assert found.outcome == "fails"
    assert "clicks below a click are 0.50 [0.50, 0.50] times" in found.sentence
    assert "cascade" not in found.caveat
    assert assumptions.independent_clicks(replace(log, sessions=None), "query", 0.95).outcome == "not checked"


def test_users_who_click_more_than_others_hide_whether_they_stop() -> None:
    found = assumptions.independent_clicks(two_documents(_11=60, _10=40, _01=20, _00=80), "query", 0.95)
    assert found.outcome == "not checked"
    assert "are 3.00 [3.00, 3.00] times" in found.sentence
    assert "whether they stop after a click cannot be seen" in found.sentence


def test_the_verdict_says_where_users_stop_after_a_click(data, systems, log, drawn) -> None:
    assert below(run("good", systems, log, BIAS, data)).outcome == "holds"
    aggregated = run("good", systems, replace(log, sessions=None), BIAS, data)
    assert "Not checked, the independence of clicks: the log has no impressions one by one" in " ".join(
        repr(aggregated).split()
    )
    result = run("good", systems, drawn, BIAS, data, unchecked=True)
    assert below(result).outcome == "fails"
    assert "Users click less below a click, 0.00 [0.00, 0.00] times" in result.reason
    assert 'this log allows `estimator="cascade"`' in result.reason


def test_several_candidates_share_the_level(data, systems, log) -> None:
    names = ("close", "good", "poor", "production")
    result = compare({name: systems[name] for name in names}, log, BIAS, data, blends=[0.5, 1.0])
    assert isinstance(result, OffPolicyComparisons)
    assert list(result.verdicts) == ["close", "good", "poor"]
    for name in result.verdicts:
        alone = run(name, systems, log, BIAS, data, blends=[0.5, 1.0], level=1.0 - 0.05 / 3.0)
        assert result[name].blends == alone.blends
        assert result[name].verdict == alone.verdict
    text = repr(result)
    assert text.count("98.3%") == 3
    assert "Levels are Holm's for 3 candidates, 95% together." in text
    assert result.to_frame()["candidate"].to_list() == ["close", "close", "good", "good", "poor", "poor"]


def test_a_candidate_that_passes_leaves_its_level_to_the_others() -> None:
    tried: list[tuple[str, float]] = []

    def compared(name: str, level: float) -> OffPolicyComparison:
        tried.append((name, round(level, 4)))
        passes_at = {"a": 0.99, "b": 0.975, "c": 0.94}
        return cast("OffPolicyComparison", SimpleNamespace(recommended=float(level <= passes_at[name]), level=level))

    levels = [round(one.level, 4) for one in _by_holm(["a", "b", "c"], compared, 0.95)]
    assert levels == [0.9833, 0.975, 0.95]
    assert tried[-1] == ("c", 0.95)


def test_blends_do_not_depend_on_the_scale_of_scores() -> None:
    rng = np.random.default_rng(0)
    offsets, old, new = np.array([0, 4, 9]), rng.normal(size=9), rng.normal(size=9)
    assert _scale(old, 1000.0 * new + np.repeat([5.0, -70.0], [4, 5]), offsets) == pytest.approx(
        _scale(old, new, offsets) / 1000.0
    )
    assert score_deviation(_scale(old, new, offsets) * new, offsets) == pytest.approx(score_deviation(old, offsets))
    assert _blended(old, new, 0.25, 2.0, offsets) == pytest.approx(0.75 * old + 0.5 * new)
    # A document that only one of them retrieves has the lowest score in the other; one that neither does is hidden.
    old[[0, 1]], new[[0, 2]] = -np.inf, -np.inf
    half = _blended(old, new, 0.5, 1.0, offsets)
    assert np.isinf(half).tolist() == [True] + [False] * 8
    assert half[1:3].tolist() == pytest.approx([min(old[2:4]) / 2 + new[1] / 2, old[2] / 2 + min(new[1], new[3]) / 2])
    assert np.isinf(_blended(old, new, 1.0, 1.0, offsets)).tolist() == [True, False, True] + [False] * 6


def blend(share: float, low: float, high: float, **facts: float) -> Blend:
    interval = difference, *_ = (low + high) / 2, low, high
    estimated = Estimated(np.zeros(1), facts.get("effective", 5000.0), 1.0, facts.get("unsupported", 0.1))
    ends = {name: facts.get(name, end) for name, end in (("lowest", low), ("highest", high), ("extreme", low))}
    outcome, why = decision.judge(estimated, interval, by="query", level=0.95, **ends)
    measures: Any = {"clicks": 1.0, "effective_size": 5000.0, "largest_weight": 1.0, "unsupported": 0.1}
    bounds: Any = {"lowest": ends["lowest"], "highest": ends["highest"]}
    said: Any = {"outcome": outcome, "failure": why}
    return Blend(share=share, difference=difference, low=low, high=high, **bounds, **said, **measures)


@pytest.mark.parametrize(
    ("blends", "verdict", "recommended", "words"),
    [
        ([(0.25, 0.1, 0.2), (0.5, 0.1, 0.3), (1.0, 0.1, 0.4)], "ship", 1.0, "Ship new: +0.2500"),
        ([(0.25, 0.1, 0.2), (0.5, 0.1, 0.3), (1.0, -0.1, 0.4)], "ship", 0.5, "Ship a blend, 0.5 of new and 0.5 of old"),
        ([(0.25, 0.1, 0.2), (0.5, -0.1, 0.3), (1.0, 0.1, 0.4)], "ship", 0.25, "the next blend, 0.5 of new, does not"),
        ([(0.25, -0.1, 0.2), (0.5, 0.1, 0.3), (1.0, 0.1, 0.4)], "cannot tell", 0.0, "whether the first blend, 0.25 of"),
        ([(0.25, -0.1, 0.2), (0.5, 0.1, 0.3), (1.0, -0.1, 0.4)], "cannot tell", 0.0, "whether new is better, because"),
        ([(0.25, -0.2, -0.1), (1.0, 0.1, 0.4)], "cannot tell", 0.0, "0.25 of new, is better, because it has fewer"),
        (
            [(0.25, -0.1, 0.2), (0.5, -0.1, 0.3), (1.0, -0.4, -0.1)],
            "do not ship",
            0.0,
            "Do not ship new: it has fewer clicks, −0.2500",
        ),
    ],
)
def test_blends_are_tested_in_order_up_to_the_first_failure(blends, verdict, recommended, words) -> None:
    got = decision.decide("new", "old", [blend(*one) for one in blends], "")
    assert got[0] == verdict
    assert got[2] == recommended
    assert words in got[1]


def test_what_a_blend_fails_by() -> None:
    assert blend(1.0, 0.1, 0.2).failure == ""
    assert "effective sample size is 999 impressions" in blend(1.0, 0.1, 0.2, effective=999.0).failure
    assert "21% of its exposure" in blend(1.0, 0.1, 0.2, unsupported=0.21).failure
    rests = blend(1.0, 0.1, 0.2, lowest=-0.01)
    assert "10% of its exposure: without clicks on these the interval begins at −0.0100" in rests.failure
    assert rests.outcome == "unclear"
    assert blend(1.0, -0.2, -0.1).outcome == "worse"
    assert "if documents that were hardly shown are as predicted" in blend(1.0, -0.2, -0.1, highest=0.1).failure
    assert "propensities" in blend(1.0, 0.1, 0.2, extreme=-0.01).failure
    assert (
        "includes 0; about 8.2 times as many queries would show such a difference in 80% of cases"
        in blend(1.0, -0.1, 0.3).failure
    )
    assert "includes 0" in blend(1.0, -0.3, 0.1).failure
    assert "weights are 0.70 on average" in decision.support_problem(Estimated(np.zeros(1), 5000.0, 1.0, 0.1, 0.7))
    assert decision.support_problem(Estimated(np.zeros(1), np.nan, 1.0, 0.1))


@pytest.fixture(scope="module")
def drawn(data: rw.RankingDataset, systems: dict[str, np.ndarray]) -> Log:
    return rw.clicks.simulate(
        data, ranker=systems["production"], temperature=1.0, model="cascade", cutoff=3, impressions=500, seed=5
    )


def test_cascade_by_the_logs_own_probabilities(data, systems, drawn) -> None:
    how = {"estimator": "cascade", "temperature": 1.0, "blends": (0.1, 0.2, 1.0)}
    result = run("good", systems, drawn, None, data, **how)
    assert result.bias_check is None
    assert result.production_clicks == pytest.approx(drawn.clicks.sum() / drawn.n_impressions, rel=1e-4)
    with_baseline = run("good", systems, drawn, BIAS, data, **how)
    first = with_baseline.blends[0]
    assert first.low < result.blends[0].difference < first.high


def test_item_position_needs_probabilities_before_rankings_are_drawn(data, systems, drawn) -> None:
    refuses(lambda: run("good", systems, drawn, None, data, estimator="item-position"), got="…given those above it…")
    first = rw.clicks.simulate(data, ranker=systems["production"], temperature=2.0, cutoff=1, impressions=1000, seed=5)
    result = run("good", systems, first, None, data, estimator="item-position", blends=[1.0])  # nothing is above
    rewards = rw.clicks.Users().rewards(data)[ranks_of(systems["good"], data) == 0]
    assert result.blends[0].clicks == pytest.approx(rewards.mean(), abs=0.05)


def test_printed(data, systems, log) -> None:
    result = run("good", systems, log, BIAS, data)
    text = repr(result)
    assert text.splitlines()[1].startswith("production")
    assert "0.25 good" in text
    assert "80 queries" in text
    assert "Check of the click model: No alarm" in text
    assert "Check of production's own clicks: " in text
    assert " ".join(text.split()).endswith(result.reason)
    frame = result.to_frame()
    assert frame["share"].to_list() == [0.25, 0.5, 1.0]
    assert frame["difference"][-1] == result.alone.difference
    assert isinstance(frame, pl.DataFrame)


def test_errors(data, systems, log) -> None:
    good, production = systems["good"], systems["production"]
    with refusal(what="one candidate or several are compared with production", got="1 systems"):
        compare({"production": production}, log, BIAS, data)
    for blends in ((), (0.5,), (0.5, 0.25, 1.0), (0.0, 1.0)):
        with refusal(what="blends must be shares above 0 that grow up to 1"):
            run("good", systems, log, BIAS, data, blends=blends)
    refuses(lambda: run("good", systems, log, BIAS, data, estimator="cascade"), hint="…leave estimator…")
    with refusal(what="the position-based estimator needs the bias of positions"):
        run("good", systems, log, None, data)
    refuses(lambda: run("good", systems, log, BIAS, data, temperature=1.0), got="temperature…")
    refuses(lambda: run("good", systems, log, BIAS, data, by="user"), got="a log without users")
    with refusal(what="a model needs the features of documents"):
        compare({"new": lambda features: features[:, 0], "production": production}, log, BIAS)
    refuses(lambda: run("good", systems, log, BIAS, data, estimator="sips"), what="unknown estimator")
    named = one(compare({"production": production, "new": good}, log, BIAS, data, blends=[1.0]))
    last = one(compare({"new": good, "old": production}, log, BIAS, data, blends=[1.0]))
    assert (named.candidate, named.production) == ("new", "production")
    assert (last.candidate, last.production) == ("new", "old")
    assert named.alone.difference == last.alone.difference


@pytest.fixture(scope="module")
def found(data, log) -> rw.clicks.Estimates:
    return rw.clicks.estimates(log, data, BIAS, seed=3)


def test_targets_spare_the_regressions_and_change_nothing(data, systems, log, found, monkeypatch) -> None:
    more = rw.concatenate([data.take(np.arange(80)[::-1]), data.with_(query_ids=range(80)).take([3, 5])])
    drawn = rw.clicks.simulate(data, ranker=systems["production"], temperature=1.0, cutoff=4, impressions=30, seed=2)
    cascade: Any = {"estimator": "cascade", "unchecked": True, "seed": 3}
    refitted = run("good", systems, log, BIAS, data, seed=3), run("good", systems, drawn, BIAS, data, **cascade)
    with pytest.warns(UserWarning, match="2 of 82 queries were never shown"):
        several = rw.clicks.targets(log, more, BIAS, seed=3)
    of_drawn = rw.clicks.estimates(drawn, data, BIAS, seed=3)
    monkeypatch.setattr(regression, "boost", None)
    for targets in (found, several, rw.clicks.targets(log, data, BIAS, regression=found.regression)):
        result = run("good", systems, log, BIAS, data, targets=targets)
        assert result.blends == refitted[0].blends
        assert repr(result) == repr(refitted[0])
    assert repr(run("good", systems, drawn, BIAS, data, targets=of_drawn, **cascade)) == repr(refitted[1])


def test_targets_of_something_else_are_refused(data, systems, log, found) -> None:
    half = log.only(queries=np.arange(80) < 40)
    fewer = data.take(np.isin(data.query_ids, half.query_ids))
    policy = {"production": np.asarray(systems["production"])}
    curve = rw.clicks.Bias.known([1.0, 0.5, 0.4, 0.3, 0.2])
    others: dict[str, Any] = {
        "documents": rw.clicks.estimates(half, fewer, BIAS),
        "clicks": rw.clicks.estimates(half, data, BIAS),
        "bias": rw.clicks.estimates(log, data, curve),
        "logging policy": rw.clicks.estimates(log, data, BIAS, probabilities=policy),
    }
    for what, targets in others.items():
        with pytest.raises(ValueError, match=rf"targets must have the {what} of the comparison: got others in Estimat"):
            run("good", systems, log, BIAS, data, targets=targets)
    scores = {name: values[fewer.document_ids] for name, values in systems.items()}
    with refusal(what="targets must have the clicks of the comparison"):
        run("good", scores, half, BIAS, fewer, targets=found)  # R̂ has learned from more than these
    ips = rw.clicks.targets(log, data, BIAS, "ips")
    unknown: Any
    for unknown in (data, rw.clicks.targets(log, data, BIAS).take(slice(0, 80)), ips, found.dr):
        with refusal(what="targets must be what rw.clicks.estimates returned, or rw.clicks.targets with a regression"):
            run("good", systems, log, BIAS, data, targets=unknown)
