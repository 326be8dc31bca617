"""Every benchmark that a page names runs to its end at its smallest size, in a folder of its own, and prints a table.

The quickest always run, all of them with ``RANKWISE_TESTS=all``.
"""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import pytest

from benchmarks.harness import MISSED
from tests.docs.commands import PAGES, ROOT
from tests.docs.test_benchmarks import file
from tests.shared import data
from tests.tiers import ALL

NAMED = re.compile(r"\bbenchmarks[./]((?:speed|quality|pages)(?:[./]\w+)+)")
TABLE = re.compile(r"(?m)^\|[-:| ]+\|$|^.*\S {2,}\S.*\n.*\S {2,}\S.*\d")
"""The rule of a table in Markdown, or two lines with columns, the second with a number."""
KEPT = ROOT / "docs" / "results"


@dataclass(frozen=True)
class Smallest:
    """The smallest run of a benchmark."""

    words: str
    """``{mq2008}`` is a folder of the real data, without which it is skipped."""
    quick: bool = False
    """Whether it always runs."""
    needs: tuple[str, ...] = ()
    """Modules that are not everywhere."""
    first: str = ""
    """What runs before it in its folder: the name of a benchmark and words."""
    files: dict[str, str | Path] = field(default_factory=dict)
    """What lies in the folder: names, and their text or the file that is copied."""
    writes: str = ""
    """The file that its table is written to, where it prints none."""


TRITON = ("torch", "triton")
RUNS = {
    "pages.concrete": Smallest("--output figure.png --draws 2000", needs=("matplotlib",)),
    "pages.gpu": Smallest(
        "gpu.json --page gpu.md",
        needs=TRITON,
        first="speed.gpu --device cpu --small --only lists --json gpu.json",
        files={"gpu.md": "<!-- limits:begin --> <!-- limits:end -->\n<!-- losses:begin --> <!-- losses:end -->\n"},
        writes="gpu.md",
    ),
    "pages.published": Smallest("{mq2008} --folds 1 --seconds 1"),
    "pages.readme": Smallest("--figure demo.png"),
    "pages.results": Smallest(
        "{kept}/trials --pages . --tables",
        quick=True,
        files={"gamma.md": "<!-- gamma gamma-tight:begin --> <!-- gamma gamma-tight:end -->\n"},
        writes="gamma.md",
    ),
    "pages.search": Smallest("--picture search.png --rounds 5", needs=("playwright", "starlette")),
    "quality.auto": Smallest(
        "--data few --methods auto default --seeds 1 --bag-seeds 1 --folds 1 --seconds 1 2 --threads 1 --clock cpu"
    ),
    "quality.calibration": Smallest("intervals --draws 1 --processes 1"),
    "quality.clicks": Smallest("{mq2008} --data mq2008 --trials 1 --etas 1 --losses lambdarank --processes 1"),
    "quality.curvature": Smallest(". plrank --data few --folds 1 --processes 1"),
    "quality.defaults": Smallest(
        "--sets synthetic-30 --libraries lightgbm --objectives lambdarank --seeds 1 --test-seeds 1 --rounds 5 "
        "--processes 1 --candidates 'leaves=7, min_documents=5'"
    ),
    "quality.distil": Smallest(". --data few --labelled 1.0 --folds 1 --seeds 1 --quick --processes 1"),
    "quality.engines": Smallest("--documents 300 --queries 3"),
    "quality.fairness": Smallest("{mq2008} --trials 1 --quick --processes 1"),
    "quality.features": Smallest("--rankers trees --queries 30 --sets 1 --processes 1"),
    "quality.fusion": Smallest("{cisi}/.. --data cisi --seeds 1 --divisions 2 --vectors lsa"),
    "quality.gamma": Smallest("{mq2008} --data mq2008 --splits 2 --inner 1 --gammas tight --processes 1"),
    "quality.gate": Smallest("{mq2007-partial} --draws 5 --nulls 1 --queries 50"),
    "quality.goals": Smallest("--seeds 1 --frontiers"),
    "quality.holes": Smallest("{cranfield} {cisi} --draws 1 --shares 0.8 --thinnings 'pool of three' --processes 1"),
    "quality.interleaving": Smallest("--experiments 1 --impressions 4000 --keys 1"),
    "quality.intervals": Smallest("--repeats 3 --queries 3 10", quick=True),
    "quality.judges": Smallest("{mq2007-partial} --draws 4"),
    "quality.kinds": Smallest("{cisi}/.. --sets diabetes --folds 1 --processes 1"),
    "quality.laplace": Smallest(
        ". --data synthetic --families trees --etas 10 --seeds 1 --folds 1 --processes 1", needs=("torch",)
    ),
    "quality.large": Smallest(
        "'lightgbm(lambdarank, rounds=2)' 'lightgbm(xendcg, rounds=2)' --data large --processes 1"
    ),
    "quality.learning_curve": Smallest("--kinds few --sets 1 --real 0"),
    "quality.linear": Smallest("{tmdb-judgments} --data tmdb --folds 1"),
    "quality.nets": Smallest(
        "{mq2008} --data mq2008 --seeds 1 --folds 1 --methods default --processes 1", needs=("torch",)
    ),
    "quality.noise": Smallest(". --data few --seeds 1 --losses xendcg --processes 1"),
    "quality.numpy_scipy": Smallest("--seeds 1 --rankers xendcg"),
    "quality.objectives": Smallest("{mq2008} --seeds 1 --methods lambdarank native:lambdarank --processes 1"),
    "quality.optimism": Smallest("--sets 2 --queries 30 --rounds 1", quick=True),
    "quality.plrank_gap": Smallest("--queries 20 --seeds 1 --rounds 3 --processes 1 --only plrank"),
    "quality.propensities": Smallest("--logs 1 --queries 200 --impressions 1e5"),
    "quality.recommend": Smallest("{ml-latest-small} --seeds 1 --models popularity --threads 1"),
    "quality.rerank": Smallest("--seeds 1 --steps 2 --methods ranknet", needs=("torch", "sentence_transformers")),
    "quality.shipping": Smallest("--logs 1 --settings right --processes 1"),
    "quality.sums": Smallest(". lambdarank xendcg --data few --processes 1"),
    "quality.targets": Smallest("--data synthetic --impressions 1 --seeds 1 --processes 1"),
    "quality.which": Smallest(". lambdarank xendcg --data few --folds 1 --processes 1"),
    "quality.yeti": Smallest("speed --queries 20 --iterations 2 --turns 1", needs=("catboost",)),
    "speed.click_logs": Smallest("log 1e5"),
    "speed.click_models": Smallest("20000"),
    "speed.compile": Smallest("--rounds 1"),
    "speed.cost": Smallest("--kept cost.json --figure cost.png", files={"cost.json": KEPT / "cost.json"}),
    "speed.data": Smallest("--rows 2000 --rounds 1"),
    "speed.gpu": Smallest("--device cpu --small --only lists", needs=TRITON),
    "speed.gpu.nets": Smallest("--device cpu --small --epochs 1", needs=("torch",)),
    "speed.gpu.out_of_core": Smallest("--device cpu --documents 24000 --rounds 5", needs=("xgboost",)),
    "speed.gpu.trees": Smallest("--device cpu --queries 20 --rounds 12 --turns 1", needs=("xgboost",)),
    "speed.install": Smallest("--environment", quick=True),
    "speed.memory": Smallest("--gigabytes 0.001 --rounds 2 --threads 1", needs=("xgboost",)),
    "speed.metrics": Smallest("--own --queries 50 --rounds 1 --threads 1"),
    "speed.neural": Smallest("--quick --only small --threads 1", needs=("torch",)),
    "speed.objectives": Smallest("--quick --lists 20 --threads 1", needs=("torch",)),
    "speed.plrank": Smallest("speed --queries 10"),
    "speed.rerank": Smallest("--device cpu --small --rounds 1", needs=("torch", "sentence_transformers")),
    "speed.scaling": Smallest(
        "--queries 50 --rounds 2 --workers 1 --libraries lightgbm", needs=("distributed", "xgboost")
    ),
    "speed.scoring": Smallest("--libraries lightgbm --leaves 4 --documents 10 --seconds 0.05"),
    "speed.serve": Smallest("--requests 40 --documents 5 --features 5 --trees 5 --leaves 4 --connections 1"),
    "speed.text": Smallest("500 20", quick=True),
    "speed.trees": Smallest("--quick --libraries lightgbm --queries 20 --threads 1"),
}


