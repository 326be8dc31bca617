"""What released versions wrote is read, and says the same: the promises of ``docs/upgrading.md``.

``kept/VERSION.tar.xz`` are archives of ``keep.py``, which says what is in them. Models have archives and tests of their
own in ``tests/rankers/saved``.
"""

import functools
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

import rankwise as rw
from rankwise.data.io.disk import cache
from rankwise.language import workspace
from tests.rankers.saved import make
from tests.release import keep

ARCHIVES = sorted(path.name.removesuffix(".tar.xz") for path in keep.HERE.glob("*.tar.xz"))
MODELS = sorted(path.name.removesuffix(".tar.xz") for path in make.HERE.glob("*.tar.xz"))
OF_A_COMMIT = {"9b0364c": "0.1.0"}
"""Archives that are named after a commit, and its version."""
MOST = 200_000
"""Bytes of all archives of one release."""
MODULES = {"table_of_a_search": "optuna", "unfinished_search": "optuna"}
REFUSED = "of another version of rankwise"


@functools.cache
def facts(archive: str) -> dict[str, dict[str, Any]]:
    with tarfile.open(keep.HERE / f"{archive}.tar.xz") as packed:
        content = packed.extractfile("facts.json")
        assert content is not None
        return dict(json.loads(content.read()))


def latest(kind: str) -> str:
    """The last archive with a kind."""
    return [archive for archive in ARCHIVES if kind in facts(archive)][-1]


def unpacked(archive: str, kind: str, folder: Path) -> Path:
    """Write the files of a kind into a folder, and return theirs."""
    if kind in MODULES:
        pytest.importorskip(MODULES[kind], reason=f"{kind} needs {MODULES[kind]}")
    with tarfile.open(keep.HERE / f"{archive}.tar.xz") as packed:
        members = [entry for entry in packed.getmembers() if entry.name.startswith(f"{kind}/")]
        packed.extractall(folder, members, filter="data")
    return folder / kind


def differences(found: Any, expected: Any, *, exact: bool, at: str = "") -> list[str]:
    """Where facts differ, but for the last bits of what is computed; there may be more of them now."""
    exact = exact and not at.endswith(".computed")
    if isinstance(expected, dict) and isinstance(found, dict):
        pairs = [(found.get(key, "missing"), value, f"{at}.{key}") for key, value in expected.items()]
    elif isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        pairs = [
            (one, other, f"{at}[{number}]") for number, (one, other) in enumerate(zip(found, expected, strict=True))
        ]
    else:
        near = isinstance(expected, float) and found == pytest.approx(expected, rel=1e-9, abs=1e-12, nan_ok=True)
        same = json.dumps(found) == json.dumps(expected) or (not exact and near)
        return [] if same else [f"{at}: {found!r}, and {expected!r} then"]
    return [line for one, other, where in pairs for line in differences(one, other, exact=exact, at=where)]


def kept(kinds: dict[str, Any]) -> list[tuple[str, str]]:
    return [(archive, kind) for archive in ARCHIVES for kind in facts(archive) if kind in kinds]


@pytest.mark.parametrize(("archive", "kind"), kept(keep.FILES))
def test_files_are_read_and_say_the_same(archive, kind, tmp_path):
    folder = unpacked(archive, kind, tmp_path)
    found = keep.as_json(keep.FILES[kind][1](folder))
    assert not differences(found, facts(archive)[kind], exact=True)


@pytest.mark.parametrize(("archive", "kind"), kept(keep.WORK))
def test_work_and_copies_go_on_or_are_refused(archive, kind, tmp_path):
    """The version that wrote them goes on; a later one may refuse them, with a sentence that says so."""
    folder = unpacked(archive, kind, tmp_path)
    try:
        found = keep.as_json(keep.WORK[kind][1](folder))
    except ValueError as refused:
        assert archive.partition("-")[0] != rw.__version__, "the version that began it"
        assert REFUSED in str(refused)  # noqa: PT017
        return
    assert not differences(found, facts(archive)[kind], exact=False)


@pytest.mark.parametrize("kind", ["unfinished_training", "kept_cross_validation", "unfinished_search"])
def test_work_in_a_format_that_is_not_read_any_more_is_refused(kind, tmp_path, monkeypatch):
    folder = unpacked(latest(kind), kind, tmp_path)
    monkeypatch.setattr(workspace, "FORMAT", workspace.FORMAT + 1)
    with pytest.raises(ValueError, match=rf"{REFUSED}: got format \d, where this version has \d"):
        keep.WORK[kind][1](folder)


def test_a_copy_in_a_format_that_is_not_read_any_more_is_made_anew(tmp_path, monkeypatch):
    folder = unpacked(latest("copy_of_data"), "copy_of_data", tmp_path)
    monkeypatch.setattr(cache, "FORMAT", cache.FORMAT + 1)
    found = keep.as_json(keep.WORK["copy_of_data"][1](folder))
    assert not differences(found, facts(latest("copy_of_data"))["copy_of_data"], exact=True)
    assert len([one for one in (folder / cache.FOLDER).iterdir() if one.is_dir()]) == 2


def test_the_copy_of_a_source_that_changed_is_not_read(tmp_path):
    folder = unpacked(latest("copy_of_data"), "copy_of_data", tmp_path)
    source = folder / "data.txt"
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    source.write_text("".join(["1" + lines[0][1:], *lines[1:]]), encoding="utf-8")  # of the same size and time
    found = keep.WORK["copy_of_data"][1](folder)
    expected = facts(latest("copy_of_data"))["copy_of_data"]
    assert found["labels"] == [1.0, *expected["labels"][1:]]
    assert found["features"] == expected["features"]


def test_there_is_an_archive_with_each_kind():
    missing = set(keep.FILES | keep.WORK) - {kind for archive in ARCHIVES for kind in facts(archive)}
    assert not missing, "run python -m tests.release.keep"


def test_archives_of_a_release_are_small():
    releases: dict[str, int] = {}
    for home, names in ((keep.HERE, ARCHIVES), (make.HERE, MODELS)):
        for name in names:
            release = OF_A_COMMIT.get(name, name.partition("-")[0])
            releases[release] = releases.get(release, 0) + (home / f"{name}.tar.xz").stat().st_size
    assert {"0.1.0", "0.2.0"} <= releases.keys()
    assert not {release: size for release, size in releases.items() if size > MOST}
