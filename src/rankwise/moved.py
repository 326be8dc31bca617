"""The one table of what has moved: old modules, names, keywords and attributes work, with a warning, until ``ENDS``."""

import functools
import importlib
import operator
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeVar, cast

ENDS = "0.4"
"""The release in which all of these go."""

_UNDER_THEIR_NAMES = {
    ("rankwise", "rankwise.base"): (
        "arrays caches compiling device files hooks lazy pools progress sparse steps stream tables threads"
    ),
    ("rankwise", "rankwise.language"): "grammar registry settings_files syntax user_code workspace",
    ("rankwise", "rankwise.wings.cluster"): "dask ray spark",
    ("rankwise", "rankwise.wings.lab"): "demo experiments papers report",
    ("rankwise.data", "rankwise.data.io"): "disk file_formats letor reading tables",
    ("rankwise.data", "rankwise.quality"): "leakage",
    ("rankwise.data.io", "rankwise.wings.remote"): "download remote_files",
    ("rankwise.data", "rankwise.wings.clicks.models"): "users",
    ("rankwise.data", "rankwise.wings.datasets"): "perturb subsample synthetic",
    ("rankwise.evaluation", "rankwise.wings.explain"): "breakdown explanation",
    ("rankwise.evaluation", "rankwise.wings.fairness"): "diversify groups policy",
    ("rankwise.evaluation", "rankwise.wings.similarity"): "similarity",
    ("rankwise.metrics", "rankwise.wings.fairness"): "diversity exposure",
    ("rankwise.metrics", "rankwise.wings.similarity"): "correlation rank_similarity",
    ("rankwise.metrics", "rankwise.wings.lab.bounding"): "orderings random_orderings",
    ("rankwise.model_selection", "rankwise.quality"): "examine learning_curve",
    ("rankwise.model_selection", "rankwise.wings.tuning"): (
        "auto feature_selection feature_steps frontier plot result search spaces study tune"
    ),
    ("rankwise.objectives.softmax", "rankwise.wings.lab.bounding"): "guarantees",
    ("rankwise.objectives.wrappers", "rankwise.wings.clicks.objectives"): "clickwise positioned safe",
    ("rankwise.objectives.wrappers", "rankwise.wings.fairness"): "fair triton",
    ("rankwise.objectives.wrappers", "rankwise.wings.lab.bounding"): "bounded bounds",
    ("rankwise.rankers", "rankwise.models"): "model_card schema scoring storage",
    ("rankwise.models.nets", "rankwise.models.torch"): "state weights",
    ("rankwise.rankers.nets", "rankwise.rankers.torch"): "learner processes",
    ("rankwise.quality", "rankwise.wings.serve"): "feature_log skew",
    ("rankwise.serving", "rankwise.wings.serve"): (
        "feature_log http openapi processes prometheus request_parsing server skew"
    ),
    ("rankwise.statistics", "rankwise.base"): "tables",
}
"""Old package, new package -> the modules and packages that moved from one to the other."""
MODULES = {
    f"{old}.{name}": f"{new}.{name}" for (old, new), names in _UNDER_THEIR_NAMES.items() for name in names.split()
} | {
    "rankwise.cli.clicks": "rankwise.wings.clicks.commands",
    "rankwise.cli.evaluate.explain": "rankwise.wings.explain.commands",
    "rankwise.cli.evaluate.interleave": "rankwise.wings.clicks.commands",
    "rankwise.cli.experiments": "rankwise.wings.lab.commands",
    "rankwise.cli.judge": "rankwise.wings.judging.commands",
    "rankwise.cli.recommend": "rankwise.wings.recommend.commands",
    "rankwise.cli.rerank": "rankwise.wings.rerank.commands",
    "rankwise.cli.train.auto": "rankwise.wings.tuning.commands",
    "rankwise.cli.train.export": "rankwise.wings.exports.commands",
    "rankwise.cli.train.frontier": "rankwise.wings.tuning.commands",
    "rankwise.cli.train.model_selection": "rankwise.wings.tuning.commands",
    "rankwise.cli.train.serve": "rankwise.wings.serve.commands",
    "rankwise.cli.train.tune": "rankwise.wings.tuning.commands",
    "rankwise.clicks.logs.days": "rankwise.wings.clicks.logs.sessions",
    "rankwise.clicks.logs.robots": "rankwise.wings.clicks.logs.findings",
    "rankwise.clicks.logs.sources": "rankwise.wings.clicks.logs.reading",
    "rankwise.clicks.models.fitting": "rankwise.wings.clicks.models.click_models",
    "rankwise.clicks.models.impressions": "rankwise.wings.clicks.models.simulation",
    "rankwise.clicks.off_policy.exposure": "rankwise.wings.clicks.off_policy.log_rows",
    "rankwise.clicks.positions.em": "rankwise.wings.clicks.positions.joint",
    "rankwise.cluster.crew": "rankwise.wings.cluster.backend",
    "rankwise.data.catalog": "rankwise.wings.datasets",
    "rankwise.data.catalog.download": "rankwise.wings.datasets.archive",
    "rankwise.data.catalog.entry": "rankwise.wings.datasets.load",
    "rankwise.data.clicks": "rankwise.wings.clicks.models.simulation",
    "rankwise.data.disk.binary_copy": "rankwise.data.io.disk.cache",
    "rankwise.data.interactions": "rankwise.wings.recommend.data",
    "rankwise.data.interactions.lists": "rankwise.wings.recommend.data.interactions",
    "rankwise.data.io.catalog": "rankwise.wings.datasets",
    "rankwise.data.remote": "rankwise.wings.remote.download",
    "rankwise.data.synthetic.lists": "rankwise.wings.datasets.synthetic",
    "rankwise.data.synthetic.ratings": "rankwise.wings.recommend.data.sources",
    "rankwise.data.thin": "rankwise.wings.datasets.subsample",
    "rankwise.evaluation.explain": "rankwise.wings.explain",
    "rankwise.evaluation.explanation_figures": "rankwise.wings.explain.figures",
    "rankwise.evaluation.history_figure": "rankwise.evaluation.history",
    "rankwise.evaluation.judged": "rankwise.wings.judging.evaluation",
    "rankwise.evaluation.ranking_files": "rankwise.evaluation.score_files",
    "rankwise.evaluation.stored": "rankwise.evaluation.evaluation_files",
    "rankwise.evaluation.written_scores": "rankwise.cli.outputs",
    "rankwise.experiments.effects": "rankwise.wings.lab.experiments.comparisons",
    "rankwise.experiments.running.eta": "rankwise.wings.lab.experiments.running.progress",
    "rankwise.experiments.running.live": "rankwise.wings.lab.experiments.running.progress",
    "rankwise.experiments.running.provenance": "rankwise.wings.lab.experiments.running.trials",
    "rankwise.experiments.spec_types": "rankwise.wings.lab.experiments.spec",
    "rankwise.exports": "rankwise.wings.exports",
    "rankwise.judging.anytime_test": "rankwise.wings.clicks.interleaving.anytime_test",
    "rankwise.judging.betting": "rankwise.wings.clicks.interleaving.anytime_test",
    "rankwise.judging.interleave": "rankwise.wings.clicks.interleaving.interleave",
    "rankwise.judging.interleaving": "rankwise.wings.clicks.interleaving.preference",
    "rankwise.exports.onnx_linear": "rankwise.wings.exports.onnx_models",
    "rankwise.exports.onnx_net": "rankwise.wings.nets.onnx",
    "rankwise.metrics.reward": "rankwise.metrics.dcg",
    "rankwise.metrics.sampled": "rankwise.wings.judging.inferred",
    "rankwise.model_selection.frontier_figure": "rankwise.wings.tuning.frontier",
    "rankwise.models.contributions": "rankwise.models.model",
    "rankwise.models.nets": "rankwise.wings.nets",
    "rankwise.models.nets.mlp": "rankwise.wings.nets.model",
    "rankwise.objectives.checks": "rankwise.wings.lab.objective_checks",
    "rankwise.objectives.distil.cpu": "rankwise.objectives.distil.objectives",
    "rankwise.objectives.lists": "rankwise.objectives.ragged",
    "rankwise.objectives.softmax.calibrated": "rankwise.objectives.softmax.objectives",
    "rankwise.objectives.wrappers.on": "rankwise.objectives.wrappers.goal",
    "rankwise.rankers.contributions": "rankwise.models.model",
    "rankwise.rankers.ensembles.executors": "rankwise.rankers.ensembles.members",
    "rankwise.rankers.ensembles.oof": "rankwise.rankers.ensembles.out_of_fold",
    "rankwise.rankers.ensembles.weights": "rankwise.rankers.ensembles.blend_weights",
    "rankwise.rankers.nets": "rankwise.wings.nets",
    "rankwise.rankers.nets.batches": "rankwise.rankers.torch.batches",
    "rankwise.rankers.training.iterative": "rankwise.rankers.base",
    "rankwise.rankers.training.one_round": "rankwise.rankers.training.run",
    "rankwise.rankers.training.progress": "rankwise.rankers.training.run",
    "rankwise.rankers.training.session": "rankwise.rankers.training.run",
    "rankwise.rankers.trees.catboost.booster": "rankwise.rankers.trees.catboost.model",
    "rankwise.rankers.trees.catboost.imported_models": "rankwise.rankers.trees.catboost.model",
    "rankwise.rankers.trees.lightgbm.imported_models": "rankwise.rankers.trees.lightgbm.model",
    "rankwise.rankers.trees.lightgbm.parameters": "rankwise.rankers.trees.lightgbm.data",
    "rankwise.rankers.trees.xgboost.imported_models": "rankwise.rankers.trees.xgboost.model",
    "rankwise.recommend.learning": "rankwise.wings.recommend.choice",
    "rankwise.recommend.verify": "rankwise.wings.recommend.model",
    "rankwise.report.cutoffs": "rankwise.wings.lab.report.mean_figures",
    "rankwise.report.levels": "rankwise.wings.lab.report.mean_figures",
    "rankwise.report.orderings": "rankwise.wings.lab.bounding.figure",
    "rankwise.report.provenance": "rankwise.wings.lab.report.summary",
    "rankwise.report.rankings": "rankwise.wings.lab.report.explorer",
    "rankwise.rerank.data.sources": "rankwise.wings.rerank.data.trec",
    "rankwise.rerank.sizes": "rankwise.wings.rerank.encoders",
    "rankwise.rerank.summary": "rankwise.wings.rerank.model_card",
    "rankwise.serving": "rankwise.wings.exports",
    "rankwise.statistics.doctor": "rankwise.quality",
    "rankwise.statistics.figures.labels": "rankwise.wings.tuning.labels",
    "rankwise.statistics.frames": "rankwise.statistics.result",
    "rankwise.statistics.judged": "rankwise.wings.judging.result",
    "rankwise.statistics.objective_checks": "rankwise.wings.lab.objective_checks",
    "rankwise.statistics.prediction_powered": "rankwise.wings.judging.prediction_powered",
    "rankwise.statistics.sampled": "rankwise.wings.judging.sampled",
    "rankwise.statistics.terminal_tables": "rankwise.cli.console",
}
"""Old module or package -> new one; what is inside a package moves with it."""
INSIDE = {
    f"rankwise.{wing}": f"rankwise.wings.{wing}" for wing in ("clicks", "cluster", "judging", "recommend", "rerank")
}
"""Namespace, which stays -> package that has the modules that were inside it."""
_STAY = {"rankwise.cluster.dask", "rankwise.cluster.ray", "rankwise.cluster.spark"}  # public modules of a namespace

