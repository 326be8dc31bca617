"""Mini-batches hold every pair once, keep to their size, and pad little; the next is prefetched."""

import threading

import numpy as np
import pytest
import torch

from rankwise.base.threads import thread_count, use_threads
from rankwise.wings.rerank.batches import TOKEN_BUDGET, MiniBatchSize, mini_batches, prefetch
from tests.refusals import refusal, refuses


@pytest.mark.parametrize("settings", [{}, {"token_budget": 100}, {"token_budget": 1}, {"mini_batch_size": 7}])
def test_every_pair_is_in_one_mini_batch_and_each_keeps_to_its_size(settings):
    lengths = np.random.default_rng(0).integers(1, 60, 97)
    size = MiniBatchSize(**settings)
    batches = size.split(lengths)
    assert sorted(np.concatenate(batches).tolist()) == list(range(97))
    for rows in batches:
        if size.mini_batch_size:
            assert rows.size <= size.mini_batch_size
        else:  # a pair beyond the budget is scored alone
            assert rows.size == 1 or rows.size * lengths[rows].max() <= size.token_budget
    assert (np.diff(lengths[np.concatenate(batches)]) <= 0).all()  # the longest first


def test_a_size_is_set_once_and_has_a_default():
    assert MiniBatchSize().token_budget == TOKEN_BUDGET
    refuses(lambda: MiniBatchSize(5, 6), what="a mini-batch has one size", got="token_budget=5 and mini_batch_size=6")
    for settings in ({"token_budget": 0}, {"mini_batch_size": -1}, {"mini_batch_size": 1.5}):
        with refusal(what="…whole number of at least 1"):
            MiniBatchSize(**settings)


@pytest.mark.parametrize("side", ["left", "right"])
def test_mini_batches_of_features_have_no_column_that_only_pads(side):
    lengths = np.array([2, 5, 1, 3])
    columns = np.arange(6)
    mask = columns < lengths[:, None] if side == "right" else columns >= 6 - lengths[:, None]
    ids = torch.arange(24).reshape(4, 6)
    features = {"input_ids": ids, "attention_mask": torch.from_numpy(mask).long(), "modality": "text"}
    batches = mini_batches(features, 4, MiniBatchSize(mini_batch_size=2))
    first, second = batches
    assert first["modality"] == "text"
    assert first["input_ids"].shape == (2, 5)
    assert second["input_ids"].shape == (2, 2)
    rows = (slice(0, 5), slice(0, 2)) if side == "right" else (slice(1, 6), slice(4, 6))
    torch.testing.assert_close(first["input_ids"], ids[[1, 3], rows[0]])
    torch.testing.assert_close(second["input_ids"], ids[[0, 2], rows[1]])
    first["input_ids"].zero_()  # models may write into what they are given
    assert batches[0]["input_ids"].any()
    assert batches.unsorted(torch.tensor([1.0, 3.0, 0.0, 2.0])).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_items_of_any_kind_are_cut_by_their_lengths_or_by_count():
    batches = mini_batches(["aa", "b", "cccc"], 3, MiniBatchSize(token_budget=4), lengths=[2, 1, 4])
    assert list(batches) == [["cccc"], ["aa", "b"]]
    assert list(mini_batches("abc", 3, MiniBatchSize(mini_batch_size=2))) == [["a", "b"], ["c"]]
    with refusal(what="a budget of tokens needs the tokens of each pair", hint="…lengths=…"):
        mini_batches(["a"], 1, MiniBatchSize())
    with refusal(what="there must be one input for each document", got="2 for 3…"):
        mini_batches(["a", "b"], 3, MiniBatchSize(mini_batch_size=2))
    with refusal(what="inputs must have one row for each document"):
        mini_batches({"input_ids": torch.zeros(1, 9)}, 3, MiniBatchSize())


def test_the_next_value_is_computed_while_one_is_used():
    second = threading.Event()

    def compute(number):
        if number == 1:
            second.set()
        return number, threading.current_thread() is threading.main_thread()

    for number, in_main in prefetch(compute, range(3)):
        assert second.wait(60)  # before the first is done with
        assert not in_main
        last = number
    assert last == 2


def test_prefetching_keeps_the_number_of_threads():
    with use_threads(3):
        assert list(prefetch(lambda _: thread_count(), range(2))) == [3, 3]


def test_an_error_is_raised_in_place_of_its_value():
    def compute(number):
        if number == 1:
            raise ValueError("broken")
        return number

    prefetched = prefetch(compute, range(3))
    assert next(prefetched) == 0
    with pytest.raises(ValueError, match="broken"):
        next(prefetched)


def test_without_keys_nothing_is_prefetched():
    assert list(prefetch(str, [])) == []
