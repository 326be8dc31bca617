"""Tokens are those of the encoder's own preprocessing, whichever way they are made."""

from typing import Any

import pytest
import torch

from rankwise.wings.rerank import scoring
from tests.wings.rerank.texts import RandomLists


@pytest.fixture
def pairs():
    return RandomLists((40, 1, 39), longest=80).pairs  # the model has 64 places


def same(found, expected):
    assert list(found) == list(expected)
    for name, value in expected.items():
        assert torch.equal(found[name], value) if isinstance(value, torch.Tensor) else found[name] == value


@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_in_numpy_equals_the_tokenizers(cross_encoder, pairs, side):
    cross_encoder.tokenizer.padding_side = side
    quick: Any = scoring._padded_in_numpy(cross_encoder, pairs)
    assert quick is not None
    assert quick["input_ids"].shape[1] == 64
    same(quick, cross_encoder.preprocess(pairs))
    same(scoring.features_of(cross_encoder, pairs), quick)


def test_a_wrapper_with_the_bound_method_alone_suffices(cross_encoder, pairs):
    wrapper: Any = torch.nn.Linear(1, 1)
    wrapper.preprocess = cross_encoder.preprocess
    assert scoring._padded_in_numpy(wrapper, pairs) is not None


def test_prompts_and_few_pairs_are_left_to_the_encoder(cross_encoder, pairs, monkeypatch):
    monkeypatch.setattr(scoring, "_padded_in_numpy", lambda *_: pytest.fail("not to be asked"))
    same(scoring.features_of(cross_encoder, pairs[:5]), cross_encoder.preprocess(pairs[:5]))
    prompted = scoring.features_of(cross_encoder, pairs, prompt="which ")
    same(prompted, cross_encoder.preprocess(pairs, prompt="which "))


@pytest.mark.parametrize("change", ["texts", "features", "length"])
def test_a_preprocessing_that_does_more_is_used_for_all_pairs(cross_encoder, pairs, monkeypatch, change):
    plain = type(cross_encoder).preprocess

    def other(self, inputs, **settings):
        if change == "texts":
            inputs = [(query, f"{document} yes") for query, document in inputs]
        features = plain(self, inputs, **settings)
        if change == "features":
            features["position_ids"] = torch.zeros_like(features["input_ids"])
        if change == "length":
            features = {name: value[:, :50] if hasattr(value, "shape") else value for name, value in features.items()}
        return features

    monkeypatch.setattr(type(cross_encoder), "preprocess", other)
    assert scoring._padded_in_numpy(cross_encoder, pairs) is None
    same(scoring.features_of(cross_encoder, pairs), cross_encoder.preprocess(pairs))


def test_inputs_that_are_not_text_are_left_to_the_encoder(cross_encoder, pairs):
    others: Any = [*pairs, ("a", ["b"])]
    assert scoring._padded_in_numpy(cross_encoder, others) is None