_NAMESPACES = {
    "clicks": "ClickLog simulate_clicks",
    "cluster": "dask ray spark LostWorkerError",
    "data": (
        "add_negatives binarize compare_features datasets flip_labels read_feature_log synthetic_ideal thin to_frame "
        "trials write_letor write_parquet"
    ),
    "errors": "NothingLearnedError StopTraining",
    "judging": "interleave interleaving",
    "lab": "Results Spec reproduce write_comparison write_report",
    "metrics": "conventions lightgbm_metric xgboost_metric",
    "objectives": (
        "ApproxNDCG BPR Calibrated Derivatives Distil LambdaRank ListMLE ListNet MarginMSE PLRank Pairwise Prepared "
        "RankNet SmoothAP SmoothRBP SoftmaxCE XENDCG Yeti bounded check_objective clickwise fair guarantees "
        "lightgbm_objective on positioned safe sample_rankings sample_scores stochastic weighted xgboost_objective"
    ),
    "recommend": (
        "ALS EASE FactorizationRanker Interactions ItemKNN Popularity choose_recommender evaluate_interactions "
        "synthetic_ratings"
    ),
    "results": (
        "Breakdown CrossValidation DataCheck Explanation FeatureComparison GroupExposure "
        "JudgedEvaluation Leaderboard ObjectiveChecks PolicyEvaluation RecommenderChoice Tuning read_evaluation "
        "write_evaluation"
    ),
    "trec": "read_qrels read_run write_qrels write_run",
}
NAMES = {f"rw.{name}": f"rw.{space}.{name}" for space, names in _NAMESPACES.items() for name in names.split()} | {
    "rw.judge": "rw.trec.join",
    "rw.model_selection.Leaderboard": "rw.results.Leaderboard",
    "rw.model_selection.Tuning": "rw.results.Tuning",
}
"""Old public name -> new public name."""

