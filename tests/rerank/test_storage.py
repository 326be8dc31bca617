"""Rerankers on disk: what is written is read back, nothing in a folder is run, and nothing is lost."""

import hashlib
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.rankers import storage
from rankwise.rerank import encoders
from tests.processes import environment
from tests.rerank import graded, tiny

# The model of these tests stops on the lists that it learns from.
pytestmark = pytest.mark.filterwarnings("ignore:.* of training queries")


@pytest.fixture(scope="module")
def lists():
    return graded.lists(12)


@pytest.fixture(scope="module")
def trained(tiny_folder, lists):
    settings: Any = {"learning_rate": 1e-3, "batch_queries": 4, "threads": 1, "device": "cpu"}
    return rw.rerank.Reranker(tiny_folder, "xendcg", **settings).fit(lists, lists)


@pytest.fixture
def saved(trained, tmp_path):
    return trained.save(tmp_path / "saved")


def test_a_folder_is_read_back(trained, saved, lists, tmp_path):
    loaded = rw.rerank.Reranker.load(saved, device="cpu")
    np.testing.assert_array_equal(loaded.predict(lists), trained.predict(lists))
    for name in ("history_", "best_round_", "stopped_", "epochs_", "evaluations_", "trained_on_", "objective"):
        assert getattr(loaded, name) == getattr(trained, name), name
    assert loaded.learning_rate == trained.learning_rate
    assert loaded.metrics == trained.metrics
    again = loaded.save(tmp_path / "again")
    assert (again / "model.safetensors").read_bytes() == (saved / "model.safetensors").read_bytes()
    assert (again / "README.md").read_text().replace("again", "saved") == (saved / "README.md").read_text()


