"""Where work is kept: of which work it is, also after a kill, and what is refused."""

from pathlib import Path
from typing import Any

import pytest

import rankwise as rw
from rankwise.base import files
from rankwise.language.workspace import FORMAT, Workspace
from rankwise.models import storage
from tests.refusals import refusal, refuses

DATA = rw.synthetic(n_queries=20, n_docs=5, n_features=3, seed=1)
SMALL: dict[str, Any] = {"rounds": 2, "leaves": 3, "min_documents": 2, "threads": 1}


def opened(folder, identity, *, resume, what="work"):
    return Workspace(folder, identity, what=what, same="data").open(resume=resume)


def test_folder_says_of_which_work_it_is(tmp_path):
    folder = tmp_path / "new" / "kept"
    work = opened(folder, {"data": (1, 2)}, resume=True)
    assert work.state == work.record == {"format": FORMAT, "work": "work", "identity": {"data": [1, 2]}}
    work.keep({"done": 3})
    again = opened(folder, {"data": (1, 2)}, resume=True)
    assert again.state == work.record | {"done": 3}
    assert [path.name for path in folder.iterdir()] == ["workspace.json"]
    refuses(lambda: opened(folder, {"data": (1, 2)}, resume=False), FileExistsError, hint="…resume=True…")
    with refusal(what="the folder holds another work (data differs)", hint="use the same data, or another folder"):
        opened(folder, {"data": (1, 3)}, resume=True)
    with refusal(what="the folder holds another blend (work differs)", got="'blend', and 'work' in what is kept"):
        opened(folder, {"data": (1, 2)}, resume=True, what="blend")
    assert again.state == work.record | {"done": 3}


@pytest.mark.parametrize("resume", [True, False])
def test_folder_that_a_kill_left_without_its_work_is_a_new_one(tmp_path, resume):
    """The first file was being written, and is not complete."""
    files.part_in(tmp_path).write_text('{"da', encoding="utf-8")
    assert opened(tmp_path, {"data": 1}, resume=resume).state["identity"] == {"data": 1}


def test_other_folder_is_kept(tmp_path):
    (tmp_path / "letter.txt").write_text("dear", encoding="utf-8")
    refuses(lambda: opened(tmp_path, {"data": 1}, resume=False), FileExistsError, what="…exists already and is kept")
    with refusal(FileExistsError, what="…is not the folder of a work, and is kept"):
        opened(tmp_path, {"data": 1}, resume=True)
    refuses(lambda: opened(tmp_path / "letter.txt", {"data": 1}, resume=True), NotADirectoryError, hint="name a folder")
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]
    (tmp_path / "workspace.json").write_text("[1", encoding="utf-8")
    with refusal(what="cannot read the file of a work", where="…workspace.json"):
        opened(tmp_path, {"data": 1}, resume=True)


def test_difference_is_named_and_large_values_are_not_printed():
    before = {"data": {"train": 1, "valid": 2}, "bag": {"ranker": {"leaves": 3}}, "recipes": [1]}
    record = Workspace(Path("kept"), before, what="search").record

    def differing(**changes):
        with refusal(what="the file holds another search…") as error:
            Workspace(Path("kept"), before | changes, what="search", kind="file").check(record)
        return str(error.value)

    assert "(data: valid differs): got 3, and 2 in what is kept" in differing(data={"train": 1, "valid": 3})
    assert "(data: test differs): got 4, and None in" in differing(data={"train": 1, "valid": 2, "test": 4})
    assert "(bag: ranker: leaves differs): got 4, and 3 in" in differing(bag={"ranker": {"leaves": 4}})
    assert "(recipes differs): kept. Hint: use the same settings and data, or another file." in differing(
        recipes=[1, 2]
    )
    assert "(code: f differs): got 'abc', and None" in differing(code={"f": "abc"})
    Workspace(Path("kept"), before, what="search").check(record)


OTHER = r"of another version of rankwise.*: .*kept\. Hint: remove it, .*or use the version that wrote it"


@pytest.mark.parametrize("content", ["{}", '{"format": 5, "identity": {"data": 1}}', '{"format": 4, "identity": [1]}'])
def test_other_formats_are_refused(tmp_path, content):
    (tmp_path / "workspace.json").write_text(content, encoding="utf-8")
    with refusal(what="the folder holds a work of another version of rankwise"):
        opened(tmp_path, {"data": 1}, resume=True)


def test_work_of_earlier_versions_is_refused(tmp_path):
    """Blends, cross-validations, frontiers and searches had files of their own, and other work no record."""
    kept = tmp_path / "kept"
    kept.mkdir()
    ranker = rw.LightGBMRanker(**SMALL)
    works: dict[str, Any] = {
        "blend.json": lambda: rw.blended([ranker, 0], folds=2, checkpoint=kept).fit(DATA, resume=True),
        "cross_validation.json": lambda: rw.cross_validate(ranker, DATA, folds=2, checkpoint=kept, resume=True),
        "auto.json": lambda: rw.AutoRanker(None, recipes=[ranker], checkpoint=kept, progress=False).fit(DATA),
    }
    for name, work in works.items():
        (kept / name).write_text("{}", encoding="utf-8")
        with pytest.raises(ValueError, match=OTHER):
            work()
        (kept / name).unlink()


def test_checkpoints_of_earlier_versions_are_refused_and_load(tmp_path):
    ranker = rw.LightGBMRanker(checkpoint=tmp_path / "kept", checkpoint_every=1, **SMALL)
    ranker.fit(DATA)
    description, contents = storage.read(tmp_path / "kept")
    del description["checkpoint"]["work"]
    storage.write(tmp_path / "kept", description, contents, force=True)
    with pytest.raises(ValueError, match="the checkpoint belongs to a training " + OTHER):
        ranker.fit(DATA, resume=True)
    assert rw.load(tmp_path / "kept").predict(DATA).tolist() == ranker.predict(DATA).tolist()


def test_studies_of_earlier_versions_are_refused(tmp_path):
    optuna = pytest.importorskip("optuna")
    train, valid = rw.split(DATA, (0.5, 0.5), seed=1)
    storage_ = optuna.storages.RDBStorage(f"sqlite:///{tmp_path / 'kept'}")
    optuna.create_study(storage=storage_, study_name="rankwise").set_user_attr("identity", {"ranker": "lightgbm"})
    storage_.engine.dispose()
    with pytest.raises(ValueError, match="the file holds a search " + OTHER):
        rw.tune(train, valid, checkpoint=tmp_path / "kept", resume=True, trials=1, progress=False)
