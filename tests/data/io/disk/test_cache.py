"""Binary copies of data: never stale, never damaged, for any number of openers at once, and not needed."""

import dataclasses
import json
import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.base import caches
from rankwise.data.io.disk import cache, open_data
from tests.refusals import refusal, refuses

TEXT = "1 qid:1 1:0.5 2:6\n0 qid:1 2:7\n2 qid:2 1:3\n" * 1
UNGROUPED = "1 1:0.5\n0 1:0.25\n2 1:1\n"
MADE: list[Path] = []


@pytest.fixture(autouse=True)
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's own cache out of the tests, and note which files are parsed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    monkeypatch.setattr(caches, "_warned", [])
    MADE.clear()
    for module, name in ((rw, "read_letor"), (open_data, "copy_letor"), (open_data, "copy_parquet")):
        monkeypatch.setattr(module, name, _noted(getattr(module, name)))


def _noted(read: Callable[..., Any]) -> Callable[..., Any]:
    def noted(path: Path, *more: Any, **options: Any) -> Any:
        MADE.append(Path(path))
        return read(path, *more, **options)

    return noted


def loaded(folder: Path) -> rw.RankingDataset:
    if not (folder / "own.toml").exists():
        (folder / "own.toml").write_text('train = "train.txt"\ntest = "train.txt"\n')
    return rw.load_dataset(folder / "own.toml", part="train")


def opened(folder: Path) -> rw.RankingDataset:
    return rw.open_data(folder / "train.txt")


OPENERS = pytest.mark.parametrize("get", [loaded, opened])


def same(one: rw.RankingDataset, other: rw.RankingDataset) -> None:
    for field in dataclasses.fields(rw.RankingDataset):
        np.testing.assert_equal(getattr(one, field.name), getattr(other, field.name), field.name)


def copies(folder: Path) -> list[Path]:
    return sorted(path.parent for path in folder.rglob("data.json"))


def a_day_passes(folder: Path) -> None:
    for copy in copies(folder):
        os.utime(copy / "data.json", (0, 0))


# --- nothing stale ---------------------------------------------------------------------------------------------------


@OPENERS
def test_a_changed_file_of_sizes_is_noticed(get: Any, tmp_path: Path):
    (tmp_path / "train.txt").write_text(UNGROUPED)
    for sizes in ("2 1", "1 2", "3"):
        (tmp_path / "train.txt.query").write_text(sizes)
        assert " ".join(map(str, get(tmp_path).sizes)) == sizes
        assert get(tmp_path).n_docs == 3
        assert len(copies(tmp_path)) == 1
        a_day_passes(tmp_path)
    assert len(MADE) == 3


@OPENERS
def test_a_new_or_removed_file_of_sizes_is_noticed(get: Any, tmp_path: Path):
    (tmp_path / "train.txt").write_text(UNGROUPED)
    (tmp_path / "train.txt.query").write_text("3")
    assert get(tmp_path).n_queries == 1
    (tmp_path / "train.txt.query").unlink()
    refuses(lambda: get(tmp_path), what="after the label must come qid: and the query's id")
    (tmp_path / "train.txt").write_text(TEXT)
    a_day_passes(tmp_path)
    assert get(tmp_path).n_queries == 2
    assert len(copies(tmp_path)) == 1


def test_the_file_of_sizes_that_would_be_taken_first(tmp_path: Path):
    path = tmp_path / "train.txt.gz"
    path.write_text(UNGROUPED)  # told by its first bytes, not by its name
    (tmp_path / "train.txt.query").write_text("3")
    assert rw.open_data(path).sizes.tolist() == [3]
    (tmp_path / "train.txt.query.gz").write_text("1 2")
    assert rw.open_data(path).sizes.tolist() == [1, 2]


