"""The built wheel, installed into a clean environment and run away from the checkout."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.slow
def test_the_wheel_runs_in_a_clean_environment(tmp_path):
    def run(*command: str | Path, **options: object) -> str:
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

    run(sys.executable, "-m", "venv", tmp_path / "clean")
    python = tmp_path / "clean" / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", ROOT / "constraints.txt", wheel)
    home = run(python, "-c", "import rankwise; print(rankwise.__file__)")
    assert str(tmp_path) in home
    assert "rankwise" in run(tmp_path / "clean" / "bin" / "rankwise", "--version")
    run(tmp_path / "clean" / "bin" / "rankwise", "demo", "--output", tmp_path / "demo")
    assert list((tmp_path / "demo").rglob("*.png"))