def test_sentence_transformers_opens_it_and_scores_alike_in_another_process(trained, saved, lists):
    pairs = list(lists.pairs())[:5]
    code = (
        "import json, sys\n"
        "from sentence_transformers import CrossEncoder\n"
        "model = CrossEncoder(sys.argv[1], device='cpu', local_files_only=True)\n"
        "print(json.dumps(model.predict(json.loads(sys.argv[2])).tolist()))"
    )
    words = [sys.executable, "-c", code, str(saved), json.dumps(pairs)]
    done = subprocess.run(words, env=environment(HF_HUB_OFFLINE="1"), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(json.loads(done.stdout), trained.predict(pairs), atol=1e-5)


def test_a_loaded_model_is_trained_further(saved, lists):
    loaded = rw.rerank.Reranker.load(saved, device="cpu")
    before = loaded.predict(lists)
    loaded.fit(lists)
    assert (loaded.predict(lists) != before).any()


def test_a_folder_is_replaced_with_force_only_and_files_of_others_are_kept(trained, saved, tmp_path):
    with pytest.raises(FileExistsError, match="exists already and is kept"):
        trained.save(saved)
    (saved / "notes.txt").write_text("mine")
    before = (saved / "model.safetensors").read_bytes()
    trained.save(saved, force=True)
    assert (saved / "notes.txt").read_text() == "mine"
    assert (saved / "model.safetensors").read_bytes() == before
    rw.rerank.Reranker.load(saved, device="cpu")
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("mine")
    with pytest.raises(FileExistsError, match="not a model of rankwise and is kept"):
        trained.save(other, force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "saved"]


@pytest.mark.parametrize("content", ["{}", "not JSON", '{"format": 1, "checksum": "0"}'])
def test_a_damaged_description_deletes_nothing(trained, saved, content):
    (saved / "notes").mkdir()
    (saved / "notes" / "thesis.tex").write_text("mine")
    (saved / "rankwise.json").write_text(content)
    with pytest.warns(RuntimeWarning, match=r"kept in .*\.old-.*rankwise\.json is damaged"):
        trained.save(saved, force=True)
    rw.rerank.Reranker.load(saved, device="cpu")
    (aside,) = (path for path in saved.parent.iterdir() if path != saved)
    assert (aside / "notes" / "thesis.tex").read_text() == "mine"
    assert (aside / "rankwise.json").read_text() == content
    assert (aside / "model.safetensors").is_file()


def test_files_of_others_move_or_stay_aside(trained, saved):
    (saved / "runs" / "first").mkdir(parents=True)
    (saved / "runs" / "first" / "log.txt").write_text("mine")
    (saved / "latest").symlink_to("runs")
    listed = json.loads((saved / "rankwise.json").read_text())
    del listed["contents"]["README.md"], listed["checksum"]  # as if somebody had added a file that we now write, too
    (saved / "rankwise.json").write_text(json.dumps({**listed, "checksum": storage._checksum(listed)}))
    (saved / "README.md").write_text("mine")
    with pytest.warns(RuntimeWarning, match=r"kept in .*\.old-.*could not be moved"):
        trained.save(saved, force=True)
    assert (saved / "runs" / "first" / "log.txt").read_text() == "mine"
    assert (saved / "latest").is_symlink()
    rw.rerank.Reranker.load(saved, device="cpu")
    (aside,) = (path for path in saved.parent.iterdir() if path != saved)
    assert [path.name for path in aside.iterdir()] == ["README.md"]
    assert (aside / "README.md").read_text() == "mine"


def test_a_folder_that_cannot_be_written_leaves_the_old_one(trained, saved, monkeypatch, lists):
    def fails(*_, **__):
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(trained.encoder, "save_pretrained", fails)
    with pytest.raises(OSError, match="[Nn]o space left"):
        trained.save(saved, force=True)
    assert [path.name for path in saved.parent.iterdir()] == ["saved"]
    rw.rerank.Reranker.load(saved, device="cpu")


def test_an_interruption_while_folders_change_places_leaves_the_old_one(trained, saved, monkeypatch):
    before = (saved / "rankwise.json").read_bytes()
    rename = Path.rename

    def press(self, target):
        if self.name.endswith(".part"):
            raise KeyboardInterrupt
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", press)
    with pytest.raises(KeyboardInterrupt):
        trained.save(saved, force=True)
    assert [path.name for path in saved.parent.iterdir()] == ["saved"]
    assert (saved / "rankwise.json").read_bytes() == before


def test_a_model_that_was_not_trained_is_not_saved(tiny_folder, tmp_path):
    with pytest.raises(ValueError, match="not trained yet"):
        rw.rerank.Reranker(tiny_folder).save(tmp_path / "model")


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
    with pytest.raises(ValueError, match=r"the model file is damaged or forged: got .* (weights of|weights have) 41"):
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


def test_a_damaged_folder_is_rejected(saved):
    weights = saved / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with pytest.raises(ValueError, match=r"the model is damaged: got model\.safetensors is missing, or has other"):
        rw.rerank.Reranker.load(saved)


def test_models_of_other_kinds_are_rejected(saved, tmp_path, tiny_folder):
    with pytest.raises(ValueError, match=r"holds a reranker.*rw\.rerank\.Reranker\.load"):
        rw.load(saved)
    data = rw.synthetic(n_queries=9, n_docs=5, n_features=3, seed=0)
    trees = rw.LightGBMRanker(rounds=2, threads=1).fit(data).save(tmp_path / "trees")
    with pytest.raises(ValueError, match=r"a model of another kind: got 'lightgbm'.*rw\.load"):
        rw.rerank.Reranker.load(trees)
    with pytest.raises(ValueError, match="not a model of rankwise"):
        rw.rerank.Reranker.load(tiny_folder)
    with pytest.raises(FileNotFoundError, match="there is no model"):
        rw.rerank.Reranker.load(tmp_path / "nowhere")


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
    ("change", "message"),
    [
        (pickled, r"weights must be safetensors, since pickles can run anything: got pytorch_model\.bin"),
        (changed("config.json", auto_map={"AutoModel": "code.Model"}), "brings code of its own, .*got auto_map"),
        (changed("tokenizer_config.json", auto_map={"AutoTokenizer": ["code.T", None]}), "brings code of its own"),
        (changed("modules.json", type="os.path.join"), "brings code of its own, .*got type"),
        (changed("modules.json", type="sentence_transformers.util.misc.import_from_string"), "brings code of its own"),
        (changed("config_sentence_transformers.json", activation_fn="torch.hub.help"), "got activation_fn"),
    ],
)
def test_nothing_in_a_folder_is_run(change, message, saved, capsys):
    change(saved)
    for base in (saved, str(saved)):
        with pytest.raises(ValueError, match=message):
            rw.rerank.Reranker(base).predict([("a", "b")])
    with pytest.raises(ValueError, match="damaged|weights must be|code of its own"):
        rw.rerank.Reranker.load(saved)
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
    with pytest.raises(ValueError, match="not trained yet, and its model has no head for scores"):
        model.predict(lists)
    scores = model.fit(lists).predict(lists)
    np.testing.assert_array_equal(rw.rerank.Reranker(tmp_path, **settings).fit(lists).predict(lists), scores)
    assert np.ptp(rw.rerank.Reranker(tmp_path, seed=1, **settings).fit(lists).predict(lists) - scores) > 1e-3


def test_a_model_of_several_labels_is_rejected(tmp_path):
    words = tiny.tokenizer()
    config = tiny.bert(len(words)).config
    config.num_labels = 3
    type(tiny.bert(len(words)))(config).save_pretrained(tmp_path)
    words.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match="one score for a pair: got a model of 3 labels"):
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
    with pytest.raises(ValueError, match="no such model could be had from the Hugging Face Hub: got 'someone/model'"):
        rw.rerank.Reranker("someone/model").predict([("a", "b")])
    for missing in (tmp_path / "no", str(tmp_path / "no"), "./no"):
        with pytest.raises(FileNotFoundError, match="there is no model"):
            rw.rerank.Reranker(missing).predict([("a", "b")])
    with pytest.raises(ValueError, match=r"not the folder of a model: got no config\.json"):
        rw.rerank.Reranker(tmp_path).predict([("a", "b")])
