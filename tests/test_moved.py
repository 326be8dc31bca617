"""What has moved works as before, with a warning that names the new place; and the front door stays small."""

import ast
import importlib
import inspect
import pickle
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import pytest

import rankwise as rw
from rankwise import moved
from rankwise.base import lazy
from rankwise.models.forests.forest import ForestModel
from tests.statistics.test_results import off_policy

BEFORE = """
ALS ApproxNDCG AutoRanker BPR Breakdown Calibrated CalibratedRanker CatBoostRanker ClickLog Comparison CrossValidation
DataCheck Derivatives Distil EASE Evaluation Explanation FactorizationRanker FeatureComparison GroupExposure
Interactions ItemKNN JudgedEvaluation LambdaRank Leaderboard LightGBMRanker ListMLE ListNet LostWorkerError MarginMSE
Metric NeuralRanker NothingLearnedError Objective ObjectiveChecks PLRank Pairwise PolicyEvaluation Popularity Prepared
RankNet Ranker RankingDataset RecommenderChoice Results SmoothAP SmoothRBP SoftmaxCE Spec StopTraining Stream Tuning
XENDCG XGBoostRanker Yeti __version__ add_negatives bagged binarize blended bounded calibrate check_objective
choose_recommender clicks clickwise compare compare_features concatenate conventions cross_validate dask datasets
distilled diversify evaluate evaluate_interactions examine explain export fair flip_labels folds frontier guarantees
interleave interleaving judge judging learning_curve lightgbm_metric lightgbm_objective load load_dataset metric mlflow
objective on open_data positioned ranker ray read_csv read_data read_evaluation read_feature_log read_letor read_parquet
read_qrels read_run register reproduce rerank safe sample_rankings sample_scores simulate_clicks spark split stochastic
synthetic synthetic_ideal synthetic_ratings thin to_frame torch_loss trials tune use_threads weighted wrap
write_comparison write_data write_evaluation write_letor write_parquet write_qrels write_report write_run xgboost_metric
xgboost_objective
""".split()  # noqa: SIM905
"""All names that there were before namespaces."""
LISTED: list[str] = rw.__all__  # type: ignore[attr-defined]
SPACES = {name: getattr(rw, name) for name in LISTED if isinstance(getattr(rw, name), ModuleType)}


