"""The folder of models that are trained one after the other: of which work it is, also after a kill."""

import json

import pytest

import rankwise as rw
from rankwise import files
from rankwise.data.disk import mapped
from rankwise.rankers.training.resume import FinishedModels, check_same, fingerprint


def opened(folder, identity, *, resume):
    return FinishedModels(folder, "work.json", identity, what="work", same="data", resume=resume).folder


def test_folder_says_of_which_work_it_is(tmp_path):
    folder = opened(tmp_path / "kept", {"data": 1}, resume=True)
    assert json.loads((folder / "work.json").read_text(encoding="utf-8")) == {"data": 1}
    assert opened(folder, {"data": 1}, resume=True) == folder
    with pytest.raises(FileExistsError, match="resume=True"):
        opened(folder, {"data": 1}, resume=False)
    with pytest.raises(ValueError, match=r"another work \(data differs\): got 2, and 1 in.*use the same data"):
        opened(folder, {"data": 2}, resume=True)


@pytest.mark.parametrize("resume", [True, False])
def test_folder_that_a_kill_left_without_its_work_is_a_new_one(tmp_path, resume):
    """The first file was being written, and is not complete."""
    files.part_in(tmp_path).write_text('{"da', encoding="utf-8")
    opened(tmp_path, {"data": 1}, resume=resume)
    assert json.loads((tmp_path / "work.json").read_text(encoding="utf-8")) == {"data": 1}


def test_other_folder_is_kept(tmp_path):
    (tmp_path / "letter.txt").write_text("dear", encoding="utf-8")
    with pytest.raises(FileExistsError, match="exists already and is kept"):
        opened(tmp_path, {"data": 1}, resume=False)
    with pytest.raises((ValueError, OSError), match="work.json"):
        opened(tmp_path, {"data": 1}, resume=True)


def test_difference_is_named_and_large_values_are_not_printed():
    before, now = {"data": {"train": 1, "valid": 2}, "seed": 1, "recipes": [1]}, {"seed": 1}

    def differing(**changes):
        with pytest.raises(ValueError, match="the file holds another search") as error:
            check_same(before, before | now | changes, "the file holds another search", where=None, hint="name another")
        return str(error.value)

    assert "(data: valid differs): got 3, and 2 in what is kept" in differing(data={"train": 1, "valid": 3})
    assert "(data: test differs): got 4, and None in" in differing(data={"train": 1, "valid": 2, "test": 4})
    assert "(recipes differs). Hint" in differing(recipes=[1, 2])
    assert "(code: f differs): got 'abc', and None" in differing(code={"f": "abc"})
    check_same(before, before | now, "another", where=None, hint="")


def test_data_are_hashed_once(monkeypatch):
    """A search trains many bags on the same data, each with the same queries for training and for validation."""
    hashed, blocks = [], mapped.blocks

    def counted(part):
        hashed.append(part.shape)
        return blocks(part)

    monkeypatch.setattr(mapped, "blocks", counted)
    data = rw.synthetic(n_queries=30, n_docs=5, n_features=4, seed=1)
    recipes = [rw.LightGBMRanker(loss, rounds=4, leaves=3, min_documents=2) for loss in ("xendcg", "lambdarank")]
    rw.AutoRanker(None, recipes=recipes, folds=2, threads=1, progress=False).fit(data)
    assert hashed.count(data.features.shape) == 1
    assert fingerprint(data.with_(labels=data.labels + 1)) != fingerprint(data) == fingerprint(data.with_())
