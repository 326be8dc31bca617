"""Which system is better, by how much, and is it more than chance? Paired tests between systems."""

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check, moved
from rankwise.base import hooks
from rankwise.base.arrays import Keywords
from rankwise.base.stream import Stream
from rankwise.evaluation.pairing import DEFAULT, System, pair
from rankwise.evaluation.systems import Evaluated, Run
from rankwise.statistics import significance
from rankwise.statistics.comparison import TESTS, Comparison, Pair, Paired
from rankwise.statistics.titles import bounds_of
from rankwise.statistics.verdict import verdict

if TYPE_CHECKING:
    from rankwise.data.segments import Segment
    from rankwise.metrics import MetricLike
    from rankwise.wings.judging.result import JudgedEvaluation


@overload
def compare(
    systems: Mapping[str, System], data: Evaluated | None = None,
    metrics: "MetricLike | Iterable[MetricLike] | None" = None, *, baseline: str | None = None, level: float = 0.95,
    correction: str = "holm", test: str | None = None, split: Sequence[float] | None = None, seed: int = 0,
    segment: "Segment | None" = None,
) -> Comparison: ...  # fmt: skip
@overload
def compare(
    systems: Mapping[str, System], data: Evaluated, metrics: "MetricLike | Iterable[MetricLike] | None" = None, *,
    judge: Run | ArrayLike, sampled: str | None = None, baseline: str | None = None, level: float = 0.95,
    correction: str = "holm",
) -> "JudgedEvaluation": ...  # fmt: skip
@moved.renamed("rw.compare")
def compare(
    systems: Mapping[str, System],
    data: Evaluated | None = None,
    metrics: "MetricLike | Iterable[MetricLike] | None" = None,
    *,
    judge: Run | ArrayLike | None = None,
    sampled: str | None = None,
    baseline: str | None = None,
    level: float = 0.95,
    correction: str = "holm",
    test: str | None = None,
    split: Sequence[float] | None = None,
    seed: int = 0,
    segment: "Segment | None" = None,
) -> "Comparison | JudgedEvaluation":
    """Compare systems by paired tests.

    A system is whatever :func:`evaluate` takes (scores, a model, also of another library, a function of features) or an
    :class:`Evaluation`, and pairing is by query. Or it is a list with one evaluation, dictionary of means or (for a
    single metric and without ``data``) mean per trial, and pairing is by trial. Trials that split the same data anew
    share most of it: ``split``, the proportions of train, …, test, adds the correction of Nadeau and Bengio.

    ``test`` decides significance: ``"fisher"`` (the default), ``"t"``, ``"wilcoxon"`` or ``"corrected_t"`` (the
    default for trials with ``split``). ``correction`` is ``"holm"``, over all pairs of a metric, or ``"none"``. With
    ``baseline`` only pairs with that system are tested.

    ``segment``, as in :func:`evaluate`, also tests each segment of the queries, and says which gain and which lose:
    ``.segments`` of the result, with Holm's correction over segments and pairs. Of evaluations it is a kind of segments
    that they were made with. :meth:`Comparison.gate` tests whether a system is not worse by more than a margin.

    With a ``judge``, as in :func:`evaluate`, differences are estimated from human labels of some queries; with
    ``sampled``, the name of a column of probabilities, from the documents that :func:`rankwise.judging.plan` drew.

    >>> import rankwise as rw
    >>> good = rw.Evaluation({"ap": [0.5, 0.6, 0.7, 0.8, 0.9, 0.7]}, range(6))
    >>> poor = rw.Evaluation({"ap": [0.4, 0.4, 0.5, 0.7, 0.6, 0.3]}, range(6))
    >>> print(rw.compare({"poor": poor, "good": good}))
       system  ap
    a  poor    0.4833
    b  good    0.7000ᵃ
    <BLANKLINE>
    A raised letter: significantly better than that system. Fisher's randomization test, two-sided, paired by query
    (6 queries), α = 0.05, Holm's correction over the 1 pair of each metric.
    """
    if not isinstance(systems, Mapping) or len(systems) < 2:
        got = len(systems) if isinstance(systems, Mapping) else type(systems).__name__
        hint = "pass a dictionary from names to scores, models or evaluations"
        raise check.error("compare needs at least two systems by name", got=got, hint=hint)
    systems = {str(name): system for name, system in systems.items()}
    names = tuple(systems)
    check.number("level", level, least=0.0, most=1.0, open_ends=True)
    check.choice("correction", correction, ["holm", "none"])
    if baseline is not None:
        check.choice("baseline", baseline, names)
        chosen = [(name, baseline) for name in names if name != baseline]
    else:
        chosen = [(b, a) for a, b in itertools.combinations(names, 2)]
    if judge is not None or sampled is not None:
        if judge is None or data is None or test is not None or split is not None or segment is not None:
            hint = "`pass judge=…`; leave test, split and segment out"
            what = "estimates with a judge need its grades and data"
            raise check.error(what, hint=hint)
        settings: Keywords = {"pairs": chosen, "sampled": sampled, "correction": correction, "level": level}
        evaluate_judged: Callable[..., JudgedEvaluation] = hooks.find("evaluation", "judge")
        return evaluate_judged(systems, data, metrics or DEFAULT, judge, **settings)
    paired = pair(systems, data, metrics, seed=seed, level=level)
    overlap = _overlap(split, paired)
    test = check.choice("test", test or ("fisher" if overlap is None else "corrected_t"), TESTS)
    if test == "corrected_t" and overlap is None:
        hint = "compare lists with one entry per trial and pass split=(train, …, test)"
        raise check.error("the corrected t-test needs trials and the proportions of their split", hint=hint)
    whole = Stream(seed, query_ids=paired.ids)
    stream, alpha = whole.child("flips"), significance.alpha(level)
    holes = None
    if paired.judged:
        from rankwise.statistics.hole_verdicts import Holes

        holes = Holes(paired, metrics, whole.child("holes"))
        paired = replace(paired, filled=holes.values)
    pairs: list[Pair] = []
    for metric, rows in paired.values.items():
        values = dict(zip(names, rows, strict=True))
        tested, run = [], partial(_test, metric, paired=paired, stream=stream, level=level, overlap=overlap)
        for system, against in chosen:
            results = run(values[system] - values[against])
            tested.append({"metric": metric, "system": system, "against": against, **results})
        deciding = np.array([one[f"p_{test}"] for one in tested])
        correct = significance.holm if correction == "holm" else np.asarray
        for one, p in zip(tested, correct(deciding).tolist(), strict=True):
            one |= {"p_adjusted": p, "verdict": verdict(one["difference"], p, alpha)}
        if holes is not None:
            tested = holes.read(metric, run, f"p_{test}", correct, alpha, tested)
        pairs += [Pair(**one, significant=one["verdict"] in ("better", "worse")) for one in tested]
    comparison = Comparison(
        systems=names,
        paired=paired,
        pairs=tuple(pairs),
        baseline=baseline,
        test=test,
        correction=correction,
        level=level,
        overlap=overlap,
    )
    if segment is None:
        return comparison
    from rankwise.evaluation import segments

    again: Keywords = {"baseline": baseline, "level": level, "correction": "none", "test": test, "seed": seed}
    return segments.compared(comparison, segment, data, lambda few: compare(few, **again))


