"""Whether the wheel works where it is installed: ``make test-matrix``, or ``python -m tests.release.matrix --help``.

Builds the sdist and, from it, the wheel; installs the wheel into empty environments, one for each row, away from the
checkout; trains, saves, loads and serves there; prints a table. A row is a Python, an extra, and the *newest* or the
*lowest* versions of its dependencies that ``pyproject.toml`` admits; or a circumstance, such as a user without a home.
Nothing is kept: an environment is removed as soon as its row is done. A row whose Python is not on this machine, or
whose libraries cannot be installed, is *not run*, with the reason; the exit status is 1 if a row failed.
"""

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PYTHONS = [line.rpartition(" ")[2] for line in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", line)]
EXTRAS = (
    *("xgboost", "catboost", "tune", "torch", "serve", "export", "rerank"),
    *("text", "engines", "recommend", "remote", "dask"),
)
JOB = ROOT / "tests" / "release" / "job.py"
NOBODY = 65534
CIRCUMSTANCES = (
    "read-only installation",
    "no home folder",
    "HOME unset",
    "not root",
    "spawn",
    "fork",
    "IPython",
    "-W error",
    "-X dev",
    "models of earlier versions",
    "missing extras",
    "rankwise demo",
)


@dataclass
class Row:
    """A line of the table."""

    python: str
    what: str
    versions: str
    outcome: str = ""
    seconds: float = 0.0
    size: float = 0.0
    """MB of the environment."""
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        size = f"{self.size:5.0f} MB" if self.size else " " * 8
        notes = "; ".join(self.notes)
        return f"{self.python:7}{self.what:28}{self.versions:8} {self.outcome:8}{self.seconds:5.0f} s  {size}  {notes}"


class NotRunError(Exception):
    """A row that this machine cannot run."""


def run(*command: object, cwd: Path, env: Mapping[str, str] | None = None, user: int | None = None) -> str:
    """Run a command away from the checkout, and return what it printed; raise with its last lines where it fails."""
    done = subprocess.run(
        [str(word) for word in command], capture_output=True, text=True, cwd=cwd, env=env or clean(), user=user,
        group=user, extra_groups=None if user is None else [], check=False,
    )  # fmt: skip
    if done.returncode:
        said = [line for line in (done.stdout + done.stderr).strip().splitlines() if not line.startswith("WARNING")]
        raise RuntimeError(" / ".join(said[-3:]) or f"{done.returncode}")
    return done.stdout


def clean(**changes: str) -> dict[str, str]:
    """Return the environment without what would change Python, rankwise or its caches."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "RANKWISE", "NUMBA"))}
    return kept | changes


def interpreters(user: int | None = None) -> dict[str, str]:
    """Return the Pythons of this machine, by version, of those that the project names and a user may run."""
    found: dict[str, str] = {}
    places = [*map(str, Path.home().glob(".pyenv/versions/*/bin")), *os.environ.get("PATH", "").split(os.pathsep)]
    for version, place in ((version, place) for version in PYTHONS for place in places):
        path = shutil.which(f"python{version}", path=place)
        if path is None or version in found:
            continue
        with contextlib.suppress(RuntimeError, PermissionError):
            which = run(path, "-c", "import sys, venv; print('%d.%d' % sys.version_info[:2])", cwd=Path("/"), user=user)
            if which.strip() == version:
                found[version] = path
    return found


def lowest(extra: str, python: str = PYTHONS[0]) -> list[str]:
    """Return constraints to the lowest versions of the dependencies that the core and an extra declare for a Python.

    >>> [line for line in lowest("torch") if line.startswith(("numpy", "torch"))]
    ['numpy==2.0', 'torch==2.6']
    """
    bounds: dict[str, str] = {}
    for need in map(Requirement, [*PROJECT["dependencies"], *PROJECT["optional-dependencies"].get(extra, ())]):
        if need.marker is None or need.marker.evaluate({"python_version": python}):
            found = [spec.version for spec in need.specifier if spec.operator == ">="]
            bounds[need.name] = max([*found, bounds.get(need.name, "0")], key=Version)
    return [f"{name}=={version}" for name, version in sorted(bounds.items())]


def newest() -> list[str]:
    """Return constraints of the newest versions: none but torch's, whose newest build brings gigabytes for GPUs."""
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.startswith("torch==")]


def build(folder: Path) -> Path:
    """Build the sdist and, from it, the wheel."""
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder, env=dict(os.environ))
    (wheel,) = folder.glob("*.whl")
    return wheel


