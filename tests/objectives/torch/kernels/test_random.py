"""Random numbers on a device: those of the stream, bit for bit."""

import numpy as np
import pytest
import torch

import rankwise as rw
from tests.objectives.torch.kernels.devices import DEVICE, Lists

from rankwise.objectives.torch.kernels.random import DeviceStream, document_uniforms  # isort: skip
import triton  # isort: skip
import triton.language as tl  # isort: skip


@triton.jit
def fill(offsets, key, words, draw, out, block: tl.constexpr):
    query = tl.program_id(0)
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    documents = tl.arange(0, block)
    numbers = document_uniforms(
        tl.load(key), tl.load(key + 1), tl.load(words + query), documents, tl.zeros_like(documents) + draw
    )
    tl.store(out + first + documents, numbers, mask=documents < size)


@pytest.mark.parametrize("ids", [None, np.arange(4) - 2**62, ["a", "b", "c", "d"]])
def test_bit_for_bit(ids):
    lists = Lists([1, 2, 7, 100])
    stream = rw.Stream(2**40 + 3, 7, ids).child("noise", 2)
    device_stream = DeviceStream(stream, lists.on_device())
    for draw in (0, 1, 1000):
        found = torch.empty(int(lists.offsets[-1]), dtype=torch.float64, device=DEVICE)
        fill[(lists.n_queries,)](
            lists.on_device().offsets, device_stream.key(), device_stream.queries, draw, found, block=128
        )
        np.testing.assert_array_equal(found.cpu(), stream.documents(lists.offsets, draw))


def test_keys():
    stream = rw.Stream(3)
    device_stream = DeviceStream(stream, Lists([1, 2]).on_device())
    keys = device_stream.keys("sample", 3).cpu()
    assert int(keys[2].numpy().view(np.uint64)[0]) == int(stream.child("sample", 2).key)
    assert torch.equal(device_stream.children("place", "sample")[1].cpu(), keys[0])
