"""The built wheel, in an environment of what it requires and nothing else, away from the checkout."""

import os
import subprocess
import sys
import zipfile
from importlib.metadata import Distribution, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests import tiers

ROOT = Path(__file__).parents[1]
EXTRAS = {
    "catboost",
    "dask",
    "distributed",
    "onnx",
    "optuna",
    "orjson",
    "prometheus_client",
    "starlette",
    "torch",
    "transformers",
    "treelite",
    "triton",
    "uvicorn",
    "xgboost",
}

# Imports every module, which may miss what an extra brings and nothing else; then trains, evaluates and draws.
JOB = """
import importlib, pkgutil, sys
from typer.testing import CliRunner
import rankwise as rw
from rankwise.cli.app import app

for module in pkgutil.walk_packages(rw.__path__, "rankwise."):
    try:
        importlib.import_module(module.name) if module.name != "rankwise.__main__" else None
    except ModuleNotFoundError as missing:
        print("missing", missing.name.partition(".")[0])
    except ImportError as missing:
        assert "pip install 'rankwise[" in str(missing), missing

rw.data.write_parquet(rw.synthetic(n_queries=20, n_docs=8, seed=1), "data.parquet")
for words in (
    "train data.parquet --rounds 3 -o model",
    "predict model data.parquet -o scores.npy",
    "compare data.parquet model scores.npy --plot plot.png --report report.html",
):
    done = CliRunner().invoke(app, words.split())
    assert done.exit_code == 0, done.output
"""


def required(by: Distribution) -> dict[str, Distribution]:
    """Return the distributions that one requires, directly or not, of those that are installed here, by name."""
    found: dict[str, Distribution] = {}
    waiting = [(by, {""})]
    while waiting:
        one, extras = waiting.pop()
        for need in map(Requirement, one.requires or ()):
            if need.name not in found and any(
                need.marker is None or need.marker.evaluate({"extra": e}) for e in extras
            ):
                found[need.name] = distribution(need.name)
                waiting.append((found[need.name], {"", *need.extras}))
    return found


@pytest.mark.slow
def test_the_wheel_runs_in_a_clean_environment(tmp_path):
    """Installs twice, and compiles kernels anew."""

    def run(*command: str | Path) -> str:
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "COV_", "RANKWISE"))}
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, cwd=tmp_path, env=clean, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    run(sys.executable, "-m", "build", "--wheel", "--outdir", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("rankwise-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "rankwise/py.typed" in names
    assert "rankwise/__init__.pyi" in names  # the public names are read from it
    assert not [name for name in names if name.startswith(("tests", "benchmarks"))]
    sources = [path for path in (ROOT / "src" / "rankwise").rglob("*") if path.is_file()]
    expected = {path.relative_to(ROOT / "src").as_posix() for path in sources if path.parent.name != "__pycache__"}
    assert expected <= set(names)

    python, script = (tmp_path / "clean" / "bin" / name for name in ("python", "rankwise"))
    install = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", wheel]
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "clean")
    if tiers.ALL:
        run(*install, "--constraint", ROOT / "constraints.txt")
    else:  # what it requires is not installed again, but linked
        run(*install, "--no-deps")
        (folder,) = (tmp_path / "clean" / "lib").glob("python*/site-packages")
        (own,) = folder.glob("rankwise-*.dist-info")
        for one in required(Distribution.at(own)).values():
            for name in {file.parts[0] for file in one.files or ()} - {"..", "__pycache__"}:
                if not name.endswith(".pth"):
                    (folder / name).symlink_to(one.locate_file(name))
    assert str(tmp_path) in run(python, "-c", "import rankwise; print(rankwise.__file__)")
    assert "rankwise" in run(script, "--version")
    missing = {line.split()[1] for line in run(python, "-c", JOB).splitlines() if line.startswith("missing")}
    assert missing <= EXTRAS
    assert "torch" in missing  # the environment is clean
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
    if tiers.ALL:
        run(script, "demo", "--output", tmp_path / "demo")
        assert list((tmp_path / "demo").rglob("*.png"))
