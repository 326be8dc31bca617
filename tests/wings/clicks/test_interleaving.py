"""Interleaved lists and the preference from clicks on them, by enumeration of all coins."""

import itertools
import math
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.judging import traffic
from rankwise.wings.clicks.interleaving import anytime_test
from rankwise.wings.clicks.interleaving.interleave import A, B, TwoLists, merge
from tests.cli.running import run
from tests.refusals import refusal, refuses

THETA = np.array([1.0, 0.6, 0.4, 0.3])
RELEVANCE = dict(zip("wxyz", (0.9, 0.5, 0.3, 0.1), strict=True))
PERMUTATIONS = list(itertools.permutations("wxyz"))


def outcomes(a, b, k, method="team_draft"):
    """Return the list and the teams of every outcome of the coins."""
    documents = list(dict.fromkeys([*a, *b]))
    codes = np.array([documents.index(one) for one in b], np.int64)
    lists = TwoLists(codes, *(np.array([0, len(part)]) for part in (documents, a, b)))
    for coins in range(2 ** ((k + 1) // 2) if method == "team_draft" else 2):
        shown, teams = np.empty(k, np.int64), np.empty(k, np.int64)
        size = merge(lists, 0, k, np.uint64(coins), method == "team_draft", shown, teams)
        yield [documents[one] for one in shown[:size]], teams[:size].tolist()


def reference_team_draft(a, b, k, coins):
    """Write a team draft as in Radlinski et al., for rankings without a common beginning that do not run out."""
    ranking: list[Any] = []
    teams, chosen = [], {A: 0, B: 0}
    while len(ranking) < k:
        level = chosen[A] == chosen[B]
        team = next(coins) if level else min(chosen, key=lambda one: chosen[one])
        ranking.append(next(one for one in (a, b)[team] if one not in ranking))
        teams.append(team)
        chosen[team] += 1
    return ranking, teams


def reference_balanced(a, b, k, first):
    """Write balanced interleaving as in Joachims."""
    ranking: list[Any] = []
    at = [0, 0]
    while len(ranking) < k:
        turn = first if at[0] == at[1] else int(at[0] > at[1])
        document = (a, b)[turn][at[turn]]
        at[turn] += 1
        if document not in ranking:
            ranking.append(document)
    return ranking


def test_team_drafts_and_balanced_lists_are_as_published():
    rng = np.random.default_rng(0)
    for _ in range(50):
        a, b = rng.permutation(9).tolist(), rng.permutation(9).tolist()
        if a[0] == b[0]:
            continue
        for k in (1, 4, 5):
            for number, outcome in enumerate(outcomes(a, b, k)):
                coins = ((number >> bit) & 1 for bit in range(9))
                assert outcome == reference_team_draft(a, b, k, coins)
            balanced = [ranking for ranking, _ in outcomes(a, b, k, "balanced")]
            assert balanced == [reference_balanced(a, b, k, first) for first in (0, 1)]


def test_each_team_has_each_position_equally_often():
    # What users who click by position alone can tell apart; rankings of different lengths run out of documents.
    rng = np.random.default_rng(1)
    credited = 0
    for _ in range(300):
        a, b = (rng.permutation(6)[: rng.integers(0, 7)].tolist() for _ in range(2))
        k = int(rng.integers(1, 8))
        balance = np.zeros(k)
        for ranking, teams in outcomes(a, b, k):
            assert len(ranking) == min(k, len({*a[:k], *b[:k]})) == len(set(ranking))
            balance[: len(teams)] += [(team == A) - (team == B) for team in teams]
            credited += sum(team >= 0 for team in teams)
            assert all(document in (a, b)[team][:k] for document, team in zip(ranking, teams, strict=True) if team >= 0)
        assert not balance.any(), (a, b, k)
    assert credited > 1000


def test_the_common_beginning_has_no_team():
    shown = rw.judging.interleave(["a", "b", "c", "d"], ["a", "b", "d", "c"], cutoff=3, key=1)
    assert shown.ranking[:2] == ["a", "b"]
    assert shown.teams[:2] == [None, None]
    assert shown.teams[2] in ("a", "b")
    assert rw.judging.interleave(["a", "b"], ["a", "b"], key="x").teams == [None, None]


def test_a_key_stands_for_one_list():
    a, b = [f"d{i}" for i in range(10)], [f"d{i}" for i in range(5, 15)]
    lists = [rw.judging.interleave(a, b, key=key, seed=3) for key in range(200)]
    assert lists[7] == rw.judging.interleave(tuple(a), b, key="7", seed=3)
    assert len({tuple(one.ranking) for one in lists}) > 5
    assert any(one != rw.judging.interleave(a, b, key=key, seed=4) for key, one in enumerate(lists))
    first = np.mean([one.teams[0] == "a" for one in lists])
    assert abs(first - 0.5) < 4 * 0.5 / math.sqrt(200)
    assert all(len(one.ranking) == 10 for one in lists)
    assert rw.judging.interleave(a, b, key=0, cutoff=200).ranking
    assert len(rw.judging.interleave(a, b, key=0, cutoff=200).ranking) == 15


def exact_log(method, seed=0):
    """Return all pairs of permutations as queries, with a key for every outcome and one click per impression."""
    keys: dict[tuple[str, ...], int] = {}
    for key in range(1000):
        one = rw.judging.interleave(["x", "y", "z"], ["z", "u", "v"], cutoff=4, key=key, seed=seed, method=method)
        keys.setdefault(tuple(one.ranking), key)
    assert len(keys) == (4 if method == "team_draft" else 2)
    a = {f"{i}": list(PERMUTATIONS[i // 24]) for i in range(576)}
    b = {f"{i}": list(PERMUTATIONS[i % 24]) for i in range(576)}
    rows = []
    for query in a:
        for key in keys.values():
            ranking = rw.judging.interleave(a[query], b[query], cutoff=4, key=key, seed=seed, method=method).ranking
            for clicked in range(4):
                # The key decides the coins: the same key again has another query of the same rankings.
                rows += [(f"{query}/{clicked}", key, d, int(p == clicked), p + 1) for p, d in enumerate(ranking)]
    a, b = ({f"{query}/{clicked}": one[query] for query in one for clicked in range(4)} for one in (a, b))
    frame = pl.DataFrame(rows, schema=["query", "key", "document", "clicked", "position"], orient="row")
    return frame, a, b, len(keys)


@pytest.mark.parametrize("method", ["team_draft", "balanced"])
def test_debiased_credit_is_the_difference_of_clicks_for_all_pairs_of_four_documents(method):
    frame, a, b, n_keys = exact_log(method)
    differing = [i for i in range(576) if i // 24 != i % 24]

    def expectation(credit, **how):
        outcome = rw.judging.interleaving(frame, a, b, cutoff=4, method=method, credit=credit, **how)
        values = outcome.credits.reshape(len(differing), n_keys, 4)
        documents = frame.filter(pl.col("clicked") == 1)["document"].to_numpy().reshape(576, n_keys, 4)[differing]
        relevance = np.vectorize(RELEVANCE.get)(documents)
        return (values * relevance * THETA).sum(axis=2).mean(axis=1)

    truth = np.array(
        [
            sum(RELEVANCE[d] * t for d, t in zip(PERMUTATIONS[i // 24], THETA, strict=True))
            - sum(RELEVANCE[d] * t for d, t in zip(PERMUTATIONS[i % 24], THETA, strict=True))
            for i in differing
        ]
    )
    np.testing.assert_allclose(expectation("debiased", bias=THETA), truth, atol=1e-12)
    if method == "team_draft":
        plain = expectation("clicks")
        wrong = (plain * truth < -1e-9) | ((np.abs(plain) < 1e-9) & (np.abs(truth) > 1e-9))
        assert 0 < wrong.sum() < len(differing) / 2


def exact_e_value(values, mean, bets):
    return np.mean([math.prod(1 + bet * (value - mean) for value in values) for bet in bets])


def test_e_values_are_one_on_average_over_all_sequences_and_intervals_are_their_inverse():
    values = np.array(list(itertools.product([-1.0, 0.0, 1.0], repeat=6)))
    last = [math.exp(anytime_test.confidence_sequence(row, 0.95).evidence[-1]) for row in values]
    np.testing.assert_allclose(np.mean(last), 1.0, rtol=1e-12)
    rng = np.random.default_rng(2)
    row = np.clip(rng.normal(0.1, 0.4, 700), -1, 1)
    outcome = anytime_test.confidence_sequence(row, 0.9)
    np.testing.assert_allclose(math.exp(outcome.evidence[99]), exact_e_value(row[:100], 0.0, anytime_test.BETS))
    moved = 0
    for ends, inside in ((outcome.low, 1e-3), (outcome.high, -1e-3)):
        for look in np.flatnonzero(np.diff(ends)) + 1:
            seen, moved = row[: outcome.looks[look]], moved + 1
            assert exact_e_value(seen, ends[look], anytime_test.BETS) >= 10 - 1e-9
            assert exact_e_value(seen, ends[look] + inside, anytime_test.BETS) < 10
        assert (np.diff(ends) * inside >= 0).all()
    assert moved > 20
    assert outcome.decided_after is not None
    assert outcome.low[-1] > 0.0
    before = outcome.evidence[: outcome.decided_after - 1]
    assert (before < math.log(10)).all()
    assert outcome.evidence[outcome.decided_after - 1] >= math.log(10)


def test_wealth_does_not_overflow_or_underflow():
    outcome = anytime_test.confidence_sequence(np.ones(20_000), 0.95)
    assert outcome.evidence[-1] == pytest.approx(20_000 * math.log(1.5) - math.log(16), rel=1e-9)
    assert outcome.low[-1] > 0.99
    assert outcome.high[-1] == 1.0


def test_traffic_is_what_simulated_experiments_take():
    units = traffic(0.1, ties=0.5)
    rng = np.random.default_rng(3)
    draws = rng.choice([-1.0, 0.0, 1.0], p=[0.2, 0.5, 0.3], size=(300, units))
    decided = [anytime_test.confidence_sequence(row, 0.95).decided_after is not None for row in draws]
    assert 0.75 < np.mean(decided) < 0.95  # early crossings add to the power at the last unit
    assert traffic(0.05, ties=0.5) > 3 * units
    assert traffic(-0.1, ties=0.5) == units
    with refusal(what="the effect must be above 0 and below 1 − ties", got="0.6 with ties of 0.5"):
        traffic(0.6, ties=0.5)


def log(n=300, users=None, seed=0):
    """Return a log in which most users click w, which only a has above."""
    a, b = {"q": ["w", "u", "v"], "same": ["u", "v"]}, {"q": ["u", "v", "w"], "same": ["u", "v"]}
    rows = []
    for key in range(n):
        query = "same" if key % 10 == 0 else "q"
        shown = rw.judging.interleave(a[query], b[query], cutoff=3, key=key, seed=seed)
        for place, (document, team) in enumerate(zip(shown.ranking, shown.teams, strict=True)):
            user = {"user": f"u{key % users}"} if users else {}
            clicked = document == ("w", "w", "w", "v", "u")[np.random.default_rng(key).integers(5)]
            row = {"key": key, "query": query, "document": document, "clicked": clicked, "team": team}
            rows.append(row | {"position": place + 1} | user)
    return pl.DataFrame(rows), a, b


def test_rebuilt_teams_are_those_that_were_shown(tmp_path):
    frame, a, b = log()
    by_team = rw.judging.interleaving(frame.drop("query", "position"), cutoff=3)
    shuffled = frame.drop("team").sample(fraction=1.0, shuffle=True, seed=1).sort(pl.col("key"), maintain_order=True)
    rebuilt = rw.judging.interleaving(shuffled, a, b, cutoff=3)
    np.testing.assert_array_equal(by_team.credits, rebuilt.credits)
    assert rebuilt.credits.size == 270
    assert set(rebuilt.credits) == {-1.0, 0.0, 1.0}
    assert any("30 impressions not counted: both rankings have the same list" in note for note in rebuilt.notes)
    frame.drop("team").write_csv(tmp_path / "log.csv")
    frame.drop("team").write_parquet(tmp_path / "log.parquet")
    runs = [{q: {d: 9.0 - i for i, d in enumerate(row)} for q, row in one.items()} for one in (a, b)]
    for name in ("log.csv", "log.parquet"):
        again = rw.judging.interleaving(tmp_path / name, *runs, cutoff=3)
        assert (again.preference, again.interval, again.e_value) == (
            rebuilt.preference,
            rebuilt.interval,
            rebuilt.e_value,
        )
    clicks = rw.judging.interleaving(frame, a, b, cutoff=3, credit="clicks")
    assert clicks.preference == pytest.approx(rebuilt.preference)
    assert clicks.scale == 2.0


def test_the_first_impression_of_a_user_counts():
    frame, a, b = log(users=50)
    outcome = rw.judging.interleaving(frame, a, b, cutoff=3)
    every = rw.judging.interleaving(frame.drop("user"), a, b, cutoff=3)
    keys = [key for key in range(300) if key % 10]
    first = {key % 50: every.credits[number] for number, key in reversed(list(enumerate(keys)))}
    assert outcome.by == "user"
    assert outcome.credits.size == len(first)
    assert outcome.preference == pytest.approx(np.mean(list(first.values())))
    assert outcome.preference != pytest.approx(every.preference)
    assert "later ones of a user" in repr(outcome)


def teams(wins, **columns):
    """Return a log with a document per impression, clicked where a or b wins."""
    n = len(wins)
    team = pl.Series(wins).replace_strict({1: "a", -1: "b", 0: "a"}, return_dtype=pl.String)
    return pl.DataFrame({"key": range(n), "document": ["d"] * n, "clicked": np.abs(wins), "team": team} | columns)


def test_visitors_who_return_one_after_the_other_are_noticed_without_a_column_of_users():
    """500 visitors of whom half prefer either ranking: the e-value decides, and must not be believed."""
    rng = np.random.default_rng(0)
    visits = rng.integers(1, 20, 500)
    user = np.repeat(np.arange(500), visits)
    wins = np.where(rng.random(user.size) < 0.9, 1, -1) * np.repeat(rng.choice([-1, 1], 500), visits)
    with pytest.warns(UserWarning, match="neighbouring impressions go together.*log a column user"):
        outcome = rw.judging.interleaving(teams(wins))
    assert outcome.decided
    assert outcome.dependent
    assert outcome.sentence == "Not sure: the e-value decides for a, but impressions depend on each other."
    assert "Credits of neighbouring impressions go together beyond chance: visitors return" in repr(outcome)
    by_user = rw.judging.interleaving(teams(wins, user=user))
    assert not by_user.decided
    assert not by_user.dependent
    drift = np.where(rng.random(4000) < 0.5 + 0.2 * np.sin(np.arange(4000) / 600), 1, -1)
    with pytest.warns(UserWarning, match="neighbouring users go together beyond chance: preferences drift"):
        assert rw.judging.interleaving(teams(drift, user=np.arange(4000))).dependent


@pytest.mark.parametrize("share", [0.5, 0.7])
def test_impressions_that_do_not_depend_on_each_other_raise_no_warning(share):
    rng = np.random.default_rng(1)
    for n in (40, 400, 4000):
        wins = np.where(rng.random(n) < share, 1, -1) * (rng.random(n) < 0.4)
        outcome = rw.judging.interleaving(teams(wins))
        assert not outcome.dependent
    text = " ".join(repr(outcome).split())
    assert "The 5% that remain are against no preference at any time, given the past: a drift decides, too" in text
    assert "one visitor of many impressions" in text
    assert "one visitor" not in repr(rw.judging.interleaving(teams(wins, user=np.arange(n))))


def test_two_rare_clicks_that_meet_are_no_dependence():
    gained = np.zeros(1000)
    gained[[0, 1, 100, 200, 300, 400, 500, 600]] = [1, 1, -1, 1, -1, 1, -1, -1]
    assert anytime_test.dependence(gained) < anytime_test.DEPENDENT
    assert anytime_test.dependence(np.repeat(np.tile([1.0, 0.0, -1.0, 0.0], 50), 5)) > anytime_test.DEPENDENT


def test_results_print():
    frame, a, b = log()
    outcome = rw.judging.interleaving(frame, a, b, cutoff=3)
    assert outcome.decided
    assert outcome.interval[0] > 0.0
    assert outcome.e_value > 20.0
    assert "Users prefer a: decided after" in repr(outcome)
    assert "for a" in repr(outcome)
    flipped = frame.with_columns(team=pl.col("team").replace({"a": "b", "b": "a"}))
    turned = rw.judging.interleaving(flipped, cutoff=3)
    assert turned.interval == (-outcome.interval[1], -outcome.interval[0])
    assert turned.sentence == outcome.sentence.replace("prefer a", "prefer b")
    few = rw.judging.interleaving(frame.head(60), a, b, cutoff=3)
    assert not few.decided
    assert few.interval[0] < 0.0 < few.interval[1]
    assert few.sentence.startswith("Not decided")


def test_refusals():
    frame, a, b = log(40)
    for text, call in {
        "the log must show the lists that are rebuilt from its keys": lambda: rw.judging.interleaving(
            frame, a, b, cutoff=3, seed=1
        ),
        "documents not in their list": lambda: rw.judging.interleaving(frame.drop("position"), a, b, cutoff=1),
        "plain clicks on balanced lists favour": lambda: rw.judging.interleaving(frame, a, b, method="balanced"),
        "needs a position bias": lambda: rw.judging.interleaving(frame, a, b, credit="debiased"),
        "and no other, needs a position bias": lambda: rw.judging.interleaving(frame, a, b, bias=[1.0]),
        "above 0 up to the cutoff": lambda: rw.judging.interleaving(
            frame, a, b, cutoff=3, credit="debiased", bias=[1.0, 0.5]
        ),
        "both rankings are needed": lambda: rw.judging.interleaving(frame, a),
        "both rankings must have every query of the log: got 4 impressions": lambda: rw.judging.interleaving(
            frame, {"q": a["q"]}, b, cutoff=3
        ),
        "unknown column": lambda: rw.judging.interleaving(frame.drop("team")),
        "2 rows with a team that is not a, b or empty": lambda: rw.judging.interleaving(
            frame.with_columns(team=pl.Series(["c", "A", *["a"] * (frame.height - 2)]))
        ),
        "1 row with a click that is not 0": lambda: rw.judging.interleaving(
            frame.with_columns(clicked=pl.Series([3, *[0] * (frame.height - 1)])), a, b
        ),
        "only once in an impression": lambda: rw.judging.interleaving(
            pl.concat([frame, frame.head(1)]), a, b, cutoff=3
        ),
        "got 0 of them": lambda: rw.judging.interleaving(frame.filter(pl.col("query") == "same"), a, b, cutoff=3),
        "different documents": lambda: rw.judging.interleave(["x", "x"], ["y"], key=1),
        "cutoff must be a whole number": lambda: rw.judging.interleave(["x"], ["y"], key=1, cutoff=0),
        "unknown credit": lambda: rw.judging.interleaving(frame, a, b, credit="purchases"),
    }.items():
        with pytest.raises(ValueError, match=text):
            call()
    added_up = rw.clicks.read(
        frame.drop("team"), query="query", document="document", impression="key", position="position", clicked="clicked"
    )
    refuses(lambda: rw.judging.interleaving(added_up, a, b), got="a log that added impressions up")


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    frame, a, b = log()
    frame.drop("team").write_csv("log.csv")
    for name, lists in (("new", a), ("old", b)):
        lines = [f"{q} Q0 {d} 0 {9 - i} x\n" for q, row in lists.items() for i, d in enumerate(row)]
        (tmp_path / f"{name}.run").write_text("".join(lines))
    words = ("interleave", "log.csv", "a=new.run", "b=old.run", "--cutoff", "3")
    assert "Users prefer a" in run(*words, "--plot", "figure.png").stdout
    assert (tmp_path / "figure.png").exists()
    assert '"decided": true' in run(*words, "--json").stdout
    rw.clicks.Bias.known(THETA).save("bias.json")
    assert "debiased" in run(*words, "--credit", "debiased", "--bias", "bias.json").stdout
