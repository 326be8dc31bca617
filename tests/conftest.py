"""What all tests share: nothing of the user's own cache folder, settings and terminal; examples without a clock."""

import gc
import json
import os
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import settings

import rankwise as rw
from rankwise.base import compiling

# What would change the data, the threads, or the colours and the width of what commands print. Typer looks for some of
# these when it is imported, which is before any fixture.
for setting in (
    *("RANKWISE_DATA", "RANKWISE_THREADS"),
    *("COLUMNS", "LINES", "JUPYTER_COLUMNS", "JUPYTER_LINES", "TERMINAL_WIDTH"),
    *("FORCE_COLOR", "GITHUB_ACTIONS", "NO_COLOR", "PY_COLORS", "TTY_COMPATIBLE", "TTY_INTERACTIVE"),
):
    os.environ.pop(setting, None)

# Threads of OpenMP sleep while they wait: where workers share cores, spinning makes small nets ten times slower.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Device kernels run in Triton's interpreter where there is no GPU. Triton looks for this when it is imported.
if not Path("/dev/nvidia0").exists():
    os.environ.setdefault("TRITON_INTERPRET", "1")

# The first example of a property compiles kernels, so examples have no deadline. Nothing is kept from run to run: it
# would lie in the checkout, which may be read-only.
settings.register_profile("rankwise", deadline=None, max_examples=50, database=None)
settings.load_profile("rankwise")


# Two workers end together where the longest files begin first. ``--record-durations`` measures them anew.

DURATIONS = Path(__file__).with_name("durations.json")
_seconds: defaultdict[str, float] = defaultdict(float)


def _file(nodeid: str) -> str:
    return nodeid.partition("::")[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", action="store_true", help=f"write the seconds of files to {DURATIONS.name}")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if hasattr(config, "workerinput"):  # of pytest-xdist
        seconds = json.loads(DURATIONS.read_text())
        items.sort(key=lambda item: -seconds.get(_file(item.nodeid), 0.0))


# Fifteen thousand tests, and the libraries that they import, are looked through whenever Python collects garbage.


def pytest_sessionstart() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    gc.enable()
    gc.freeze()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[_file(report.nodeid)] += report.duration


def pytest_sessionfinish(session: pytest.Session) -> None:
    if session.config.getoption("--record-durations", default=False) and not hasattr(session.config, "workerinput"):
        known = {name: seconds for name, seconds in json.loads(DURATIONS.read_text()).items() if Path(name).exists()}
        by_length = sorted((known | _seconds).items(), key=lambda entry: -entry[1])
        longest = {name: round(seconds) for name, seconds in by_length if seconds >= 1.0}
        DURATIONS.write_text(json.dumps(longest, indent=1) + "\n")


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RANKWISE_CACHE", raising=False)
        patch.setenv("RANKWISE_COMPILE_AHEAD", "0")
        if compiling._folder is not None:  # for other processes too, whatever their home
            patch.setenv("NUMBA_CACHE_DIR", str(compiling._folder.parent))
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


# A small set that rankers learn from in moments, and its two parts.


@pytest.fixture(scope="session")
def whole():
    return rw.synthetic(n_queries=65, n_features=12, n_docs=20, seed=3)


@pytest.fixture(scope="session")
def data(whole):
    return whole.take(slice(0, 40))


@pytest.fixture(scope="session")
def valid(whole):
    return whole.take(slice(40, 65))
