"""Compiling of kernels: from parts, once for all numbers, announced, and anew when a callee changes."""

import contextlib
import io
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from rankwise.base import caches
from rankwise.base.compiling import Kernel, kernel
from rankwise.cli.app import app
from tests import tiers

SAID = "rankwise: compiling kernels for their first use (seconds each; kept for later runs)\n"


@kernel
def total(values, factor):
    """Add up multiples."""
    sum_ = 0.0
    for value in values:
        sum_ += factor * value
    return sum_


@kernel
def both(values):
    """Call a part with two constants and a variable."""
    return total(values, 2), total(values, 3), total(values, values.size)


@kernel
def picky(value):
    """Raise with something that is only known when it runs."""
    if value < 0:
        raise ValueError("less than nothing", value)
    return value


@kernel
def asks(value):
    """Call what raises."""
    return picky(value) + 1


def test_a_part_is_compiled_once_for_all_constants_and_never_by_itself():
    compiled_now = Kernel(both.py_func, targetoptions=both.targetoptions)  # not what was kept of an earlier run
    assert compiled_now(np.array([1.0, 2.0])) == (6.0, 9.0, 6.0)
    assert len(total.part.signatures) == 1
    (compiled,) = total.part.overloads.values()
    assert not hasattr(compiled.library, "_compiled_object")  # no machine code of its own


def test_a_part_is_a_kernel_too():
    assert both(np.array([1.0, 2.0])) == (6.0, 9.0, 6.0)
    assert total(np.array([1.0, 2.0]), 2) == 6.0
    assert pickle.loads(pickle.dumps(total))(np.array([1.0, 2.0]), 3) == 9.0  # noqa: S301 (our own)


def test_errors_of_a_part_are_raised():
    assert asks(1) == 2
    with pytest.raises(ValueError, match="less than nothing") as raised:
        asks(-7)
    assert raised.value.args == ("less than nothing", -7)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("wanted", "terminal", "said"),
    [
        ([], True, True),
        ([], False, False),
        ([None], True, True),
        ([True], False, True),
        ([False], True, False),
        ([False, True], True, False),
        ([None, False], True, True),
    ],
)
def test_compiling_is_announced_with_progress(
    wanted: list[bool | None], terminal: bool, said: bool, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(caches, "_announced", [])
    screen = Terminal() if terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)

    def inside(rest: list[bool | None]) -> None:
        if rest:
            with caches.announce_compiling(rest[0]):
                inside(rest[1:])
        else:
            caches.note_compiling()
            caches.note_compiling()

    inside(wanted)
    assert screen.getvalue() == (SAID if said else "")


def run(folder: Path, *command: str) -> Any:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder)}
    return subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=True)


def test_compiling_is_announced_and_loading_from_the_cache_is_not(tmp_path: Path):
    script = (
        "from rankwise.base import caches\n"
        "from rankwise.metrics.gains import gains\n"
        "with caches.announce_compiling(True):\n"
        "    print(gains([0, 1, 2]))\n"
    )
    for said in (SAID, ""):
        done = run(tmp_path, "-c", script)
        assert (done.stdout, done.stderr) == ("[0. 1. 3.]\n", said)


FILES = {
    "outer.py": "from rankwise.base.compiling import kernel\nimport middle\n\n\n"
    "@kernel\ndef outer(x):\n    return middle.double(x) + 1.0\n",
    "middle.py": "from rankwise.base.compiling import kernel\nfrom inner import FACTOR, term\n\n\n"
    "@kernel\ndef double(x):\n    return FACTOR * term(x)\n",
    "inner.py": "from rankwise.base.compiling import kernel\n\nFACTOR = 2.0\n\n\n"
    "@kernel(inline=True)\ndef term(x):\n    return x\n",
}


def test_a_changed_callee_or_constant_of_another_file_is_compiled_anew(tmp_path: Path):
    """Slow: six processes import Numba."""
    package, cache = tmp_path / "package", tmp_path / "cache"
    package.mkdir()
    for name, text in FILES.items():
        (package / name).write_text(text)
    script = "from outer import outer; print(outer(3.0), sum(outer.stats.cache_hits.values()))"

    def result() -> tuple[float, int]:
        value, hits = run(
            cache, "-B", "-c", f"import sys; sys.path.insert(0, {str(package)!r}); {script}"
        ).stdout.split()
        return float(value), int(hits)

    def edit(name: str, before: str, after: str) -> None:
        (package / name).write_text((package / name).read_text().replace(before, after))

    assert result() == (7.0, 0)
    assert result() == (7.0, 1)  # from the cache
    edit("inner.py", "return x", "return x * x")
    assert result() == (19.0, 0)
    edit("inner.py", "FACTOR = 2.0", "FACTOR = 3.0")
    assert result() == (28.0, 0)
    edit("middle.py", "FACTOR * term(x)", "FACTOR + term(x)")
    assert result() == (13.0, 0)
    assert result() == (13.0, 1)


@pytest.mark.parametrize(
    ("words", "wanted"),
    [(["objectives"], None), (["objectives", "--json"], False), (["train", "none.txt", "--no-progress"], False)],
)
def test_the_command_line_announces_nothing_with_json_or_without_progress(
    words: list[str], wanted: bool | None, monkeypatch: pytest.MonkeyPatch
):
    asked: list[bool | None] = []

    @contextlib.contextmanager
    def telling(wanted: bool | None) -> Iterator[None]:
        asked.append(wanted)
        yield

    monkeypatch.setattr(caches, "announce_compiling", telling)
    CliRunner().invoke(app, words)
    assert asked == [wanted]


@tiers.only_all
def test_a_newer_numba_compiles_in_its_own_way_to_the_same_numbers(tmp_path: Path):
    example = (
        "import rankwise as rw; from rankwise.objectives.softmax.cpu import normalise; "
        "print(type(normalise).__name__); "
        "print(*rw.objectives.SoftmaxCE()([0.5, 1.0, -2.0], [1, 0, 2], [0, 3]).gradient)"
    )
    newer = f"import numba; numba.version_info = numba.version_info._replace(short=(99, 0)); {example}"
    expected, found = (run(tmp_path / str(n), "-c", code).stdout.split() for n, code in enumerate((example, newer)))
    assert [expected[0], found[0]] == ["Kernel", "CPUDispatcher"]
    np.testing.assert_allclose([float(part) for part in found[1:]], [float(part) for part in expected[1:]], rtol=1e-12)