_WITH_LEVEL = (
    "Evaluation cross_validate data.compare_features evaluate frontier judging.Agreement judging.agreement "
    "recommend.evaluate_interactions results.CrossValidation results.JudgedEvaluation results.PolicyEvaluation "
    "results.Reliability results.read_evaluation"
)
WORDS: dict[str, dict[str, str]] = {
    "rw.AutoRanker": {"study": "checkpoint"},
    "rw.Comparison": {"alpha": "level"},
    "rw.Ranker.fit": {"measure": "eval_sets", "watch": "callback"},
    "rw.clicks.propensities": {"samples": "resamples"},
    "rw.clicks.simulate": {"drawn": "temperature"},
    "rw.clicks.simulate_clicks": {"drawn": "temperature"},
    "rw.cluster.dask.fit": {"watch": "callback"},
    "rw.cluster.ray.fit": {"watch": "callback"},
    "rw.compare": {"alpha": "level"},
    "rw.judging.Interleaving": {"unit": "by"},
    "rw.judging.interleave": {"k": "cutoff"},
    "rw.judging.interleaving": {"k": "cutoff"},
    "rw.recommend.ALS.recommend": {"k": "cutoff"},
    "rw.recommend.ALS.similar_items": {"k": "cutoff"},
    "rw.recommend.FactorizationRanker.fit": {"measure": "eval_sets", "watch": "callback"},
    "rw.rerank.Reranker.fit": {"watch": "callback"},
    "rw.results.Tuning": {"bag": "folds", "study": "checkpoint"},
    "rw.tune": {"bag": "folds", "study": "checkpoint"},
} | {f"rw.{name}": {"confidence": "level"} for name in _WITH_LEVEL.split()}
"""Function or class -> old keyword -> new keyword; those of a class are its attributes too."""

