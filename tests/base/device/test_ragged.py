"""Ragged lists on a device: tiles, and the rows of selected queries."""

import numpy as np

from tests.objectives.device.devices import Lists

from rankwise.base.device.ragged import Ragged  # isort: skip


def test_tiles_cover_every_document_once_the_longest_list_first():
    lists = Lists([3, 10, 1, 4]).on_device()
    queries, starts = (column.cpu().tolist() for column in lists.tiles(4))
    assert list(zip(queries, starts, strict=True)) == [(1, 0), (1, 4), (1, 8), (0, 0), (2, 0), (3, 0)]
    assert lists.tiles(4) is lists.tiles(4)  # made once


def test_rows_of_selected_queries():
    lists = Lists([3, 2, 1]).on_device()
    ragged, numbers, rows = lists.rows(np.array([2, 0, 2]))
    assert ragged.host.tolist() == ragged.offsets.tolist() == [0, 1, 4, 5]
    assert rows.tolist() == [5, 0, 1, 2, 5]
    assert ragged.to_documents(numbers).tolist() == [2, 0, 0, 0, 2]
    assert lists.rows(np.array([], int))[2].tolist() == []


def test_tiles_that_the_device_makes_cover_every_document_once():
    sizes = [3, 10, 1, 4, 300]
    ragged = Ragged(Lists(sizes).on_device().offsets, sum(sizes))
    queries, starts = (column.cpu().tolist() for column in ragged.tiles(4))
    tiles = [(query, start) for query, start in zip(queries, starts, strict=True) if start < sizes[query]]
    assert tiles == [(query, start) for query, size in enumerate(sizes) for start in range(0, size, 4)]
    assert ragged.longest >= 300
    assert ragged.host.tolist() == np.cumsum([0, *sizes]).tolist()  # copied when they are read
