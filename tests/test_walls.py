"""Wings stay small and apart: their lines, what they import, and what importing them brings."""

import re
from collections import Counter
from typing import Any

import grimp
import numpy as np
import pytest
import typer
from scipy.sparse.csgraph import connected_components

from rankwise.cli.app import app
from tests import walls
from tests.test_house import LISTED, MODULES, SOURCE, closure

FRONT_DOORS = {
    "clicks": "rankwise.wings.clicks.off_policy.compare",
    "cluster": "rankwise.wings.cluster.fit",
    "datasets": "rankwise.wings.datasets.load",
    "explain": "rankwise.wings.explain.explanation",
    "exports": "rankwise.wings.exports.export",
    "fairness": "rankwise.wings.fairness.policy",
    "judging": "rankwise.wings.judging.plan",
    "lab": "rankwise.wings.lab.experiments.reproduce",
    "mlflow": "rankwise.wings.mlflow.flavor",
    "nets": "rankwise.wings.nets.ranker",
    "recommend": "rankwise.wings.recommend.ease",
    "remote": "rankwise.wings.remote.download",
    "rerank": "rankwise.wings.rerank.reranker",
    "serve": "rankwise.wings.serve.http",
    "similarity": "rankwise.wings.similarity.similarity",
    "text": "rankwise.wings.text.documents",
    "tuning": "rankwise.wings.tuning.tune",
}
"""The module of each wing that its users import first."""


@pytest.fixture(scope="module")
def graph():
    return grimp.build_graph("rankwise", cache_dir=None)


CORE = 46_500
"""The most lines of the house without its wings. What a wing could hold, it should: this grows for what all use."""


def lines(wing: str) -> int:
    return sum(text.count("\n") for module, text in MODULES.items() if walls.wing_of(module) == wing)


def rooms() -> Counter[str]:
    """Count the lines of each room of the house, without the wings."""
    counts = Counter[str]()
    for module, text in MODULES.items():
        room = module.partition(".")[2].partition(".")[0]
        counts[room if room and (SOURCE / room).is_dir() else "(beside)"] += text.count("\n")
    del counts["wings"]
    return counts


def brought(module: str) -> int:
    return sum(MODULES[one].count("\n") for one in closure(module, inside=False) if not one.startswith(walls.WINGS))


def test_wings_import_what_their_contract_names(graph):
    assert walls.broken(graph) == []


def test_wings_are_within_their_lines(graph):
    modules = walls.imported(graph)
    rows = [
        f"{wing:10} {lines(wing):6,} lines of {walls.CONTRACT[wing]['lines']:6,}, {len(modules[wing]):2} modules of "
        f"{walls.MOST}, its front door brings {brought(FRONT_DOORS[wing]):6,} lines of the house"
        for wing in walls.CONTRACT
    ]
    print("\n".join(rows))
    assert FRONT_DOORS.keys() == walls.CONTRACT.keys()
    assert all(lines(wing) <= terms["lines"] for wing, terms in walls.CONTRACT.items()), "\n".join(rows)
    assert all(brought(FRONT_DOORS[wing]) <= terms["brings"] for wing, terms in walls.CONTRACT.items()), "\n".join(rows)


def test_the_house_without_wings_is_within_its_lines():
    counts = rooms()
    rows = [f"{room:16} {count:6,} lines" for room, count in counts.most_common()]
    rows += [f"{'all':16} {counts.total():6,} lines of {CORE:,}"]
    print("\n".join(rows))
    assert counts.total() + sum(map(lines, walls.CONTRACT)) + MODULES[walls.WINGS].count("\n") == sum(
        t.count("\n") for t in MODULES.values()
    )
    assert counts.total() <= CORE, "\n".join(rows)


README = {wing: (SOURCE / "wings" / wing / "README.md").read_text(encoding="utf-8") for wing in walls.CONTRACT}


def test_the_map_has_what_each_wing_is_for():
    contributing = (SOURCE.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| \[`(\w+)`\]\(src/rankwise/wings/(\w+)/README\.md\) \| (.*) \|$", contributing)
    assert {wing: f"# {folder}: {purpose}" for wing, folder, purpose in rows} == {
        wing: text.partition("\n")[0] for wing, text in README.items()
    }


@pytest.mark.parametrize("wing", README)
def test_a_readme_is_short_and_names_commands_and_tests(wing):
    assert README[wing].count("\n") <= 18
    assert f"`.venv/bin/python -m pytest tests/wings/{wing}`" in README[wing]
    assert (SOURCE.parents[1] / "tests" / "wings" / wing).is_dir()
    root: Any = typer.main.get_command(app)
    for group in (root, *root.commands.values()):
        for name, command in getattr(group, "commands", {}).items():
            if walls.wing_of(getattr(getattr(command, "function", None), "__module__", "")) == wing:
                assert re.search(rf"`(?:[a-z-]+ )*{name}`", README[wing]), f"rankwise {name} is not in the README"


def test_tests_of_the_core_leave_out_pages_of_wings():
    """``make test-core`` runs no page whose examples call a wing."""
    root = SOURCE.parents[1]
    left_out = (root / "Makefile").read_text(encoding="utf-8").partition("WINGS :=")[2].partition("\n\n")[0]
    wings = walls.CONTRACT.keys() - {"datasets"}  # data to try things on, as the tests of the core do
    names = [
        f"{space}.{name}".removeprefix("rankwise.")
        for space in ("rankwise", *(f"rankwise.{one}" for one in ("data", "metrics", "objectives", "results")))
        for name, module in LISTED[space].items()
        if walls.wing_of(module) in wings
    ]
    of_wing = re.compile(rf"(?m)^(?:>>>|\.\.\.) .*\brw\.(?:{'|'.join([*names, *wings])})\b")
    for page in (root / "README.md", *(root / "docs").glob("*.md")):
        if of_wing.search(page.read_text(encoding="utf-8")):
            assert page.stem in re.findall(r"[\w-]+", left_out), page.name


def test_a_new_import_breaks_the_contract(graph):
    graph = grimp.build_graph("rankwise", cache_dir=None)
    graph.add_import(importer="rankwise.wings.similarity.similarity", imported="rankwise.rankers.trees.learner")
    graph.add_import(importer="rankwise.wings.similarity.similarity", imported="rankwise.wings.clicks.logs.log")
    assert walls.broken(graph) == [
        f"the wing similarity imports {module}, in rankwise.wings.similarity.similarity"
        for module in ("rankers.trees.learner", "wings.clicks.logs.log")
    ]


def test_import_knots_are_small():
    """Modules that import one another, directly or by way of others, also inside functions; not by types."""
    graph = grimp.build_graph("rankwise", exclude_type_checking_imports=True, cache_dir=None)
    modules = sorted(graph.modules - {"rankwise"})  # which lists names of all
    imported = [graph.find_modules_directly_imported_by(one) for one in modules]
    edges = np.array([[other in one for other in modules] for one in imported])
    _, knot = connected_components(edges, connection="strong")
    largest = [modules[place] for place in np.flatnonzero(knot == np.bincount(knot).argmax())]
    assert 1 < len(largest) <= 4, largest