ATTRIBUTES = {
    "rw.clicks.OffPolicyComparison": {
        name: f"alone.{name}" for name in ("difference", "low", "high", "effective_size", "unsupported")
    }
}
"""Class -> old attribute -> new attribute."""

_Target = TypeVar("_Target", bound=Callable[..., Any])
_INNER = ("rankwise", "dataclasses", "functools", "importlib", "_frozen_importlib", "_frozen_importlib_external")


def renamed(public: str) -> Callable[[_Target], _Target]:
    """Decorate a function or a class, so that it takes the old words that ``WORDS`` lists under its public name."""
    words = WORDS.get(public, {})

    def decorate(target: _Target) -> _Target:
        if not isinstance(target, type):
            return cast("_Target", _taking(words, public, target))
        for old, new in (words | ATTRIBUTES.get(public, {})).items():
            setattr(target, old, _attribute(target.__name__, old, new))
        if words:
            for method in ("__init__", "set_params"):
                if hasattr(target, method):
                    setattr(target, method, _taking(words, public, getattr(target, method)))
            setattr(target, "__setstate__", _restoring(words))  # noqa: B010
        return target

    return decorate


def taken(public: str, others: Any, *values: Any) -> tuple[Any, ...]:
    """Return the values of new keywords, in the order of ``WORDS``; ``others``, of ``**others``, loses the old ones.

    For a function that takes any keywords, without the frame that :func:`renamed` puts around it.
    """
    current = list(values)
    for number, old in enumerate(WORDS[public]):
        if old in others:
            if current[number] is not None:
                raise _both(public, old)
            current[number] = _new_value(public, old, others)
    return tuple(current)