def quiet(old: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return getattr(rw, old)


def place(public: str) -> Any:
    """What a public name stands for, ``rw.recommend.ALS.recommend``."""
    thing: Any = rw
    for part in public.split(".")[1:]:
        thing = getattr(thing, part)
    return thing


def test_every_name_that_there_was_is_there():
    assert len(BEFORE) == 141
    for name in BEFORE:
        assert name in LISTED or f"rw.{name}" in moved.NAMES, name
        assert quiet(name) is not None
    of_front_door = {name for name in moved.NAMES if name.count(".") == 1}
    assert of_front_door == {f"rw.{name}" for name in BEFORE if name not in LISTED}


@pytest.mark.parametrize("old", sorted(moved.NAMES))
def test_an_old_name_is_the_same_object_with_a_warning(old):
    (module, _, name), new = f"rankwise{old.removeprefix('rw')}".rpartition("."), moved.NAMES[old]
    with pytest.warns(DeprecationWarning, match="now; the old name") as caught:
        found = getattr(importlib.import_module(module), name)
    assert found is place(new)
    assert new.rpartition(".")[2] == {"judge": "join"}.get(name, name)
    assert str(caught[0].message) == f"{old} is {new} now; the old name goes with 0.4"
    assert caught[0].filename == __file__
    space: dict[str, Any] = {}
    with pytest.warns(DeprecationWarning, match=f"^{old} is {new} now"):
        exec(f"from {module} import {name}", space)  # noqa: S102
    assert space[name] is found


@pytest.mark.parametrize("old", sorted(moved.MODULES))
def test_a_module_that_has_moved_is_imported_with_a_warning(old, monkeypatch):
    new = importlib.import_module(moved.MODULES[old])
    monkeypatch.delitem(sys.modules, old, raising=False)
    with warnings.catch_warnings(record=True) as caught:  # of its package too, if that has moved
        warnings.simplefilter("always")
        again = importlib.import_module(old)
    monkeypatch.delattr(rw, old.removeprefix("rankwise."), raising=False)
    assert str(caught[-1].message) == f"{old} is {new.__name__} now; the old name goes with 0.4"
    public = {name for name in vars(new) if not name.startswith("_")}
    assert {name for name in public if getattr(again, name) is not getattr(new, name)} == set()


def test_the_front_door_has_at_most_fifty_names():
    assert len([name for name in LISTED if name not in SPACES and not name.startswith("_")]) <= 50
    assert sorted(SPACES) == [
        *("clicks", "cluster", "data", "errors", "judging", "lab", "metrics", "mlflow", "objectives", "recommend"),
        *("rerank", "results", "text", "trec"),
    ]


@pytest.mark.parametrize("space", sorted(SPACES.keys() - {"mlflow"}))
def test_a_namespace_lists_what_it_has(space):
    module = importlib.import_module(f"rankwise.{space}")
    assert module is SPACES[space]
    names = dir(module)
    assert names == sorted(names) == module.__all__
    assert all(getattr(module, name) is not None for name in names)
    with pytest.raises(AttributeError, match=f"module 'rankwise.{space}' has no attribute 'XENDGC'"):
        _ = module.XENDGC


def test_listings_are_what_type_checkers_read():
    for stub in Path(rw.__file__).parent.rglob("*.pyi"):
        lines = [line for line in ast.parse(stub.read_text(encoding="utf-8")).body if isinstance(line, ast.ImportFrom)]
        expected = {alias.asname: line.module or "" for line in lines for alias in line.names}
        assert lazy.listing(stub) == expected, stub


def test_modules_do_not_hide_functions_of_the_same_name():
    for name in ("rankwise.judging.plan", "rankwise.judging.interleave", "rankwise.metrics.conventions"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of modules that have moved
            module = importlib.import_module(name)
        function = place(name.replace("rankwise", "rw"))
        assert callable(function)
        assert getattr(module, function.__name__) is function
    with pytest.warns(DeprecationWarning, match="is rankwise.wings.datasets.subsample now"):
        importlib.reload(importlib.import_module("rankwise.data.thin"))
    assert rw.data.thin(LISTS, queries=3, seed=0).n_queries == 3


@pytest.mark.parametrize(
    ("line", "absent"),
    [
        ("import rankwise.objectives.softmax.objectives", "rankwise.objectives.pairwise"),
        ("from rankwise.objectives import XENDCG", "rankwise.objectives.pairwise.objectives"),
        ("import rankwise.trec, rankwise.lab, rankwise.results, rankwise.errors", "rankwise.evaluation"),
        ("from rankwise import objectives, data, recommend, cluster, judging", "numba"),
    ],
)
def test_a_namespace_loads_nothing_before_it_is_used(line, absent):
    code = f"import sys; {line}; print({absent!r} in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("public", sorted(moved.WORDS))
def test_words_have_changed_where_the_table_says_so(public):
    thing = place(public)
    taken = set(inspect.signature(thing).parameters)
    if is_dataclass(thing):
        taken |= {field.name for field in fields(thing)}
    if public == "rw.results.read_evaluation":  # passes them on
        taken = set(inspect.signature(rw.Evaluation).parameters)
    for old, new in moved.WORDS[public].items():
        assert new in taken
        assert old not in taken


LISTS = rw.RankingDataset(np.arange(24.0)[:, None] % 7.0, np.arange(24) % 3, range(0, 25, 2))
SCORES = LISTS.features[:, 0]
SYSTEMS = {"a": SCORES, "b": -SCORES}


def fitted(**words: Any) -> Any:
    return rw.LightGBMRanker("xendcg", rounds=2, leaves=3, min_documents=1, threads=1).fit(LISTS, **words)


def rounds(**words: Any) -> list[int]:
    seen: list[int] = []
    fitted(**{name: lambda done, _: seen.append(done) for name in words})
    return seen


CALLS: dict[str, tuple[str, Callable[..., Any], dict[str, Any], dict[str, Any]]] = {
    "a level": ("rw.evaluate", lambda **w: rw.evaluate(SCORES, LISTS, **w), {"confidence": 0.9}, {"level": 0.9}),
    "an alpha": ("rw.compare", lambda **w: rw.compare(SYSTEMS, LISTS, **w), {"alpha": 0.1}, {"level": 0.9}),
    "a cutoff": (
        "rw.judging.interleave",
        lambda **w: rw.judging.interleave([1, 2, 3], [3, 4, 5], key=7, **w),
        {"k": 2},
        {"cutoff": 2},
    ),
    "a callback": ("rw.Ranker.fit", rounds, {"watch": None}, {"callback": None}),
    "data to measure": (
        "rw.Ranker.fit",
        lambda **w: fitted(**w).history_,
        {"measure": {"all": LISTS}},
        {"eval_sets": {"all": LISTS}},
    ),
    "a temperature": (
        "rw.clicks.simulate_clicks",
        lambda **w: rw.clicks.simulate_clicks(LISTS, ranker=SCORES, seed=1, **w).features.tolist(),
        {"drawn": 2.0},
        {"temperature": 2.0},
    ),
    "a result": (
        "rw.Evaluation",
        lambda **w: rw.Evaluation({"ap": [0.5]}, [1], **w),
        {"confidence": 0.5},
        {"level": 0.5},
    ),
}


@pytest.mark.parametrize("what", CALLS)
def test_an_old_keyword_means_the_new_one_with_a_warning(what):
    public, call, before, after = CALLS[what]
    (old,), (new,) = before, after
    with pytest.warns(DeprecationWarning, match="now; the old keyword") as caught:
        found = call(**before)
    assert str(caught[0].message) == f"{old}= of {public} is {new}= now; the old keyword goes with 0.4"
    assert caught[0].filename == __file__
    assert repr(found) == repr(call(**after))
    assert len(caught) == 1


def test_old_names_end_with_a_release_to_come_that_the_page_names():
    end, now = (tuple(map(int, version.split(".")[:2])) for version in (moved.ENDS, rw.__version__))
    assert end > now, "remove what has moved: the release that warnings name is here"
    page = (Path(__file__).parents[1] / "docs" / "upgrading.md").read_text(encoding="utf-8")
    assert f"The old names of today end with **{moved.ENDS}**" in page


ROWS = [(public, old) for public, words in (moved.WORDS | moved.ATTRIBUTES).items() for old in words]


@pytest.mark.parametrize(("public", "old"), ROWS)
def test_every_old_word_names_its_end(public, old):
    """As a keyword and as an attribute; names and modules are above."""
    attribute = moved._attribute(public, old, "new")
    uses: list[Callable[[], Any]] = [lambda: attribute.__set__(SimpleNamespace(), None)]
    if public in moved.WORDS:
        uses.append(lambda: moved._new_value(public, old, {old: None}))
    for use in uses:
        with pytest.warns(DeprecationWarning, match=rf"{old}.* goes with {re.escape(moved.ENDS)}$"):
            use()


def test_nothing_but_the_table_of_what_has_moved_warns_that_it_will_go():
    package = Path(rw.__file__).parent
    warning = [path.name for path in package.rglob("*.py") if "DeprecationWarning" in path.read_text(encoding="utf-8")]
    assert warning == ["moved.py"]


def test_old_and_new_keyword_exclude_each_other():
    with pytest.raises(TypeError, match="takes level= or confidence=, its old name, and not both"):
        rw.evaluate(SCORES, LISTS, level=0.9, confidence=0.9)  # type: ignore[call-overload]


def test_old_attributes_of_results():
    evaluation, comparison = rw.evaluate(SCORES, LISTS, level=0.9), rw.compare(SYSTEMS, LISTS, level=0.99)
    old: list[tuple[Any, str, float]] = [(evaluation, "confidence", 0.9), (comparison, "alpha", 0.01)]
    for result, name, value in old:
        with pytest.warns(DeprecationWarning, match=rf"^\w+\.{name} is \w+\.level now; the old name goes with 0.4"):
            assert getattr(result, name) == value
    assert evaluation.to_dict()["confidence"] == 0.9  # files keep their keys
    assert comparison.to_dict()["alpha"] == 0.01


def test_numbers_of_the_candidate_alone_keep_their_old_names():
    result = off_policy()
    with pytest.warns(DeprecationWarning, match=r"^OffPolicyComparison\.low is OffPolicyComparison\.alone\.low now"):
        assert result.low == result.alone.low  # type: ignore[attr-defined]


def test_old_keywords_change_copies_parameters_and_parts_of_results():
    old: Any = rw
    evaluation, comparison = old.evaluate(SCORES, LISTS), old.compare(SYSTEMS, LISTS)
    calls: dict[str, Callable[[], Any]] = {
        "0.9": lambda: replace(evaluation, confidence=0.9).level,
        "0.75": lambda: replace(comparison, alpha=0.25).level,
        "0.5": lambda: old.compare(SYSTEMS, LISTS, alpha=np.float32(0.5)).level,
        "kept": lambda: rw.AutoRanker().set_params(study="kept").checkpoint,
        "set": lambda: Searching("set").checkpoint,
    }
    for expected, call in calls.items():
        with pytest.warns(DeprecationWarning, match="now; the old") as caught:
            assert str(call()) == expected
        assert [one.filename for one in caught] == [__file__]
    with pytest.raises(TypeError, match="takes callback= or watch=, its old name, and not both"):
        fitted(watch=print, callback=print)


class Searching(rw.AutoRanker):
    def __init__(self, study=None):
        super().__init__()
        self.study = study


def test_subclasses_of_results_take_their_old_keywords():
    classes: list[Any] = [rw.results.CrossValidation, rw.results.PolicyEvaluation]
    for cls in classes:
        with (
            pytest.warns(DeprecationWarning, match="is level= now"),
            pytest.raises(TypeError, match="required keyword-only"),
        ):
            cls({"ap": [0.5]}, [1], confidence=0.5)


def test_results_that_were_pickled_before_keep_their_level():
    comparison = rw.compare(SYSTEMS, LISTS, level=0.9)
    state = {name: value for name, value in vars(comparison).items() if name != "level"} | {"alpha": 0.1}
    again = object.__new__(rw.Comparison)
    again.__setstate__(state)  # type: ignore[attr-defined]
    assert again.level == 0.9
    assert repr(pickle.loads(pickle.dumps(again))) == repr(comparison)  # noqa: S301


class Pickled:
    """What was an object of the class, with this state, in a pickle of an older version."""

    def __init__(self, cls: type, state: dict[str, Any]) -> None:
        self.old = cls, state

    def __reduce__(self) -> tuple[Any, ...]:
        cls, state = self.old
        return made, (cls,), state


def made(cls: Any) -> Any:
    return cls.__new__(cls)


def test_rankers_that_were_pickled_before_score_the_same():
    data = rw.synthetic(n_queries=20, n_features=3, seed=1)
    ranker = rw.LightGBMRanker("xendcg", rounds=2, threads=1).fit(data)
    model = ranker.model_
    of_trees = {"booster": model.booster, "content": model.content(), "n_trees": 2}
    state = {"schema": model.schema, "forest": Pickled(type(model), of_trees), "kind": model.kind, "rounds": 2}
    again = pickle.loads(pickle.dumps(Pickled(ForestModel, state)))  # noqa: S301
    assert type(again) is type(model)
    assert again.description() == model.description()
    assert again.content() == model.content()
    ranker.model_ = pickle.loads(pickle.dumps(again))  # noqa: S301
    np.testing.assert_array_equal(ranker.predict(data), model.scores(data.features))


@pytest.mark.parametrize("model", ["pbm", "dbn"])
def test_click_models_that_were_pickled_before_are_the_same(model):
    data = rw.synthetic(n_queries=20, n_docs=4, seed=1)
    log = rw.clicks.simulate(data, rankers={str(n): data.features[:, n] for n in range(3)}, impressions=50, seed=1)
    new = rw.clicks.click_model(log, model)
    state = {"model": model} | vars(new)
    again = pickle.loads(pickle.dumps(Pickled(rw.clicks.ClickModel, state)))  # noqa: S301
    assert repr(again) == repr(new)
    assert repr(pickle.loads(pickle.dumps(again))) == repr(new)  # noqa: S301
    assert again.log_likelihood(log) == new.log_likelihood(log)


def test_an_import_of_an_old_name_warns_once():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        exec("from rankwise import judge", {})  # noqa: S102
    assert len(caught) == 1


@pytest.mark.parametrize("namespace", [rw, rw.objectives, rw.trec], ids=lambda one: one.__name__)
def test_a_namespace_travels_to_workers(namespace):
    """A function of the user's script takes the modules along that it names."""
    assert pickle.loads(pickle.dumps(namespace)) is namespace  # noqa: S301
    assert cloudpickle.loads(cloudpickle.dumps({"rw": namespace}))["rw"] is namespace
