"""What an installation takes: the core of rankwise beside LightGBM and XGBoost, each into an empty environment.

    python -m benchmarks.speed.install [--wheel FILE] [--rounds 3]
    python -m benchmarks.speed.install --environment [FOLDER]

MB are 10⁶ bytes of files, without byte code. CPU seconds are pip's, of the least busy round; pip keeps what it
downloads, so the first round is the one that waits for a network. The second table has what rankwise's environment
holds; ``--environment`` prints that of one that is there, of this Python unless a folder is named.
"""

import re
import resource
import subprocess
import sys
import tempfile
from collections.abc import Container
from importlib.metadata import distributions
from pathlib import Path

from benchmarks.harness import arguments
from rankwise.base.tables import Table

ROOT = Path(__file__).parents[2]
SMALL = 1.0
"""MB of a package that the table leaves out."""


def packages(prefix: Path) -> dict[str, float]:
    """Return the MB of each package of an environment."""
    (place,) = prefix.glob("lib/python3*/site-packages")
    sizes: dict[str, float] = {}
    for found in distributions(path=[str(place)]):
        files = [Path(str(file.locate())) for file in found.files or () if file.suffix != ".pyc"]
        name = re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower()
        sizes[name] = sum(file.stat().st_size for file in files if file.is_file()) / 1e6
    return sizes


def install(what: str) -> tuple[dict[str, float], float]:
    """Install into an empty environment; return the MB of its packages, and the CPU seconds of pip."""
    with tempfile.TemporaryDirectory(prefix="rankwise-install-") as folder:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        pip = [sys.executable, "-m", "pip", "--python", f"{folder}/bin/python", "install", "--quiet", "--no-compile"]
        subprocess.run([*pip, "--only-binary", ":all:", what], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return packages(Path(folder)), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def listing(sizes: dict[str, float], theirs: Container[str]) -> str:
    """Return the table of packages, the largest first."""
    rows = [
        (name, f"{size:.0f}", "yes" if name in theirs else "")
        for name, size in sorted(sizes.items(), key=lambda pair: -pair[1])
        if size > SMALL
    ]
    rows.append(("all others", f"{sum(size for size in sizes.values() if size <= SMALL):.0f}", ""))
    return Table(header=("package", "MB", "LightGBM's too"), rows=tuple(rows), align="lrl").text()


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--wheel", type=Path, help="of rankwise, instead of one that is built of this checkout")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--environment", type=Path, nargs="?", const=Path(sys.prefix))
    given = parser.parse_args()
    if given.environment is not None:
        print(listing(packages(given.environment), ()))
        return
    with tempfile.TemporaryDirectory(prefix="rankwise-wheel-") as folder:
        wheel = given.wheel
        if wheel is None:
            build = [sys.executable, "-m", "build", "--wheel", "--outdir", folder, str(ROOT)]
            subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
            (wheel,) = Path(folder).glob("*.whl")
        names = {"lightgbm": "lightgbm", "xgboost": "xgboost", "rankwise": str(wheel)}
        found = {name: [install(what) for _ in range(given.rounds)] for name, what in names.items()}
    rows = tuple(
        (name, f"{sum(runs[0][0].values()):.0f}", f"{min(cpu for _, cpu in runs):.1f}") for name, runs in found.items()
    )
    print(Table(header=("pip install", "MB", "CPU s"), rows=rows, align="lrr").text(), end="\n\n")
    print(listing(found["rankwise"][0][0], found["lightgbm"][0][0]))


if __name__ == "__main__":
    main()
