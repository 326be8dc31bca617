"""Without an optional library every command says which extra to install, before any work and in one sentence."""

import sys
from pathlib import Path

import pytest

import rankwise as rw
from rankwise.wings.lab.experiments.spec import find_spec, recipes
from tests.cli.running import refused

SMALL = ("--trials", 1, "--set", "queries=10", "--no-progress")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rw.data.write_parquet(rw.synthetic(n_queries=6, n_docs=5, n_features=2, seed=1), "rows.parquet")
    Path("ratings.csv").write_text("user,item,rating\n" + "".join(f"{n % 5},{n},5\n" for n in range(50)))


class Blocked:
    """Finds no module of one name, as if it were not installed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] == self.name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _hidden(monkeypatch: pytest.MonkeyPatch, module: str) -> None:
    monkeypatch.delitem(sys.modules, module, raising=False)  # parts of it that are loaded stay, and are not looked for
    monkeypatch.setattr(sys, "meta_path", [Blocked(module), *sys.meta_path])


def _extras(name: str) -> set[str]:
    spec = find_spec(name).quickly()
    of = {"neural": "torch", "factorization": "torch", "xgboost": "xgboost", "catboost": "catboost"}
    found = {of[one.name] for one in spec.parsed().values() if one.name in of}
    return found | ({"optuna"} if spec.tune_trials or spec.tune_minutes else set())


NEEDS = [(name, module) for name in recipes() for module in sorted(_extras(name))]


def test_recipes_need_every_kind_of_library():
    assert {module for _, module in NEEDS} >= {"torch", "xgboost", "optuna"}


@pytest.mark.parametrize(("name", "module"), NEEDS, ids=lambda one: one)
def test_recipes_say_what_to_install(name: str, module: str, monkeypatch: pytest.MonkeyPatch):
    _hidden(monkeypatch, module)
    extra = {"optuna": "tune"}.get(module, module)
    if any(one.name == "factorization" for one in find_spec(name).quickly().parsed().values()):
        extra = "recommend"
    said = refused("reproduce", name, "--quick", "--jobs", 2, *SMALL)
    assert said == f"error: {module} is not installed. Install it with: pip install 'rankwise[{extra}]'"
    assert not Path("results").exists()


COMMANDS = [
    ("reproduce 2021-table1 --quick --dask tcp://127.0.0.1:1", "distributed", "dask"),
    ("train rows.parquet --dask tcp://127.0.0.1:1 -o model", "distributed", "dask"),
    ("train rows.parquet --ranker xgboost -o model", "xgboost", "xgboost"),
    ("train rows.parquet --ranker catboost -o model", "catboost", "catboost"),
    ("train rows.parquet --ranker neural -o model", "torch", "torch"),
    ("tune rows.parquet --valid rows.parquet -o best.toml", "optuna", "tune"),
    ("tune rows.parquet --valid rows.parquet --ranker xgboost --trials 1 -o best.toml", "xgboost", "xgboost"),
    ("recommend ratings.csv --model factorization", "safetensors", "recommend"),
]


@pytest.mark.filterwarnings("ignore:.* of training queries")
@pytest.mark.parametrize(("line", "module", "extra"), COMMANDS)
def test_commands_say_what_to_install(line: str, module: str, extra: str, monkeypatch: pytest.MonkeyPatch):
    _hidden(monkeypatch, module)
    assert f"{module} is not installed. Install it with: pip install 'rankwise[{extra}]'" in refused(*line.split())


@pytest.mark.parametrize(("form", "module"), [("onnx", "onnx"), ("treelite", "treelite")])
def test_exports_say_what_to_install(form: str, module: str, monkeypatch: pytest.MonkeyPatch):
    data = rw.read_parquet("rows.parquet")
    rw.LightGBMRanker(rounds=2, min_documents=1, leaves=3).fit(data).save("model")
    _hidden(monkeypatch, module)
    said = refused("export", "model", "-o", f"model.{form}", "--format", form)
    assert said == f"error: {module} is not installed. Install it with: pip install 'rankwise[export]'"
