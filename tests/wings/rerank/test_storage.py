"""Rerankers on disk: a folder is read back, and saving never loses a file of others."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rankwise as rw
from rankwise.models import storage
from tests.processes import environment
from tests.refusals import refusal, refuses

# The model of these tests stops on the lists that it learns from.
pytestmark = pytest.mark.filterwarnings("ignore:.* of training queries")


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
    """Slow: another process imports torch and transformers."""
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
    refuses(lambda: trained.save(saved), FileExistsError, what="…exists already and is kept")
    (saved / "notes.txt").write_text("mine")
    before = (saved / "model.safetensors").read_bytes()
    trained.save(saved, force=True)
    assert (saved / "notes.txt").read_text() == "mine"
    assert (saved / "model.safetensors").read_bytes() == before
    rw.rerank.Reranker.load(saved, device="cpu")
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("mine")
    refuses(lambda: trained.save(other, force=True), FileExistsError, what="…not a model of rankwise and is kept")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "saved"]


NO_NAMES = {"format": 1, "files": {}, "contents": [1]}
FORGED = json.dumps({**NO_NAMES, "checksum": storage._checksum(NO_NAMES)})


@pytest.mark.parametrize("content", ["{}", "not JSON", '{"format": 1, "checksum": "0"}', FORGED])
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


@pytest.mark.filterwarnings("ignore:.*README.md was edited and is kept")
def test_a_ranker_in_the_place_of_a_reranker_leaves_its_own_files_and_those_of_others(saved, tmp_path):
    (saved / "notes.txt").write_text("mine")
    (tmp_path / "thesis.tex").write_text("mine")
    forged = json.loads((saved / "rankwise.json").read_text())
    forged["contents"] |= dict.fromkeys(("../thesis.tex", "a\0b/c", ""), forged["contents"]["config.json"])
    del forged["checksum"]
    (saved / "rankwise.json").write_text(json.dumps({**forged, "checksum": storage._checksum(forged)}))
    data = rw.synthetic(n_queries=9, n_docs=5, n_features=3, seed=0)
    trees = rw.LightGBMRanker(rounds=2, threads=1).fit(data)
    trees.save(saved, force=True)
    np.testing.assert_array_equal(rw.load(saved).predict(data), trees.predict(data))
    written = {entry["name"] for entry in json.loads((saved / "rankwise.json").read_text())["files"].values()}
    assert {path.name for path in saved.iterdir()} == {"rankwise.json", "README.md", "notes.txt", *written}
    assert (tmp_path / "thesis.tex").read_text() == "mine"


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
    refuses(lambda: rw.rerank.Reranker(tiny_folder).save(tmp_path / "model"), what="this Reranker is not trained yet")


def test_a_damaged_folder_is_rejected(saved):
    weights = saved / "model.safetensors"
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    with refusal(what="the model is damaged", got="model.safetensors is missing, or has other…"):
        rw.rerank.Reranker.load(saved)


def test_models_of_other_kinds_are_rejected(saved, tmp_path, tiny_folder):
    with refusal(what="the folder holds a reranker, which scores texts", hint="…rw.rerank.Reranker.load…"):
        rw.load(saved)
    data = rw.synthetic(n_queries=9, n_docs=5, n_features=3, seed=0)
    trees = rw.LightGBMRanker(rounds=2, threads=1).fit(data).save(tmp_path / "trees")
    with refusal(what="the folder holds a model of another kind", got="'lightgbm'", hint="…rw.load"):
        rw.rerank.Reranker.load(trees)
    refuses(lambda: rw.rerank.Reranker.load(tiny_folder), what="not a model of rankwise")
    with pytest.raises(FileNotFoundError, match="there is no model"):
        rw.rerank.Reranker.load(tmp_path / "nowhere")
