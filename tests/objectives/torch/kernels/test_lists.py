"""Ragged lists on a device: tiles, and lists taken out."""

import numpy as np

from tests.objectives.torch.kernels.devices import Lists


def test_tiles_cover_every_document_once_the_longest_list_first():
    lists = Lists([3, 10, 1, 4]).on_device()
    queries, starts = (column.cpu().tolist() for column in lists.tiles(4))
    assert list(zip(queries, starts, strict=True)) == [(1, 0), (1, 4), (1, 8), (0, 0), (2, 0), (3, 0)]
    assert lists.tiles(4) is lists.tiles(4)  # made once


def test_take():
    lists = Lists([3, 2, 1]).on_device()
    taken = lists.take(np.array([2, 0, 2]))
    assert taken.lists.host.tolist() == taken.lists.offsets.tolist() == [0, 1, 4, 5]
    assert taken.rows.tolist() == [5, 0, 1, 2, 5]
    assert taken.lists.spread(taken.numbers).tolist() == [2, 0, 0, 0, 2]
    assert lists.take(np.array([], int)).rows.tolist() == []
