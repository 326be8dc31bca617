"""What pyproject.toml promises: one list of Pythons in every text, extras that leave an installed library alone."""

import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import rankwise as rw

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
APART = {"engines", "mlflow", "ray", "spark", "terrier"}
"""Extras that ``all`` leaves out: large, or they pin what others need. ``make test-integrations`` installs them."""
PYTHONS = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]


def libraries(extra: str, platform: str = "linux") -> set[str]:
    """The distributions that an extra brings, with those of the extras that it names."""
    found: set[str] = set()
    for line in EXTRAS[extra]:
        need = Requirement(line)
        if need.marker is not None and not need.marker.evaluate({"sys_platform": platform}):
            continue
        found |= set().union(*(libraries(e, platform) for e in need.extras)) if need.name == "rankwise" else {need.name}
    return found


def test_pythons_have_a_least_version_and_no_upper_bound():
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    assert [f"3.{minor}" for minor in range(11, 11 + len(PYTHONS))] == PYTHONS


@pytest.mark.parametrize("name", ["Makefile", "README.md", "CONTRIBUTING.md"])
def test_texts_name_the_pythons_of_the_project(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert f"Python {PYTHONS[0]} or later" in text
    assert not re.search(r"3\.\d+ to 3\.\d+", text)


def test_hosted_ci_runs_our_own_command_on_every_python():
    yaml = pytest.importorskip("yaml")
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8"))["jobs"]
    assert jobs["linux"]["strategy"]["matrix"]["python"] == PYTHONS
    for job in jobs.values():
        assert job["steps"][-1]["run"].startswith(("make test", "make fast"))


def test_every_extra_apart_is_installed_by_the_command_that_tests_it():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    installed = {name for line in re.findall(r"/\.done: EXTRAS := (.*)", makefile) for name in line.split(",")}
    assert installed >= APART  # tests of Ray and Spark also need XGBoost and Dask
    weekly = (ROOT / ".github" / "workflows" / "integrations.yml").read_text(encoding="utf-8")
    assert "make test-integrations" in weekly


def test_the_extra_for_xgboost_leaves_an_installed_build_alone():
    # xgboost-cpu has the same files under another name: installing it would replace a build with CUDA.
    assert libraries("xgboost") == {"xgboost"}
    assert "xgboost-cpu" not in libraries("all")


def test_the_tests_take_the_small_xgboost_where_it_is_made():
    assert {name for name in libraries("dev") if "xgboost" in name} == {"xgboost-cpu"}
    assert {name for name in libraries("dev", "darwin") if "xgboost" in name} == {"xgboost"}


def test_all_is_every_extra_for_users():
    users = set(EXTRAS) - {"all", "dev"} - APART
    assert libraries("all") == set().union(*map(libraries, users))
    assert libraries("all") - libraries("dev") == {"xgboost"}


def test_what_the_tests_need_is_pinned():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = {Requirement(line).name for line in lines if not line.startswith("#")}
    assert {Requirement(line).name for line in PROJECT["dependencies"]} | libraries("dev") | libraries("all") <= pinned
    assert set().union(*map(libraries, APART)) <= pinned


def test_the_citation_names_this_version_and_the_five_papers():
    yaml = pytest.importorskip("yaml")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == rw.__version__
    assert citation["license"] == PROJECT["license"]
    papers = citation["references"]
    assert sorted(paper["year"] for paper in papers) == [2019, 2020, 2021, 2022, 2024]
    links = {f"https://doi.org/{paper['doi']}" for paper in papers if "doi" in paper}
    assert links <= set(PROJECT["urls"].values())
    readme = re.sub(r"\s+", " ", (ROOT / "README.md").read_text(encoding="utf-8"))
    for paper in papers:
        assert paper["title"].strip() in readme


def test_the_site_follows_the_system_on_every_visit():
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    media = re.findall(r'- media: "(.*)"', text)
    # Without the first, the mode of the first visit is kept whatever the system says later.
    assert media == [
        "(prefers-color-scheme)", "(prefers-color-scheme: light)", "(prefers-color-scheme: dark)",
    ]  # fmt: skip
    for path in re.findall(r"extra_css: \[(.*)\]", text):
        assert (ROOT / "docs" / path).is_file()
