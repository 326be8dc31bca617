"""What the tests of rerankers share: one tiny model on disk, and a fresh one in memory.

Tests of texts alone do without torch, so that it is imported by the fixtures only.
"""

import os

import pytest

# Nothing is downloaded, and nobody waits for what is not there; huggingface_hub reads this when it is imported.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """A Hugging Face folder with a random BERT (dropout 0.1) and its WordPiece tokenizer; not to be written to."""
    from tests.rerank import tiny

    return tiny.save(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def cross_encoder(tiny_folder):
    """A fresh ``CrossEncoder`` with the weights of ``tiny_folder``."""
    from tests.rerank import tiny

    return tiny.cross_encoder(tiny_folder)
