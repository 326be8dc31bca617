"""Models on disk: the same scores in another process, clear errors, and nothing lost when something goes wrong."""

import errno
import json
import os
import signal
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import rankwise as rw
from rankwise.models import storage
from tests.processes import HANG
from tests.refusals import refusal, refuses

FILES = {"README.md", "model.txt", "rankwise.json", "training_queries.bin"}


@pytest.fixture(scope="module")
def data():
    return rw.synthetic(n_queries=30, n_features=8, n_docs=15, seed=2)


@pytest.fixture(scope="module")
def model(data):
    return rw.LightGBMRanker("stochastic(xendcg, samples=2)", rounds=6, leaves=5, min_documents=5, threads=1).fit(data)


@pytest.fixture
def saved(model, tmp_path):
    return model.save(tmp_path / "model")


def python(code, *arguments, check=True):
    command = [sys.executable, "-W", "error", "-c", code, *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=HANG)
    assert done.returncode == 0 or not check, done.stderr
    return done


def contents(folder):
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def test_what_a_model_says_about_itself_survives(model, data, saved):
    loaded = rw.load(saved)
    assert loaded.get_params() == model.get_params()
    assert loaded.history_ == model.history_
    assert (loaded.best_round_, loaded.stopped_) == (model.best_round_, model.stopped_)
    assert list(loaded.feature_names_in_) == list(data.feature_names)
    assert rw.load(saved / "rankwise.json").history_ == model.history_
    again: Any = rw.load(saved).fit(data)  # the parameters are those that train the same model again
    assert again.model_.content() == model.model_.content()
    about = json.loads((saved / "rankwise.json").read_text())
    assert about["objective"] == "stochastic(xendcg, samples=2)"
    assert about["versions"]["lightgbm"] == lgb.__version__
    assert about["versions"]["rankwise"] == rw.__version__


def test_the_native_file_opens_in_lightgbm_and_names_an_objective(model, data, saved):
    booster = lgb.Booster(model_file=saved / "model.txt")
    assert np.array_equal(booster.predict(data.features), model.predict(data))
    head = (saved / "model.txt").read_text().split("tree_sizes=")[0]
    assert head.splitlines().count("objective=lambdarank") == 1
    assert (
        "objective=rank_xendcg"
        in rw.LightGBMRanker("native:rank_xendcg", rounds=2, threads=1)
        .fit(data)
        .model_.content()
        .decode()
        .split("tree_sizes=")[0]
    )


def test_an_objective_of_ones_own_is_named_without_an_address(data, tmp_path):
    def own(scores, labels, offsets, stream=None):
        return rw.objective("listnet")(scores, labels, offsets)

    rw.LightGBMRanker(own, rounds=2, threads=1).fit(data).save(tmp_path / "own")
    loaded: Any = rw.load(tmp_path / "own")
    assert "own" in loaded.objective
    assert "0x" not in loaded.objective
    refuses(lambda: loaded.fit(data), what="this model was trained with an objective not known here")


def test_no_pickle_anywhere(saved):
    assert {path.name for path in saved.iterdir()} == FILES
    source = Path(storage.__file__).parent
    assert not [path for path in source.glob("*.py") if "import pickle" in path.read_text()]


# What cannot be read says why.


