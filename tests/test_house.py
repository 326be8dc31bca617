"""Numbers that say how much of the house a reader must know; each has a limit."""

import ast
import functools
import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import rankwise as rw
from rankwise.base import lazy
from rankwise.rankers import table
from tests import walks
from tests.tiers import only_all

SOURCE = Path(rw.__file__).parent
MODULES = {
    ".".join(["rankwise", *(part for part in path.relative_to(SOURCE).with_suffix("").parts if part != "__init__")]): (
        path.read_text(encoding="utf-8")
    )
    for path in SOURCE.rglob("*.py")
}
"""Module -> its text."""


@functools.cache
def tree(module: str) -> ast.Module:
    return ast.parse(MODULES[module])


LISTED = {
    ".".join(["rankwise", *(part for part in path.relative_to(SOURCE).with_suffix("").parts if part != "__init__")]): (
        lazy.listing(path)
    )
    for path in SOURCE.rglob("*.pyi")
}
"""Namespace -> its names, with the modules that importing them brings."""


def statements(nodes: Iterable[ast.AST], *, inside: bool) -> Iterator[ast.AST]:
    """Everything that runs, on import alone or ``inside`` functions too; what only type checkers read is left out."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not inside:
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        yield from statements(ast.iter_child_nodes(node), inside=inside)


@functools.cache
def imports(module: str, *, inside: bool) -> set[str]:
    """Modules of rankwise that a module imports, with the packages that they are in."""
    names: list[str] = []
    for node in statements(tree(module).body, inside=inside):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            listed = LISTED.get(node.module, {})
            names += [node.module, *(listed.get(alias.name) or f"{node.module}.{alias.name}" for alias in node.names)]
    parts = [name.split(".") for name in names]
    return {".".join(one[:n]) for one in parts for n in range(2, len(one) + 1)} & MODULES.keys()


def closure(module: str, *, inside: bool) -> set[str]:
    """All modules that importing one brings."""
    reached, todo = set[str](), [module]
    while todo:
        one = todo.pop()
        if one not in reached:
            reached.add(one)
            todo += imports(one, inside=inside)
    return reached


@pytest.mark.parametrize(("inside", "limit"), [(False, 10_000), (True, 15_000)], ids=["top", "inside"])
def test_comparing_needs_a_small_part_of_the_house(inside, limit):
    lines = {one: MODULES[one].count("\n") for one in closure("rankwise.evaluation.compare", inside=inside)}
    largest = "\n".join(f"{lines[one]:6,d} {one}" for one in sorted(lines, key=lambda one: -lines[one])[:20])
    assert sum(lines.values()) <= limit, f"{sum(lines.values()):,d} lines in {len(lines)} modules:\n{largest}"


def test_a_ranker_has_few_methods():
    classes = [one for one in rw.LightGBMRanker.__mro__ if one is not object]
    kinds = (property, classmethod, staticmethod)
    methods = {
        name
        for one in classes
        for name, value in vars(one).items()
        if not name.startswith("__") and (inspect.isfunction(value) or isinstance(value, kinds))
    }
    private = {name for name in methods if name.startswith("_")}
    assert len(methods) <= 45, sorted(methods)
    assert len(private) <= 15, sorted(private)


def test_few_private_attributes_are_used_by_others():
    places = [
        f"{module}:{node.lineno} {node.attr}"
        for module in MODULES
        for node in ast.walk(tree(module))
        if isinstance(node, ast.Attribute) and re.match("_[^_]", node.attr) and not _of_itself(node.value)
    ]
    assert len(places) < 60, "\n".join(places)


def _of_itself(value: ast.expr) -> bool:
    """Whether an attribute is looked up on the object, or the class, whose method it is."""
    if isinstance(value, ast.Name):
        return value.id in ("self", "cls")
    return isinstance(value, ast.Call) and getattr(value.func, "id", "") == "super"


KINDS = {*table.RANKERS, *table.ENSEMBLES, *table.RECOMMENDERS, *table.SAVED_AS_OTHERS}


def test_nobody_switches_on_kinds_of_rankers_outside_their_table():
    """No name or description is compared with a ranker's name, and nothing is asked twice for its class in a row."""
    places = []
    for module in MODULES.keys() - {"rankwise.rankers.table"}:
        for node in ast.walk(tree(module)):
            if isinstance(node, ast.Compare) and _kinds_in(node):
                places.append(f"{module}:{node.lineno} {ast.unparse(node)}")
            elif isinstance(node, ast.If) and len(_asked(node)) > 1:
                places.append(f"{module}:{node.lineno} isinstance of {', '.join(_asked(node))}")
    assert not places, "\n".join(places)


