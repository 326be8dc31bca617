"""Arrays in the forms that the whole package works with."""

import numpy as np
import pytest

import rankwise as rw
from rankwise.base import arrays
from rankwise.rankers import fit_arguments


@pytest.mark.parametrize("sizes", [[], [3], [0, 2], np.array([True, False, True]), np.array([1, 2], np.int8)])
def test_sizes_become_offsets(sizes):
    offsets = arrays.offsets_of(sizes)
    assert offsets.dtype == np.int64
    assert offsets[0] == 0
    np.testing.assert_array_equal(np.diff(offsets), np.asarray(sizes, np.int64))


def test_read_only_arrays_share_memory_and_only_one_kind_is_always_contiguous():
    column = np.zeros((4, 2))[:, 0]
    view, packed = arrays.read_only(column, contiguous=False), arrays.read_only(column)
    assert np.shares_memory(view, column)
    assert packed.flags.c_contiguous
    assert column.flags.writeable
    for array in (view, packed):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


@pytest.mark.parametrize(("n_rows", "width", "numbers"), [(0, 3, 10), (10, 3, 7), (5, 100, 1), (4, 0, 2)])
def test_blocks_of_rows_cover_every_row_once(n_rows, width, numbers):
    blocks = list(arrays.row_blocks(n_rows, width, numbers))
    assert [row for block in blocks for row in range(block.start, block.stop)] == list(range(n_rows))
    assert all(0 < block.stop - block.start <= max(1, numbers // max(width, 1)) for block in blocks)


def test_every_mean_over_queries_is_the_same_to_the_last_bit():
    labels = np.random.default_rng(3).integers(0, 3, 700).astype(float)
    weights = np.random.default_rng(4).random(70)
    data = rw.RankingDataset.from_sizes(np.empty((700, 0)), labels, np.full(70, 10), weights=weights)
    scores, ndcg = np.random.default_rng(5).random(700), rw.metric("ndcg@10")
    for given in (data, data.with_(weights=None)):
        found = fit_arguments.mean(ndcg, ndcg.of(scores, given), given.weights)
        assert found == rw.evaluate(scores, given).mean["ndcg@10"]
        turned = given.take(np.arange(70)[::-1])
        order = np.arange(700).reshape(70, 10)[::-1].ravel()
        assert found == fit_arguments.mean(ndcg, ndcg.of(scores[order], turned), turned.weights)
