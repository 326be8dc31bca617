"""The catalog: every public layout in miniature, the real files at hand, own sets, the cache and the downloads."""

import contextlib
import dataclasses
import email.message
import gzip
import hashlib
import http.server
import io
import json
import os
import re
import tarfile
import threading
import urllib.error
import urllib.request
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import zstandard

import rankwise as rw
from rankwise import caches
from rankwise.data.catalog import sets
from rankwise.data.catalog.download import Archive, fetch
from rankwise.data.disk import cache, copies
from rankwise.data.letor import reader
from tests import shared

SEEN: list[Path] = []


@pytest.fixture(autouse=True)
def nothing_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the user's own cache and data out of the tests, and note which files are parsed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    monkeypatch.setattr(caches, "_said", [])
    monkeypatch.delenv("RANKWISE_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("no_proxy", "*")
    SEEN.clear()
    read = reader.read_letor

    def noted(path: Path, **options: Any) -> rw.RankingDataset:
        SEEN.append(Path(path))
        return read(path, **options)

    monkeypatch.setattr(reader, "read_letor", noted)


def rows(label: int, qid: int) -> str:
    """Two documents of one query, by which a file is known again."""
    return f"{label} qid:{qid} 1:0.5 2:{qid} #docid = D{qid}\n0 qid:{qid} 1:0.25 #docid = E{qid}\n"


def put(path: Path, text: str) -> Path:
    """Write text, packed as the name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".zst":
        data = zstandard.ZstdCompressor().compress(data)
    path.write_bytes(data)
    return path


# --- layouts ---------------------------------------------------------------------------------------------------------

LAYOUTS = [
    ("mslr-web10k", 136, "MSLR-WEB10K/Fold2/{}.txt", ("train", "vali", "test")),
    ("MSLR_WEB10K", 136, "mslr-web10k/fold2/{}.txt.gz", ("train", "vali", "test")),
    ("mslr30k", 136, "MSLR-WEB30K/Fold2/{}.txt.zst", ("train", "vali", "test")),
    ("yahoo-set1", 700, "ltrc_yahoo/set1.{}.txt", ("train", "valid", "test")),
    ("yahoo-set2", 700, "ltrc_yahoo/set2.{}.txt.gz", ("train", "valid", "test")),
    ("istella-s", 220, "istella-s-letor/sample/{}.txt", ("train", "vali", "test")),
    ("Istella-S", 220, "sample/{}.txt", ("train", "vali", "test")),
    ("istella22", 220, "istella22/{}.svm.gz", ("train", "valid", "test")),
    ("mq2007", 46, "MQ2007/Fold2/{}.txt", ("train", "vali", "test")),
    ("MQ2008", 46, "mq2008/Fold2/{}.txt.gz", ("train", "vali", "test")),
    ("mq2008", 46, "LETOR4.0/MQ2008/Fold2/{}.txt", ("train", "vali", "test")),
    ("ohsumed", 45, "OHSUMED/Fold2/{}.txt", ("trainingset", "validationset", "testset")),
    ("ohsumed", 45, "OHSUMED/QueryLevelNorm/Fold2/{}.txt", ("train", "vali", "test")),
    ("ohsumed", 45, "OHSUMED/Feature-min/Fold2/{}.txt", ("trainingset", "validationset", "testset")),
]


@pytest.mark.parametrize(("name", "n_features", "layout", "names"), LAYOUTS)
def test_every_layout_is_found(tmp_path: Path, name: str, n_features: int, layout: str, names: tuple[str, ...]):
    for number, word in enumerate(names):
        put(tmp_path / layout.format(word).replace("old2/", "old3/"), rows(1, 90 + number))  # another fold
        put(tmp_path / layout.format(word), rows(1, number))
    fold = 2 if sets.entry(name).folds else None
    train, valid, test = rw.load_dataset(name, fold=fold, folder=tmp_path)
    assert valid is not None
    for number, data in enumerate((train, valid, test)):
        assert data.query_ids is not None
        assert data.query_ids.tolist() == [number]
        assert data.n_features == n_features
        assert data.features[:, :2].tolist() == [[0.5, number], [0.25, 0.0]]
        assert data.labels.tolist() == [1, 0]
        assert data.document_ids is not None
        assert data.document_ids.tolist() == [f"D{number}", f"E{number}"]


def test_istella_has_no_validation_part(tmp_path: Path):
    for number, word in enumerate(("train", "test")):
        put(tmp_path / f"istella-letor/full/{word}.txt", rows(4, number))
    parts = rw.load_dataset("istella", folder=tmp_path)
    assert parts.valid is None
    assert parts.test.query_ids is not None
    assert parts.test.query_ids.tolist() == [1]
    with pytest.raises(
        ValueError, match=r"Istella LETOR, full has no part 'valid'. Hint: take one off its training part with rw.split"
    ):
        rw.load_dataset("istella", folder=tmp_path, part="valid")


def test_istellas_largest_double_is_read(tmp_path: Path):
    text = "1 qid:1 1:1.7976931348623157e+308 2:-1\n0 qid:1 1:2\n"
    for word in ("train", "test"):
        put(tmp_path / f"istella/full/{word}.txt", text)
    train = rw.load_dataset("istella", folder=tmp_path, part="train")
    assert train.features[:, 0].tolist() == [np.finfo(np.float32).max, 2.0]


MOVIELENS = [
    ("movielens-latest-small", "ml-latest-small/ratings.csv", "userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n"),
    ("ml-latest-small", "ml-latest-small/ratings.csv.gz", "userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n"),
    ("movielens-100k", "ml-100k/u.data", "1\t31\t2\t1260759144\n"),
    ("movielens-100k", "ml-100k/u.data.gz", "1\t31\t2\t1260759144\n"),
    ("movielens-1m", "ml-1m/ratings.dat", "1::31::2::1260759144\n"),
    ("ML-1M", "ml-1m/ratings.dat.zst", "1::31::2::1260759144\n"),
]


@pytest.mark.parametrize(("name", "file", "text"), MOVIELENS)
def test_movielens_is_a_table_of_ratings(tmp_path: Path, name: str, file: str, text: str):
    put(tmp_path / file, text)
    ratings: Any = rw.load_dataset(name, folder=tmp_path)
    frame = ratings.to_frame()
    assert frame.schema == {"user": pl.Int64, "item": pl.Int64, "rating": pl.Float64, "time": pl.Int64}
    assert frame.rows() == [(1, 31, 2.5 if "csv" in file else 2.0, 1260759144)]


def test_movielens_has_no_parts(tmp_path: Path):
    with pytest.raises(ValueError, match="MovieLens 100k is one table of ratings and has no parts: got part 'train'"):
        rw.load_dataset("ml-100k", folder=tmp_path, part="train")


def mini(folder: Path, fold: int = 1) -> Path:
    for number, word in enumerate(("train", "vali", "test")):
        put(folder / f"MQ2008/Fold{fold}/{word}.txt", rows(2, number))
    return folder


def test_the_data_folder_comes_from_the_environment_or_lies_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    mini(tmp_path / "home/rankwise-data")
    assert rw.load_dataset("mq2008", part="test").n_docs == 2
    monkeypatch.setenv("RANKWISE_DATA", str(mini(tmp_path / "elsewhere", fold=4)))
    assert rw.load_dataset("mq2008", 4, part="test").n_docs == 2
    with pytest.raises(FileNotFoundError, match=re.escape(str(tmp_path / "elsewhere/MQ2008/Fold1/test.txt"))):
        rw.load_dataset("mq2008", part="test")


def test_a_named_folder_may_be_the_sets_own(tmp_path: Path):
    folder = mini(tmp_path) / "MQ2008"
    assert rw.load_dataset("mq2008", folder=folder).train.n_docs == 2


def test_versions_of_a_set_are_not_mixed(tmp_path: Path):
    put(tmp_path / "OHSUMED/QueryLevelNorm/Fold1/train.txt", rows(1, 50))  # the others of this version are missing
    for number, word in enumerate(("trainingset", "validationset", "testset")):
        put(tmp_path / f"OHSUMED/Feature-min/Fold1/{word}.txt", rows(1, number))
    train = rw.load_dataset("ohsumed", folder=tmp_path).train
    assert train.query_ids is not None
    assert train.query_ids.tolist() == [0]


def test_a_missing_file_is_told_with_paths_source_and_cure(tmp_path: Path):
    mini(tmp_path)
    (tmp_path / "MQ2008/Fold1/vali.txt").unlink()
    with pytest.raises(FileNotFoundError) as caught:
        rw.load_dataset("mq2008", folder=tmp_path)
    text = str(caught.value)
    assert f"  {tmp_path / 'MQ2008/Fold1/vali.txt'}\n" in text
    assert f"  {tmp_path / 'MQ2008/Fold1/train.txt'} (found)\n" in text
    assert f"  {tmp_path / 'LETOR4.0/MQ2008/Fold1/train.txt'}\n" in text
    assert "plain or as .gz or .zst" in text
    assert "Where to get it: Microsoft Research" in text
    assert "RANKWISE_DATA" in text
    assert "download=True" not in text
    with pytest.raises(FileNotFoundError, match=r"or pass download=True"):
        rw.load_dataset("mslr-web10k", folder=tmp_path)


def test_names_folds_and_parts_that_do_not_exist(tmp_path: Path):
    with pytest.raises(
        ValueError, match=r"unknown data set: got 'mq2009'. Hint: did you mean 'mq200[78]', of those that"
    ):
        rw.load_dataset("mq2009")
    with pytest.raises(
        ValueError, match=r"unknown data set: got 'quora'. Hint: choose one of mslr-web10k, mslr-web30k"
    ):
        rw.load_dataset("quora")
    with pytest.raises(ValueError, match=r"LETOR 4.0 MQ2008, supervised ranking has the folds 1 to 5: got 6"):
        rw.load_dataset("mq2008", fold=6)
    with pytest.raises(ValueError, match=r"fold must be a whole number of at least 1: got 0"):
        rw.load_dataset("mq2008", fold=0)
    with pytest.raises(ValueError, match=r"has one fixed split and no folds: got fold 2. Hint: leave fold out"):
        rw.load_dataset("yahoo-set1", fold=2)
    with pytest.raises(ValueError, match="unknown part: got 'dev'"):
        rw.load_dataset("mq2008", part="dev")  # type: ignore[call-overload]
    with pytest.raises(
        ValueError, match=r"MQ2008, supervised ranking cannot be downloaded by a program. Hint: get it from M"
    ):
        rw.load_dataset("mq2008", folder=tmp_path, download=True)


def test_the_list_of_data_sets():
    listed = rw.datasets()
    assert len({entry.name for entry in listed}) == len(listed) == 13
    table = str(listed).splitlines()
    assert len(table) == 14
    assert table[0].split() == ["name", "queries", "documents", "features", "labels", "folds", "download"]
    for entry in listed:
        assert all((entry.title, entry.source, entry.terms, entry.citation, entry.grades, entry.folders))
        assert entry.archive is None or re.fullmatch("[0-9a-f]{64}", entry.archive.sha256)
        for word in (entry.name, *entry.aliases):
            assert sets.entry(word.upper()) is entry


# --- real files ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fold", "documents", "queries"),
    [
        (1, (9_630, 2_707, 2_874), (471, 157, 156)),
        (2, (9_404, 2_874, 2_933), (471, 156, 157)),
        (3, (8_643, 2_933, 3_635), (470, 157, 157)),
        (4, (8_514, 3_635, 3_062), (470, 157, 157)),
        (5, (9_442, 3_062, 2_707), (470, 157, 157)),
    ],
)
def test_mq2008_has_its_published_counts(
    tmp_path: Path, fold: int, documents: tuple[int, ...], queries: tuple[int, ...]
):
    folder = shared.data(f"mq2008/Fold{fold}").parent.parent
    parts = rw.load_dataset("mq2008", fold=fold, folder=folder)
    assert tuple(part.n_docs for part in parts if part) == documents
    assert tuple(part.n_queries for part in parts if part) == queries
    assert sum(documents) == sets.entry("mq2008").n_docs
    labels = np.concatenate([part.labels for part in parts if part])
    assert np.bincount(labels.astype(int)).tolist() == [12_279, 2_001, 931]
    again = rw.load_dataset("mq2008", fold=fold, folder=folder)
    assert len(SEEN) == 3  # the second time nothing was parsed
    for one, other in zip(parts, again, strict=True):
        assert one is not None
        assert other is not None
        same(one, other)


def test_mslr_samples_by_a_description_of_ones_own(tmp_path: Path):
    folder = shared.data("mslr-sample")
    put(
        tmp_path / "sample.toml",
        f'name = "MSLR sample"\nn_features = 136\ntrain = "{folder}/web10k.fold1.train.5k.txt"\n'
        f'valid = "{folder}/web10k.fold1.vali.b.txt"\ntest = "{folder}/web10k.fold1.test.5k.txt.gz"\n',
    )
    train, valid, test = rw.load_dataset(tmp_path / "sample.toml", cache=False)
    assert valid is not None
    assert (train.n_docs, valid.n_docs, test.n_docs) == (5_000, 1_345, 5_000)
    assert (train.n_queries, valid.n_queries, test.n_queries) == (43, 13, 43)
    assert np.bincount(train.labels.astype(int)).tolist() == [2792, 1458, 665, 55, 30]
    assert train.features[0, :5].tolist() == [3, 3, 0, 0, 3]


def test_movielens_latest_small_has_its_published_counts():
    ratings = rw.load_dataset("movielens-latest-small", folder=shared.data("ml-latest-small").parent)
    frame = ratings.to_frame()
    assert (len(frame), frame["user"].n_unique(), frame["item"].n_unique()) == (100_836, 610, 9_724)
    assert frame.row(0) == (1, 1, 4.0, 964_982_703)


# --- own sets --------------------------------------------------------------------------------------------------------


def test_own_set_with_folds(tmp_path: Path):
    put(tmp_path / "mine.toml", 'train = "f{fold}/a.txt"\ntest = "f{fold}/b.txt"\nfolds = 2\nn_features = 5\n')
    for fold in (1, 2):
        put(tmp_path / f"f{fold}/a.txt.zst", rows(1, fold))
        put(tmp_path / f"f{fold}/b.txt", rows(1, 10 * fold))
    parts = rw.load_dataset(str(tmp_path / "mine.toml"), fold=2)
    assert parts.valid is None
    assert parts.test.query_ids is not None
    assert parts.test.query_ids.tolist() == [20]
    assert parts.train.n_features == 5
    with pytest.raises(ValueError, match="mine has the folds 1 to 2: got 3"):
        rw.load_dataset(str(tmp_path / "mine.toml"), fold=3)


def test_own_set_of_parquet_files(tmp_path: Path):
    frame = pl.DataFrame({"q": ["a", "a", "b"], "grade": [1, 0, 2], "x": [0.5, 1.5, 2.5]})
    frame.write_parquet(tmp_path / "rows.parquet")
    put(
        tmp_path / "p.toml",
        'train = "rows.parquet"\ntest = "rows.parquet"\nformat = "parquet"\nquery = "q"\nlabel = "grade"\n',
    )
    for _ in range(2):  # the second comes from the cache
        data = rw.load_dataset(tmp_path / "p.toml", part="train")
        assert data.query_ids is not None
        assert data.query_ids.tolist() == ["a", "b"]
        assert data.labels.tolist() == [1, 0, 2]
        assert data.features.tolist() == [[0.5], [1.5], [2.5]]
        assert data.feature_names == ("x",)


OWN = [
    ("train = ", "cannot read the description of a data set: got .*end of document.* at .*own.toml"),
    (
        'train = "a"\ntset = "b"\n',
        "unknown key in the description of a data set: got 'tset' at line 2 of .*own.toml. .*did you m",
    ),
    ('train = "a"\n', "the description of a data set must name a test file: .*own.toml"),
    ('test = "a"\n', "the description of a data set must name a train file: .*own.toml"),
    ('train = "a"\ntest = 3\n', "test must be text in the description of a data set: got 3 at .*own.toml"),
    (
        'train = "a{fold}"\ntest = "b{fold}"\n',
        r"\{fold\} in every path and folds belong together.*Hint: write folds = 5",
    ),
    ('train = "a{fold}"\ntest = "b"\nfolds = 2\n', r"\{fold\} in every path and folds belong together.*test = \"b\""),
    ('train = "a"\ntest = "b"\nformat = "cvs"\n', "unknown format of a data set: got 'cvs'.*did you mean 'csv'"),
    ('train = "a.csv"\ntest = "b.csv"\nfeatures = "x"\n', r"features must be a list of names.*write features = \["),
    (
        'train = "a"\ntest = "b"\nquery = "q"\n',
        "query does not go with the format of the data set: got format 'letor' at",
    ),
    (
        'train = "a"\ntest = "b"\nformat = "parquet"\nfirst_index = 1\n',
        "first_index does not go with the format of the data set: got format 'parquet'.*are for letor text",
    ),
    ('train = "a"\ntest = "b"\nn_features = 0\n', "n_features must be a whole number of at least 1: got 0"),
    ('train = "a"\ntest = "b"\nn_features = 1.5\n', "line 3 of .*own.toml: n_features must be a whole number"),
    ('train = "a"\ntest = "b"\nfirst_index = true\n', 'first_index must be 0, 1 or "auto": got True at line 3 of'),
    ("[train]\na = 1\n", "the description of a data set must name a test file"),
    ("[train]\na = 1\n[test]\na = 1", r"train must be text in the description of a data set: got \{'a': 1\} at line 1"),
    ('train = "{fold}"\ntest = "{fold}"\nfolds = 0\n', "folds must be a whole number of at least 1: got 0"),
]


@pytest.mark.parametrize(("text", "sentence"), OWN)
def test_a_description_with_a_mistake(tmp_path: Path, text: str, sentence: str):
    with pytest.raises(ValueError, match=sentence):
        rw.load_dataset(put(tmp_path / "own.toml", text))


def test_own_files_that_are_missing_or_do_not_fit_together(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"there is no file .*own.toml"):
        rw.load_dataset(tmp_path / "own.toml")
    put(tmp_path / "own.toml", 'name = "mine"\ntrain = "a.txt"\ntest = "b.txt"\n')
    put(tmp_path / "a.txt", rows(1, 1))
    with pytest.raises(FileNotFoundError, match=r"cannot find mine(.|\n)*b.txt(.|\n)*relative to the .toml file"):
        rw.load_dataset(tmp_path / "own.toml")
    put(tmp_path / "b.txt", "1 qid:1 1:1 2:2 3:3\n")
    sentence = (
        "the parts of mine differ in their number of features: got 2 in train, 3 in test. Hint: write n_features = 3"
    )
    with pytest.raises(ValueError, match=sentence):
        rw.load_dataset(tmp_path / "own.toml")
    with pytest.raises(ValueError, match="only sets of the catalog can be downloaded"):
        rw.load_dataset(tmp_path / "own.toml", download=True)


# --- cache -----------------------------------------------------------------------------------------------------------


def same(one: rw.RankingDataset, other: rw.RankingDataset) -> None:
    for field in dataclasses.fields(one):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype, field.name
            np.testing.assert_array_equal(left, right, field.name)
        else:
            assert left == right, field.name


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
    first = cache.cached(source, reader.read_letor, n_features=4)
    second = cache.cached(source, reader.read_letor, n_features=4)
    assert [source] == SEEN
    same(first, second)
    assert is_mapped(second.features)
    assert not is_mapped(first.features)
    assert len(entries(source)) == 1
    assert len(list(kept(source).iterdir())) == 1


def test_every_column_goes_through_the_cache(source: Path):
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
    assert cache.cached(source, reader.read_letor, n_features=4).n_features == 4
    assert cache.cached(source, reader.read_letor, n_features=7).n_features == 7
    assert cache.cached(source, reader.read_letor, n_features=4).n_features == 4
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
    cache.cached(source, reader.read_letor)
    change(source)
    data = cache.cached(source, reader.read_letor)
    assert len(SEEN) == 2
    assert 0.75 in data.features


def test_states_of_a_source_keep_their_copies_until_nobody_has_used_them_for_a_day(source: Path):
    """A set may be a link to one of its versions, which are read in turn."""
    versions = [put(source.parent / name, rows(1, qid) * 2) for qid, name in enumerate(("v1.txt", "v2.txt"))]
    for version in (*versions, *versions):
        source.unlink()
        source.symlink_to(version)
        cache.cached(source, reader.read_letor)
    assert len(SEEN) == 2
    old, *_ = (path for path in entries(source) if path not in _made_from(source, versions[1]))
    os.utime(old, (0, 0))
    cache.cached(source, reader.read_letor, n_features=9)  # whose copy is written now
    assert not old.exists()
    assert len(entries(source)) == 2


def _made_from(source: Path, version: Path) -> list[Path]:
    size = copies.fingerprint(version)
    return [
        path for path in entries(source) if size in json.loads(path.read_text())["content"]["stamp"]["files"].values()
    ]


def test_versions_of_rankwise_keep_the_copies_of_each_other(source: Path, monkeypatch: pytest.MonkeyPatch):
    for version in ("1.0", "2.0", "1.0", "2.0"):
        monkeypatch.setattr(cache, "__version__", version)
        cache.cached(source, reader.read_letor)
        for one in entries(source):
            os.utime(one, (0, 0))  # as if all that was a day ago
    assert len(SEEN) == 2
    assert len(entries(source)) == 2


def test_nothing_is_written_beside_the_data_and_nothing_of_the_user_is_removed(source: Path):
    cache.cached(source, reader.read_letor)
    theirs = {
        kept(source) / "notes.lock": "mine",
        kept(source) / "train.txt-0123" / "data.json": '{"stamp": {"source": {"name": "train.txt"}}}',
        source.parent / cache.FOLDER / "train.txt-0123" / "data.json": '{"stamp": {"source": {"name": "train.txt"}}}',
    }
    for path, text in theirs.items():
        os.utime(put(path, text), (0, 0))
    changed_text(source)
    cache.cached(source, reader.read_letor)
    assert len(SEEN) == 2
    assert all(path.read_text() == text for path, text in theirs.items())
    assert sorted(path.name for path in source.parent.iterdir()) == [cache.FOLDER, "train.txt"]


def test_a_source_that_changes_while_it_is_read_is_not_kept(source: Path):
    def read(path: Path) -> rw.RankingDataset:
        data = reader.read_letor(path)
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
    first = cache.cached(source, reader.read_letor)
    (entry,) = entries(source)
    damage(entry.parent / name)
    same(cache.cached(source, reader.read_letor), first)
    same(cache.cached(source, reader.read_letor), first)
    assert len(SEEN) == 2


@pytest.mark.parametrize(
    "content", ["[]", "{}", '{"arrays": {"features": {"shape": 3}}}', '{"arrays": {"../x": {"shape": []}}}']
)
def test_a_description_of_another_shape_is_built_again(source: Path, content: str):
    cache.cached(source, reader.read_letor)
    (entry,) = entries(source)
    entry.write_text(content)
    assert cache.cached(source, reader.read_letor).n_docs == 600
    assert len(SEEN) == 2


def test_a_pickle_in_the_cache_is_never_loaded(source: Path, tmp_path: Path):
    class Bomb:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "exploded",))

    cache.cached(source, reader.read_letor)
    (entry,) = entries(source)
    bomb = np.empty(1, object)
    bomb[0] = Bomb()
    np.save(entry.parent / "offsets.npy", bomb, allow_pickle=True)
    content = json.loads(entry.read_text())["content"]
    content["arrays"]["offsets"] = {"dtype": "|O", "shape": [1], "crc32": 0}
    entry.write_text(json.dumps({"crc32": zlib.crc32(copies.as_json(content)), "content": content}))
    assert cache.cached(source, reader.read_letor).n_docs == 600
    assert not (tmp_path / "exploded").exists()


def test_large_arrays_are_checked_by_samples():
    """Beyond 16 MiB a sample of blocks is checked: the beginning, the end and 254 between."""
    array = np.arange(3 << 23, dtype=np.uint8)
    before = copies.checksum(array)
    for position in (0, 40_000, array.size - 1):
        array[position] ^= 1
        assert copies.checksum(array) != before
        array[position] ^= 1
    assert copies.checksum(array) == before


def test_without_any_place_to_write_there_is_no_cache(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    put(tmp_path / "blocked", "a file")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "blocked"))
    with pytest.warns(
        UserWarning, match=r"works without a cache, and slower: no copy of .*Hint: .*RANKWISE_CACHE"
    ) as said:
        found = [cache.cached(source, reader.read_letor) for _ in range(2)]
    assert [data.n_docs for data in found] == [600, 600]
    assert len(said) == 1
    assert len(SEEN) == 2


def test_a_full_disk_leaves_nothing_behind(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "save", full)
    with pytest.warns(UserWarning, match=r"no copy of .*train.txt can be kept \(No space left on device\)"):
        assert cache.cached(source, reader.read_letor).n_docs == 600
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
    cache.cached(source, reader.read_letor)
    assert not left.exists()
    assert not lock.exists()
    assert fresh.exists()


def test_load_dataset_without_cache_writes_nothing(tmp_path: Path):
    mini(tmp_path)
    for _ in range(2):
        rw.load_dataset("mq2008", folder=tmp_path, part="train", cache=False)
    assert len(SEEN) == 2
    assert not list(tmp_path.rglob(cache.FOLDER))


# --- download --------------------------------------------------------------------------------------------------------


def zipped(members: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return out.getvalue()


def tarred(members: dict[str, str], mode: Any = "w:gz") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


FOLDS = {f"Fold1/{word}.txt": rows(1, number) for number, word in enumerate(("train", "vali", "test"))}


class Server:
    """Serves one file on 127.0.0.1, with or without ranges, whole or breaking off."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.ranges = True
        self.stop_after: int | None = None
        self.asked: list[str | None] = []
        self.status: int | None = None
        self.url = ""

    def answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        wanted = handler.headers["Range"]
        self.asked.append(wanted)
        if self.status:
            handler.send_error(self.status)
            return
        begin = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and self.ranges else 0
        if begin >= len(self.content):
            handler.send_error(416)
            return
        body = self.content[begin:]
        handler.send_response(206 if begin else 200)
        handler.send_header("Content-Length", str(len(body)))
        if begin:
            handler.send_header("Content-Range", f"bytes {begin}-{len(self.content) - 1}/{len(self.content)}")
        handler.end_headers()
        handler.wfile.write(body if self.stop_after is None else body[: self.stop_after])


@contextlib.contextmanager
def serving(content: bytes) -> Iterator[Server]:
    server = Server(content)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            server.answer(self)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = threading.Thread(target=listening.serve_forever, args=(0.01,))
        thread.start()
        server.url = f"http://127.0.0.1:{listening.server_port}/archive"
        try:
            yield server
        finally:
            listening.shutdown()
            thread.join()


def archive_of(content: bytes, url: str, **changes: Any) -> Archive:
    facts: dict[str, Any] = {"url": url, "sha256": hashlib.sha256(content).hexdigest(), "folder": "SET"}
    return Archive(**(facts | changes))


PACKED = [
    zipped(FOLDS),
    zipped({f"SET/{name}": text for name, text in FOLDS.items()}),
    tarred(FOLDS),
    tarred({f"SET/{name}": text for name, text in FOLDS.items()}, "w:bz2"),
]


@pytest.mark.parametrize("content", PACKED)
@pytest.mark.parametrize("way", ["http", "file"])
def test_a_download_is_there_whole(tmp_path: Path, content: bytes, way: str):
    (tmp_path / "origin").write_bytes(content)
    with serving(content) as server:
        url = server.url if way == "http" else (tmp_path / "origin").as_uri()
        target = fetch(archive_of(content, url), tmp_path / "data")
    assert target == tmp_path / "data/SET"
    assert {str(path.relative_to(target)): path.read_text() for path in target.rglob("*.txt")} == FOLDS
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["SET"]


def test_load_dataset_downloads_what_is_missing_and_only_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    content = zipped(FOLDS)
    with serving(content) as server:
        known = sets.entry("mslr-web10k")
        here = dataclasses.replace(known, archive=archive_of(content, server.url, folder="MSLR-WEB10K"))
        monkeypatch.setitem(sets._BY_NAME, "mslrweb10k", here)
        for _ in range(2):
            parts = rw.load_dataset("mslr-web10k", folder=tmp_path, download=True)
            assert parts.train.n_features == 136
        assert server.asked == [None]
        with pytest.raises(
            FileExistsError, match="MSLR-WEB10K exists already and is kept, though files of the set are missi"
        ):
            rw.load_dataset("mslr-web10k", fold=2, folder=tmp_path, download=True)
        assert server.asked == [None]


def test_a_wrong_checksum_leaves_nothing(tmp_path: Path):
    content = zipped(FOLDS)
    with serving(content) as server:
        sentence = f"does not have the checksum.*got sha256 {hashlib.sha256(content).hexdigest()} instead of 0000"
        with pytest.raises(ValueError, match=sentence):
            fetch(archive_of(content, server.url, sha256="0" * 64), tmp_path / "data")
    assert not list((tmp_path / "data").iterdir())


def test_a_broken_transfer_goes_on_where_it_stopped(tmp_path: Path):
    content = zipped(FOLDS)
    with serving(content) as server:
        archive = archive_of(content, server.url)
        server.stop_after = 100
        with pytest.raises(
            ConnectionError, match=f"broke off after 100 of {len(content)} bytes, which are kept. Hint: try a"
        ):
            fetch(archive, tmp_path / "data")
        assert not (tmp_path / "data/SET").exists()
        server.stop_after = None
        fetch(archive, tmp_path / "data")
        assert server.asked == [None, "bytes=100-"]
    assert (tmp_path / "data/SET/Fold1/test.txt").read_text() == FOLDS["Fold1/test.txt"]
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["SET"]


@pytest.mark.parametrize("left", [b"x" * 100, b"x" * 10_000])
def test_what_is_left_of_another_transfer_does_no_harm(tmp_path: Path, left: bytes):
    """A server without ranges sends all again; a part longer than the archive is thrown away."""
    content = zipped(FOLDS)
    with serving(content) as server:
        server.ranges = len(left) > len(content)
        archive = archive_of(content, server.url)
        part = tmp_path / "data/.rankwise-download" / f"{archive.sha256[:16]}.part"
        part.parent.mkdir(parents=True)
        part.write_bytes(left)
        fetch(archive, tmp_path / "data")
    assert (tmp_path / "data/SET/Fold1/train.txt").is_file()


def test_a_part_that_is_no_beginning_of_the_archive_is_fetched_again(tmp_path: Path):
    content = zipped(FOLDS)
    with serving(content) as server:
        archive = archive_of(content, server.url)
        part = tmp_path / "data/.rankwise-download" / f"{archive.sha256[:16]}.part"
        part.parent.mkdir(parents=True)
        part.write_bytes(b"x" * 100)
        left = part.with_name("unpacking-dead")
        left.mkdir()
        os.utime(left, (0, 0))
        fetch(archive, tmp_path / "data")
        assert server.asked == ["bytes=100-", None]
    assert (tmp_path / "data/SET/Fold1/train.txt").is_file()
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["SET"]


def test_one_of_several_callers_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    content = zipped(FOLDS)
    found: list[Path] = []
    start, turn = threading.Barrier(3), caches.turn

    def together(*locks: Path) -> Any:
        start.wait(60)  # all have seen that the set is not there
        return turn(*locks)

    monkeypatch.setattr(caches, "turn", together)
    with serving(content) as server:
        archive = archive_of(content, server.url)

        def work() -> None:
            found.append(fetch(archive, tmp_path / "data"))

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.asked == [None]
    assert found == [tmp_path / "data/SET"] * 3
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["SET"]


def test_a_transfer_that_was_complete_is_not_repeated(tmp_path: Path):
    content = zipped(FOLDS)
    archive = archive_of(content, "http://127.0.0.1:9/nobody", size=len(content))
    part = tmp_path / ".rankwise-download" / f"{archive.sha256[:16]}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(content)
    assert fetch(archive, tmp_path).is_dir()


def test_a_server_that_refuses_or_is_not_there(tmp_path: Path):
    content = zipped(FOLDS)
    with serving(content) as server:
        server.status = 403
        with pytest.raises(
            ConnectionError, match=r"cannot download http.*: the server answered 403 Forbidden. Hint: .*by hand"
        ):
            fetch(archive_of(content, server.url), tmp_path / "data")
    with pytest.raises(ConnectionError, match=r"cannot download http.*unpack it as SET in the data folder"):
        fetch(archive_of(content, server.url), tmp_path / "data")
    assert not list((tmp_path / "data").iterdir())
    with pytest.raises(ValueError, match="a download needs an http, https or file address: got 'ftp://x/y'"):
        fetch(archive_of(content, "ftp://x/y"), tmp_path / "data")


def test_an_answer_that_refuses_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    body = io.BytesIO(b"no")
    answer = urllib.error.HTTPError("http://x/y", 403, "Forbidden", email.message.Message(), body)

    def refuse(*_: Any, **__: Any) -> None:
        raise answer

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    with pytest.raises(ConnectionError, match="403 Forbidden"):
        fetch(archive_of(zipped(FOLDS), "http://x/y"), tmp_path / "data")
    assert body.closed


def link(kind: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo("SET/link")
        member.type = kind
        member.linkname = "/etc/passwd"
        archive.addfile(member)
    return out.getvalue()


def zip_link() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        member = zipfile.ZipInfo("SET/link")
        member.external_attr = 0o120777 << 16
        archive.writestr(member, "/etc/passwd")
    return out.getvalue()


EVIL = [
    zipped({"good.txt": "x", "../evil.txt": "x"}),
    zipped({"/tmp/evil.txt": "x"}),  # noqa: S108
    zipped({"a/../../evil.txt": "x"}),
    zipped({"C:/evil.txt": "x"}),
    tarred({"good.txt": "x", "../evil.txt": "x"}),
    tarred({"/evil.txt": "x"}),
    link(tarfile.SYMTYPE),
    link(tarfile.LNKTYPE),
    link(tarfile.FIFOTYPE),
    zip_link(),
]


@pytest.mark.parametrize("content", EVIL)
def test_an_archive_that_would_leave_its_folder_is_refused(tmp_path: Path, content: bytes):
    (tmp_path / "origin").write_bytes(content)
    sentence = "member that would leave its folder, or is no plain file; nothing was kept: got '.*(evil|link)"
    with pytest.raises(ValueError, match=sentence):
        fetch(archive_of(content, (tmp_path / "origin").as_uri()), tmp_path / "deep/data")
    assert not list((tmp_path / "deep/data").iterdir())
    assert not list(tmp_path.rglob("evil.txt"))


def test_what_is_no_archive_is_refused(tmp_path: Path):
    (tmp_path / "origin").write_bytes(b"<html>please log in</html>")
    with pytest.raises(ValueError, match="the archive is neither zip nor tar"):
        fetch(archive_of(b"<html>please log in</html>", (tmp_path / "origin").as_uri()), tmp_path / "data")
    assert not list((tmp_path / "data").iterdir())


@pytest.mark.parametrize("kind", ["", "gz", "bz2", "xz", "zip"])
def test_a_damaged_archive_is_refused_whole(tmp_path: Path, kind: str):
    whole = zipped(FOLDS) if kind == "zip" else tarred(FOLDS, f"w:{kind}")
    wrong = [whole[:700] if kind == "" else whole[: len(whole) // 2]]
    if kind == "zip":  # tar has no checksum of what it holds
        at = whole.index(b"train.txt") + 20
        wrong.append(whole[:at] + bytes([whole[at] ^ 7]) + whole[at + 1 :])
    for content in wrong:
        (tmp_path / "origin").write_bytes(content)
        with pytest.raises(
            ValueError, match=r"^.*(origin.*neither zip nor tar|cannot read the archive.*origin).* by hand"
        ) as caught:
            fetch(archive_of(content, (tmp_path / "origin").as_uri()), tmp_path / "data")
        assert type(caught.value) is ValueError
        assert not [path for path in (tmp_path / "data").iterdir() if path.suffix != ".lock"]


def test_data_that_are_there_are_not_overwritten(tmp_path: Path):
    content = zipped(FOLDS)
    (tmp_path / "origin").write_bytes(content)
    mine = put(tmp_path / "data/SET/notes.txt", "mine")
    with pytest.raises(
        FileExistsError, match=r"SET exists already and is kept.* Hint: move it away, or complete it by hand"
    ):
        fetch(archive_of(content, (tmp_path / "origin").as_uri()), tmp_path / "data")
    assert mine.read_text() == "mine"


@pytest.mark.parametrize(
    ("content", "further", "message"),
    [
        ("qid,label,x\n1,-1,2\n", "", "labels must be at least 0: got -1 at line 2"),
        ("qid,label,x\n1,1,2\n", 'query = "session"\n', "no such column for the query: got 'session'"),
        ("qid,label,x,x\n1,1,2,3\n", "", "a table must name each of its columns once: got 'x' again"),
        ("", "", "there is nothing in the file"),
    ],
)
def test_what_is_wrong_with_data_of_a_description_names_both_files(tmp_path, content, further, message):
    (tmp_path / "rows.csv").write_text(content)
    described = tmp_path / "mine.toml"
    described.write_text(f'train = "rows.csv"\ntest = "rows.csv"\n{further}')
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        rw.load_dataset(described)
    assert str(described) in str(caught.value)
    assert str(tmp_path / "rows.csv") in str(caught.value)
