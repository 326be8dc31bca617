"""How well judges agree with each other, and each with itself: weighted κ between judges and of repeats."""

import itertools
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
import polars as pl

from rankwise import check
from rankwise.base import tables
from rankwise.base.arrays import Array
from rankwise.check.docstrings import plain_signature
from rankwise.check.parameters import OneOf, Option, Within
from rankwise.statistics import Result
from rankwise.wings.judging.agreement import counted, kappa
from rankwise.wings.judging.merging import Judgements, collect

WEIGHTS = ("quadratic", "linear", "none")
_KEYS = ["query", "document"]


class JudgePair(NamedTuple):
    """The agreement of two judges, or of a judge with itself."""

    judge: str
    other: str
    """The same judge for its repeats."""
    documents: int
    queries: int
    same: float
    """The share of documents with the same grade."""
    kappa: float
    low: float
    high: float


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class JudgeAgreement(Result):
    """Agreement of judges with each other, and of each with its own repeats; made by :func:`judge_agreement`."""

    pairs: tuple[JudgePair, ...]
    weights: str
    level: float

    def to_frame(self) -> pl.DataFrame:
        """One row per pair, with the fields of :class:`JudgePair`; without a common document κ is NaN."""
        return pl.DataFrame(self.pairs, schema=list(JudgePair.__annotations__), orient="row")

    @property
    def sentence(self) -> str:
        """The pair that agrees least, and the judge that agrees least with itself."""
        said = []
        for own in (False, True):
            known = [one for one in self.pairs if (one.judge == one.other) is own and not np.isnan(one.kappa)]
            if known:
                worst = min(known, key=lambda one: one.kappa)
                ends = "" if np.isnan(worst.low) else f" {tables.interval(worst.low, worst.high, 2)}"
                who = (
                    f"{worst.judge} agrees least with itself" if own else f"{worst.judge} and {worst.other} agree least"
                )
                said.append(f"{who}: κ {tables.number(worst.kappa, 2)}{ends}.")
        return " ".join(said)

    def table(self) -> tables.Table:
        """Return a row for each pair of judges, and for the repeats of each."""
        rows = []
        for one in self.pairs:
            other = "itself, again" if one.other == one.judge else one.other
            ends = tables.interval(one.low, one.high, 3)
            same = tables.NOTHING if np.isnan(one.same) else f"{one.same:.0%}"
            rows.append(
                (one.judge, other, f"{one.documents:,}", f"{one.queries:,}", same, tables.number(one.kappa, 3), ends)
            )
        how = {"quadratic": "κ with quadratic weights", "linear": "κ with linear weights", "none": "κ"}[self.weights]
        header = ("judge", "with", "documents", "queries", "same grade", how, f"{100 * self.level:g}% interval")
        return tables.Table(
            header=header, rows=tuple(rows), align="llrrrrl", notes=(self.sentence,) * bool(self.sentence)
        )


@plain_signature
def judge_agreement(
    judgements: Judgements,
    *,
    weights: Annotated[
        str, OneOf(WEIGHTS, "weights"), "Weights of κ: how much a larger difference counts."
    ] = "quadratic",
    level: Annotated[float, Within(0, 1, open=True), "Confidence level.", Option(metavar="LEVEL")] = 0.95,
) -> JudgeAgreement:
    """Compute how well judges agree with each other, and each with its own repeats (test and retest).

    ``judgements`` are as for :func:`merge`. Of two judges the last grades of common documents are compared; of one,
    each grade with its next of the same document. A judge with several versions or prompts counts as several. Cohen's
    κ is 1 for equal grades and 0 for agreement by chance; its interval is the jackknife's over queries. That a judge
    agrees with itself does not say that it is right, and a model without randomness always does.

    >>> ann, bob = [("a", "x", 0, "ann"), ("a", "y", 2, "ann")], [("a", "x", 1, "bob"), ("a", "y", 2, "bob")]
    >>> rows = [*ann, *bob, ("a", "x", 0, "bob"), ("a", "y", 1, "bob")]
    >>> found = judge_agreement(pl.DataFrame(rows, schema=["query", "document", "grade", "judge"], orient="row"))
    >>> [(one.judge, one.other, one.documents, round(one.kappa, 2)) for one in found.pairs]
    [('ann', 'bob', 2, 0.67), ('bob', 'bob', 2, 0.33)]
    """
    check.choice("weights", weights, WEIGHTS)
    check.number("level", level, least=0.0, most=1.0, open_ends=True)
    rows = _named(collect(judgements))
    names = sorted(rows["judge"].unique())
    by_judge = {name: rows.filter(pl.col("judge") == name) for name in names}
    last = {name: part.unique(_KEYS, keep="last").select(*_KEYS, "grade") for name, part in by_judge.items()}
    found = []
    for one, other in itertools.combinations(names, 2):
        both = last[one].join(last[other], on=_KEYS, suffix="_other")
        found.append(_pair(one, other, both, weights, level))
    for name, part in by_judge.items():
        again = part.with_columns(grade_other=pl.col("grade").shift(-1).over(_KEYS)).drop_nulls("grade_other")
        if again.height:
            found.append(_pair(name, name, again, weights, level))
    if not found:
        hint = "add the judgements of another, or repeats of the same documents"
        raise check.error("there is one judge, who has judged no document twice", got=names[0], hint=hint)
    return JudgeAgreement(pairs=tuple(found), weights=weights, level=level)


def _named(rows: pl.DataFrame) -> pl.DataFrame:
    """Name judges with several versions or prompts by these, too."""
    version, prompt = pl.col("version").fill_null(""), pl.col("prompt").fill_null("").str.head(8)
    several = [(one.n_unique() > 1).over("judge") for one in (version, prompt)]
    parts = [pl.when(when & (one != "")).then(one) for when, one in zip(several, (version, prompt), strict=True)]
    return rows.with_columns(judge=pl.concat_str("judge", *parts, separator=" ", ignore_nulls=True))


def _pair(one: str, other: str, both: pl.DataFrame, weights: str, level: float) -> JudgePair:
    if both.is_empty():
        return JudgePair(one, other, 0, 0, np.nan, np.nan, np.nan, np.nan)
    grades, counts = counted(both.sort(_KEYS), "grade", "grade_other")
    distance = np.abs(grades[:, None] - grades)
    penalty: Array = {"quadratic": distance**2, "linear": distance, "none": (distance > 0.0) * 1.0}[weights]
    value, low, high = kappa(counts, penalty, level)
    same = float((both["grade"] == both["grade_other"]).sum()) / both.height
    return JudgePair(one, other, both.height, len(counts), same, value, low, high)
