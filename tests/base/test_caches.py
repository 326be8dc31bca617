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

SOURCE = Path(rw.__file__).parent


@pytest.mark.parametrize(
    ("writable", "environment", "place", "warns"),
    [
        (["/"], {}, "/home/me/.cache/rankwise/numba", False),
        ([SOURCE], {}, f"{SOURCE}/__pycache__", False),  # the source's own folder is the last
        (["/kernels", "/home/me"], {"NUMBA_CACHE_DIR": "/kernels"}, "/kernels", False),
        (["/home/me"], {"NUMBA_CACHE_DIR": "/kernels"}, "/home/me/.cache/rankwise/numba", False),
        ([], {"NUMBA_CACHE_DIR": "/kernels"}, "/scratch/numba", True),
        (["/chosen", "/home/me"], {"RANKWISE_CACHE": "/chosen"}, "/chosen/numba", False),
        ([], {"RANKWISE_CACHE": "/chosen"}, "/scratch/numba", True),
        (["/"], {"HOME": None}, f"{SOURCE}/__pycache__", False),
    ],
)
def test_the_folder_for_kernels(
    writable: list[Any], environment: dict[str, Any], place: str, warns: bool, monkeypatch: pytest.MonkeyPatch
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
            assert caches.kernel_folder() == Path(place) / "rankwise"
    assert len(said) == warns


def test_kernels_that_are_there_are_used_where_nothing_can_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """As in the image of a container, whose kernels were compiled when it was built."""
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("RANKWISE_CACHE", str(tmp_path))
    monkeypatch.setattr(caches, "_writable", lambda _: False)
    monkeypatch.setattr(caches, "scratch", lambda: Path("/scratch"))
    monkeypatch.setattr(caches, "_warned", ["once"])
    assert caches.kernel_folder() == Path("/scratch/numba/rankwise")
    (tmp_path / "numba" / "rankwise").mkdir(parents=True)
    assert caches.kernel_folder() == tmp_path / "numba" / "rankwise"


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
    monkeypatch.setattr(compiling, "_folder", tmp_path / "kernels")
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # byte code of the same second and size would be taken

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
def test_a_damaged_kernel_is_compiled_again(module: Any, damage: Any, tmp_path: Path):
    assert module().double(1.5) == 3.0
    again = module().double
    assert again(1.5) == 3.0
    assert hits(again) == 1
    (kept,) = (tmp_path / "kernels").glob("*/*/*.nbc")
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

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.warns(
        UserWarning, match=r"works without a cache, and slower: compiled kernels cannot be saved .*No space"
    ) as said:
        assert [module().double(1.5), module().double(1.5)] == [3.0, 3.0]
    assert len(said) == 1


def test_a_kernel_without_a_cache_folder(module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def nowhere() -> None:
        raise FileNotFoundError("no temporary folder")

    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("RANKWISE_CACHE", str(tmp_path / "none"))
    monkeypatch.setattr(caches, "_writable", lambda _: False)
    monkeypatch.setattr(caches, "scratch", nowhere)
    with pytest.warns(UserWarning, match="kernels are compiled in every process"):
        assert caches.kernel_folder() is None
    monkeypatch.setattr(compiling, "_folder", None)
    assert module().double(1.5) == 3.0


def test_an_upgrade_that_changes_no_code_compiles_nothing(module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The same code on another line, with another docstring, at another time and place; two versions beside it."""
    source, text = tmp_path / "doubling.py", (tmp_path / "doubling.py").read_text()
    assert module().double(1.5) == 3.0
    source.write_text("# a comment\n" + text.replace("    return", '    """Describe it."""\n\n    return'))
    moved = module().double
    assert (moved(1.5), hits(moved)) == (3.0, 1)
    versions = [text.replace("2.0 * x", f"{number}.0 * x") for number in range(2, 2 + compiling._VERSIONS)]
    for again in (0, 1):
        for number, version in enumerate(versions, 2):
            source.write_text(version)
            found = module().double
            assert (found(1.5), hits(found)) == (1.5 * number, again or number == 2)
    source.write_text(text.replace("2.0 * x", "99.0 * x"))
    assert module().double(1.0) == 99.0
    assert len(list((tmp_path / "kernels/doubling.double").iterdir())) == compiling._VERSIONS  # the oldest is gone
    source.write_text(text.replace("@kernel", "@kernel(fastmath=frozenset({'contract'}))"))
    optioned = module().double
    assert (optioned(1.5), hits(optioned)) == (3.0, 0)


def test_a_copy_of_the_package_elsewhere_compiles_nothing(tmp_path: Path):
    """Slow: two processes. A kernel of many parts, in files with other times and lines."""
    place, kernels = tmp_path / "site", tmp_path / "kernels"
    code = "import rankwise as rw; from rankwise.metrics.dcg import weighted_sum as w; print(rw.__file__); "
    code += "print(rw.metric('ndcg')([1.0, 0.0], [0, 1], [0, 2])[0], *w.stats.cache_hits.values())"

    def result(**environment: str) -> list[str]:
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(kernels), **environment}
        return subprocess.check_output([sys.executable, "-c", code], env=environment, text=True).split()

    assert result()[2:] == []
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SOURCE, place / "rankwise", ignore=ignored, copy_function=shutil.copyfile)
    for path in (place / "rankwise/metrics").glob("*.py"):
        path.write_text("# A new line.\n" + path.read_text())
    paths = os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])])
    where, _, *found = result(PYTHONPATH=paths)
    assert where.startswith(str(place))
    assert found == ["1"]


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
        "RANKWISE_COMPILE_AHEAD": "0",  # which goes on after this process
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
    kept = sorted((bare / "chosen/numba/rankwise").glob("*/*/*.nbc"))
    assert kept

    # One for kernels serves them, and copies of data are not kept.
    done = run(bare, WORK, python, NUMBA_CACHE_DIR=str(bare / "chosen/numba"))
    assert done.returncode == 0, done.stderr
    assert "no copy of" in done.stderr
    assert done.stderr.count("Warning") == 1, done.stderr
    assert sorted((bare / "chosen/numba/rankwise").glob("*/*/*.nbc")) == kept


def test_no_folder_is_created_for_a_missing_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Numba would take ``~`` for a folder in the working one."""
    monkeypatch.chdir(tmp_path)
    remove_home(monkeypatch)
    path = tmp_path / "train.txt"
    path.write_text(TEXT)
    np.testing.assert_array_equal(rw.open_data("train.txt").features, [[5, 6], [0, 7]])
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".rankwise-cache", "train.txt"]