def _kinds_in(node: ast.Compare) -> set[str]:
    """The names of kinds that a ``.name`` or ``["ranker"]`` is compared with."""
    sides = [node.left, *node.comparators]
    named = any(
        (isinstance(one, ast.Attribute) and one.attr == "name")
        or (isinstance(one, ast.Subscript) and ast.unparse(one.slice) == "'ranker'")
        for one in sides
    )
    words = {str(one.value) for side in sides for one in ast.walk(side) if isinstance(one, ast.Constant)}
    tables = {one.attr for side in sides for one in ast.walk(side) if isinstance(one, ast.Attribute)}
    tables |= {one.id for side in sides for one in ast.walk(side) if isinstance(one, ast.Name)}
    return (words & KINDS) | (tables & {"RANKERS", "ENSEMBLES", "RECOMMENDERS", "SAVED_AS_OTHERS"}) if named else set()


RANKERS = {
    *("Ranker", "IterativeRanker", "TreeRanker", "LightGBMRanker", "XGBoostRanker", "CatBoostRanker", "TorchRanker"),
    *("NeuralRanker", "FactorizationRanker", "MetaRanker", "EnsembleRanker", "DelegatingRanker", "CalibratedRanker"),
    *("FeatureRanker", "AutoRanker", "Recommender", "bagged", "blended", "distilled"),
}


def _asked(node: ast.If) -> list[str]:
    """The classes of rankers that a chain of if and elif asks for."""
    tests = [node.test]
    while len(node.orelse) == 1 and isinstance(node.orelse[0], ast.If):
        node = node.orelse[0]
        tests.append(node.test)
    calls = [one for test in tests for one in ast.walk(test) if isinstance(one, ast.Call)]
    asked = [ast.unparse(one.args[1]) for one in calls if getattr(one.func, "id", "") == "isinstance"]
    return [one for one in asked if set(re.findall(r"\w+", one)) & RANKERS]


def test_expressions_are_parsed_once_per_fit(monkeypatch):
    parsed = []

    def objective(text):
        parsed.append(text)
        return rw.objective(text)

    monkeypatch.setattr("rankwise.rankers.training.settings.find_objective", objective)
    train, valid = rw.split(rw.synthetic(n_queries=40, n_docs=10, seed=1), (0.7, 0.3), seed=0)
    rw.LightGBMRanker("xendcg", rounds=2, leaves=4, threads=1).fit(train, valid)
    assert parsed == ["xendcg"]


def test_a_setting_of_training_is_in_few_files():
    """One that all rankers have: on their classes, in the settings, and where it acts."""
    files = [module for module, text in MODULES.items() if "min_rounds" in text]
    assert len(files) <= 6, files


def test_few_functions_lie_between_fit_and_the_first_tree():
    entered = walks.entered("a")
    assert len(entered) > 50
    # 110, and 7 where the declarations of an objective and a metric are read for the first time in a process
    assert len(entered) <= 117, "\n".join([f"{len(entered)} functions:", *map(" ".join, entered)])


@only_all
@pytest.mark.parametrize("walk", ["b", "c", "d"])
def test_walks_end_where_they_are_said_to(walk):
    """The last function of each, as CONTRIBUTING.md has it: what it traces is the whole way."""
    ends = {"b": "rankers/trees/lightgbm/", "c": "wings/clicks/off_policy/decision.py", "d": "wings/serve/"}
    assert any(file.startswith(ends[walk]) for file, _ in walks.entered(walk)[-12:])
