"""Wheel and sdist of a release with their checksums in ``dist``: ``python -m tests.release.dist [v1.2.3]``.

A tag that is not the version of the package, a changelog without it, no archives of what it writes, or a wheel whose
contents are not those of the source end with an error.
"""

import hashlib
import subprocess
import sys
import tarfile
import zipfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import rankwise as rw

ROOT = Path(__file__).parents[2]
TOP = {"CHANGELOG.md", "LICENSE", "README.md", "SECURITY.md", "pyproject.toml", "conftest.py", "constraints.txt"}


def contents_of_wheel(path: Path) -> set[str]:
    """Return the names of the files in a wheel, without those that describe it."""
    with zipfile.ZipFile(path) as wheel:
        return {name for name in wheel.namelist() if ".dist-info/" not in name}


def contents_of_sdist(path: Path) -> set[str]:
    """Return the names of the files in an sdist, below its folder."""
    with tarfile.open(path) as sdist:
        return {one.name.partition("/")[2] for one in sdist.getmembers() if one.isfile()}


def tracked(*folders: str) -> set[str]:
    """Return the files that git tracks; those of a checkout without git are whatever lies there."""
    listed = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(listed.stdout.splitlines())


def check(wheel: Path, sdist: Path) -> None:
    """Raise if the distributions hold anything but what they should."""
    package = {name.removeprefix("src/") for name in tracked("src/rankwise")}
    assert contents_of_wheel(wheel) == package, contents_of_wheel(wheel) ^ package
    inside = contents_of_sdist(sdist)
    missing = (tracked("src", "tests") | TOP) - inside
    assert not missing, f"the sdist lacks {sorted(missing)}"
    strange = inside - tracked() - {"PKG-INFO"}
    assert not strange, f"the sdist holds {sorted(strange)}, which git does not track"


def listing(path: Path, names: set[str]) -> str:
    """Return how many files a distribution holds, by folder: two levels of the package, one of all else."""
    depth = 2 if path.suffix == ".whl" else 1
    folders = Counter("/".join(name.split("/")[:-1][:depth]) or "." for name in names)
    inside = ", ".join(f"{folder} {number}" for folder, number in sorted(folders.items()))
    return f"{path.name}, {path.stat().st_size / 1e6:.1f} MB, {len(names)} files: {inside}"


def main(words: Sequence[str]) -> None:
    """Build, check and write checksums."""
    for tag in words:
        assert tag == f"v{rw.__version__}", f"the tag {tag} is not the version {rw.__version__}"
        assert f"## [{rw.__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), "no entry in CHANGELOG"
        for kept in ("rankers/saved", "release/kept"):
            path = ROOT / "tests" / kept / f"{rw.__version__}.tar.xz"
            assert path.is_file(), f"no {path.name} in tests/{kept}: later versions are tested with it"
    folder = ROOT / "dist"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)], check=True, capture_output=True)
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    check(wheel, sdist)
    for path, names in (wheel, contents_of_wheel(wheel)), (sdist, contents_of_sdist(sdist)):
        print(listing(path, names), end="\n\n")
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}" for path in (sdist, wheel)]
    (folder / "SHA256SUMS").write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main(sys.argv[1:])
