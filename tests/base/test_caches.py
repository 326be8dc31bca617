"""Where caches lie, and that everything works where nothing can be kept: no home, no folder that can be written."""

import contextlib
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import pytest

import rankwise as rw
from rankwise.base import caches, compiling
from tests.refusals import refusal, refuses

NOBODY = 64_123  # a number that no user has
TEXT = "1 qid:1 1:5 2:6\n0 qid:1 2:7\n"


@pytest.fixture(autouse=True)
def afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "_warned", [])


def homeless(*_: object, **__: object) -> Any:
    raise RuntimeError("Could not determine home directory.")


def remove_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    monkeypatch.setattr(platformdirs, "user_cache_dir", homeless)


def test_cache_folder_by_environment(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("RANKWISE_CACHE", raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.setenv("XDG_CACHE_HOME", "/fast")
    assert caches.folder() == Path("/fast/rankwise")
    for ignored in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert caches.folder() == Path("/home/me/.cache/rankwise")
    monkeypatch.setenv("RANKWISE_CACHE", "~/here")
    assert caches.folder() == Path("/home/me/here")
    remove_home(monkeypatch)
    assert caches.folder() == Path("/home/me/here")
    monkeypatch.delenv("RANKWISE_CACHE")
    assert caches.folder() is None
    monkeypatch.setattr(platformdirs, "user_cache_dir", lambda *_, **__: "~/.cache/rankwise")  # by older versions
    assert caches.folder() is None


def test_data_sets_without_a_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.delenv("RANKWISE_DATA", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with refusal(what="there is no home folder…", hint="name the data folder with folder= or …RANKWISE_DATA"):
        rw.load_dataset("mq2008")
    refuses(lambda: rw.load_dataset("mq2008", folder=tmp_path), FileNotFoundError, what="cannot find…")


def test_a_scratch_folder_is_removed_with_its_process():
    code = (
        "from rankwise import caches; place = caches.scratch(); print(place, place.is_dir(), caches.scratch() == place)"
    )
    place, *truths = subprocess.check_output([sys.executable, "-c", code], text=True).split()
    assert truths == ["True", "True"]
    assert not Path(place).exists()


# --- a place for kernels ---------------------------------------------------------------------------------------------

SOURCE = Path(compiling.__file__).parent


@pytest.mark.parametrize(
    ("writable", "environment", "place", "warns"),
    [
        (["/home/me"], {}, None, False),  # the user's cache is Numba's own choice
        ([SOURCE], {}, None, False),  # and so is the folder of the source
        (["/kernels"], {"NUMBA_CACHE_DIR": "/kernels"}, None, False),
        ([], {"NUMBA_CACHE_DIR": "/kernels"}, "/scratch/numba", True),
        (["/chosen"], {"RANKWISE_CACHE": "/chosen"}, "/chosen/numba", False),
        ([], {"RANKWISE_CACHE": "/chosen"}, "/scratch/numba", True),
        ([SOURCE / "data"], {}, "/scratch/numba", True),  # one folder is not enough
        (["/"], {"HOME": None}, None, False),
    ],
)
def test_numba_gets_a_folder_only_if_it_has_none(
    writable: list[Any], environment: dict[str, Any], place: str | None, warns: bool, monkeypatch: pytest.MonkeyPatch
):
    for name in ("NUMBA_CACHE_DIR", "RANKWISE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    for name, value in environment.items():
        if value is None:
            remove_home(monkeypatch)
        else:
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(caches, "_writable", lambda path: any(path.is_relative_to(one) for one in writable))
    monkeypatch.setattr(caches, "scratch", lambda: Path("/scratch"))
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(2):
            assert caches.kernel_folder() == (Path(place) if place else None)
    assert len(said) == warns


def test_writable_folders(tmp_path: Path):
    assert caches._writable(tmp_path)
    assert caches._writable(tmp_path / "not" / "yet")
    (tmp_path / "file").touch()
    assert not caches._writable(tmp_path / "file")
    assert not caches._writable(tmp_path / "file" / "below")
    (tmp_path / "link").symlink_to("nothing")
    assert not caches._writable(tmp_path / "link")


# --- kernels that were kept ------------------------------------------------------------------------------------------


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Give a way to import a module with one kernel again and again, as new processes would."""
    path = tmp_path / "doubling.py"
    path.write_text("from rankwise.base.compiling import kernel\n\n\n@kernel\ndef double(x):\n    return 2.0 * x\n")
    monkeypatch.setattr("numba.config.CACHE_DIR", "")

    def load() -> Any:
        spec = importlib.util.spec_from_file_location("doubling", path)
        assert spec is not None
        assert spec.loader is not None
        loaded = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(loaded)
        return loaded

    return load


def hits(function: Any) -> int:
    return sum(function.stats.cache_hits.values())


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:20])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def garbage(path: Path) -> None:
    path.write_bytes(b"\x80\x05nonsense" * 50)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize("damage", [cut, empty, garbage, Path.unlink, folder])
@pytest.mark.parametrize("ending", ["nbi", "nbc"])
def test_a_damaged_kernel_is_compiled_again(module: Any, ending: str, damage: Any, tmp_path: Path):
    assert module().double(1.5) == 3.0
    again = module().double
    assert again(1.5) == 3.0
    assert hits(again) == 1
    (kept,) = (tmp_path / "__pycache__").glob(f"*.{ending}")
    damage(kept)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if damage is folder else "error")
        assert module().double(1.5) == 3.0
    if damage is not folder:
        mended = module().double
        assert mended(1.5) == 3.0
        assert hits(mended) == 1


def test_a_full_disk_only_costs_time(module: Any, monkeypatch: pytest.MonkeyPatch):
    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile.save", full)
    with pytest.warns(
        UserWarning, match=r"works without a cache, and slower: compiled kernels cannot be saved .*No space"
    ) as said:
        assert [module().double(1.5), module().double(1.5)] == [3.0, 3.0]
    assert len(said) == 1


def test_a_kernel_without_a_cache_folder(module: Any, monkeypatch: pytest.MonkeyPatch):
    def nowhere(*_: Any) -> None:
        raise RuntimeError("cannot cache function 'double': no locator available for file 'doubling.py'")

    monkeypatch.setattr("numba.core.caching.CompileResultCacheImpl.__init__", nowhere)
    with pytest.warns(UserWarning, match="works without a cache, and slower: kernels are compiled in every process"):
        double = module().double
    assert double(1.5) == 3.0


# --- another user ----------------------------------------------------------------------------------------------------


@pytest.fixture
def bare() -> Iterator[Path]:
    """A folder that others may look into, with an installation that nobody can write to."""
    place = Path(tempfile.mkdtemp(prefix="rankwise-test-"))
    shutil.copytree(SOURCE, place / "site" / "rankwise", ignore=shutil.ignore_patterns("__pycache__"))
    (place / "data").mkdir()
    (place / "data" / "train.txt").write_text(TEXT)
    (place / "data" / "own.toml").write_text('train = "train.txt"\ntest = "train.txt"\n')
    (place / "temporary").mkdir()
    (place / "home").mkdir()
    (place / "chosen").mkdir()
    for path in (place, *place.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    for name in ("temporary", "chosen"):
        (place / name).chmod(0o777)
    yield place
    for path in (place, *place.rglob("*")):
        if path.is_dir() and not path.is_symlink():
            path.chmod(0o755)
    shutil.rmtree(place)


def powerless() -> None:
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)


def run(place: Path, code: str, python: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python without a home, as a user without a name if that is possible, else as one with a read-only home."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH", "LANG") if name in os.environ}
    found = [path for path in sys.path if path.endswith("-packages")]
    root = os.geteuid() == 0
    environment = {
        **kept,
        "PYTHONPATH": os.pathsep.join([str(place / "site"), *found]),
        "PYTHONDONTWRITEBYTECODE": "1",
        "TMPDIR": str(place / "temporary"),
        **({} if root else {"HOME": str(place / "home")}),
        **environment,
    }
    return subprocess.run(
        [python, "-c", code],
        env=environment,
        cwd=place / "home",
        preexec_fn=powerless if root else None,
        capture_output=True,
        text=True,
        check=False,
    )


def python_for_all(place: Path) -> str:
    """Find a Python of this version that the other user may run: this one may lie in somebody's home."""
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, f"/usr/local/bin/{name}", f"/usr/bin/{name}"):
        with contextlib.suppress(OSError):
            if run(place, "import numba, matplotlib", python, NUMBA_CACHE_DIR=str(place / "chosen")).returncode == 0:
                return python
    pytest.skip(f"no {name} with these packages that another user may run")


WORK = """
import rankwise as rw
data = rw.open_data("../data/train.txt")
assert data.features.tolist() == [[5, 6], [0, 7]], data.features
assert rw.load_dataset("../data/own.toml", part="train").n_docs == 2
print(rw.evaluate([1.0, 0.0], data, ["ndcg@10"]).mean["ndcg@10"])
import matplotlib.pyplot
"""


@pytest.mark.slow
def test_everything_works_where_nothing_can_be_written(bare: Path):
    """Slow: two processes compile kernels that they find nowhere."""
    python = python_for_all(bare)
    done = run(bare, WORK, python)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == 1.0
    assert done.stderr.count("Warning: rankwise works without a cache, and slower") == 1
    assert done.stderr.count("Warning") == 1, done.stderr
    assert not any((bare / "temporary").iterdir())
    assert not any((bare / "home").iterdir())

    # A folder for caches is all that it takes.
    done = run(bare, WORK, python, RANKWISE_CACHE=str(bare / "chosen"))
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    assert any((bare / "chosen").glob("*/train.txt-*/data.json"))
    kept = sorted((bare / "chosen/numba").glob("*/*.nbi"))
    assert kept

    # One for kernels serves them, and copies of data are not kept.
    done = run(bare, WORK, python, NUMBA_CACHE_DIR=str(bare / "chosen/numba"))
    assert done.returncode == 0, done.stderr
    assert "no copy of" in done.stderr
    assert done.stderr.count("Warning") == 1, done.stderr
    assert sorted((bare / "chosen/numba").glob("*/*.nbi")) == kept


def test_no_folder_is_created_for_a_missing_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Numba would take ``~`` for a folder in the working one."""
    monkeypatch.chdir(tmp_path)
    remove_home(monkeypatch)
    path = tmp_path / "train.txt"
    path.write_text(TEXT)
    np.testing.assert_array_equal(rw.open_data("train.txt").features, [[5, 6], [0, 7]])
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".rankwise-cache", "train.txt"]
