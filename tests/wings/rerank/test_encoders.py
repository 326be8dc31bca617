"""Models of others: no code of theirs is run, and no configuration fills the memory."""

import hashlib
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.models import storage
from rankwise.wings.rerank import encoders
from tests.refusals import refusal, refuses
from tests.wings.rerank import tiny

# The model of these tests stops on the lists that it learns from.
pytestmark = pytest.mark.filterwarnings("ignore:.* of training queries")


def forge(folder: Path, name: str, **changes: object) -> None:
    """Change settings in a file of a model, and make all checksums right."""
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    about = json.loads((folder / "rankwise.json").read_text())
    about["contents"][name] = {
        "bytes": path.stat().st_size,
        "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
    }
    del about["checksum"]
    (folder / "rankwise.json").write_text(json.dumps({**about, "checksum": storage._checksum(about)}))


@pytest.mark.parametrize(
    ("setting", "number"),
    [
        ("num_hidden_layers", 10**9),  # lists of layers without end
        ("num_hidden_layers", 900),  # far more than there are weights of
        ("num_labels", 10**9),
        ("num_attention_heads", 10**9),
        ("hidden_size", 10**9),  # one layer that fills the memory
        ("intermediate_size", 10**8),
        ("vocab_size", 10**11),
        ("max_position_embeddings", 10**10),
        ("type_vocab_size", 10**9),
    ],
)
def test_configurations_larger_than_the_weights_are_rejected_before_anything_is_built(saved, setting, number):
    forge(saved, "config.json", **{setting: number})
    with refusal(what="the model file is damaged or forged", got="…41…"):
        rw.rerank.Reranker.load(saved, device="cpu")


def test_configurations_of_real_models_are_accepted(saved, tmp_path):
    """Large numbers that size nothing, a model without a head, and weights that are tied to others."""
    forge(saved, "config.json", rope_theta=10**10, max_window_layers=1_000, block_size=4_096, pad_token_id=0)
    rw.rerank.Reranker.load(saved, device="cpu")
    from transformers import BertConfig, BertLMHeadModel, BertModel

    words = tiny.tokenizer()
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = BertConfig(vocab_size=len(words), max_position_embeddings=64, is_decoder=True, **shape)
    for number, kind in enumerate((BertModel, BertLMHeadModel)):
        kind(config).save_pretrained(tmp_path / str(number))
        words.save_pretrained(tmp_path / str(number))
        assert rw.rerank.Reranker(tmp_path / str(number), device="cpu").encoder.num_labels == 1


class Payload:
    def __reduce__(self):
        return print, ("run",)


def pickled(folder):
    (folder / "model.safetensors").unlink()
    (folder / "pytorch_model.bin").write_bytes(pickle.dumps(Payload()))


def changed(file, **changes):
    def change(folder):
        content = json.loads((folder / file).read_text())
        (content[0] if isinstance(content, list) else content).update(changes)
        (folder / file).write_text(json.dumps(content))

    return change


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        (pickled, {"what": "weights must be safetensors, since pickles can run anything", "got": "pytorch_model.bin"}),
        (
            changed("config.json", auto_map={"AutoModel": "code.Model"}),
            {"what": "the model brings code of its own, which is not run", "got": "auto_map…"},
        ),
        (
            changed("tokenizer_config.json", auto_map={"AutoTokenizer": ["code.T", None]}),
            {"what": "the model brings code of its own, which is not run"},
        ),
        (changed("modules.json", type="os.path.join"), {"what": "…brings code of its own,…", "got": "type…"}),
        (
            changed("modules.json", type="sentence_transformers.util.misc.import_from_string"),
            {"what": "the model brings code of its own, which is not run"},
        ),
        (changed("config_sentence_transformers.json", activation_fn="torch.hub.help"), {"got": "activation_fn…"}),
    ],
)
def test_nothing_in_a_folder_is_run(change, fields, saved, capsys):
    change(saved)
    for base in (saved, str(saved)):
        with refusal(**fields):
            rw.rerank.Reranker(base).predict([("a", "b")])
    refuses(lambda: rw.rerank.Reranker.load(saved), what="the model is damaged")
    assert "run" not in capsys.readouterr().out


def test_pickles_beside_safetensors_are_not_read(saved, trained, lists, capsys):
    (saved / "pytorch_model.bin").write_bytes(pickle.dumps(Payload()))
    (saved / "training_args.bin").write_bytes(pickle.dumps(Payload()))
    np.testing.assert_array_equal(rw.rerank.Reranker.load(saved, device="cpu").predict(lists), trained.predict(lists))
    assert "run" not in capsys.readouterr().out


def test_a_model_without_a_head_is_trained_first(tmp_path, lists):
    words = tiny.tokenizer()
    tiny.bert(len(words)).bert.save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    settings: Any = {"learning_rate": 1e-3, "threads": 1, "device": "cpu"}
    model = rw.rerank.Reranker(tmp_path, **settings)
    refuses(lambda: model.predict(lists), what="this Reranker is not trained yet, and its model has no head for scores")
    scores = model.fit(lists).predict(lists)
    np.testing.assert_array_equal(rw.rerank.Reranker(tmp_path, **settings).fit(lists).predict(lists), scores)
    assert np.ptp(rw.rerank.Reranker(tmp_path, seed=1, **settings).fit(lists).predict(lists) - scores) > 1e-3


def test_a_model_of_several_labels_is_rejected(tmp_path):
    words = tiny.tokenizer()
    config = tiny.bert(len(words)).config
    config.num_labels = 3
    type(tiny.bert(len(words)))(config).save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    with refusal(what="a reranker gives one score for a pair", got="a model of 3 labels"):
        rw.rerank.Reranker(tmp_path).predict([("a", "b")])


def test_models_of_the_hub_are_fetched_without_pickles(tiny_folder, monkeypatch, lists, tmp_path):
    import huggingface_hub

    asked = []

    def download(name, allow_patterns):
        asked.append((name, allow_patterns))
        return str(tiny_folder)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", download)
    model = rw.rerank.Reranker("someone/model", learning_rate=1e-3, threads=1, device="cpu").fit(lists.take([0, 1]))
    assert asked[0] == ("someone/model", list(encoders.DOWNLOADED))
    assert not any(pattern.endswith(("bin", "py")) for pattern in asked[0][1])
    assert "base_model: someone/model" in (model.save(tmp_path / "model") / "README.md").read_text()
    assert rw.rerank.Reranker.load(tmp_path / "model").base_model_ == "someone/model"


def test_a_missing_model_is_an_error_with_its_name(tmp_path, monkeypatch):
    import huggingface_hub

    def offline(name, allow_patterns):
        raise OSError("no network")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", offline)
    with refusal(what="…no such model could be had from the Hugging Face Hub", got="'someone/model'…"):
        rw.rerank.Reranker("someone/model").predict([("a", "b")])
    for missing in (tmp_path / "no", str(tmp_path / "no"), "./no"):
        with pytest.raises(FileNotFoundError, match="there is no model"):
            rw.rerank.Reranker(missing).predict([("a", "b")])
    with refusal(what="not the folder of a model", got="no config.json"):
        rw.rerank.Reranker(tmp_path).predict([("a", "b")])
