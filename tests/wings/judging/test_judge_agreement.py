"""Agreement of judges with each other and with themselves, against scikit-learn."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from sklearn.metrics import cohen_kappa_score

from rankwise.judging import agreement, judge_agreement
from tests.refusals import refuses


def judged(name: str, grades: Any, **more: object) -> pl.DataFrame:
    """Six documents a query."""
    ids = {"query": [f"q{n // 6}" for n in range(len(grades))], "document": [f"d{n % 6}" for n in range(len(grades))]}
    return pl.DataFrame(ids | {"grade": np.asarray(grades, float), "judge": name}).with_columns(
        **{column: pl.lit(value, pl.String) for column, value in ({"version": None} | more).items()}
    )


@pytest.fixture(scope="module")
def grades() -> Any:
    rng = np.random.default_rng(0)
    truth = rng.choice([0, 1, 3], size=120)
    return [np.where(rng.random(120) < 0.7, truth, rng.choice([0, 1, 3], size=120)) for _ in range(3)]


@pytest.mark.parametrize(("weights", "name"), [("quadratic", "quadratic"), ("linear", "linear"), ("none", None)])
def test_kappa_is_scikit_learns(grades: Any, weights: str, name: str | None):
    found = judge_agreement(pl.concat([judged("b", grades[0]), judged("a", grades[1])]), weights=weights)
    (pair,) = found.pairs
    expected = cohen_kappa_score(grades[0], grades[1], labels=[0, 1, 2, 3], weights=name)
    assert (pair.judge, pair.other, pair.documents, pair.queries) == ("a", "b", 120, 20)
    assert pair.kappa == pytest.approx(expected, abs=1e-12)
    assert pair.same == (grades[0] == grades[1]).mean()
    if weights != "linear":  # the interval is that of the agreement with people
        qrels = [judged("x", one).drop("judge", "version") for one in grades[:2]]
        row = agreement(qrels[0], qrels[1]).to_frame().row(int(weights == "quadratic"))
        assert (pair.low, pair.high) == pytest.approx(row[3:5], abs=1e-12)


def test_no_interval_goes_beyond_perfect_agreement(grades: Any):
    other = grades[0].copy()
    other[7] = 3 - other[7]
    (pair,) = judge_agreement(pl.concat([judged("a", grades[0]), judged("b", other)])).pairs
    assert 0.9 < pair.low < pair.kappa < pair.high == 1.0


def test_repeats_are_the_judges_own_agreement(grades: Any):
    first, second, third = grades
    found = judge_agreement(pl.concat([judged("ann", first), judged("ann", second), judged("ann", third[:60])]))
    (own,) = found.pairs
    earlier, later = np.concatenate([first, second[:60]]), np.concatenate([second, third[:60]])
    assert (own.judge, own.other, own.documents, own.queries) == ("ann", "ann", 180, 20)
    assert own.kappa == pytest.approx(cohen_kappa_score(earlier, later, labels=[0, 1, 2, 3], weights="quadratic"))
    # Another judge is compared with the last grades.
    both = judge_agreement(pl.concat([judged("ann", first), judged("ann", second), judged("bob", third)])).pairs[0]
    assert both.kappa == pytest.approx(cohen_kappa_score(second, third, labels=[0, 1, 2, 3], weights="quadratic"))


def test_versions_and_prompts_are_judges_of_their_own(grades: Any):
    one, other = judged("llm", grades[0], version="1"), judged("llm", grades[1], version="2", prompt="0123456789")
    people = judged("ann", grades[2]).with_columns(prompt=pl.lit(None, pl.String))
    found = judge_agreement(pl.concat([people, one.with_columns(prompt=pl.lit("f" * 64)), other]))
    assert [pair[:2] for pair in found.pairs] == [
        ("ann", "llm 1 ffffffff"), ("ann", "llm 2 01234567"), ("llm 1 ffffffff", "llm 2 01234567"),
    ]  # fmt: skip


def test_judges_without_a_common_document_have_no_kappa(grades: Any, tmp_path: Path):
    rows = pl.concat([judged("a", grades[0][:60]), judged("b", grades[1]), judged("c", grades[2]).tail(60)])
    found = judge_agreement(rows)
    pair = next(one for one in found.pairs if one[:2] == ("a", "c"))
    assert pair.documents == 0
    assert np.isnan([pair.same, pair.kappa, pair.low, pair.high]).all()
    assert "0 " in repr(found)
    assert found.sentence.startswith(("a and b", "b and c"))
    assert pl.read_csv(found.save(tmp_path / "agreement.csv")).height == 3


def test_one_judge_without_repeats_is_refused(grades: Any):
    refuses(lambda: judge_agreement(judged("ann", grades[0])), what="there is one judge…", got="ann")
    refuses(lambda: judge_agreement(judged("ann", grades[0]), weights="cubic"), what="…weights…", got="'cubic'…")