def damage(path, at=-20):
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_damaged_truncated_and_foreign_models_say_so(saved, tmp_path, data):
    whole = contents(saved)

    def restore():
        for name, content in whole.items():
            (saved / name).write_bytes(content)

    damage(saved / "model.txt")
    refuses(lambda: rw.load(saved), what="the model is damaged", got="model.txt has other contents than were written")
    restore()
    (saved / "model.txt").write_bytes(whole["model.txt"][:-100])
    refuses(lambda: rw.load(saved), what="the model is damaged", got="model.txt has …bytes and had…")
    restore()
    (saved / "model.txt").unlink()
    refuses(lambda: rw.load(saved), what="the model is damaged", got="model.txt is missing")
    restore()
    (saved / "rankwise.json").write_bytes(whole["rankwise.json"][:-100])
    refuses(lambda: rw.load(saved), what="the model is damaged", got="rankwise.json cannot be read")
    (saved / "rankwise.json").write_bytes(whole["rankwise.json"].replace(b'"seed": 0', b'"seed": 1'))
    refuses(lambda: rw.load(saved), what="the model is damaged", got="rankwise.json has other contents…")
    for text in (b"[1]", b"3", b"null", b"\xff\xfe"):
        (saved / "rankwise.json").write_bytes(text)
        refuses(lambda: rw.load(saved), got="rankwise.json cannot be read")
    later = whole["rankwise.json"].replace(b'"format": 1', b'"format": 99')
    (saved / "rankwise.json").write_bytes(later)
    what = f"the model was written by a later rankwise ({rw.__version__})"
    with refusal(what=what, got="format 99…", hint="update rankwise"):
        rw.load(saved)
    restore()
    refuses(lambda: rw.load(saved / "model.txt"), what="not a model of rankwise", got="a single file")
    (tmp_path / "empty").mkdir()
    refuses(lambda: rw.load(tmp_path / "empty"), what="not a model of rankwise", got="a folder without rankwise.json")
    with pytest.raises(FileNotFoundError, match="there is no model"):
        rw.load(tmp_path / "missing")
    rw.load(saved)


def says_the_same(path, whole):
    """Whether a text still means what it did: the 17th digit of a number may change nothing."""
    try:
        return json.loads(path.read_bytes()) == json.loads(whole)
    except ValueError:
        return False


def test_every_damaged_byte_is_found(saved):
    """One byte at a time, all over its files."""
    rng = np.random.default_rng(0)
    for name in ("model.txt", "training_queries.bin", "rankwise.json"):
        whole = (saved / name).read_bytes()
        for at in rng.integers(0, len(whole), 60):
            damage(saved / name, at)
            if name == "rankwise.json" and says_the_same(saved / name, whole):
                (saved / name).write_bytes(whole)
                continue
            refuses(lambda: rw.load(saved), what="the model is damaged")
            (saved / name).write_bytes(whole)


def forge(path, change):
    """Change a description and give it a right checksum."""
    about = json.loads((path / "rankwise.json").read_text())
    del about["checksum"]
    change(about)
    (path / "rankwise.json").write_text(json.dumps({**about, "checksum": storage._checksum(about)}))


def test_a_file_cannot_lead_out_of_its_folder(model, tmp_path):
    (tmp_path / "model.txt").write_bytes(model.model_.content())
    path = model.save(tmp_path / "model")
    forge(path, lambda about: about["files"]["model.txt"].update(name="../model.txt"))
    with refusal(what="the model is damaged", got="rankwise.json does not say which files there are", where="…model"):
        rw.load(path)


def test_an_unknown_ranker_is_named(model, tmp_path):
    description, files = model.saved()
    storage.write(tmp_path / "odd", description | {"ranker": "lightgmb"}, files)
    refuses(lambda: rw.load(tmp_path / "odd"), what="unknown ranker", got="'lightgmb'", hint="did you mean 'lightgbm'…")


def test_a_native_file_that_is_no_model_is_refused(model, tmp_path):
    storage.write(tmp_path / "odd", model.description(), {"model.txt": b"tree\nversion=v4\nnonsense"})
    refuses(lambda: rw.load(tmp_path / "odd"), got="a text that does not begin as a model of LightGBM")


# What is there is never damaged.


def test_saving_replaces_only_when_allowed(model, saved, tmp_path, data):
    before = contents(saved)
    refuses(lambda: model.save(saved), FileExistsError, what="…exists already and is kept")
    assert contents(saved) == before
    other = rw.LightGBMRanker("listnet", rounds=3, threads=1).fit(data)
    for one in (other, model, other):  # names in the folder alternate and old files go
        one.save(saved, force=True)
        assert np.array_equal(rw.load(saved).predict(data), one.predict(data))
        assert len(contents(saved)) == len(FILES)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "precious.txt").write_text("mine")
    with refusal(FileExistsError, what="…is not a model of rankwise and is kept"):
        model.save(tmp_path / "folder", force=True)
    assert contents(tmp_path / "folder") == {"precious.txt": b"mine"}
    refuses(lambda: model.save(tmp_path / "a" / "b"), FileNotFoundError, what="there is no folder…")
    refuses(lambda: rw.LightGBMRanker().save(tmp_path / "new"), what="this LightGBMRanker is not trained yet")