def test_sizes_by_name_by_path_and_by_array(tmp_path: Path):
    path, sizes = tmp_path / "rows.txt", tmp_path / "elsewhere" / "sizes.txt"
    sizes.parent.mkdir()
    path.write_text(UNGROUPED)
    for text in ("1 2", "2 1"):
        a_day_passes(tmp_path)
        sizes.write_text(text)
        for given in (str(sizes), sizes):
            assert rw.open_data(path, sizes=given).sizes.tolist() == [int(word) for word in text.split()]
    assert len(copies(tmp_path)) == 1
    for array in (np.array([1, 2]), [1, 2], np.array([2, 1]), pl.Series([2, 1])):
        assert rw.open_data(path, sizes=array).sizes.tolist() == list(array)
    assert len(copies(tmp_path)) > 1  # none of them is an earlier state of the file


def test_a_copy_of_a_folder_depends_on_its_files(tmp_path: Path):
    folder = tmp_path / "rows"
    folder.mkdir()
    for part in (1, 2):
        pl.DataFrame({"qid": [part], "label": [1], "x": [0.5]}).write_parquet(folder / f"{part}.parquet")
        (folder / "notes.txt").write_text(f"{part}")
        assert rw.open_data(folder).n_queries == part
    (folder / "notes.txt").write_text("no part of the data")
    assert rw.open_data(folder).n_queries == 2
    assert len(MADE) == 2
    (folder / "1.parquet").unlink()
    a_day_passes(tmp_path)
    assert rw.open_data(folder).n_queries == 1
    assert len(copies(tmp_path)) == 1
    assert rw.open_data(folder, categorical=(name for name in ["x"])).categorical == (0,)
    assert rw.open_data(folder, categorical={"x"}).categorical == (0,)
    assert rw.open_data(folder, categorical=["x"]).categorical == (0,)
    assert len(MADE) == 4


def test_data_that_change_while_they_are_copied_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "train.txt"
    path.write_text(TEXT)
    write = open_data.copy_letor

    def changed(source: Path, *more: Any, **options: Any) -> Any:
        data = write(source, *more, **options)
        source.write_text(TEXT.replace("1:3", "1:4"))
        return data

    monkeypatch.setattr(open_data, "copy_letor", changed)
    with refusal(what="the data changed while they were read", where="…train.txt", hint="open them again"):
        rw.open_data(path)
    assert not copies(tmp_path)
    monkeypatch.setattr(open_data, "copy_letor", write)
    assert rw.open_data(path).features[2, 0] == 4


def test_a_copy_of_another_format_is_kept_for_the_version_that_wrote_it(tmp_path: Path):
    (tmp_path / "train.txt").write_text(TEXT)
    for name in ("train.txt", "test.txt"):
        old = tmp_path / cache.FOLDER / f"{name}-0123"
        old.mkdir(parents=True)
        (old / "data.json").write_text(json.dumps({"stamp": {"format": 1, "source": {"name": name}}, "arrays": {}}))
    a_day_passes(tmp_path)
    opened(tmp_path)
    assert {path.name for path in copies(tmp_path)} > {"train.txt-0123", "test.txt-0123"}


# --- sources of the same name ----------------------------------------------------------------------------------------


def test_sources_of_the_same_name_share_a_folder(tmp_path: Path):
    paths = [tmp_path / f"Fold{number}" / "train.txt" for number in (1, 2)]
    for number, path in enumerate(paths):
        path.parent.mkdir()
        path.write_text(TEXT.replace("1:3", f"1:{number}"))
        os.utime(path, (1e9, 1e9))
    for _ in range(2):
        for number, path in enumerate(paths):
            assert rw.open_data(path, folder=tmp_path / "copies").features[2, 0] == number
    assert len(MADE) == 2
    assert len(copies(tmp_path / "copies")) == 2


def test_twins_in_two_folders_are_not_swept_away_with_each_other(tmp_path: Path):
    paths = [tmp_path / name / "train.txt" for name in ("one", "two")]
    for path in paths:
        path.parent.mkdir()
        path.write_text(TEXT)
        os.utime(path, (1e9, 1e9))
        rw.open_data(path, folder=tmp_path / "copies")
    paths[0].write_text(TEXT.replace("1:3", "1:4"))
    for value, path in ((4, paths[0]), (3, paths[1])):
        assert rw.open_data(path, folder=tmp_path / "copies").features[2, 0] == value
    assert len(MADE) == 3