def _test(
    metric: str, differences: NDArray[np.float64], paired: Paired, stream: Stream, level: float, overlap: float | None
) -> Keywords:
    """Return every number about one pair that does not depend on the other pairs."""
    both = ~np.isnan(differences)
    values = differences[both]
    weights = None if paired.weights is None else paired.weights[both]
    plain = significance.t_test(values, weights)
    corrected = None if overlap is None else significance.t_test(values, weights, overlap=overlap)
    lowest, highest = bounds_of(metric)
    bounds = lowest - highest, highest - lowest
    same = significance.interval_of_same(values, weights, bounds=bounds, level=level)
    low, high = same or (corrected or plain).interval(level)
    paired_stream = stream.take(np.flatnonzero(both), both.size)
    wins, ties, losses = significance.wins_ties_losses(values)
    return {
        "difference": plain.mean,
        "low": low,
        "high": high,
        "p_t": plain.p,
        "p_fisher": significance.randomization_test(values, weights, stream=paired_stream),
        "p_wilcoxon": significance.wilcoxon_test(values, weights),
        "p_corrected_t": None if corrected is None else corrected.p,
        "effect_size": significance.effect_size(values, weights),
        "wins": wins,
        "ties": ties,
        "losses": losses,
    }


def _overlap(split: Sequence[float] | None, paired: Paired) -> float | None:
    if split is None:
        return None
    parts = check.fractions(split)
    if paired.unit != "trial" or len(parts) < 2 or not parts[0] or not parts[-1]:
        what = "split is the proportions of train, …, test of the trials that are compared"
        hint = "give lists with one entry per trial, and for example split=(0.6, 0.2, 0.2)"
        raise check.error(what, got=f"{tuple(split)} for pairs by {paired.unit}", hint=hint)
    return parts[-1] / parts[0]
