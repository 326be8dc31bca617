"""Fixtures of rerankers: a tiny model on disk, a fresh one in memory, and one that is trained and saved.

Tests of texts alone do without torch, so that it is imported by the fixtures only.
"""

import os
from typing import Any

import pytest

import rankwise as rw

# Nothing is downloaded; huggingface_hub reads this when it is imported.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """A Hugging Face folder with a random BERT (dropout 0.1) and its WordPiece tokenizer; not to be written to."""
    from tests.wings.rerank import tiny

    return tiny.save(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def cross_encoder(tiny_folder):
    """A fresh ``CrossEncoder`` with the weights of ``tiny_folder``."""
    from tests.wings.rerank import tiny

    return tiny.cross_encoder(tiny_folder)


@pytest.fixture(scope="session")
def lists():
    """Lists of graded texts."""
    from tests.wings.rerank import graded

    return graded.lists(12)


@pytest.fixture(scope="session")
def trained(tiny_folder, lists):
    """A reranker that is trained, and stopped, on the same lists."""
    settings: Any = {"learning_rate": 1e-3, "batch_queries": 4, "threads": 1, "device": "cpu"}
    return rw.rerank.Reranker(tiny_folder, "xendcg", **settings).fit(lists, lists)


@pytest.fixture
def saved(trained, tmp_path):
    """The folder of that reranker."""
    return trained.save(tmp_path / "saved")
