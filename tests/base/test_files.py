"""Files that are written: refused before the work begins, replaced as a whole, and never at the cost of others."""

import errno
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from rankwise.base import files
from tests.refusals import refusal


def names(folder: Path) -> set[str]:
    return {entry.name for entry in folder.iterdir()}


def write(path: Path, text: str, then: Callable[[], object] = str, **options: bool) -> None:
    with files.replacing(path, **options) as new:
        new.write_text(text)
        then()


def test_a_place_that_cannot_be_written_is_named_with_what_to_do(tmp_path):
    (tmp_path / "taken.txt").write_text("mine")
    (tmp_path / "folder").mkdir()
    for path, kind, words in (
        ("taken.txt", FileExistsError, "taken.txt exists already and is kept. Hint: choose another name"),
        ("nowhere/a.txt", FileNotFoundError, "there is no folder .*nowhere to write a.txt into. Hint: .*mkdir -p"),
        ("taken.txt/a.txt", NotADirectoryError, "taken.txt is no folder, and a.txt cannot be written into it"),
    ):
        with pytest.raises(kind, match=words):
            files.check_writable(tmp_path / path)
    with refusal(IsADirectoryError, what="…folder is a folder, where a file is to be written"):
        files.check_writable(tmp_path / "folder", force=True)
    assert files.check_writable(tmp_path / "taken.txt", force=True) == tmp_path / "taken.txt"
    assert files.check_writable(tmp_path / "new.txt") == tmp_path / "new.txt"
    assert names(tmp_path) == {"taken.txt", "folder"}


def test_a_folder_may_be_made_later_with_its_parents(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (".", "a", "a/b/c"):
        assert files.check_writable_folder(tmp_path / path) == tmp_path / path
    for path in ("file", "file/a/b"):
        with pytest.raises(NotADirectoryError, match="file is no folder"):
            files.check_writable_folder(tmp_path / path)
    assert names(tmp_path) == {"file"}


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC, errno.EDQUOT])
def test_a_folder_is_tried_and_not_asked(number, tmp_path, monkeypatch):
    """Whoever is root has every permission, also where nothing can be written."""

    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(Path, "touch", refuse)
    for check in (
        lambda: files.check_writable(tmp_path / "a.txt"),
        lambda: files.check_writable_folder(tmp_path / "a.txt" / "b"),
    ):
        with refusal(OSError, what="…cannot be written into the folder…", hint="choose another folder") as told:
            check()
        assert os.strerror(number).lower() in str(told.value)
        assert type(told.value) is type(OSError(number, ""))


def test_a_folder_without_permission_as_another_user():
    """Without being root, where that can be left off."""
    code = """
import os, sys
from rankwise.base import files
if os.geteuid() == 0:
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
try:
    files.check_writable(sys.argv[1])
except PermissionError as refused:
    print(refused)
"""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        command = [sys.executable, "-c", code, f"{folder}/m"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        Path(folder).chmod(0o755)
    if "os.set" in done.stderr:
        pytest.skip("root cannot become another user here")
    assert "m cannot be written into the folder" in done.stdout, done.stderr
    assert "permission denied. Hint: choose another folder" in done.stdout


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path):
    path = tmp_path / "a.txt"
    write(path, "old")
    path.chmod(0o640)
    with pytest.raises(FileExistsError):
        write(path, "new")
    with pytest.raises(ZeroDivisionError):
        write(path, "ha", then=lambda: 1 / 0, force=True)
    assert path.read_text() == "old"
    write(path, "new", force=True)
    assert path.read_text() == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert names(tmp_path) == {"a.txt"}


@pytest.mark.parametrize("links", [True, False])
def test_without_force_a_file_that_appears_meanwhile_is_kept(links, tmp_path, monkeypatch):
    if not links:  # as on a file system that has none
        monkeypatch.setattr(Path, "hardlink_to", lambda *_: (_ for _ in ()).throw(OSError(errno.EPERM, "no links")))
    path = tmp_path / "a.txt"
    with refusal(FileExistsError, what="…exists already and is kept"):
        write(path, "late", then=lambda: path.write_text("early"))
    assert path.read_text() == "early"
    write(tmp_path / "b.txt", "only")
    assert (tmp_path / "b.txt").read_text() == "only"
    assert names(tmp_path) == {"a.txt", "b.txt"}


def test_a_symbolic_link_stays_and_leads_to_the_new_file(tmp_path):
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there/a.txt")
    write(tmp_path / "link", "one")
    write(tmp_path / "link", "two", force=True)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "there" / "a.txt").read_text() == "two"
    assert names(tmp_path / "there") == {"a.txt"}


def test_the_longest_name_that_a_folder_can_hold(tmp_path):
    name = "a" * 251 + ".txt"
    write(tmp_path / name, "x")
    assert names(tmp_path) == {name}
    with pytest.raises(OSError, match="too long"):
        files.check_writable(tmp_path / ("a" + name))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes with names")
def test_pipes_and_devices_are_written_to_and_never_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = subprocess.Popen([sys.executable, "-c", f"print(open({str(pipe)!r}).read())"], stdout=subprocess.PIPE)
    write(pipe, "through")
    assert reader.communicate()[0] == b"through\n"
    assert files.is_device(pipe)
    write(Path("/dev/null"), "away")
    assert files.is_device(Path("/dev/null"))
    code = "from rankwise import files\nwith files.replacing('/dev/stdout') as new:\n    new.write_text('said')"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"said"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_device_says_so():
    with pytest.raises(OSError, match="No space left"):
        write(Path("/dev/full"), "x")


def test_what_killed_processes_left_is_cleared_once_it_is_old(tmp_path):
    left, young = (f".rankwise-{digit * 16}.part" for digit in "0a")
    mine = [".rankwise-notes.part", "rankwise-0000000000000000.part", ".rankwise-0000000000000000.part.txt", "a.part"]
    for name in (left, young, *mine):
        (tmp_path / name).write_text("half")
    (tmp_path / f".rankwise-{'b' * 16}.part").mkdir()
    (tmp_path / f".rankwise-{'b' * 16}.part" / "model.txt").write_text("half")
    for entry in tmp_path.iterdir():
        if entry.name != young:
            os.utime(entry, (0, 0))
    write(tmp_path / "new.txt", "x")
    assert names(tmp_path) == {"new.txt", young, *mine}
