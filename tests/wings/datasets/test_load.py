"""Loading sets of the catalog: every public layout in miniature, real files, and sets of .toml files."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.data.io.disk import cache
from rankwise.wings.datasets import sets
from tests import shared
from tests.data.small_files import SEEN, isolate, put, rows, same
from tests.refusals import refusal, refuses


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


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
    with refusal(what="Istella LETOR, full has no part 'valid'", hint="take one off its training part with rw.split…"):
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
    with refusal(what="MovieLens 100k is one table of ratings and has no parts", got="part 'train'"):
        rw.load_dataset("ml-100k", folder=tmp_path, part="train")


def mini(folder: Path, fold: int = 1) -> Path:
    for number, word in enumerate(("train", "vali", "test")):
        put(folder / f"MQ2008/Fold{fold}/{word}.txt", rows(2, number))
    return folder


def test_the_data_folder_is_that_of_the_environment_or_of_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
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


def test_the_error_of_a_missing_file_names_paths_source_and_hint(tmp_path: Path):
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
    refuses(lambda: rw.load_dataset("mslr-web10k", folder=tmp_path), FileNotFoundError, hint="…or pass download=True")


def test_names_folds_and_parts_that_do_not_exist(tmp_path: Path):
    with refusal(what="unknown data set", got="'mq2009'", hint="did you mean 'mq2008', of those that…"):
        rw.load_dataset("mq2009")
    with refusal(what="unknown data set", got="'quora'", hint="choose one of mslr-web10k, mslr-web30k…"):
        rw.load_dataset("quora")
    with refusal(what="LETOR 4.0 MQ2008, supervised ranking has the folds 1 to 5", got="6"):
        rw.load_dataset("mq2008", fold=6)
    refuses(lambda: rw.load_dataset("mq2008", fold=0), what="fold must be a whole number of at least 1", got="0")
    with refusal(what="…has one fixed split and no folds", got="fold 2", hint="leave fold out"):
        rw.load_dataset("yahoo-set1", fold=2)
    refuses(lambda: rw.load_dataset("mq2008", part="dev"), what="unknown part", got="'dev'")  # type: ignore[call-overload]
    with refusal(what="…MQ2008, supervised ranking cannot be downloaded by a program", hint="get it from Microsoft…"):
        rw.load_dataset("mq2008", folder=tmp_path, download=True)


def test_the_list_of_data_sets():
    listed = rw.data.datasets()
    assert len({entry.name for entry in listed}) == len(listed) == 14
    table = str(listed).splitlines()
    assert len(table) == 15
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


def test_a_described_set_with_folds(tmp_path: Path):
    put(tmp_path / "mine.toml", 'train = "f{fold}/a.txt"\ntest = "f{fold}/b.txt"\nfolds = 2\nn_features = 5\n')
    for fold in (1, 2):
        put(tmp_path / f"f{fold}/a.txt.zst", rows(1, fold))
        put(tmp_path / f"f{fold}/b.txt", rows(1, 10 * fold))
    parts = rw.load_dataset(str(tmp_path / "mine.toml"), fold=2)
    assert parts.valid is None
    assert parts.test.query_ids is not None
    assert parts.test.query_ids.tolist() == [20]
    assert parts.train.n_features == 5
    refuses(lambda: rw.load_dataset(str(tmp_path / "mine.toml"), fold=3), what="mine has the folds 1 to 2", got="3")


def test_a_described_set_of_parquet_files(tmp_path: Path):
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
    ('train = "a"\ntest = 3\n', "test must be a string: got 3 at .*own.toml"),
    (
        'train = "a{fold}"\ntest = "b{fold}"\n',
        r"\{fold\} in every path and folds belong together.*Hint: write folds = 5",
    ),
    ('train = "a{fold}"\ntest = "b"\nfolds = 2\n', r"\{fold\} in every path and folds belong together.*test = \"b\""),
    ('train = "a"\ntest = "b"\nformat = "cvs"\n', "unknown format of a data set: got 'cvs'.*did you mean 'csv'"),
    ('train = "a.csv"\ntest = "b.csv"\nfeatures = "x"\n', r"features must be a list of strings.*write features = \["),
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
    ("[train]\na = 1\n[test]\na = 1", r"train must be a string: got \{'a': 1\} at line 1"),
    ('train = "{fold}"\ntest = "{fold}"\nfolds = 0\n', "folds must be a whole number of at least 1: got 0"),
]


@pytest.mark.parametrize(("text", "sentence"), OWN)
def test_a_description_with_a_mistake(tmp_path: Path, text: str, sentence: str):
    with pytest.raises(ValueError, match=sentence):
        rw.load_dataset(put(tmp_path / "own.toml", text))


def test_described_files_that_are_missing_or_do_not_match(tmp_path: Path):
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
    with refusal(what="only sets of the catalog can be downloaded"):
        rw.load_dataset(tmp_path / "own.toml", download=True)


def test_load_dataset_without_cache_writes_nothing(tmp_path: Path):
    mini(tmp_path)
    for _ in range(2):
        rw.load_dataset("mq2008", folder=tmp_path, part="train", cache=False)
    assert len(SEEN) == 2
    assert not list(tmp_path.rglob(cache.FOLDER))


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
