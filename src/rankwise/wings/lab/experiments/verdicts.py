"""What the paper says of its methods, and whether it holds here, and how surely."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rankwise.wings.lab.experiments.comparisons import (
    SPLITS,
    Contrast,
    adjusted,
    alpha,
    contrast,
    curve_contrast,
    data_levels,
    measured,
)
from rankwise.wings.lab.papers.claims import Claim, claims

if TYPE_CHECKING:
    from rankwise.wings.lab.experiments.results import Results

MARGIN = 0.005
"""Methods count as level whose difference surely is smaller than this, in whatever metric."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the paper says of two methods, and what we found."""

    data: str
    """Ours; empty for statements that no data of ours are about."""
    level: float | None
    """None: a statement about several levels, or about none."""
    levels: tuple[float, ...]
    rounds: tuple[int, ...]
    """The first and the last that a learning curve was compared over."""
    metric: str
    better: str
    worse: str
    says: str
    """The paper's statement in words."""
    published_on: str
    same_data: bool
    """Whether our data are those that the statement is about."""
    published_significant: bool | None
    source: str
    note: str
    difference: float | None
    low: float | None
    high: float | None
    p_adjusted: float | None
    """After Holm's correction for all tests of the experiment. The tests cover other splits by the correction of Nadeau
    and Bengio; where there are several, this is the greatest."""
    covers: str
    """What the tests cover: other splits, queries, or draws in training."""
    verdict: str
    """``agrees`` or ``disagrees`` if that is sure, by ``p_adjusted`` below alpha; ``… on this split`` if the tests do
    not cover other splits; ``open (same direction)`` or ``open (other direction)`` if it is not sure, and ``open``
    where the paper calls methods level; ``not tested`` where results of ours cannot tell."""


def counted(judged: Sequence[Verdict]) -> str:
    """Return the number of verdicts of each kind, as text."""
    count = Counter(one.verdict for one in judged)
    return ", ".join(f"{count[word]} × {word}" for word in sorted(count))


class _Statement(NamedTuple):
    """Claims of the paper that say the same of its data sets, and what was found here."""

    same: list[Claim]
    found: Contrast | None = None
    same_data: bool = False
    data: str = ""

    @property
    def significant(self) -> bool | None:
        """Whether the paper calls it significant on all its data sets; False if it calls the methods level on all."""
        sure = {one.significant for one in self.same}
        return sure.pop() if len(sure) == 1 else None


def verdicts(results: "Results") -> list[Verdict]:
    """Return for every claim of the paper whether it holds here, on each of our data sets.

    Where a data set of ours is one of the paper's, it is held against the claim about that one alone. All statements
    that are tested are one family, for Holm's correction; one that methods are level has two tests in it, of whether
    they are apart and whether they are within ±.005 of each other.
    """
    statements = list(_statements(results))
    apart = [{name: test.p for name, test in one.found.tests.items()} for one in statements if one.found]
    within = [
        {name: test.p_within(MARGIN) for name, test in one.found.tests.items()}
        for one in statements
        if one.found and one.significant is False
    ]
    p = adjusted(apart + within)
    p_apart, p_within = iter(p[: len(apart)]), iter(p[len(apart) :])
    return [
        _verdict(one, one.found, next(p_apart), next(p_within) if one.significant is False else None, alpha(results))
        if one.found
        else _verdict(one)
        for one in statements
    ]


def _statements(results: "Results") -> Iterator[_Statement]:
    """Every claim of the paper on every data set: differences by level, then interactions; last what is not tested."""
    published = claims(results.spec.get("published", ""))
    levels_of: dict[str, list[float]] = {}
    for data, level in data_levels(results) if published else ():
        levels_of.setdefault(data, []).append(level)
    for data, levels in levels_of.items():
        same_data = any(one.data == data for one in published)
        tested: dict[tuple[object, ...], tuple[tuple[float, ...], list[Claim]]] = {}
        for one in published:
            if one.metric in measured(results) and (one.data == data or not same_data):
                for used in _levels(one, levels):
                    key = (one.kind, used, one.measure, one.better, one.worse)
                    tested.setdefault(key, (used, []))[1].append(one)
        order = measured(results).index
        for used, same in sorted(
            tested.values(), key=lambda one: (bool(one[1][0].curve), len(one[0]), one[0], order(one[1][0].metric))
        ):
            first = same[0]
            if first.curve:
                change = first.kind == "interaction"
                effect = curve_contrast(results, data, used[0], first.measure, first.better, first.worse, change=change)
            else:
                effect = contrast(results, data, used, first.metric, first.better, first.worse)
            if effect is not None:
                yield _Statement(same, effect, same_data, data)
            elif first.curve and {first.better, first.worse} <= set(results.methods):
                yield _Statement(same, None, same_data, data)
    untested: dict[tuple[str, str], list[Claim]] = {}
    for one in published:
        if one.kind == "untested":
            untested.setdefault((one.metric, one.says), []).append(one)
    yield from map(_Statement, untested.values())


def _levels(claim: Claim, levels: list[float]) -> list[tuple[float, ...]]:
    """The levels that a claim is held against: each alone, or all that an interaction is about together.

    Learning curves are those of the least level.
    """
    if claim.curve:
        return [(levels[0],)]
    if claim.kind == "difference":
        return [(level,) for level in levels if claim.level in (None, level)]
    used = claim.levels or tuple(levels)
    return [used] if claim.kind == "interaction" and len(used) > 1 and set(used) <= set(levels) else []


def _verdict(
    one: _Statement, effect: Contrast | None = None, apart: float = 1.0, within: float | None = None, least: float = 0.0
) -> Verdict:
    """Return the verdict on a statement, by the corrected p-values of its tests."""
    first = one.same[0]
    low, high = effect.interval(1.0 - least) if effect else (None, None)
    word, p = _word(effect, apart, within, least) if effect else ("not tested", None)
    levels = effect.levels if effect else ()
    plain = (
        f"{first.better} {'≈' if within is not None else '>'} {first.worse}{', during training' * bool(first.curve)}"
    )
    if first.kind == "interaction":
        plain = f"{first.better} gains on {first.worse} as {'training goes on' if first.curve else 'the level grows'}"
    return Verdict(
        data=one.data,
        level=levels[0] if len(levels) == 1 else None,
        levels=levels,
        rounds=effect.rounds if effect else (),
        metric=first.measure,
        better=first.better,
        worse=first.worse,
        says=first.says or plain,
        published_on=", ".join(dict.fromkeys(claim.data for claim in one.same)),
        same_data=one.same_data,
        published_significant=one.significant,
        source=first.source,
        note=first.note,
        difference=effect.difference if effect else None,
        low=low,
        high=high,
        p_adjusted=p,
        covers=", ".join(effect.tests) if effect else "",
        verdict=word,
    )


def _word(effect: Contrast, apart: float, within: float | None, least: float) -> tuple[str, float]:
    """The verdict, and the p-value that it rests on."""
    limited = "" if SPLITS in effect.tests else " on this split"
    if within is not None and within < least:
        return "agrees" + limited, within
    if within is not None:  # the paper calls them level
        return ("disagrees" + limited, apart) if apart < least else ("open", within)
    if apart < least:
        return ("agrees" if effect.difference > 0.0 else "disagrees") + limited, apart
    same = {1.0: " (same direction)", -1.0: " (other direction)"}
    return "open" + same.get(float(np.sign(effect.difference)), ""), apart
