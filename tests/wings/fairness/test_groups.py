"""Exposure by group: shares and disparity against the definition, of drawn rankings and of a fixed one."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.data.frames import to_frame
from tests.cli.running import run
from tests.refusals import refuses
from tests.wings.fairness.test_fair import disparity, exposure

SCORES = np.array([1.0, -0.5, 0.3, 2.0, 2.0, -1.0, 0.0, 0.5])
LABELS = [0, 2, 1, 1, 0, 0, 3, 0]
GROUPS = ["x", "y", "x", "y", "y", "x", "x", "x"]
LISTS = [slice(0, 3), slice(3, 7), slice(7, 8)]


@pytest.fixture
def data() -> rw.RankingDataset:
    """Lists of three, of four and of one document."""
    return rw.RankingDataset(np.zeros((8, 1)), LABELS, [0, 3, 7, 8], query_ids=["a", "b", "c"], groups=GROUPS)


def measured(found: Any) -> Any:
    assert found.groups is not None
    assert found.groups.disparity is not None
    return found.groups


@pytest.mark.parametrize("cutoff", [None, 2])
def test_shares_and_disparity_are_those_of_every_ranking(data: rw.RankingDataset, cutoff: int | None):
    how: dict[str, Any] = {"policy": "plackett_luce", "exposure_cutoff": cutoff}
    runs = [measured(rw.evaluate(SCORES, data, samples=8, seed=seed, **how)) for seed in range(400)]
    groups = np.array(GROUPS)
    for number, part in enumerate(LISTS):
        seen, mine = exposure(SCORES[part], cutoff or 9), groups[part] == "x"
        shares = [one.shares["exposure of x"][number] for one in runs]
        assert np.mean(shares) == pytest.approx((seen * mine).sum() / seen.sum(), abs=4 * np.std(shares) / 20 + 1e-12)
        assert runs[0].shares["documents of x"][number] == mine.mean()
        gains = 2.0 ** data.labels[part] - 1.0
        merit = (gains * mine).sum() / gains.sum() if gains.any() else np.nan
        np.testing.assert_allclose(runs[0].shares["merit of x"][number], merit)
        for kind in ("equal", "proportional"):
            values = np.array([one.disparity[kind][number] for one in runs])
            if number == 2:
                assert np.isnan(values).all()  # a single group has nobody to differ from
                continue
            expected = disparity(SCORES[part], data.labels[part], groups[part], kind, cutoff or 9)
            error = values.std() / np.sqrt(len(runs))
            assert error < 0.1 * expected
            assert abs(values.mean() - expected) < 4 * error  # eight draws make no bias


def test_a_fixed_ranking_is_measured_without_noise(data: rw.RankingDataset):
    scores = np.arange(8.0)
    found = rw.evaluate(scores, data, ["ndcg@10"], policy="deterministic", samples=5)
    assert found.mean == rw.evaluate(scores, data, ["ndcg@10"]).mean
    assert not found.exposure_error.any()
    np.testing.assert_allclose(found.exposure[:3], 1.0 / np.log2([4.0, 3.0, 2.0]))
    seen = 1.0 / np.log2([4.0, 3.0, 2.0])
    share = np.array([(seen[0] + seen[2]) / seen.sum(), seen[1] / seen.sum()])
    fair = np.array([2 / 3, 1 / 3])
    assert measured(found).disparity["equal"][0] == pytest.approx(((share - fair) ** 2 / fair).sum())
    # Equal scores share their ranks, and documents that are not shown have none.
    tied = rw.evaluate([1.0, 1.0, -np.inf, 1.0, 2.0, 2.0, 0.0, 3.0], data, policy="deterministic", samples=4000)
    second, fourth = 1.0 / np.log2([3.0, 5.0])
    expected = [(1 + second) / 2, (1 + second) / 2, 0.0, 0.5, (1 + second) / 2, (1 + second) / 2, fourth, 1.0]
    np.testing.assert_allclose(tied.exposure, expected, atol=0.02)


def test_tables_texts_and_plain_data_say_the_same(data: rw.RankingDataset):
    found = rw.evaluate(SCORES, data, ["ndcg@2", "ap"], policy="plackett_luce", seed=3)
    groups = measured(found)
    text, html = repr(found), found._repr_html_()
    for name in ("ndcg@2", "group", "exposure in proportion to merit", "0 is fair"):
        assert name in text
        assert name in html
    plain = json.loads(json.dumps(found.to_dict()))
    assert plain["groups"]["y"]["exposure"]["mean"] == groups.shares.mean["exposure of y"]
    assert plain["disparity"]["equal"]["skipped"] == 1
    low, high = groups.shares.interval["exposure of y"]
    assert low < groups.shares.mean["exposure of y"] < high
    assert f"| y | {groups.shares.mean['documents of y']:.4f} |" in found.tables()[1].markdown()
    shares = [sum(groups.shares[f"{what} of {name}"] for name in "xy") for what in ("documents", "exposure")]
    np.testing.assert_allclose(shares, 1.0)
    plainly = rw.evaluate(SCORES, data.with_(groups=None), ["ndcg@2", "ap"], policy="plackett_luce", seed=3)
    assert plainly.groups is None
    assert repr(plainly) == found.tables()[0].text()


def test_weights_of_queries_and_the_order_of_queries(data: rw.RankingDataset):
    both = data.with_(weights=[1.0, 3.0, 0.0])
    found = measured(rw.evaluate(SCORES, both, policy="plackett_luce"))
    values = found.disparity["equal"]
    assert found.disparity.mean["equal"] == pytest.approx((values[0] + 3 * values[1]) / 4)
    order = np.concatenate([np.arange(8)[part] for part in (LISTS[1], LISTS[2], LISTS[0])])
    turned = measured(rw.evaluate(SCORES[order], both.take([1, 2, 0]), policy="plackett_luce"))
    assert turned.disparity.interval == found.disparity.interval
    assert turned.shares.mean == pytest.approx(found.shares.mean)


def test_data_with_one_group_or_nothing_relevant(data: rw.RankingDataset):
    alone = rw.evaluate(SCORES, data.with_(groups=["x"] * 8), policy="plackett_luce")
    assert alone.groups is not None
    assert alone.groups.disparity is None
    assert alone.groups.shares.mean["exposure of x"] == pytest.approx(1.0)
    assert len(alone.tables()) == 2
    counted = data.with_(groups=["x"] * 3 + GROUPS[3:], weights=[1.0, 0.0, 1.0])  # lists of two groups do not count
    unweighted = rw.evaluate(SCORES, counted, policy="plackett_luce").groups
    assert unweighted is not None
    assert unweighted.disparity is None
    nothing = rw.evaluate(SCORES, data.with_(labels=np.zeros(8)), "ndcg(empty=0)@10", policy="plackett_luce")
    assert measured(nothing).disparity.metrics == ("equal",)
    assert "merit" not in nothing.to_dict()["groups"]["x"]
    refuses(lambda: rw.evaluate(SCORES, data, exposure_cutoff=3), what="exposure_cutoff belongs to a policy")  # type: ignore[call-overload]


def test_the_command_line_shows_groups(data: rw.RankingDataset, tmp_path: Path):
    to_frame(data).write_csv(tmp_path / "test.csv")
    for name, scores in (("one", SCORES), ("two", -SCORES)):
        Path(tmp_path, f"{name}.txt").write_text("".join(f"{score}\n" for score in scores))
    words = ["evaluate", tmp_path / "test.csv", tmp_path / "one.txt", tmp_path / "two.txt", "--groups", "group"]
    words += ["--policy", "plackett_luce", "--exposure-cutoff", 2]
    shown = run(*words, "-o", tmp_path / "out.md").stdout
    for text in (shown, Path(tmp_path, "out.md").read_text()):
        assert "exposure in proportion to merit" in text
        assert "documents" in text
    read = json.loads(run(*words, "--json").stdout)
    found = rw.evaluate(SCORES, data, policy="plackett_luce", exposure_cutoff=2)
    assert read["rankings"]["one"]["disparity"]["equal"]["mean"] == measured(found).disparity.mean["equal"]
    for one, other in itertools.permutations(read["rankings"].values()):
        assert one["groups"] != other["groups"]