def failing(number, after):
    """An os.fsync that fails with ``number`` on its call ``after``."""
    calls = []
    real = os.fsync

    def fsync(handle):
        calls.append(handle)
        if len(calls) == after:
            raise OSError(number, os.strerror(number))
        real(handle)

    return fsync


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EIO])
@pytest.mark.parametrize("after", [1, 2])
def test_a_full_or_read_only_disk_leaves_what_was_there(number, after, model, saved, tmp_path, monkeypatch, data):
    before = contents(saved)
    other = rw.LightGBMRanker("listnet", rounds=2, threads=1).fit(data)
    monkeypatch.setattr(os, "fsync", failing(number, after))
    with pytest.raises(OSError, match="No space|Read-only|Input/output"):
        other.save(saved, force=True)
    monkeypatch.setattr(os, "fsync", failing(number, after))
    with pytest.raises(OSError, match="No space|Read-only|Input/output"):
        other.save(tmp_path / "new")
    monkeypatch.undo()
    assert contents(saved) == before
    assert {path.name for path in tmp_path.iterdir()} == {"model"}
    assert np.array_equal(rw.load(saved).predict(data), model.predict(data))


@pytest.mark.parametrize("step", ["mkdir", "rename", "replace", "open"])
def test_every_step_of_saving_may_fail(step, model, saved, tmp_path, monkeypatch, data):
    before = contents(saved)

    def fail(*arguments, **options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with monkeypatch.context() as patch:
        patch.setattr(Path, step, fail)
        if step in ("mkdir", "rename", "open"):
            with pytest.raises(OSError, match="Read-only"):
                model.save(tmp_path / "new")
        if step in ("replace", "open"):
            with pytest.raises(OSError, match="Read-only"):
                model.save(saved, force=True)
    assert contents(saved) == before
    assert {path.name for path in tmp_path.iterdir()} == {"model"}


def test_a_limit_on_the_size_of_files_leaves_what_was_there(model, saved, tmp_path, data):
    """A real write that fails half way, in a process of its own."""
    before = contents(saved)
    code = """
import resource, signal, sys, rankwise as rw
ranker = rw.load(sys.argv[1])
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
for path, force in ((sys.argv[1], True), (sys.argv[2], False)):
    try:
        ranker.save(path, force=force)
    except OSError as failed:
        print("refused:", failed.strerror)
"""
    said = python(code, saved, tmp_path / "new").stdout
    assert said.count("refused: File too large") == 2
    assert contents(saved) == before
    assert not (tmp_path / "new").exists()


LEFT = ("model-0123456789abcdef.txt", ".rankwise-0123456789abcdef.part")
MINE = (
    *("model-notes.txt", "thesis.part", "model.txt.bak", "model-2.txt", ".rankwise.json.abcd.part", "notes-2.md"),
    *("model-0123456789ABCDEF.txt", "model-0123456789abcdef.txt.gz", ".rankwise-notes.part", "rankwise.json.old"),
)


def test_what_a_killed_process_left_behind_is_passed_over_and_cleared_once_it_is_old(model, saved, data):
    for name in LEFT:  # as if killed before rankwise.json was replaced
        (saved / name).write_text("half")
    assert np.array_equal(rw.load(saved).predict(data), model.predict(data))
    model.save(saved, force=True)
    assert set(LEFT) < set(contents(saved))  # another process may be about to make them its model
    for name in LEFT:
        os.utime(saved / name, (0, 0))
    model.save(saved, force=True)
    assert len(contents(saved)) == len(FILES)
    assert np.array_equal(rw.load(saved).predict(data), model.predict(data))


def test_files_that_the_model_does_not_list_are_the_users(model, saved, data):
    for name in MINE:
        (saved / name).write_text(name)
        os.utime(saved / name, (0, 0))
    (saved / "model-folder.txt").mkdir()
    for _ in range(3):
        model.save(saved, force=True)
    assert {name: (saved / name).read_text() for name in MINE} == {name: name for name in MINE}
    assert len(list(saved.iterdir())) == len(FILES) + len(MINE) + 1
    assert np.array_equal(rw.load(saved).predict(data), model.predict(data))


def test_the_card_is_that_of_the_model_and_may_be_edited(model, saved, tmp_path, data):
    card = saved / "README.md"
    assert card.read_text().startswith(model.card())
    other = rw.LightGBMRanker("listnet", rounds=2, threads=1).fit(data)
    other.save(saved, force=True)
    assert card.read_text().startswith(other.card())
    edited = card.read_text().replace("listnet", "my own words")
    card.write_text(edited)
    with pytest.warns(UserWarning, match="README.md was edited and is kept"):
        model.save(saved, force=True)
    with warnings.catch_warnings(action="error"), pytest.raises(UserWarning, match="is kept"):
        model.save(saved, force=True)
    assert len(list(saved.iterdir())) == len(FILES)  # nothing of the older model
    assert card.read_text() == edited
    assert np.array_equal(rw.load(saved).predict(data), model.predict(data))
    card.unlink()  # as in folders of older versions
    assert np.array_equal(rw.load(saved).predict(data), model.predict(data))
    model.save(saved, force=True)
    assert card.read_text().startswith(model.card())


def test_a_process_killed_before_it_wrote_the_card_leaves_one_that_is_replaced(model, saved, data):
    other = rw.LightGBMRanker("listnet", rounds=2, threads=1).fit(data)
    stale = (saved / "README.md").read_bytes()
    other.save(saved, force=True)
    (saved / "README.md").write_bytes(stale)
    other.save(saved, force=True)
    assert (saved / "README.md").read_text().startswith(other.card())


@pytest.mark.parametrize("name", ["../precious.txt", "sub/precious.txt", "precious.txt/.", "..", "rankwise.json"])
def test_a_forged_description_cannot_have_other_files_removed(name, model, saved, tmp_path):
    for folder in (tmp_path, saved / "sub"):
        folder.mkdir(exist_ok=True)
        (folder / "precious.txt").write_text("mine")
    forge(saved, lambda about: about["files"]["model.txt"].update(name=name))
    model.save(saved, force=True)
    assert (tmp_path / "precious.txt").read_text() == (saved / "sub" / "precious.txt").read_text() == "mine"
    rw.load(saved)


def test_an_interruption_after_the_rename_leaves_the_new_model(model, saved, data, monkeypatch):
    """Ctrl-C between the rename and the end of saving: the files that are now the model must stay."""
    other = rw.LightGBMRanker("listnet", rounds=2, threads=1).fit(data)
    real = Path.replace

    def interrupted(self, target):
        real(self, target)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt):
            other.save(saved, force=True)
    assert np.array_equal(rw.load(saved).predict(data), other.predict(data))


