"""Data that stay on disk: the same data sets, the same models, and features that are never all in memory."""

import contextlib
import mmap
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.data.io.disk import mapped as disk
from rankwise.rankers.trees.xgboost import data as external
from tests.refusals import refusal

RANKERS = (rw.LightGBMRanker, rw.XGBoostRanker)
SMALL: dict[str, Any] = {"rounds": 12, "leaves": 7, "min_documents": 5, "threads": 1, "patience": None}


@pytest.fixture
def small_blocks(monkeypatch):
    """Blocks of some hundred rows, so that small data have many."""
    monkeypatch.setattr(disk, "BLOCK", 4 * 12 * 100)


@pytest.fixture
def stored(data, tmp_path):
    return rw.data.write_parquet(
        data.with_(query_ids=[f"q{n}" for n in range(data.n_queries)]), tmp_path / "train.parquet"
    )


def place(data):
    file = disk.MappedRows.of(data.features)
    assert file is not None
    return Path(file.path)


def same(one, other):
    for name in ("features", "labels", "offsets", "query_ids", "weights", "document_ids"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    assert one.feature_names == other.feature_names
    assert one.categorical == other.categorical


def test_parquet_opened_is_parquet_read(stored, small_blocks):
    opened = rw.open_data(stored)
    assert disk.MappedRows.of(opened.features) is not None
    assert "features on disk" in repr(opened)
    same(opened, rw.read_parquet(stored))


def test_names_that_the_data_did_not_have_are_not_made_up(data, tmp_path):
    path = rw.data.write_parquet(data.with_(query_ids=None, feature_names=None), tmp_path / "train.parquet")
    opened = rw.open_data(path)
    assert opened.query_ids is None
    assert opened.feature_names is None


def test_a_folder_with_categories_and_weights(data, tmp_path, small_blocks):
    frame = rw.data.to_frame(data).with_columns(
        pl.col("qid").cast(pl.String),
        pl.lit(2.0).alias("weight"),
        pl.Series("kind", ["a", "b"] * (data.n_docs // 2) + ["a"] * (data.n_docs % 2), pl.Enum(["b", "a"])),
    )
    for part in range(3):
        chosen = [str(query) for query in range(part * 15, part * 15 + 15)]
        frame.filter(pl.col("qid").is_in(chosen)).write_parquet(tmp_path / f"{part}.parquet")
    opened = rw.open_data(tmp_path, weight="weight")
    assert opened.categorical == (12,)
    same(opened, rw.read_parquet(tmp_path, weight="weight"))


def test_a_skipped_line_adds_no_columns(tmp_path):
    path = tmp_path / "rows.txt"
    path.write_text("1 qid:1 1:1 2:2\nnonsense 9:9\n0 qid:1 1:3 2:x 8:1\n0 qid:1 2:4\n")
    with pytest.warns(UserWarning, match="left out 2 of 4 lines"):
        read = rw.read_letor(path, errors="skip")
    with pytest.warns(UserWarning, match="left out 2 of 4 lines"):
        same(rw.open_data(path, errors="skip"), read)


def test_the_copy_is_made_once_and_again_when_the_source_changes(stored, tmp_path, data):
    first = rw.open_data(stored, folder=tmp_path / "copies")
    assert place(rw.open_data(stored, folder=tmp_path / "copies")) == place(first)
    rw.data.write_parquet(data.take(slice(0, 10)), stored, force=True)
    assert rw.open_data(stored, folder=tmp_path / "copies").n_queries == 10


def test_neighbouring_queries_stay_on_disk_and_others_come_into_memory(stored):
    opened = rw.open_data(stored)
    near, far = opened.take(slice(5, 20)), opened.take([3, 1])
    assert "features on disk" in repr(near)
    assert "features on disk" not in repr(far)
    np.testing.assert_array_equal(np.concatenate(list(disk.blocks(near.features))), near.features)


def test_no_room_says_where(stored, tmp_path):
    (tmp_path / "taken").write_text("")
    with refusal(OSError, what="…could not be copied to …taken…", hint="set folder=… to one with enough space"):
        rw.open_data(stored, folder=tmp_path / "taken" / "inside")


@pytest.mark.parametrize("ranker", RANKERS)
def test_the_same_model_as_from_memory(ranker, stored, valid, small_blocks):
    # Few documents: the bins' sample is all of them, here as in memory.
    opened, held_out = rw.open_data(stored), rw.read_parquet(stored)
    ours = ranker("stochastic(xendcg, scale=0.25)", **SMALL).fit(opened, valid)
    other = ranker("stochastic(xendcg, scale=0.25)", **SMALL).fit(held_out, valid)
    assert ours.history_ == other.history_
    np.testing.assert_array_equal(ours.predict(opened), other.predict(held_out))


@pytest.mark.parametrize("ranker", RANKERS)
@pytest.mark.filterwarnings("ignore:.* of training queries")
def test_features_are_read_in_blocks_only(ranker, stored, small_blocks, monkeypatch, tmp_path):
    opened = rw.open_data(stored)
    read = []
    ours = disk.MappedRows.read

    def watched(self, first, last):
        read.append(last - first)
        return ours(self, first, last)

    monkeypatch.setattr(disk.MappedRows, "read", watched)
    monkeypatch.setattr(external, "_SAMPLE", 100)
    model = ranker("xendcg", **SMALL).fit(opened, opened)
    model.predict(opened)
    assert max(read) <= 100
    assert sum(read) >= 3 * opened.n_docs  # training, validation, prediction


@pytest.mark.parametrize("ranker", RANKERS)
def test_checkpoints_and_older_models_go_on_from_disk(ranker, stored, data, tmp_path, small_blocks):
    opened = rw.open_data(stored)
    settings = {**SMALL, "rounds": 8}
    first = ranker("xendcg", **settings).fit(opened)
    more = ranker("xendcg", **settings).fit(opened, init_model=first)
    in_memory = ranker("xendcg", **settings).fit(rw.read_parquet(stored), init_model=first)
    np.testing.assert_array_equal(more.predict(data), in_memory.predict(data))
    # A model whose trees ask at other places than the bins' borders.
    other = ranker("xendcg", **settings).fit(data.with_(features=data.features * 1.1))
    onto = ranker("xendcg", **settings).fit(opened, init_model=other)
    beside = ranker("xendcg", **settings).fit(rw.read_parquet(stored), init_model=other)
    np.testing.assert_allclose(onto.predict(data), beside.predict(data), rtol=1e-5)
    kept = ranker("xendcg", **settings, checkpoint=tmp_path / "kept", checkpoint_every=4).fit(opened)
    longer = ranker("xendcg", **{**settings, "rounds": 16}, checkpoint=tmp_path / "kept", checkpoint_every=4)
    longer.fit(opened, resume=True)
    np.testing.assert_array_equal(longer.predict(data), more.predict(data))
    assert kept.history_["loss"] == longer.history_["loss"][:8]


def test_xgboosts_own_file_goes_with_the_matrix(stored):
    opened = rw.open_data(stored)
    rw.XGBoostRanker("xendcg", **SMALL).fit(opened)
    assert not list(place(opened).parent.glob("rankwise-*"))


@pytest.mark.filterwarnings("ignore:.* of training queries")
def test_xgboost_reads_from_folders_of_any_name(data, tmp_path, monkeypatch):
    expected = rw.XGBoostRanker("xendcg", **SMALL).fit(data, data).predict(data)
    (tmp_path / "links").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "links"))
    (tmp_path / "größe 大").mkdir()
    stored = rw.data.write_parquet(data, tmp_path / "größe 大" / "train.parquet")
    opened = rw.open_data(stored)
    np.testing.assert_array_equal(rw.XGBoostRanker("xendcg", **SMALL).fit(opened, opened).predict(data), expected)
    assert not list((tmp_path / "links").iterdir())
    assert not list(place(opened).parent.glob("rankwise-*"))
    monkeypatch.setattr("tempfile.tempdir", str(stored.parent))
    with refusal(what="XGBoost reads features from disk through an ASCII path alone", got="…größe 大", hint="…TMPDIR…"):
        rw.XGBoostRanker("xendcg", **SMALL).fit(opened)
    assert not list(place(opened).parent.glob("rankwise-*"))


# A GPU gets blocks as tensors. Where there is none, arrays stand for them: all but the copy is the same.


@pytest.fixture
def gpu(monkeypatch) -> dict[str, Any]:
    """Settings of a training on a GPU, or on what stands for one."""
    torch, xgb = pytest.importorskip("torch"), pytest.importorskip("xgboost")
    monkeypatch.setattr(external, "_GPU_BLOCK", 4 * 12 * 100)
    if torch.cuda.is_available() and xgb.build_info()["USE_CUDA"]:
        return {"device": "cuda"}
    proxy = xgb.core._ProxyDMatrix
    monkeypatch.setattr(external, "gpu", lambda settings: "cuda")
    monkeypatch.setattr(external, "_copied", lambda block, device: np.array(block))
    monkeypatch.setattr(proxy, "_ref_data_from_cuda_interface", proxy._ref_data_from_array)
    return {}


@pytest.mark.parametrize("objective", ["xendcg", "native:rank:ndcg"])
def test_a_gpu_is_handed_blocks_and_grows_the_trees_of_training_in_core(objective, stored, valid, gpu):
    opened, read = rw.open_data(stored), rw.read_parquet(stored)
    ours = rw.XGBoostRanker(objective, **SMALL, **gpu).fit(opened, valid)
    other = rw.XGBoostRanker(objective, **SMALL, **gpu).fit(read, valid)
    # Borders of bins are sketched block by block here, and of all documents at once there.
    np.testing.assert_allclose(ours.history_["ndcg@10"], other.history_["ndcg@10"], atol=0.02)
    assert np.corrcoef(ours.predict(opened), other.predict(read))[0, 1] > 0.95
    assert not list(place(opened).parent.glob("rankwise-*"))


def test_where_bins_lie_is_for_features_on_disk_and_a_gpu(stored, data, gpu):
    opened = rw.open_data(stored)
    if "device" in gpu:
        placed: dict[str, Any] = {"cache_host_ratio": 1.0, "min_cache_page_bytes": 10_000}
        rw.XGBoostRanker("xendcg", **SMALL, **gpu, **placed).fit(opened)
    refused: tuple[dict[str, Any], ...] = (
        {"cache_host_ratio": 1.0},
        {"min_cache_page_bytes": 1 << 20},
        {"cache_host_ratio": 1.0, "tree_method": "approx"},
    )
    for settings in refused:
        with refusal(
            what="cache_host_ratio and min_cache_page_bytes are for features on disk and trees on a GPU",
            hint="set device='cuda' and pass data of rw.open_data…",
        ):
            rw.XGBoostRanker("xendcg", **SMALL, **gpu, **settings).fit(data)


# Matrices whose memory is somebody else's.


def of_torch(matrix):
    torch = pytest.importorskip("torch")
    return torch.tensor(matrix).numpy()


def of_bytes(matrix):
    return np.frombuffer(matrix.tobytes(), np.float32).reshape(matrix.shape)


def of_polars(matrix):
    return pl.Series(matrix.ravel()).to_numpy().reshape(matrix.shape)


def of_arrow(matrix):
    arrow = pytest.importorskip("pyarrow")
    return arrow.array(matrix.ravel()).to_numpy().reshape(matrix.shape)


def of_an_anonymous_mapping(matrix):
    pages = mmap.mmap(-1, matrix.nbytes)  # what shared memory is, too
    found = np.ndarray(matrix.shape, np.float32, pages)
    found[:] = matrix
    return found


OWNERS = (of_torch, of_bytes, of_polars, of_arrow, of_an_anonymous_mapping)


@pytest.mark.parametrize("owner", OWNERS)
def test_memory_that_is_not_numpys_is_no_file(owner, data):
    given = owner(data.features)
    np.testing.assert_array_equal(given, data.features)
    assert disk.MappedRows.of(given) is None
    assert [block.shape for block in disk.blocks(given)] == [given.shape]


@pytest.mark.parametrize("ranker", RANKERS)
@pytest.mark.parametrize("owner", OWNERS)
def test_trees_take_memory_that_is_not_numpys(ranker, owner, data):
    model = ranker("xendcg", **{**SMALL, "rounds": 2}).fit(data.with_(features=owner(data.features)))
    expected = ranker("xendcg", **{**SMALL, "rounds": 2}).fit(data).predict(data)
    np.testing.assert_array_equal(model.predict(owner(data.features)), expected)


def test_a_mapping_is_found_behind_views(stored):
    features = rw.open_data(stored).features
    plain = np.asarray(features).view(np.ndarray)
    for hidden in (plain, plain[3:], np.asarray(memoryview(features))[5:]):  # type: ignore[arg-type]
        matrix = hidden.reshape(-1, features.shape[1])
        file = disk.MappedRows.of(matrix)
        assert file is not None
        np.testing.assert_array_equal(file.read(0, 4), matrix[:4])


def test_rows_that_differ_from_their_file_are_read_from_memory(tmp_path):
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.save(tmp_path / "rows.npy", rows)
    changed = np.load(tmp_path / "rows.npy", mmap_mode="c")
    changed[2, 1] = 99.0
    (block,) = disk.blocks(changed)
    assert block[2, 1] == 99.0
    mapped = np.load(tmp_path / "rows.npy", mmap_mode="r")
    np.save(tmp_path / "other.npy", rows + 100.0)
    (tmp_path / "other.npy").replace(tmp_path / "rows.npy")
    (block,) = disk.blocks(mapped)
    np.testing.assert_array_equal(block, rows)


def test_xgboosts_own_file_lies_elsewhere_where_the_copy_is_read_only(tmp_path):
    with contextlib.ExitStack() as made:
        folder = external._scratch(tmp_path / "cannot be written", made)
        assert folder.is_dir()
    assert not folder.exists()


def test_lightgbm_does_not_warn_of_the_sample_that_is_its_default_here(tmp_path, capfd):
    labels = np.tile([1.0, 0.0, 0.0, 0.0], 65_000)  # of so many documents 50,000 would be less than a fifth
    data = rw.RankingDataset(labels[::-1, None], labels, np.arange(0, labels.size + 1, 2000))
    opened = rw.open_data(rw.data.write_parquet(data, tmp_path / "train.parquet"))
    rw.LightGBMRanker("softmax_ce", rounds=1, leaves=2, threads=1).fit(opened)
    assert "bin_construct_sample_cnt" not in "".join(capfd.readouterr())
