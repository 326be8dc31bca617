"""Copies in the cache: when one is opened, written again, or removed."""

import json
import os
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.base import caches
from rankwise.data.io.disk import cache
from tests.data.small_files import SEEN, isolate, put, rows, same


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


def is_mapped(array: Any) -> bool:
    while array is not None:
        if isinstance(array, np.memmap):
            return True
        array = array.base
    return False


def kept(source: Path) -> Path:
    """The folder of the library's cache that holds the copies of a source."""
    return caches.folder() / cache._place(source)  # type: ignore[operator]


def entries(source: Path) -> list[Path]:
    return sorted(kept(source).glob("*/data.json"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return put(tmp_path / "data/train.txt", "".join(rows(1, qid) for qid in range(300)))


def test_the_second_load_maps_the_cache(source: Path):
    first = cache.cached(source, rw.read_letor, n_features=4)
    second = cache.cached(source, rw.read_letor, n_features=4)
    assert [source] == SEEN
    same(first, second)
    assert is_mapped(second.features)
    assert not is_mapped(first.features)
    assert len(entries(source)) == 1
    assert len(list(kept(source).iterdir())) == 1


def test_a_copy_keeps_every_column(source: Path):
    def read(path: Path) -> rw.RankingDataset:
        SEEN.append(path)
        features = np.array([[1.0, np.nan], [2.0, 3.0], [-np.inf, 4.0]], np.float32)
        return rw.RankingDataset.from_sizes(
            features,
            [0.5, 1, 0],
            [2, 1],
            query_ids=["ä", "bb"],
            weights=[1.0, 0.5],
            document_ids=[3, 1, 2],
            feature_names=("one", "two"),
            categorical=(1,),
            propensities=[1.0, 0.5, 0.25],
            positions=[1, 2, 1],
        )

    same(cache.cached(source, read), cache.cached(source, read))
    assert len(SEEN) == 1


def test_data_without_documents_go_through_the_cache(source: Path):
    def read(path: Path) -> rw.RankingDataset:
        SEEN.append(path)
        return rw.RankingDataset.from_sizes(np.zeros((0, 3)), [], np.array([], int))

    same(cache.cached(source, read), cache.cached(source, read))
    assert len(SEEN) == 1


def test_other_options_are_another_entry(source: Path):
    assert cache.cached(source, rw.read_letor, n_features=4).n_features == 4
    assert cache.cached(source, rw.read_letor, n_features=7).n_features == 7
    assert cache.cached(source, rw.read_letor, n_features=4).n_features == 4
    assert len(SEEN) == 2


def changed_text(source: Path) -> None:
    source.write_text(source.read_text().replace("1:0.5", "1:0.75"))


def same_size_and_time(source: Path) -> None:
    before = source.stat()
    source.write_text(source.read_text().replace("1:0.25", "1:0.75"))
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (source.stat().st_size, source.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)


@pytest.mark.parametrize("change", [changed_text, same_size_and_time])
def test_a_changed_source_is_read_again(source: Path, change: Any):
    cache.cached(source, rw.read_letor)
    change(source)
    data = cache.cached(source, rw.read_letor)
    assert len(SEEN) == 2
    assert 0.75 in data.features


def test_copies_of_older_states_of_a_source_stay_for_a_day(source: Path):
    """A set may be a link to one of its versions, which are read in turn."""
    versions = [put(source.parent / name, rows(1, qid) * 2) for qid, name in enumerate(("v1.txt", "v2.txt"))]
    for version in (*versions, *versions):
        source.unlink()
        source.symlink_to(version)
        cache.cached(source, rw.read_letor)
    assert len(SEEN) == 2
    old, *_ = (path for path in entries(source) if path not in _made_from(source, versions[1]))
    os.utime(old, (0, 0))
    cache.cached(source, rw.read_letor, n_features=9)  # whose copy is written now
    assert not old.exists()
    assert len(entries(source)) == 2


def _made_from(source: Path, version: Path) -> list[Path]:
    size = cache.fingerprint(version)
    return [
        path for path in entries(source) if size in json.loads(path.read_text())["content"]["stamp"]["files"].values()
    ]


def test_versions_of_rankwise_keep_the_copies_of_each_other(source: Path, monkeypatch: pytest.MonkeyPatch):
    for version in ("1.0", "2.0", "1.0", "2.0"):
        monkeypatch.setattr(cache, "__version__", version)
        cache.cached(source, rw.read_letor)
        for one in entries(source):
            os.utime(one, (0, 0))  # as if all that was a day ago
    assert len(SEEN) == 2
    assert len(entries(source)) == 2


def test_nothing_is_written_beside_the_data_and_nothing_of_the_user_is_removed(source: Path):
    cache.cached(source, rw.read_letor)
    theirs = {
        kept(source) / "notes.lock": "mine",
        kept(source) / "train.txt-0123" / "data.json": '{"stamp": {"source": {"name": "train.txt"}}}',
        source.parent / cache.FOLDER / "train.txt-0123" / "data.json": '{"stamp": {"source": {"name": "train.txt"}}}',
    }
    for path, text in theirs.items():
        os.utime(put(path, text), (0, 0))
    changed_text(source)
    cache.cached(source, rw.read_letor)
    assert len(SEEN) == 2
    assert all(path.read_text() == text for path, text in theirs.items())
    assert sorted(path.name for path in source.parent.iterdir()) == [cache.FOLDER, "train.txt"]


def test_a_source_that_changes_while_it_is_read_is_not_kept(source: Path):
    def read(path: Path) -> rw.RankingDataset:
        data = rw.read_letor(path)
        changed_text(path)
        return data

    cache.cached(source, read)
    assert not entries(source)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-3] ^= 0x40
    path.write_bytes(content)


def remove(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("damage", [cut, empty, flip, remove])
@pytest.mark.parametrize("name", ["data.json", "features.npy", "labels.npy", "offsets.npy", "document_ids.npy"])
def test_a_damaged_copy_is_built_again(source: Path, name: str, damage: Any):
    first = cache.cached(source, rw.read_letor)
    (entry,) = entries(source)
    damage(entry.parent / name)
    same(cache.cached(source, rw.read_letor), first)
    same(cache.cached(source, rw.read_letor), first)
    assert len(SEEN) == 2


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"arrays": {"features": {"shape": 3}}}', '{"arrays": {"../x": {"shape": []}}}']
)
def test_a_description_of_another_shape_is_built_again(source: Path, content: str):
    cache.cached(source, rw.read_letor)
    (entry,) = entries(source)
    entry.write_text(content)
    assert cache.cached(source, rw.read_letor).n_docs == 600
    assert len(SEEN) == 2


