"""What a report of a bug needs is printed, and nothing that is secret."""

import json
import sys
from importlib import metadata

import pytest

import rankwise as rw
from rankwise.base import caches, versions
from tests.cli.running import run


def test_versions_are_those_of_the_installed_libraries(capsys):
    rw.show_versions()
    printed = capsys.readouterr().out
    assert rw.__version__ in printed
    for name in ("numba", "lightgbm", "polars"):
        assert f"{name}" in printed
        assert metadata.version(name) in printed


def test_the_command_prints_the_same():
    found = json.loads(run("versions", "--json").stdout)
    assert found == versions.versions()
    assert found["libraries"]["numpy"] == metadata.version("numpy")


def test_an_extra_is_missing_as_soon_as_one_of_its_libraries_is(monkeypatch):
    monkeypatch.setattr(versions, "_needed", lambda: {"": ("numpy",), "one": ("numpy", "no-such-library"), "two": ()})
    found = versions.versions()
    assert found["extras"] == {"one": False, "two": True}
    assert versions.table(found).rows[-1][1] == "one"


def test_secrets_of_the_environment_are_not_printed(monkeypatch, capsys):
    monkeypatch.setenv("RANKWISE_SECRET", "hidden-word")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden-word")
    rw.show_versions()
    assert "hidden-word" not in capsys.readouterr().out


@pytest.mark.parametrize("home", [None, "/nonexistent"])
def test_a_user_without_a_cache_folder_is_told_so(home, monkeypatch):
    monkeypatch.setattr(caches, "folder", lambda: None)
    assert versions.versions()["cache"] == "none: this user has no home folder"


def test_a_cache_of_another_user_and_a_broken_torch_are_told(monkeypatch, tmp_path):
    def refused(*_: object) -> bool:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(caches, "folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(type(tmp_path), "is_dir", refused)
    assert versions.versions()["cache"] == f"{tmp_path / 'cache'}, cannot be read"
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("raise OSError('libcudart.so.12: cannot open shared object file')")
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    assert (
        versions.versions()["device"]
        == "CPU; torch cannot be imported: libcudart.so.12: cannot open shared object file"
    )