def find(module: str, name: str) -> object:
    """Return what a module no longer lists, with a warning; an AttributeError where it never did."""
    old = f"rw{module.removeprefix('rankwise')}.{name}"
    if old not in NAMES:
        raise AttributeError(f"module {module!r} has no attribute {name!r}", name=name, obj=sys.modules.get(module))
    new = NAMES[old]
    if sys._getframe(2).f_code.co_name != "_handle_fromlist":  # which looks before ``from rankwise import`` does
        _warn(f"{old} is {new} now; the old name goes with {ENDS}")
    space, _, name = new.removeprefix("rw.").rpartition(".")
    return getattr(importlib.import_module(f"rankwise.{space}"), name)


def install() -> None:
    """Make old modules importable."""
    sys.meta_path.insert(0, _Moved())  # before what an older version left of a folder


def _taking(words: dict[str, str], public: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        for old, new in words.items():
            if old in keywords:
                if new in keywords and sys._getframe(1).f_globals["__name__"] != "dataclasses":  # replace has both
                    raise _both(public, old)
                keywords[new] = _new_value(public, old, keywords)
        return function(*args, **keywords)

    return call


def _both(public: str, old: str) -> TypeError:
    return TypeError(f"{public} takes {WORDS[public][old]}= or {old}=, its old name, and not both")


def _restoring(words: dict[str, str]) -> Callable[..., None]:
    def restore(self: object, state: dict[str, Any]) -> None:  # of a pickle that may be older than the new words
        vars(self).update({words.get(name, name): _converted(name, value) for name, value in state.items()})

    return restore


def _new_value(public: str, old: str, keywords: dict[str, Any]) -> Any:
    _warn(f"{old}= of {public} is {WORDS[public][old]}= now; the old keyword goes with {ENDS}")
    return _converted(old, keywords.pop(old))


def _attribute(owner: str, old: str, new: str) -> property:
    def warn() -> None:
        _warn(f"{owner}.{old} is {owner}.{new} now; the old name goes with {ENDS}")

    def read(self: object) -> Any:
        warn()
        return _converted(old, operator.attrgetter(new)(self))

    def write(self: object, value: object) -> None:
        warn()
        setattr(self, new, _converted(old, value))

    return property(read, write)


def _converted(old: str, value: Any) -> Any:
    """Return the value under the other word: an alpha of 0.05 is a level of 0.95, and the other way round."""
    return round(1.0 - float(value), 12) if old == "alpha" and hasattr(value, "__float__") else value


def _warn(message: str) -> None:
    """Warn of the line, outside of the package, that uses what has moved."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in _INNER:
        frame = frame.f_back
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    module = frame.f_globals.get("__name__", "sys")
    warnings.warn_explicit(message, DeprecationWarning, frame.f_code.co_filename, frame.f_lineno, module, registry)


def _new_module(name: str) -> str | None:
    """Return where a module that has moved is, by the longest name in the tables that it begins with."""
    front, rest = name, ""
    while front not in MODULES and not (rest and front in INSIDE):
        front, dot, last = front.rpartition(".")
        if not dot:
            return None
        rest = f".{last}{rest}"
    return f"{MODULES.get(front) or INSIDE[front]}{rest}"


class _Moved:
    """A finder and loader of modules; importlib.abc would take longer to load than all of the rest."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name.partition(".")[0] != "rankwise" or (new := _new_module(name)) is None:
            return None
        loader: Any = self  # a Loader in all but its base class
        return ModuleSpec(name, loader, origin=new, is_package=True)  # what is inside is looked for here, too

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        new = module.__spec__.origin if module.__spec__ else None
        if new is None:
            raise ImportError(module.__name__)
        if module.__name__ not in _STAY:
            _warn(f"{module.__name__} is {new} now; the old name goes with {ENDS}")
        own = {name: value for name, value in vars(importlib.import_module(new)).items() if not name.startswith("__")}
        vars(module).update(own)
