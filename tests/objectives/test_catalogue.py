"""The list of objectives: true of the objects, and the tables made from it current."""

import dataclasses
import json

import pytest
from typer.testing import CliRunner

import rankwise as rw
from rankwise.cli.app import app
from rankwise.objectives import catalogue
from rankwise.objectives.table import OBJECTIVES, WRAPPERS
from tests.kernels import around

ENTRIES = catalogue.entries()


def test_everything_of_the_table_is_listed_once():
    assert [e.name for e in ENTRIES if e.kind == "objective"] == list(OBJECTIVES)
    assert [e.name for e in ENTRIES if e.kind == "wrapper"] == list(WRAPPERS)


@pytest.mark.parametrize("name", [*OBJECTIVES, *WRAPPERS])
def test_everything_of_the_table_is_a_public_name(name):
    cls = {**OBJECTIVES, **WRAPPERS}[name]
    assert getattr(rw.objectives, cls.__name__) is cls


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.name)
def test_defaults_read_back(entry):
    inside = "approx_ndcg" if entry.kind == "wrapper" else ""
    plain = rw.objective(around(entry.name, inside))
    full = rw.objective(around(entry.name, ", ".join(filter(None, (inside, entry.defaults())))))
    assert full == plain
    assert set(entry.arguments) == {item.name for item in dataclasses.fields(plain)} - {"inner", "label"}


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.name)
def test_the_hessian_column_is_true(entry):
    if entry.name in ("fair", "safe"):  # whatever is inside
        assert not rw.objective(f"{entry.name}(approx_ndcg(curvature=exact))").exact_hessian
        assert rw.objective(f"{entry.name}(approx_ndcg)").estimator
        assert (entry.hessian(), entry.estimator) == ("not unbiased", True)
        return
    if entry.name == "positioned":
        assert not rw.objective("positioned(approx_ndcg(curvature=exact))").exact_hessian
        assert not rw.objective("positioned(approx_ndcg)").estimator
        assert (entry.exact_hessian, entry.estimator) == (False, "as inside")
        return
    if entry.kind == "wrapper":
        assert rw.objective(around(entry.name, "approx_ndcg(curvature=exact)")).exact_hessian
        assert not rw.objective(around(entry.name, "approx_ndcg")).exact_hessian
        assert rw.objective(around(entry.name, "plrank")).estimator
        assert entry.hessian() == entry.estimator == "as inside"
        return
    plain = rw.objective(entry.name)
    assert plain.estimator == entry.estimator
    assert plain.exact_hessian == entry.exact_hessian
    assert entry.hessian().startswith("unbiased" if plain.estimator else "exact")
    if not plain.exact_hessian:
        assert rw.objective(f"{entry.name}({entry.exact_with})").exact_hessian
        assert entry.hessian().endswith(f" with {entry.exact_with}")


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda e: e.name)
def test_descriptions_are_single_sentences_without_citations(entry):
    assert 10 < len(entry.description) < 150
    assert entry.description[0].isupper()
    assert not entry.description.endswith(".")
    assert "20" not in entry.description
    assert entry.paper or entry.name in ("weighted", "on")  # which are nobody's invention


def test_an_objective_without_an_exact_setting_is_not_exact():
    entry = dataclasses.replace(ENTRIES[0], exact_hessian=False, exact_with="")
    assert entry.hessian() == "not exact"


def test_command_line_lists_the_same():
    table = CliRunner().invoke(app, ["objectives"])
    document = CliRunner().invoke(app, ["objectives", "--json"])
    assert table.exit_code == document.exit_code == 0
    lines = {line.split()[0]: line for line in table.stdout.splitlines() if line.strip()}
    actual = json.loads(document.stdout)
    assert [one["name"] for one in actual] == [entry.name for entry in ENTRIES]
    for entry, one in zip(ENTRIES, actual, strict=True):
        for part in (entry.description, entry.paper, entry.hessian(), entry.defaults()):
            assert part in lines[entry.name]
        assert one["arguments"] == entry.arguments
        assert one["exact_hessian"] == entry.exact_hessian
    assert "Sums: 0.7*xendcg" in table.stdout
