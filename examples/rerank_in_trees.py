"""Two stages: a cross-encoder reads the texts, and trees rank by its score and by features, without a leak.

python examples/rerank_in_trees.py

Scores of documents that the cross-encoder was trained on are better than those of new ones, and trees that learned from
them would trust it too much. So the scores to train on are cross-fitted: those of a query come from a reranker that has
not seen it. The shop is made up here, and so is the model, a tiny BERT with random weights; name your own, such as
"cross-encoder/ms-marco-MiniLM-L6-v2", and read your lists with rw.rerank.read("lists.jsonl").
"""

import tempfile

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast, logging, set_seed

import rankwise as rw

KINDS = {
    "shoe": "boot sneaker sandal",
    "hat": "cap bonnet beret",
    "coat": "jacket parka cape",
    "bag": "purse pouch tote",
}
WORDS = [word for kind, others in KINDS.items() for word in (kind, *others.split())]
SPECIAL = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
logging.set_verbosity_error()
logging.disable_progress_bar()


def shop(n_queries, seed=0):
    """A query asks for a kind of thing; what sells is of that kind (text), and of those what is cheap (features)."""
    numbers = np.random.default_rng(seed)
    kinds = list(KINDS)
    queries, documents, labels, offsets = [], [], [], [0]
    for _ in range(n_queries):
        asked = numbers.integers(len(kinds))
        size = numbers.integers(5, 12)
        of_kind = np.where(numbers.random(size) < 0.4, asked, numbers.integers(len(kinds), size=size))
        offsets.append(offsets[-1] + size)
        queries.append(f"{kinds[asked]} {numbers.choice(KINDS[kinds[asked]].split())}")
        documents += [" ".join(numbers.choice(KINDS[kinds[kind]].split(), size=3)) for kind in of_kind]
        labels.append(of_kind == asked)
    fits = np.concatenate(labels)
    price, stars = numbers.random((2, fits.size))
    sales = np.digitize(fits * (1.2 - price) + 0.1 * numbers.standard_normal(fits.size), (0.3, 0.6, 0.9))
    features = np.column_stack([price, stars])
    return rw.rerank.Lists(queries, documents, sales, offsets, features=features, feature_names=["price", "stars"])


def tiny_model(folder):
    """Write a BERT with random weights as a Hugging Face folder."""
    words = {word: number for number, word in enumerate((*SPECIAL.values(), *WORDS))}
    backend = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    marks = [(name, words[name]) for name in ("[CLS]", "[SEP]")]
    backend.post_processor = processors.TemplateProcessing(pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=marks)
    PreTrainedTokenizerFast(tokenizer_object=backend, model_max_length=16, **SPECIAL).save_pretrained(folder)
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(words), max_position_embeddings=16, num_labels=1, initializer_range=0.1, **sizes)
    set_seed(0)
    BertForSequenceClassification(config).save_pretrained(folder)
    return folder


def cross_fitted(lists, fit, folds=3):
    """Scores of each query by a reranker that was neither trained nor stopped on it; and the rerankers."""
    scores, rerankers = np.full(lists.n_docs, np.nan), []
    for train, valid, held_out in rw.folds(lists, folds):
        rerankers.append(fit(train, valid))
        scores[np.isin(lists.data.qids(), held_out.data.qids())] = rerankers[-1].predict(held_out)
    return scores, rerankers


def with_score(lists, scores):
    """The ranking data of lists, with the score of the texts as one more feature."""
    data = lists.data
    return data.with_(features=np.column_stack([data.features, scores]), feature_names=[*data.feature_names, "text"])


def main():
    train, test = rw.split(shop(300), (0.6, 0.4), seed=0)
    with tempfile.TemporaryDirectory() as folder:
        model = tiny_model(folder)

        def fit(lists, valid):
            settings = {"epochs": 6, "learning_rate": 5e-3, "batch_queries": 8, "parts": 1, "device": "cpu"}
            return rw.rerank.Reranker(model, "softmax_ce", threads=1, progress=False, **settings).fit(lists, valid)

        text, rerankers = cross_fitted(train, fit)

    # New queries were seen by none of them: the mean of all is the best guess, and on the scale that trees know.
    text_of_test = np.mean([reranker.predict(test) for reranker in rerankers], axis=0)
    trees = rw.LightGBMRanker("lambdarank", rounds=100, leaves=7, seed=0, threads=1)
    scores = {"text alone": text_of_test}
    scores["features alone"] = trees.fit(*rw.split(train.data, (0.8, 0.2))).predict(test.data)
    scores["features and text"] = trees.fit(*rw.split(with_score(train, text), (0.8, 0.2))).predict(
        with_score(test, text_of_test)
    )
    print(rw.compare(scores, test.data, ["ndcg@10"]))


if __name__ == "__main__":
    main()
