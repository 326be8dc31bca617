"""A BERT and its WordPiece tokenizer, made on the spot: random weights, a few words, nothing downloaded.

``save(folder)`` writes both as a Hugging Face folder, which ``CrossEncoder(str(folder))`` and ``AutoModel`` load.
"""

from pathlib import Path

import torch
from sentence_transformers import CrossEncoder
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
TEXT = (
    "a about all and any are at bank bear berlin big blue book by capital cat city cold country day do dog fast film "
    "fish food for from good great green happy has have house how in is it kind large like long many map new no not of "
    "old on one paris people quick red river road sea short slow small sun the time to town tree two warm what when "
    "where which who with yes"
)
WORDS = tuple(TEXT.split())


def tokenizer(words: tuple[str, ...] = WORDS, max_length: int = 64) -> PreTrainedTokenizerFast:
    """WordPiece over ``words`` and single letters, so that no text is unknown; pairs as BERT has them."""
    letters = "abcdefghijklmnopqrstuvwxyz0123456789"
    pieces = dict.fromkeys((*SPECIAL, *words, *letters, *(f"##{letter}" for letter in letters), ".", ",", "?", "!"))
    backend = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token=SPECIAL[1]))
    backend.normalizer = normalizers.BertNormalizer()
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", backend.token_to_id("[CLS]")), ("[SEP]", backend.token_to_id("[SEP]"))],
    )
    names = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), SPECIAL, strict=True))
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, model_max_length=max_length, model_input_names=inputs, **names
    )


def bert(vocabulary: int, *, dropout: float = 0.1, seed: int = 0, **settings: int) -> BertForSequenceClassification:
    """A BERT of one output with random weights, which ``seed`` decides."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    config = BertConfig(
        vocab_size=vocabulary,
        max_position_embeddings=64,
        num_labels=1,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        # Weights of the usual 0.02 would score all pairs alike at this size.
        initializer_range=0.2,
        **{**sizes, **settings},
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return BertForSequenceClassification(config)


def save(folder: Path, *, dropout: float = 0.1, seed: int = 0, **settings: int) -> Path:
    """Write the tiny model and its tokenizer into ``folder``."""
    words = tokenizer()
    bert(len(words), dropout=dropout, seed=seed, **settings).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def cross_encoder(folder: Path) -> CrossEncoder:
    """The model of ``folder`` on the CPU."""
    return CrossEncoder(str(folder), device="cpu", local_files_only=True)
