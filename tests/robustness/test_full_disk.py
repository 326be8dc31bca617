"""Disks that are full, really: whatever writes a file says so in one sentence, and what was there before stays.

The first test takes a small file system of its own, which needs the right to mount one; the second a limit on the size
of files, which anybody can set. A process of its own writes, because nothing else in it could be written either.
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tiers
from tests.processes import HANG

# Write everything once, make the disk full, write everything again, and say what is there then.
CODE = """
import contextlib, json, sys
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

import rankwise as rw
from rankwise.cli.app import app
from rankwise.wings.lab.experiments.running.store import Outcome, Store
from rankwise.evaluation.trec import write_run

kind, folder, scratch = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
data = rw.synthetic(n_queries=30, n_features=4, n_docs=8.0, seed=1)
scores = data.features[:, 0].astype(float)
inputs = scratch / "data.parquet"
rw.data.write_parquet(data, inputs)
np.save(scratch / "a.npy", scores)
np.save(scratch / "b.npy", -scores)
model = rw.LightGBMRanker("xendcg", rounds=3, leaves=4, min_documents=2, threads=1).fit(data)
model.save(scratch / "model")
ratings = [f"{user},{item},{1 + (user * item) % 5}" for user in range(12) for item in range(12) if (user + item) % 3]
(scratch / "ratings.csv").write_text("user,item,rating\\n" + "\\n".join(ratings) + "\\n")
events = rw.recommend.Interactions.read(scratch / "ratings.csv")
factors = rw.recommend.FactorizationRanker(epochs=1, factors=2).fit(events)
factors.save(scratch / "factors")
spec = rw.lab.Spec(
    name="x", data=[str(inputs)], trials=2, metrics=["ndcg@5"], methods={"a": "lightgbm(xendcg)"},
    settings={"rounds": 2, "leaves": 4, "min_documents": 2, "threads": 1},
)
results = rw.lab.reproduce(spec, scratch / "results", jobs=1)
trial = Outcome(frames={"queries": results.queries, "curves": results.curves}, about={"seconds": 1.0})


def command(*words):
    def call(path):
        done = CliRunner().invoke(app, [str(word).replace("OUT", str(path)) for word in (*words, "--force")])
        if done.exit_code:
            assert done.exit_code == 2, done.output
            raise OSError(done.stderr)

    return call


a, b = scratch / "a.npy", scratch / "b.npy"
WRITERS = {
    "data.txt": lambda path: rw.data.write_letor(data, path, force=True),
    "data.txt.gz": lambda path: rw.data.write_letor(data, path, force=True),
    "data.txt.zst": lambda path: rw.data.write_letor(data, path, force=True),
    "data.parquet": lambda path: rw.data.write_parquet(data, path, force=True),
    "a.run": lambda path: write_run(scores, data, path, tag="a", force=True),
    "convert.parquet": command("data", "convert", inputs, "-o", "OUT"),
    "noise.txt": command("data", "noise", inputs, "-o", "OUT", "--flips", "0.1"),
    "clicks.parquet": command("data", "clicks", inputs, "-o", "OUT", "--impressions", "2"),
    "split.txt": command("data", "split", inputs, "-o", "OUT", "--proportions", "1"),
    **{
        f"evaluate{end}": command("evaluate", inputs, a, "-o", "OUT")
        for end in (".json", ".csv", ".md", ".tex", ".txt")
    },
    **{f"queries{end}": command("evaluate", inputs, a, "--per-query", "OUT") for end in (".csv", ".parquet")},
    "compare.md": command("compare", inputs, a, b, "-o", "OUT"),
    **{f"compare{end}": command("compare", inputs, a, b, "--plot", "OUT") for end in (".png", ".svg", ".pdf")},
    **{
        f"scores{end}": command("predict", scratch / "model", inputs, "-o", "OUT")
        for end in (".txt", ".txt.gz", ".npy", ".run", ".parquet")
    },
    **{f"top{end}": command("recommend", scratch / "factors", "-o", "OUT") for end in (".csv", ".parquet", ".json")},
    "model.json": command("export", scratch / "model", "-o", "OUT", "--format", "elasticsearch"),
    "model.onnx": command("export", scratch / "model", "-o", "OUT", "--format", "onnx"),
    "model": lambda path: model.save(path, force=True),
    "factors": lambda path: factors.save(path, force=True),
    "trials": lambda path: Store(path).write("t", trial),
    "report": lambda path: rw.lab.write_report(results, path, force=True),
}


def contents():
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def fill():
    with contextlib.suppress(OSError), (folder / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(512))


for name, write in WRITERS.items():
    write(folder / name)
before = contents()
if kind == "full":
    fill()
else:
    import resource

    resource.setrlimit(resource.RLIMIT_FSIZE, (24, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
said = {}
for name, write in WRITERS.items():
    try:
        write(folder / name)
        said[name] = "no error"
    except OSError as failed:
        said[name] = str(failed)
    except BaseException as failed:
        said[name] = f"leaked {type(failed).__name__}: {failed}"
after = contents()
after.pop("filler", None)
lost = [name for name in before if after.get(name) != before[name]]
print(json.dumps({"said": said, "lost": lost, "more": sorted(set(after) - set(before))}))
"""


def check(done: "subprocess.CompletedProcess[str]", words: str) -> None:
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    wrong = {name: text for name, text in found["said"].items() if words not in text.lower() or "leaked" in text}
    assert not wrong
    unnamed = {name: text for name, text in found["said"].items() if name.partition(".")[0] not in text}
    assert not unnamed
    assert not {name: text for name, text in found["said"].items() if "None" in text or ".part" in text}
    assert not found["lost"]
    assert not found["more"]
    assert len(found["said"]) > 30


def run(tmp_path: Path, *before: str, kind: str) -> "subprocess.CompletedProcess[str]":
    for name in ("disk", "scratch"):
        (tmp_path / name).mkdir()
    command = [*before, sys.executable, "-c", CODE, kind, str(tmp_path / "disk"), str(tmp_path / "scratch")]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG)


@tiers.only_all
def test_a_full_file_system_keeps_every_old_file(tmp_path):
    (tmp_path / "disk").mkdir()
    mount = f"mount -t tmpfs -o size=8m tmpfs {tmp_path / 'disk'}"
    own = ("unshare", "--mount", "sh", "-c")
    if not shutil.which("unshare") or subprocess.run([*own, mount], capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a small file system here")
    (tmp_path / "disk").rmdir()
    check(run(tmp_path, *own, f'{mount} && "$0" "$@"', kind="full"), "no space left on device")


@pytest.mark.slow
def test_a_limit_on_the_size_of_files_keeps_every_old_file(tmp_path):
    """Slow: everything that writes is called twice, figures and reports among it."""
    pytest.importorskip("resource", reason="needs limits on processes")
    check(run(tmp_path, kind="limit"), "file too large")
