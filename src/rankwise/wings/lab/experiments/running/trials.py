"""The trials of an experiment: every method in every trial, at every level, on every data set.

A trial splits the data, trains a method and measures it, in this process, in another, or on a cluster.
"""

import os
import platform
import time
import warnings
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from rankwise import RankingDataset, __version__, check, evaluate, use_threads
from rankwise.base.arrays import Array, Json, Keywords
from rankwise.metrics import metric
from rankwise.metrics import metrics as find_metrics
from rankwise.objectives import NoKernelWarning
from rankwise.quality import leakage
from rankwise.rankers import RANKERS, USUAL, is_ours, ranker_class
from rankwise.rankers.training import EvalSet, NothingLearnedError, Validation, interruption_unannounced
from rankwise.wings.lab.bounding.guarantees import guarantees
from rankwise.wings.lab.experiments.running import frames
from rankwise.wings.lab.experiments.running.protocols import (
    PROTOCOLS,
    TREATMENTS,
    Draw,
    Triple,
    ranker_settings,
    relevant_label,
    seed_of,
)
from rankwise.wings.lab.experiments.running.sources import Source
from rankwise.wings.lab.experiments.running.store import Outcome, slug
from rankwise.wings.lab.experiments.spec import Spec

PROTOCOL: Keywords = {"leaves": USUAL.leaves, "min_documents": USUAL.min_documents, "smoothing": USUAL.smoothing}
"""What rankers of an experiment have unless its settings say otherwise: the same for data of every size, and no part of
a trial's digest."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TrialCell:
    """One trial of one method on one data set at one level: what is computed and kept at once."""

    spec: Spec
    source: Source
    level: float
    trial: int
    method: str
    threads: int
    fingerprint: str

    @property
    def name(self) -> str:
        """The name of its file: readable, and different as soon as anything is that changes numbers."""
        data = self.source.name
        digest = self.spec.digest(self.method, data, self.level, self.fingerprint)
        return f"{slug(data)}-{self.level:g}-{self.trial:04d}-{slug(self.method)}-{digest}"

    @property
    def first(self) -> bool:
        """Whether single documents are kept: in the first trial at the first level."""
        return self.trial == 0 and self.level == self.spec.levels[0]

    @property
    def defaults(self) -> Keywords:
        """Settings of every ranker that has them."""
        return {
            "seed": seed_of(self.spec.seed, self.trial),
            "threads": self.threads,
            "metrics": (self.spec.decide,),
            "progress": False,
            **PROTOCOL,
            **ranker_settings(self.spec, self.level),
        }


def cells_of(spec: Spec, *, data_folder: str | Path | None = None, threads: int = 1) -> list[TrialCell]:
    """List everything that is to be computed: whole trials first, so that what is there can be compared early."""
    folder = None if data_folder is None else str(data_folder)
    columns = tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in spec.columns.items())
    sources = [Source(text, folder, spec.queries, spec.protocol == "ratings", columns) for text in spec.data]
    names = [source.name for source in sources]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise check.error("two data sets have the same name", got=twice, hint="name one of them: NAME=path/to/file")
    marks = {source: source.fingerprint() for source in sources}
    cells = [
        TrialCell(
            spec=spec,
            source=source,
            level=level,
            trial=trial,
            method=name,
            threads=threads,
            fingerprint=marks[source],
        )
        for trial in range(spec.trials)
        for source in sources
        for level in spec.levels
        for name in spec.methods
    ]
    for cell in cells[: len(sources) * len(spec.levels) * len(spec.methods)]:  # settings are checked before training
        spec.ranker_of(cell.method, cell.source.name, cell.level).build()
    return cells


def compute(cell: TrialCell) -> Outcome:
    """Train and measure."""
    began = time.perf_counter()
    spec = cell.spec
    with use_threads(cell.threads):
        train, valid, test = parts_of(cell)
        ranker, notes = _trained(cell, train, valid, test)
        seconds = time.perf_counter() - began
        scores = np.asarray(ranker.predict(test.without_rows()), np.float64)
        evaluation = evaluate(scores, test, spec.metrics)
        columns = dict(evaluation.values)
        for text in spec.ratios:
            ratio = metric(text)
            columns[text] = ratio.of(scores, test)
            columns[f"ideal {text}"] = ratio.of(test.labels_of(getattr(ratio, "label", None)), test)
        key = {"data": cell.source.name, "level": cell.level, "trial": cell.trial, "method": cell.method}
        facts = {
            "seed": cell.defaults["seed"],
            "seconds": seconds,
            "threads": cell.threads,
            "best_round": int(ranker.best_round_),
            "stopped": ranker.stopped_,
            "date": date(),
            "feature_names": None if test.feature_names is None else list(test.feature_names),
            "versions": versions(*dict.fromkeys(one.name for one in spec.parsed()[cell.method].singles())),
            "machine": f"{platform.system()} {platform.machine()}, {platform.python_implementation()}",
        }
        rows = frames.queries(key, test, columns, relevant_label(spec, cell.level))
        further = frames.of_documents(key, ranker, test, scores) if cell.first else {}
        return Outcome(frames={"queries": rows, "curves": frames.curves(key, ranker), **further}, about=facts | notes)


class Untrained:
    """What a method that learned nothing comes to: the same score for every document, so that all are tied."""

    best_round_ = 0
    stopped_ = "nothing learned"
    history_: ClassVar[dict[str, list[float]]] = {}

    def predict(self, data: RankingDataset) -> Array:
        """Return a score of 0 for every document."""
        return np.zeros(data.n_docs)


_last: dict[tuple[Any, ...], Triple] = {}  # the methods of a trial follow each other and share their data


def parts_of(cell: TrialCell) -> Triple:
    """The data of a trial, treated."""
    spec = cell.spec
    what = (spec.protocol, spec.split, spec.seed, spec.treatment, spec.treat_valid, spec.relevant)
    key = (cell.source, cell.fingerprint, cell.level, cell.trial, *what)
    if key not in _last:
        _last.clear()
        with check.naming(cell.source.text):
            parts = PROTOCOLS[spec.protocol](cell.source, spec, cell.trial)
            _last[key] = TREATMENTS[spec.treatment](parts, Draw(cell.level, spec, seed_of(spec.seed, cell.trial)))
    return _last[key]


def _trained(cell: TrialCell, train: Any, valid: Any, test: RankingDataset) -> tuple[Any, Json]:
    """The trained ranker, and what else is to be kept about it."""
    spec = cell.spec
    expression = spec.ranker_of(cell.method, cell.source.name, cell.level)
    notes: Json = {}
    if spec.tune_trials or spec.tune_minutes:
        from rankwise import tune

        single = expression.singles()[0]
        tuning = tune(
            train,
            valid,
            single.objective or None,
            ranker=single.name,
            metric=spec.decide,
            trials=spec.tune_trials or None,
            minutes=spec.tune_minutes or None,
            space=spec.tune_space,
            fixed=({"smoothing": PROTOCOL["smoothing"]} if is_ours(single.name) else {}) | dict(single.settings),
            seed=cell.defaults["seed"],
            threads=cell.threads,
            progress=False,
        )
        if tuning.stopped == "interrupted":
            raise KeyboardInterrupt
        run_settings = {name: cell.defaults[name] for name in ("seed", "threads", "metrics", "progress")}
        ranker = expression.map(lambda _: tuning.parameters).build(run_settings)
        notes["tuning"] = {"value": tuning.value, "trials": len(tuning.trials), "parameters": tuning.parameters}
        notes["search"] = tuning.to_dict()
    else:
        ranker = expression.build(cell.defaults)
    with interruption_unannounced(), leakage.checked():
        warnings.simplefilter("ignore", NoKernelWarning)  # true of every trial
        try:
            ranker.fit(train, valid if spec.early_stopping else None, eval_sets=_measures(spec, train, valid, test))
        except NothingLearnedError as nothing:
            return Untrained(), notes | {"nothing_learned": str(nothing)}
    if ranker.stopped_ == "interrupted":  # half a model is no result
        raise KeyboardInterrupt
    return ranker, notes


def _measures(spec: Spec, train: Any, valid: Any, test: RankingDataset) -> dict[str, Any]:
    """Return the learning curves that a specification asks for, as ``eval_sets`` of a ranker's ``fit``.

    Training and validation queries are measured by the metric that decides, test queries by all metrics, and scores are
    those of the model, without the noise that an objective may add to them.
    """
    curves: dict[str, Any] = {}
    if "train" in spec.curves:
        curves["train"] = train
    if "valid" in spec.curves and not spec.early_stopping:
        curves["valid"] = valid
    if "test" in spec.curves:
        curves["test"] = EvalSet(test, Validation(test, find_metrics(spec.metrics), debias=False))
    if "bound" in spec.curves:
        curves["bound"] = EvalSet(test, lambda scores: _best_bounds(scores, test))
    return curves


def _best_bounds(scores: Array, data: RankingDataset) -> dict[str, float]:
    """For each metric the highest of its lower bounds."""
    best: dict[str, float] = {}
    for one in guarantees(scores, data.labels, data.offsets):
        best[one.metric] = max(one.mean, best.get(one.metric, 0.0))
    return best


def date() -> str:
    """Return the current time with its time zone."""
    return time.strftime("%Y-%m-%d %H:%M:%S%z")


def machine() -> str:
    """Describe this machine."""
    return f"{platform.platform()}, {os.cpu_count()} cores"


def versions(*rankers: str) -> dict[str, str]:
    """Return the versions of rankwise, Python, NumPy and the libraries of rankers."""
    installed = {"rankwise": __version__, "python": platform.python_version(), "numpy": np.__version__}
    for ranker in (name for name in rankers if name in RANKERS):  # others are the user's, and no packages
        for name in ranker_class(ranker).packages:
            try:
                installed[name.removesuffix("-cpu")] = metadata.version(name)
                break
            except metadata.PackageNotFoundError:
                continue
    return installed
