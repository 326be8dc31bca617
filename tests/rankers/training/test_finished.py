"""The folder of models that are trained one after the other: of which work it is, also after a kill."""

import json

import pytest

from rankwise import files
from rankwise.rankers.training.finished import folder_of


def opened(folder, identity, *, resume):
    return folder_of(folder, "work.json", identity, what="work", same="data", resume=resume)


def test_folder_says_of_which_work_it_is(tmp_path):
    folder = opened(tmp_path / "kept", {"data": 1}, resume=True)
    assert json.loads((folder / "work.json").read_text(encoding="utf-8")) == {"data": 1}
    assert opened(folder, {"data": 1}, resume=True) == folder
    with pytest.raises(FileExistsError, match="resume=True"):
        opened(folder, {"data": 1}, resume=False)
    with pytest.raises(ValueError, match=r"another work \(data\).*kept.*use the same data"):
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
