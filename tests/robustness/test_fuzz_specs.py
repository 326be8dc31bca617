"""Damaged files of settings, trials and studies are read, or refused with the file and what to do."""

from collections.abc import Callable
from importlib import resources
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rankwise as rw
from rankwise.cli.train.rankers import read_parameters
from rankwise.wings.datasets.description import describe
from rankwise.wings.lab.experiments.results import Results
from rankwise.wings.lab.experiments.running.store import Outcome, Store
from rankwise.wings.lab.experiments.spec import Spec, find_spec, recipes
from rankwise.wings.tuning.result import Tuning
from tests.robustness import fuzzing
from tests.wings.lab import synthetic_results

pytestmark = pytest.mark.slow
WORDS = (
    *(
        b"[",
        b"]",
        b"[[",
        b"{",
        b"}",
        b"=",
        b"'''",
        b'"""',
        b"\\",
        b"\\u",
        b"#",
        b"true",
        b"1979-05-27T07:32:00Z",
        b"0xF",
    ),
    *(
        b'"../../x"',
        b"[quick]",
        b"[settings]",
        b"[methods]",
        b'"lightgbm(5)"',
        b"name",
        b"data = 5\n",
        b"levels = []\n",
    ),
)
OWN = b'name = "mine"\ntrain = "{fold}/train.txt"\ntest = "{fold}/test.txt"\nfolds = 3\nfirst_index = 1\n'
TOML = b'ranker = "lightgbm"\nobjective = "xendcg"\nmetrics = ["ap"]\npatience = "none"\n[tuning]\nvalue = 0.5\n'
JSON = b'{"ranker": "lightgbm", "objective": "xendcg", "leaves": 31, "metrics": ["ndcg@10"], "tuning": {"value": 0.5}}'
SEARCH = (
    b'{"ranker": "lightgbm", "metric": "ap", "space": {"leaves": "whole(3, 15)"}, "trial": 0, "best_round": 2,'
    b' "parameters": {"leaves": 4}, "stopped": "trials", "seed": 0, "trials": [{"number": 0, "state": "complete",'
    b' "value": 0.5, "seconds": 1.5, "values": {"leaves": 4}}, {"number": 1, "state": "failed", "value": null,'
    b' "seconds": 0.1, "values": {"leaves": 5}, "reason": "no"}]}'
)
DESCRIPTION = b'{"spec": {"name": "x", "methods": {"a": "xendcg"}}, "about": {"rankwise": "1"}, "files": ["a", "b"]}'


def _recipes() -> list[bytes]:
    folder = resources.files("rankwise.wings.lab.papers").joinpath("recipes")
    return [folder.joinpath(f"{name}.toml").read_bytes() for name in recipes()]


@pytest.mark.parametrize(
    ("read", "samples", "name"),
    [
        (lambda path: find_spec(str(path)), _recipes(), "damaged.toml"),
        (describe, [OWN], "damaged.toml"),
        (read_parameters, [TOML], "damaged.toml"),
        (read_parameters, [JSON], "damaged.json"),
        (lambda path: Tuning.read(str(path)), [SEARCH], "damaged.json"),
        (lambda path: Results.read(path.parent), [DESCRIPTION], "experiment.json"),
    ],
    ids=["experiments", "data sets", "parameters", "parameters as JSON", "searches", "results"],
)
def test_damaged_settings(read: Callable[[Path], object], samples: list[bytes], name: str, tmp_path: Path) -> None:
    for sample in samples:
        (tmp_path / name).write_bytes(sample)
        read(tmp_path / name)
    fuzzing.holds(read, samples, tmp_path / name, words=WORDS, usual=1_500)


def test_what_is_read_from_damaged_experiments_is_an_experiment(tmp_path: Path) -> None:
    path, samples = tmp_path / "damaged.toml", _recipes()
    for case, chance in fuzzing.cases(1_500):
        path.write_bytes(fuzzing.damaged(chance.choice(samples), chance, WORDS))
        try:
            spec = find_spec(str(path))
        except ValueError:
            continue
        assert Spec(**spec.plain()) == spec, case


def test_damaged_trials(tmp_path: Path) -> None:
    values = [
        {"data": "d", "level": 0.0, "trial": 0, "method": "m", "query": f"q{k}", "ndcg": k / 7} for k in range(40)
    ]
    curves = pl.DataFrame({"round": [1, 2], "series": ["loss"] * 2, "value": [0.5, 0.25]})
    about = {"seconds": 1.5, "versions": {"rankwise": rw.__version__}, "feature_names": None}
    store = Store(tmp_path)
    store.write("a", Outcome(frames={"queries": pl.DataFrame(values), "curves": curves}, about=about))
    for name in ("a.parquet", "a.curves.parquet"):
        path = tmp_path / "trials" / name
        whole = path.read_bytes()
        fuzzing.holds_apart(read_trial, [whole], path, usual=1_000)
        path.write_bytes(whole)
    assert store.read(["a"])[0][0]["queries"].height == 40


def read_trial(path: Path) -> None:
    Store(path.parents[1]).read(["a"])


def test_damaged_packs_never_read_as_other_results(tmp_path: Path) -> None:
    found = synthetic_results.results(trials=2, queries=5)
    path = found.pack(tmp_path / "damaged.zip", documents=True)

    def read(path: Path) -> None:
        packed = Results.read(path)
        assert (packed.spec, packed.about) == (found.spec, found.about)
        for name in ("queries", "curves", "documents"):
            assert_frame_equal(getattr(packed, name).drop("id", strict=False), whole[name])

    packed = Results.read(path)
    whole = {name: getattr(packed, name).drop("id", strict=False) for name in ("queries", "curves", "documents")}
    fuzzing.holds(read, [path.read_bytes()], path, words=(b"PK\x01\x02", b"PK\x05\x06", b"queries"), usual=500)


def test_damaged_studies(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    train, valid = rw.split(rw.synthetic(n_queries=12, n_docs=6, seed=1), (0.7, 0.3), seed=1)
    path = tmp_path / "damaged.db"

    def resume(path: Path) -> object:
        space = {"space": "none", "search": {"leaves": "whole(3, 15)"}, "fixed": {"rounds": 2, "min_documents": 2}}
        return rw.tune(train, valid, checkpoint=path, resume=True, trials=2, threads=1, progress=False, **space)  # type: ignore[arg-type]

    resume(path)
    whole = path.read_bytes()
    for case, chance in fuzzing.cases(60):
        for left in tmp_path.iterdir():
            left.unlink()
        path.write_bytes(fuzzing.damaged(whole, chance))
        wrong = fuzzing.complaint(resume, path)
        assert wrong is None, f"{wrong}\n{case}"
