"""What is compared with what: values of several systems laid side by side, by query or by trial."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import cast

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.arrays import index_of
from rankwise.evaluation.measure import measure
from rankwise.evaluation.systems import Evaluated, Scored
from rankwise.metrics import Metric, MetricLike
from rankwise.metrics import metrics as find_metrics
from rankwise.statistics.comparison import Paired
from rankwise.statistics.evaluation import Evaluation
from rankwise.statistics.judgements import differing

Trial = Evaluation | Mapping[str, float] | float
System = Scored | Evaluation | Sequence[Trial]
"""Scores, a model, a run or an evaluation; or one evaluation, dictionary of means or mean of each trial."""

DEFAULT = ("ndcg@10",)


def pair(
    systems: Mapping[str, System],
    data: Evaluated | None,
    metrics: MetricLike | Iterable[MetricLike] | None,
    *,
    seed: int,
    level: float,
) -> Paired:
    """Lay systems side by side: scores, models and evaluations by query; lists with one entry per trial by trial."""
    selected = None if metrics is None else find_metrics(metrics)
    kinds = (Evaluation, Mapping) if data is not None else (Evaluation, Mapping, int, float, np.number)
    trials: list[str] = []
    by_query: list[str] = []
    for name, value in systems.items():
        is_list = isinstance(value, Sequence) and bool(value) and all(isinstance(entry, kinds) for entry in value)
        (trials if is_list else by_query).append(name)
    if trials and by_query:
        got = f"{by_query[0]!r} without, {trials[0]!r} with"
        hint = "give every system a list with one evaluation (or mean) per trial"
        raise check.error("either all systems have trials or none has", got=got, hint=hint)
    if trials:
        return _by_trial(cast("Mapping[str, Sequence[Trial]]", systems), selected)
    evaluations = {}
    for name, value in systems.items():
        if not isinstance(value, Evaluation):
            if data is None:
                what, where = "scores and models need the data that they are evaluated on", f"system {name!r}"
                hint = "pass data as the second argument, or give evaluations"
                raise check.error(what, got=type(value).__name__, where=where, hint=hint)
            value = measure(cast("Scored", value), data, selected or DEFAULT, seed=seed, level=level)
        evaluations[name] = value
    measured_here = not any(isinstance(one, Evaluation) for one in systems.values())
    return _by_query(evaluations, selected, measured_here=measured_here)


def _by_query(
    evaluations: Mapping[str, Evaluation], selected: tuple[Metric, ...] | None, *, measured_here: bool
) -> Paired:
    (first_name, first), *rest = evaluations.items()
    metrics = _common({name: evaluation.metrics for name, evaluation in evaluations.items()}, selected)
    columns = {expression: [first[expression]] for expression in metrics}
    for name, other in rest:
        positions = _positions(first, other, first_name, name)
        if not np.array_equal(first.query_weights, other.query_weights[positions]):
            got, hint = f"other weights in {name!r} than in {first_name!r}", "evaluate all systems on the same data"
            raise check.error("systems to be compared must have the same query weights", got=got, hint=hint)
        if not measured_here:  # on the same data
            _require_same_labels(first, other, positions, first_name, name)
        for expression in metrics:
            columns[expression].append(other[expression][positions])
    values = {expression: np.stack(rows) for expression, rows in columns.items()}
    paired = Paired(unit="query", values=values, ids=first.query_ids, weights=first.weights, evaluations=evaluations)
    if len(set(paired.candidates.values())) > 1:
        listed = "; ".join(f"{name}: {candidates}" for name, candidates in paired.candidates.items())
        warnings.warn(f"systems that ranked other candidates cannot be compared: {listed}", stacklevel=5)
    if paired.holes:
        warnings.warn(paired.holes, stacklevel=5)
    return paired


def _require_same_labels(
    first: Evaluation, other: Evaluation, positions: NDArray[np.int64], first_name: str, name: str
) -> None:
    """Raise where two evaluations rest on other labels; other candidates have their own warning."""
    if first.candidates != other.candidates:
        return
    for labels in first.label_digests.keys() & other.label_digests.keys():
        differs = differing(first.label_digests[labels], other.label_digests[labels][positions])
        if differs.any():
            count, one = int(differs.sum()), first.query_ids[np.argmax(differs)].item()
            where = f", in {labels!r}" if labels != "labels" else ""
            raise check.error(
                "systems to be compared must be evaluated by the same labels",
                got=f"other labels{where} in {name!r} than in {first_name!r} for {count:,} of {differs.size:,} queries",
                where=f"query {one!r}" if count == 1 else f"query {one!r} and others",
                hint="evaluate all systems on the same data or qrels",
            )


def _positions(first: Evaluation, other: Evaluation, first_name: str, name: str) -> NDArray[np.int64]:
    """Return where each query of ``first`` is in ``other``."""
    mine, theirs = first.query_ids, other.query_ids
    positions = index_of(mine, theirs)
    missing = mine[positions < 0]
    if not missing.size and mine.size == theirs.size:
        return positions
    one = missing[0] if missing.size else theirs[index_of(theirs, mine) < 0][0]
    owner, other_owner = (first_name, name) if missing.size else (name, first_name)
    got = f"query {one.item()!r} in {owner!r} but not in {other_owner!r}"
    hint = "evaluate all systems on the same queries; of TREC runs `set all_topics=True` where they are judged"
    raise check.error("systems to be compared must have the same queries", got=got, hint=hint)


def _means(trial: Trial, selected: tuple[Metric, ...] | None, name: str) -> Mapping[str, float]:
    if isinstance(trial, Evaluation):
        return trial.mean
    if isinstance(trial, Mapping):
        return trial
    if selected is None or len(selected) != 1:
        hint = "name it with `metrics='ndcg@10'`, or give dictionaries from metric to mean"
        raise check.error("plain numbers per trial need the one metric that they are of", where=repr(name), hint=hint)
    return {str(selected[0]): float(trial)}


def _by_trial(systems: Mapping[str, Sequence[Trial]], selected: tuple[Metric, ...] | None) -> Paired:
    trials = {name: [_means(entry, selected, name) for entry in entries] for name, entries in systems.items()}
    counts = {name: len(entries) for name, entries in trials.items()}
    if len(set(counts.values())) > 1:
        hint = "run every system on the same trials, in the same order"
        raise check.error("systems to be compared must have the same number of trials", got=str(counts), hint=hint)
    named = {f"{name}, trial {i}": tuple(e) for name, entries in trials.items() for i, e in enumerate(entries)}
    values = {}
    for expression in _common(named, selected):
        rows = np.array([[entry[expression] for entry in entries] for entries in trials.values()])
        if not np.isfinite(rows).all():
            system, trial = map(int, np.argwhere(~np.isfinite(rows))[0])
            where = f"trial {trial} of system {list(trials)[system]!r}"
            raise check.error(f"the mean of {expression} must be finite", got=rows[system, trial], where=where)
        values[expression] = rows
    ids = np.arange(next(iter(counts.values())))
    return Paired(unit="trial", values=values, ids=ids, weights=None, evaluations={})


def _common(has: Mapping[str, tuple[str, ...]], selected: tuple[Metric, ...] | None) -> list[str]:
    """List the expressions of the metrics asked for, or of those that all have."""
    first = next(iter(has.values()))
    metrics = [expression for expression in first if all(expression in expressions for expressions in has.values())]
    if selected is not None:
        metrics = list(map(str, selected))
    if not metrics:
        raise check.error("systems to be compared have no metric in common", got=str(dict(has)))
    for name, measured in has.items():
        for expression in metrics:
            if expression not in measured:
                hint = check.suggestion(expression, measured)
                raise check.error(f"{name} was not evaluated by a metric asked for", got=expression, hint=hint)
    return metrics
