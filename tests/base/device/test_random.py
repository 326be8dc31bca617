"""Random numbers on a device: those of the stream, bit for bit."""

import numpy as np
import pytest
import torch

import rankwise as rw
from tests.objectives.device.devices import DEVICE, Lists

from rankwise.base.device.random import document_uniforms, key_words, query_words  # isort: skip
import triton  # isort: skip
import triton.language as tl  # isort: skip


@triton.jit
def fill(offsets, key_low, key_high, words, draw, out, block: tl.constexpr):
    query = tl.program_id(0)
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    documents = tl.arange(0, block)
    word = tl.load(words + query)
    numbers = document_uniforms(key_low, key_high, word, documents, tl.zeros_like(documents) + draw)
    tl.store(out + first + documents, numbers, mask=documents < size)


@pytest.mark.parametrize("ids", [None, np.arange(4) - 2**62, ["a", "b", "c", "d"]])
def test_bit_for_bit(ids):
    lists = Lists([1, 2, 7, 100])
    stream = rw.Stream(2**40 + 3, 7, ids).child("noise", 2)
    device_lists, (key,) = lists.on_device(), key_words([stream])
    for draw in (0, 1, 1000):
        actual = torch.empty(int(lists.offsets[-1]), dtype=torch.float64, device=DEVICE)
        fill[(lists.n_queries,)](device_lists.offsets, *key, query_words(stream, device_lists), draw, actual, block=128)
        np.testing.assert_array_equal(actual.cpu(), stream.documents(lists.offsets, draw))