def test_the_working_folder_and_very_long_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    pl.DataFrame({"qid": [1], "label": [1], "x": [0.5]}).write_parquet(tmp_path / "1.parquet")
    monkeypatch.chdir(tmp_path)
    assert rw.open_data(".", folder="copies").n_docs == 1
    assert rw.open_data(Path(), folder=tmp_path / "copies").n_docs == 1
    assert len(MADE) == 1
    path = Path("ä" * 120 + ".txt")
    path.write_text(TEXT)
    assert rw.open_data(path).n_docs == 3
    assert rw.open_data(path.absolute()).n_docs == 3
    assert len(MADE) == 2


# --- nothing damaged -------------------------------------------------------------------------------------------------


def flipped(content: bytes, at: int) -> bytes:
    return content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]


def damages(content: bytes) -> list[bytes]:
    """Cut, emptied, prolonged, a bit changed, and what NumPy would stumble over in ways of its own."""
    chance = random.Random(len(content))  # noqa: S311
    places = {0, 5, 6, 8, 12, len(content) - 1, *(chance.randrange(len(content)) for _ in range(12))}
    found = [flipped(content, at) for at in sorted(places)]
    found += [content[:length] for length in (0, 3, 9, 50, len(content) - 1)]
    found += [content + b"\0", bytes(len(content)), b"PK\x03\x04" + content, b"\xff" * 300]
    for text in (
        "{'descr': '<f8', ",
        "(" * 80,
        "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999, 9), }",
    ):
        found.append(b"\x93NUMPY\x01\x00\x76\x00" + text.ljust(117).encode() + b"\n" + content[128:])
    return found


@OPENERS
@pytest.mark.parametrize("name", ["data.json", "features.npy", "labels.npy", "offsets.npy", "query_ids.npy"])
def test_a_damaged_copy_is_written_again(get: Any, name: str, tmp_path: Path):
    (tmp_path / "train.txt").write_text(TEXT)
    whole = rw.read_letor(tmp_path / "train.txt")
    get(tmp_path)
    (copy,) = copies(tmp_path)
    for damage in damages((copy / name).read_bytes()):
        (copy / name).write_bytes(damage)
        MADE.clear()
        same(get(tmp_path), whole)
        assert len(MADE) == 1, damage
        same(get(tmp_path), whole)
        assert len(MADE) == 1, damage
    assert list(copy.parent.iterdir()) == [copy]


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def file_for_folder(path: Path) -> None:
    remove(path)
    path.write_text("")


def folder_for_file(path: Path) -> None:
    remove(path)
    path.mkdir()


def link_to_nothing(path: Path) -> None:
    remove(path)
    path.symlink_to("nothing")


@OPENERS
@pytest.mark.parametrize("damage", [remove, file_for_folder, folder_for_file, link_to_nothing])
@pytest.mark.parametrize("name", [".", "data.json", "features.npy", "labels.npy"])
def test_a_path_of_another_kind_is_replaced(get: Any, damage: Any, name: str, tmp_path: Path):
    (tmp_path / "train.txt").write_text(TEXT)
    get(tmp_path)
    (copy,) = copies(tmp_path)
    damage(copy / name)
    for _ in range(2):
        assert get(tmp_path).features.tolist() == [[0.5, 6], [0, 7], [3, 0]]
    assert len(MADE) == 2
    assert list(copy.parent.iterdir()) == [copy]


def test_the_copy_of_something_else_is_not_taken(tmp_path: Path):
    (tmp_path / "train.txt").write_text(TEXT)
    opened(tmp_path)
    (first,) = copies(tmp_path)
    first.rename(tmp_path / "kept")
    (tmp_path / "train.txt").write_text(TEXT.replace("1:3", "1:4"))
    opened(tmp_path)
    (second,) = copies(tmp_path / cache.FOLDER)
    shutil.rmtree(second)
    (tmp_path / "kept").rename(second)
    assert opened(tmp_path).features[2, 0] == 4


# --- several at once -------------------------------------------------------------------------------------------------