def test_a_model_may_be_replaced_while_it_is_read(model, saved, data, monkeypatch):
    """The files that a description lists are gone when they are to be opened: the new description is read."""
    other = rw.LightGBMRanker("listnet", rounds=2, threads=1).fit(data)
    real, turns = storage._contents, []

    def overtaken(path, description):
        turns.append(path)
        if len(turns) < 4:
            (other if len(turns) % 2 else model).save(saved, force=True)
        return real(path, description)

    monkeypatch.setattr(storage, "_contents", overtaken)
    assert np.array_equal(rw.load(saved).predict(data), other.predict(data))
    assert len(turns) == 4


def test_two_first_savers_do_not_harm_each_other(model, tmp_path, data, monkeypatch):
    """Another process creates the folder while this one fills its own."""
    other = rw.LightGBMRanker("listnet", rounds=2, threads=1).fit(data)
    real = storage.text

    def beaten(*arguments):
        monkeypatch.undo()
        model.save(tmp_path / "new")
        return real(*arguments)

    monkeypatch.setattr(storage, "text", beaten)
    refuses(lambda: other.save(tmp_path / "new"), FileExistsError, what="…exists already and is kept")
    assert np.array_equal(rw.load(tmp_path / "new").predict(data), model.predict(data))
    monkeypatch.setattr(storage, "text", beaten)
    (tmp_path / "new").rename(tmp_path / "old")
    other.save(tmp_path / "new", force=True)
    assert np.array_equal(rw.load(tmp_path / "new").predict(data), other.predict(data))
    assert {path.name for path in tmp_path.iterdir()} == {"new", "old"}