def test_a_pickle_in_the_cache_is_never_loaded(source: Path, tmp_path: Path):
    class Bomb:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "exploded",))

    cache.cached(source, rw.read_letor)
    (entry,) = entries(source)
    bomb = np.empty(1, object)
    bomb[0] = Bomb()
    np.save(entry.parent / "offsets.npy", bomb, allow_pickle=True)
    content = json.loads(entry.read_text())["content"]
    content["arrays"]["offsets"] = cache.checksum(entry.parent / "offsets.npy")
    entry.write_text(json.dumps({"crc32": zlib.crc32(cache.as_json(content)), "content": content}))
    assert cache.cached(source, rw.read_letor).n_docs == 600
    assert not (tmp_path / "exploded").exists()


def test_large_files_are_checked_by_samples(tmp_path: Path):
    """Beyond 16 MiB a sample of blocks is checked: the beginning, the end and 254 between."""
    content, path = bytearray(np.arange(3 << 23, dtype=np.uint8)), tmp_path / "features.npy"
    path.write_bytes(content)
    before = cache.checksum(path)
    for position in (0, 40_000, len(content) - 1):
        content[position] ^= 1
        path.write_bytes(content)
        assert cache.checksum(path) != before
        content[position] ^= 1
    path.write_bytes(content)
    assert cache.checksum(path) == before


def test_without_any_place_to_write_there_is_no_cache(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    put(tmp_path / "blocked", "a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "blocked"))
    with pytest.warns(
        UserWarning, match=r"works without a cache, and slower: no copy of .*Hint: .*RANKWISE_CACHE"
    ) as said:
        found = [cache.cached(source, rw.read_letor) for _ in range(2)]
    assert [data.n_docs for data in found] == [600, 600]
    assert len(said) == 1
    assert len(SEEN) == 2


def test_a_full_disk_leaves_nothing_behind(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.warns(UserWarning, match=r"no copy of .*train.txt can be kept \(No space left on device\)"):
        assert cache.cached(source, rw.read_letor).n_docs == 600
    assert not any(kept(source).iterdir())


def test_what_a_killed_process_left_is_swept_away_after_a_day(source: Path):
    left = kept(source) / ".rankwise-00000000deadbeef.part"
    fresh = kept(source) / ".rankwise-00000000facefeed.part"
    lock = kept(source) / ".train.txt-0123456789abcdef.lock"
    left.mkdir(parents=True)
    fresh.mkdir()
    lock.touch()
    os.utime(left, (0, 0))
    os.utime(lock, (0, 0))
    cache.cached(source, rw.read_letor)
    assert not left.exists()
    assert not lock.exists()
    assert fresh.exists()