@OPENERS
def test_threads_make_one_copy(get: Any, tmp_path: Path):
    (tmp_path / "train.txt").write_text(TEXT)
    (tmp_path / "own.toml").write_text('train = "train.txt"\ntest = "train.txt"\n')
    start, found = threading.Barrier(6), []

    def work() -> None:
        start.wait(20)
        found.append(get(tmp_path).features.tolist())

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[[0.5, 6], [0, 7], [3, 0]]] * 6
    assert len(MADE) == 1
    (copy,) = copies(tmp_path)
    assert list(copy.parent.iterdir()) == [copy]


def test_all_at_once_where_files_cannot_be_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Some file systems have no locks: then each opener makes a copy, and one of them stays."""

    def no_locks(*_: Any) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr("fcntl.flock", no_locks)
    (tmp_path / "train.txt").write_text(TEXT)
    start, found = threading.Barrier(4), []
    write = open_data.copy_letor

    def together(*of: Any, **options: Any) -> Any:
        data = write(*of, **options)
        start.wait(20)
        return data

    monkeypatch.setattr(open_data, "copy_letor", together)
    threads = [threading.Thread(target=lambda: found.append(opened(tmp_path).features.tolist())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[[0.5, 6], [0, 7], [3, 0]]] * 4
    assert len(MADE) == 4
    assert [path.name for path in (tmp_path / cache.FOLDER).iterdir()] == [path.name for path in copies(tmp_path)]


@pytest.mark.slow
def test_processes_make_one_copy(tmp_path: Path):
    draws = np.random.default_rng(1).random((4000, 20))
    lines = [
        f"{row % 3} qid:{row // 10} " + " ".join(f"{i + 1}:{v:.6f}" for i, v in enumerate(draws[row]))
        for row in range(4000)
    ]
    (tmp_path / "train.txt").write_text("\n".join(lines))
    code = "import sys, rankwise as rw; print(rw.open_data(sys.argv[1]).features.sum(dtype='f8'))"
    running = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "train.txt")],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    said = {process.communicate()[0] for process in running}
    assert len(said) == 1
    assert float(said.pop()) == pytest.approx(draws.sum(), rel=1e-6)
    assert [path.name for path in (tmp_path / cache.FOLDER).iterdir()] == [path.name for path in copies(tmp_path)]


# --- where copies lie ------------------------------------------------------------------------------------------------


def test_the_folder_that_the_environment_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RANKWISE_CACHE", str(tmp_path / "chosen"))
    (tmp_path / "data").mkdir()
    (tmp_path / "data/train.txt").write_text(TEXT)
    for get in (loaded, opened):
        get(tmp_path / "data")
    assert not (tmp_path / "data" / cache.FOLDER).exists()
    assert len(copies(tmp_path / "chosen")) == 2
    monkeypatch.setenv("RANKWISE_CACHE", str(tmp_path / "data/train.txt"))  # nothing can be written there
    opened(tmp_path / "data")
    assert len(copies(tmp_path / "data" / cache.FOLDER)) == 1
    with pytest.warns(UserWarning, match="works without a cache"):
        loaded(tmp_path / "data")
    assert len(copies(tmp_path / "data")) == 1
    assert len(MADE) == 4


def test_without_any_place_features_lie_in_a_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "train.txt").write_text(TEXT)
    (tmp_path / cache.FOLDER).write_text("a file where the folder should be")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "train.txt"))
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(caches, "scratch", lambda: tmp_path / "scratch")
    with pytest.warns(UserWarning, match=r"works without a cache, and slower: no copy of the features of") as said:
        found = [opened(tmp_path) for _ in range(2)]
    assert len(said) == 1
    for data in found:
        assert data.features.tolist() == [[0.5, 6], [0, 7], [3, 0]]
        assert "features on disk" in repr(data)
    assert len(copies(tmp_path / "scratch")) == 1

    def none() -> Path:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(caches, "scratch", none)
    refuses(lambda: opened(tmp_path), OSError, what="…could not be copied to a temporary folder:…", hint="set folder=…")