def test_a_model_behind_a_symbolic_link(model, saved, tmp_path, data):
    other = rw.LightGBMRanker("listnet", rounds=2, threads=1).fit(data)
    (tmp_path / "latest").symlink_to("model")
    other.save(tmp_path / "latest", force=True)
    (tmp_path / "next").symlink_to("to-come")
    model.save(tmp_path / "next")
    for link, one in (("latest", other), ("model", other), ("next", model), ("to-come", model)):
        assert np.array_equal(rw.load(tmp_path / link).predict(data), one.predict(data))
    assert (tmp_path / "latest").is_symlink()
    assert (tmp_path / "next").is_symlink()


KILLED = """
import os, signal, sys, numpy as np, rankwise as rw
data = rw.synthetic(n_queries=30, n_features=8, n_docs=15, seed=2)
inner = rw.objective("xendcg")
seen = []
class Objective:
    exact_hessian = estimator = False
    def __repr__(self):
        return "mine"
    def __call__(self, scores, labels, offsets, stream=None, **documents):
        seen.append(stream.round)
        if stream.round == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
        return inner(scores, labels, offsets, stream)
settings = dict(rounds=12, checkpoint_every=2, leaves=5, min_documents=5, threads=1, feature_fraction=0.5)
valid = rw.synthetic(n_queries=10, n_features=8, n_docs=15, seed=3).with_(feature_names=data.feature_names)
ranker = rw.LightGBMRanker(Objective(), checkpoint=sys.argv[1], **settings).fit(data, valid, resume=True)
np.save(sys.argv[3], ranker.predict(data))
print(seen[0], len(seen))
"""


def test_kill_9_in_the_middle_leaves_a_usable_checkpoint(data, tmp_path):
    """Slow: other processes import the library and are killed."""
    killed = python(KILLED, tmp_path / "c", 7, tmp_path / "never.npy", check=False)
    assert killed.returncode == -signal.SIGKILL
    kept: Any = rw.load(tmp_path / "c")
    assert kept.model_.n_trees == kept.best_round_ <= 6
    assert np.isfinite(kept.predict(data)).all()
    resumed = python(KILLED, tmp_path / "c", -1, tmp_path / "resumed.npy")
    assert resumed.stdout.split() == ["6", "6"]  # resumes with round 6 and trains only what is left
    settings: dict = {
        "rounds": 12,
        "checkpoint_every": 2,
        "leaves": 5,
        "min_documents": 5,
        "threads": 1,
        "feature_fraction": 0.5,
    }
    valid = rw.synthetic(n_queries=10, n_features=8, n_docs=15, seed=3).with_(feature_names=data.feature_names)
    whole = rw.LightGBMRanker("xendcg", checkpoint=tmp_path / "whole", **settings).fit(data, valid)
    assert np.array_equal(np.load(tmp_path / "resumed.npy"), whole.predict(data))


def test_parameters_become_plain_json():
    given = {"a": np.int64(3), "b": (1.5, [np.float32(2)]), "c": rw.metric("ndcg@5"), "d": {1: None}, "e": Path("x")}
    expected = {"a": 3, "b": [1.5, [2.0]], "c": "ndcg@5", "d": {"1": None}, "e": "x"}
    assert storage.plain(given) == expected