@contextlib.contextmanager
def environment(python: str, wheel: Path, extra: str, constraints: Sequence[str], *more: str) -> Iterator[Path]:
    """Install the wheel into an empty environment, which ends with the ``with`` block."""
    with tempfile.TemporaryDirectory(prefix="rankwise-matrix-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        run(python, "-m", "venv", "--without-pip", home / "env", cwd=home)
        (home / "constraints.txt").write_text("\n".join(constraints) + "\n")
        (home / "job.py").write_bytes(JOB.read_bytes())
        asked = f"{wheel}[{extra}]" if extra else str(wheel)
        install = [sys.executable, "-m", "pip", "--python", home / "env" / "bin" / "python", "install"]
        install += ["--quiet", "--no-compile", "--only-binary", ":all:"]  # building SciPy says nothing about the wheel
        try:
            run(*install, "--constraint", home / "constraints.txt", asked, *more, cwd=home)
        except RuntimeError as failed:
            raise NotRunError(f"cannot be installed: {failed}") from None
        yield home


def size_of(folder: Path) -> float:
    """Return the MB of the files in a folder."""
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


def one(row: Row, python: str | None, wheel: Path, extra: str, cache: Path, work: Sequence[str]) -> None:
    """Run the row of an extra; kernels that earlier rows with the same versions compiled are not compiled again."""
    if python is None:
        raise NotRunError(f"no Python {row.python} on this machine")
    constraints = newest() if row.versions == "newest" else lowest(extra, row.python)
    with environment(python, wheel, extra, constraints) as home:
        row.size = size_of(home / "env")
        interpreter = home / "env" / "bin" / "python"
        own = clean(HOME=str(home), XDG_CACHE_HOME=str(cache))
        run(interpreter, "-c", "import rankwise; import sys; sys.exit(len(rankwise.__file__) == 0)", cwd=home, env=own)
        for name in work:
            run(interpreter, home / "job.py", name, cwd=home, env=own)


def circumstances(rows: Sequence[Row], python: str, wheel: Path) -> None:
    """Run the rows of circumstances, in one environment of the core."""
    with environment(python, wheel, "", newest(), "ipython") as home:
        interpreter, job = home / "env" / "bin" / "python", home / "job.py"
        archives = sorted((ROOT / "tests" / "rankers" / "saved").glob("?.?.?.tar.xz"))
        for row in rows:
            began = time.monotonic()
            cache = home / f"cache of {row.what}"
            cache.mkdir()
            cache.chmod(0o777)
            env = clean(HOME=str(home), XDG_CACHE_HOME=str(cache))
            try:
                match row.what:
                    case "read-only installation":
                        nobody(row)
                        run("chmod", "-R", "a-w", home / "env", cwd=home)
                        run(interpreter, job, "core", cwd=cache, env=env, user=NOBODY)
                        run("chmod", "-R", "u+w", home / "env", cwd=home)
                    case "no home folder":
                        nobody(row)
                        without = clean(HOME="/nonexistent")
                        without.pop("XDG_CACHE_HOME", None)
                        printed = run(interpreter, "-W", "always", job, "core", cwd=cache, env=without, user=NOBODY)
                        row.notes += [line for line in printed.splitlines() if "cache" in line][:1]
                    case "HOME unset":
                        env = clean()
                        env.pop("HOME", None)
                        run(interpreter, job, "core", cwd=cache, env=env)
                    case "not root":
                        nobody(row)
                        run(interpreter, job, "core", cwd=cache, env=env, user=NOBODY)
                    case "IPython":
                        code = "import rankwise as rw; data = rw.synthetic(n_queries=9, seed=1); data"
                        shown = run(interpreter, "-m", "IPython", "--no-banner", "-c", code, cwd=cache, env=env)
                        assert "9 queries" in shown.replace("\n", " "), shown
                    case "-W error":
                        run(interpreter, "-W", "error", job, "core", cwd=cache, env=env)
                    case "-X dev":
                        run(interpreter, "-X", "dev", "-W", "error", job, "core", cwd=cache, env=env)
                    case "models of earlier versions":
                        run(interpreter, job, "saved", *archives, cwd=cache, env=env)
                        row.notes.append(", ".join(path.name.removesuffix(".tar.xz") for path in archives))
                    case "rankwise demo":
                        run("chmod", "-R", "a-w", home / "env", cwd=home)
                        demo = [home / "env" / "bin" / "rankwise", "demo"]
                        run(*demo, cwd=cache, env=env, user=NOBODY if is_root() else None)
                        run("chmod", "-R", "u+w", home / "env", cwd=home)
                        row.notes.append(", ".join(sorted(path.name for path in cache.iterdir())))
                    case _:
                        run(interpreter, job, row.what.replace(" ", "_"), cwd=cache, env=env)
                row.outcome = "passed"
            except (NotRunError, PermissionError) as wrong:  # the latter: a Python that others may not run
                row.outcome, row.notes = "not run", [str(wrong)]
            except (RuntimeError, AssertionError) as wrong:
                row.outcome, row.notes = "FAILED", [str(wrong)]
            row.seconds = time.monotonic() - began
            print(row, flush=True)


def earlier(row: Row, commit: str, python: str | None, wheel: Path) -> None:
    """Train and save models with the wheel of a commit, and score them with the new one in another environment."""
    if python is None:
        raise NotRunError(f"no Python {row.python} on this machine")
    with tempfile.TemporaryDirectory(prefix="rankwise-commit-") as folder:
        source, models = Path(folder) / "source", Path(folder) / "models"
        for place in source, models:
            place.mkdir()
        run("git", "archive", "--output", f"{source}.tar", commit, cwd=ROOT)
        shutil.unpack_archive(f"{source}.tar", source, filter="data")
        run(sys.executable, "-m", "build", "--wheel", "--outdir", folder, source, cwd=source, env=dict(os.environ))
        (old,) = Path(folder).glob("*.whl")
        for work, of in ("saves", old), ("loads", wheel):
            with environment(python, of, "xgboost", newest()) as home:
                own = clean(HOME=str(home), XDG_CACHE_HOME=str(home / "cache"))
                printed = run(home / "env" / "bin" / "python", home / "job.py", work, models, cwd=home, env=own)
        row.notes.append(printed.splitlines()[0])


def is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


def nobody(_: Row) -> None:
    """Raise where another user cannot be taken on."""
    if not is_root():
        raise NotRunError("only root can become another user")


def main(words: Sequence[str] | None = None) -> int:
    """Run the rows that are asked for, print them, and return how many failed."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n\n", maxsplit=1)[0])
    parser.add_argument("--pythons", nargs="+", default=PYTHONS, choices=PYTHONS)
    parser.add_argument("--extras", nargs="*", default=list(EXTRAS), choices=EXTRAS)
    parser.add_argument("--versions", nargs="+", default=["newest", "lowest"], choices=("newest", "lowest"))
    parser.add_argument("--circumstances", nargs="*", default=list(CIRCUMSTANCES), choices=CIRCUMSTANCES)
    parser.add_argument("--without-core", action="store_true", help="no row of the core, and its work in no other")
    parser.add_argument("--commits", nargs="*", default=[], help="commits or tags whose models must score the same")
    parser.add_argument("--wheel", type=Path, help="a wheel instead of a new one")
    options = parser.parse_args(words)
    found = interpreters()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(prefix="rankwise-wheel-") as folder:
        wheel = options.wheel or build(Path(folder))
        print(f"{wheel.name}, {wheel.stat().st_size / 1e6:.1f} MB\n", flush=True)
        jobs: list[tuple[Row, Callable[[Row], None]]] = []
        for python in options.pythons:
            core = [] if options.without_core else ["core"]
            for extra in [*(core and [""]), *(options.extras if python == options.pythons[0] else ())]:
                work = [*core, extra] if extra else core
                job: Callable[[Row], None] = partial(
                    one, python=found.get(python), wheel=wheel, extra=extra, cache=Path(folder), work=work
                )
                jobs += [(Row(python, extra or "core", versions), job) for versions in options.versions]
        for commit in options.commits:
            job = partial(earlier, commit=commit, python=found.get(options.pythons[0]), wheel=wheel)
            jobs.append((Row(options.pythons[0], f"models of {commit}", "newest"), job))
        for row, job in jobs:
            began = time.monotonic()
            try:
                job(row)
                row.outcome = "passed"
            except NotRunError as wrong:
                row.outcome, row.notes = "not run", [str(wrong)]
            except (RuntimeError, AssertionError) as wrong:
                row.outcome, row.notes = "FAILED", [str(wrong)]
            row.seconds = time.monotonic() - began
            rows.append(row)
            print(row, flush=True)
        others = found | (interpreters(NOBODY) if is_root() else {})  # one that users without rights may run, too
        if options.circumstances and (python := next((p for p in options.pythons if p in others), None)):
            more = [Row(python, what, "newest") for what in options.circumstances]
            circumstances(more, others[python], wheel)
            rows += more
    outcomes = [row.outcome for row in rows]
    print(
        f"\n{outcomes.count('passed')} passed, {outcomes.count('FAILED')} failed, {outcomes.count('not run')} not run"
    )
    return int("FAILED" in outcomes)


if __name__ == "__main__":
    sys.exit(main())