def programs() -> set[str]:
    """The modules that pages name and that can be run: some are parts of others."""
    pages = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md"]
    named = {name.replace("/", ".") for page in pages for name in NAMED.findall(page.read_text(encoding="utf-8"))}
    found = {name if file(name).is_file() else name.rpartition(".")[0] for name in named}
    return {name for name in found if 'if __name__ == "__main__":' in file(name).read_text(encoding="utf-8")}


def test_every_benchmark_that_a_page_names_has_a_smallest_run():
    assert sorted(RUNS) == sorted(programs())


@pytest.mark.parametrize("module", RUNS)
def test_the_smallest_run_prints_a_table(module: str, tmp_path: Path):
    smallest = RUNS[module]
    if not (ALL or smallest.quick):
        pytest.skip("runs for long; make test-all includes it")
    for needed in smallest.needs:
        if find_spec(needed) is None:
            pytest.skip(f"needs {needed}")
    folders = {name: str(data(name)) for name in re.findall(r"\{([\w-]+)\}", smallest.words) if name != "kept"}
    folders["kept"] = str(KEPT)
    for name, content in smallest.files.items():
        text = content.read_text(encoding="utf-8") if isinstance(content, Path) else content
        (tmp_path / name).write_text(text, encoding="utf-8")
    if smallest.first:
        run(*shlex.split(smallest.first), folder=tmp_path)
    words = [re.sub(r"\{([\w-]+)\}", lambda name: folders[name[1]], word) for word in shlex.split(smallest.words)]
    said = run(module, *words, folder=tmp_path)
    text = (tmp_path / smallest.writes).read_text(encoding="utf-8") if smallest.writes else said
    assert TABLE.search(text), text


def run(module: str, *words: str, folder: Path) -> str:
    """Run a benchmark, and return what it prints; a busy machine may miss its targets."""
    paths = os.pathsep.join(filter(None, [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH")]))
    settings = {"PYTHONPATH": paths, "TRITON_INTERPRET": "1", "HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    done = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *words],
        env=os.environ | settings,
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    assert done.returncode in (0, MISSED), done.stderr
    return done.stdout
