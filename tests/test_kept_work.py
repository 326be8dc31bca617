"""Work that is kept belongs to the code that it was done with: an edited function does not get the old results."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw

SMALL: dict[str, Any] = {"rounds": 3, "leaves": 3, "min_documents": 3, "patience": None, "threads": 1}
OBJECTIVE = """
def own(scores, labels, offsets):
    gap = scores - labels
    return np.add.reduceat(gap**2, offsets[:-1]), 2.0 * gap, np.full_like(gap, 2.0)
"""
METRIC = """
def own_metric(scores, labels, offsets):
    return [labels[a:b][np.argmax(scores[a:b])] * 2.0 for a, b in zip(offsets[:-1], offsets[1:])]
"""
DATA = rw.synthetic(n_queries=24, n_docs=6, n_features=4, seed=3)
TRAIN, VALID = rw.split(DATA, (0.6, 0.4), seed=0)
Own = Callable[..., Any]


def defined(source: str) -> Own:
    names: dict[str, Any] = {"__name__": "users_module", "np": np}
    exec(source, names)  # noqa: S102
    found: Own = names["own_metric" if "own_metric" in source else "own"]
    return found


def single(folder: Path, objective: Own, metric: Own, resume: bool) -> object:
    ranker = rw.LightGBMRanker(objective, metrics=(metric,), checkpoint=folder, checkpoint_every=1, **SMALL)
    return ranker.fit(TRAIN, VALID, resume=resume)


def measured(folder: Path, objective: Own, metric: Own, resume: bool) -> object:
    """A function that only measures, beside an objective and metrics of ours."""
    from rankwise.rankers.training.validation import EvalSet

    def own_measure(scores):
        found: Any = metric(scores, DATA.labels, DATA.offsets)
        return {"own": float(np.mean(found))}

    ranker = rw.LightGBMRanker(objective, checkpoint=folder, checkpoint_every=1, **SMALL)
    return ranker.fit(TRAIN, resume=resume, eval_sets={"all": EvalSet(DATA, own_measure)})


def bag(folder: Path, objective: Own, metric: Own, resume: bool) -> object:
    ranker = rw.LightGBMRanker(objective, metrics=(metric,), checkpoint=folder, checkpoint_every=1, **SMALL)
    return rw.bagged(ranker, folds=2).fit(DATA, resume=resume)


def blend(folder: Path, objective: Own, metric: Own, resume: bool) -> object:
    ranker = rw.LightGBMRanker(objective, metrics=(metric,), **SMALL)
    return rw.blended([ranker, 0], folds=2, checkpoint=folder).fit(DATA, resume=resume)


def cross_validation(folder: Path, objective: Own, metric: Own, resume: bool) -> object:
    ranker = rw.LightGBMRanker(objective, metrics=(metric,), **SMALL)
    return rw.cross_validate(ranker, DATA, folds=2, checkpoint=folder, resume=resume)


def tuning(folder: Path, objective: Own, metric: Own, resume: bool) -> object:
    ranges: Any = {"leaves": "whole(3, 5)"}
    settings = {name: value for name, value in SMALL.items() if name not in ("leaves", "threads")}
    return rw.tune(
        TRAIN, VALID, objective, metric=metric, trials=1, space="none", search=ranges, fixed=settings, threads=1,
        checkpoint=folder, resume=resume, progress=False,
    )  # fmt: skip


def auto(folder: Path, objective: Own, metric: Own, resume: bool) -> object:
    ranker = rw.LightGBMRanker(objective, **SMALL)
    return rw.AutoRanker(None, metric, recipes=[ranker], folds=2, checkpoint=folder, progress=False).fit(DATA)


WORKS = [single, measured, bag, blend, cross_validation, tuning, auto]


@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("edited", ["objective", "metric"])
def test_an_edited_function_does_not_get_what_another_one_did(work, edited, tmp_path):
    work(tmp_path / "kept", defined(OBJECTIVE), defined(METRIC), False)
    work(tmp_path / "kept", defined(OBJECTIVE), defined(METRIC), True)  # the same code, read again
    objective = OBJECTIVE.replace("2.0 * gap", "1.5 * gap") if edited == "objective" else OBJECTIVE
    metric = METRIC.replace("* 2.0", "* 3.0") if edited == "metric" else METRIC
    name = (
        "own_measure"
        if (work, edited) == (measured, "metric")
        else {"objective": "own", "metric": "own_metric"}[edited]
    )
    said = rf"another (training|blend|cross-validation|search) \(code(: {name} differs| of {name} differs|)\)"
    with pytest.raises(ValueError, match=said):
        work(tmp_path / "kept", defined(objective), defined(metric), True)
