"""What importing rankwise costs, what it offers, and that a missing extra says how to get it."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import rankwise as rw
from rankwise import check
from rankwise.base import lazy

# What `import rankwise` may bring besides NumPy and the standard library.
ALLOWED = {
    "rankwise",
    "rankwise._version",
    "rankwise.base",
    "rankwise.base.hooks",
    "rankwise.base.lazy",
    "rankwise.moved",
}
IS_A_WING = re.compile(r"rankwise\.wings(\.\w+)?")
"""What registers what a wing brings, and imports nothing."""
HEAVY = {"numba", "llvmlite", "lightgbm", "scipy", "polars", "matplotlib", "typer", "rich", "torch", "xgboost"}

INTERNAL = (
    "CLICK_PROBABILITIES",
    "METRICS",
    "MetricLike",
    "RankMetric",
    "expression",
    "metrics_for",
)  # for our own modules
PUBLIC = rw.__all__  # type: ignore[attr-defined]


def modules_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_brings_nothing_but_numpy():
    new = modules_after("import rankwise") - modules_after("import numpy")
    roots = {name.split(".")[0] for name in new}
    assert not roots & HEAVY
    foreign = {name for name in new if name.split(".")[0] not in sys.stdlib_module_names}
    assert {name for name in foreign if not IS_A_WING.fullmatch(name)} <= ALLOWED


def test_making_a_data_set_needs_no_compiler():
    loaded = modules_after("import rankwise as rw; rw.RankingDataset([[1.0]], [0], [0, 1])")
    assert not {name.split(".")[0] for name in loaded} & HEAVY


def test_comparing_arrays_loads_no_rankers():
    lists = "data = rw.RankingDataset([[1.0], [0.0]] * 2, [0, 1, 1, 0], [0, 2, 4]); x = data.features[:, 0]"
    loaded = modules_after(f"import rankwise as rw; {lists}; rw.compare({{'a': x, 'b': -x}}, data, 'rr', test='t')")
    assert "rankwise.evaluation.compare" in loaded
    loaded = {name for name in loaded if not IS_A_WING.fullmatch(name)}
    assert not [name for name in loaded if name.startswith(("rankwise.rankers", "rankwise.wings", "lightgbm"))]


def test_names_of_the_house_load_no_wings():
    loaded = modules_after("import rankwise as rw; rw.objective('xendcg'), rw.metric('ndcg@10')")
    assert {"rankwise.objectives.table", "rankwise.metrics.table"} <= loaded
    assert not [name for name in loaded if name.startswith("rankwise.wings.") and not IS_A_WING.fullmatch(name)]


def test_what_the_front_door_registers_is_imported_on_first_use(tmp_path):
    train = "lgb.train({'min_data_in_leaf': 1, 'num_threads': 1, 'verbose': -1}, lgb.Dataset(x, y), 2)"
    lines = "import lightgbm as lgb, numpy as np, rankwise as rw; x = np.arange(40.0)[:, None]; y = np.arange(40) % 2"
    lists = f"data = rw.RankingDataset(x, y, [0, 20, 40]); booster = {train}"
    compared = "rw.compare({'booster': booster, 'x': x[:, 0]}, data, 'rr', test='t')"
    loaded = modules_after(f"{lines}; {lists}; {compared}.to_report({str(tmp_path / 'page.html')!r})")
    assert {"rankwise.rankers.trees.wrap", "rankwise.wings.lab.report.comparison"} <= loaded
    assert (tmp_path / "page.html").exists()


def test_every_public_name_loads():
    for name in PUBLIC:
        assert getattr(rw, name) is not None, name
    assert "RankingDataset" in dir(rw)


def test_public_names_are_not_hidden_by_modules():
    # A submodule of the same name would replace the function as soon as somebody imports it.
    for name in PUBLIC:
        module = sys.modules.get(f"rankwise.{name}")
        assert module is None or module is getattr(rw, name), name


def test_unknown_public_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="RankingDatset"):
        _ = rw.RankingDatset  # type: ignore[attr-defined]


def test_every_text_file_is_opened_with_its_encoding():
    """Without one Python takes the locale's, and the same file reads otherwise on another machine."""
    at_fault = []
    for path in sorted(Path(rw.__file__).parent.rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(call, ast.Call) or any(word.arg == "encoding" for word in call.keywords):
                continue
            called, words = ast.unparse(call.func), [w.value for w in call.args if isinstance(w, ast.Constant)]
            is_text = called.endswith((".read_text", ".write_text")) and "utf-8" not in words
            if is_text or (called.endswith(("open", ".fdopen")) and set(words) & {"r", "w", "a", "x", "r+", "w+"}):
                at_fault.append(f"{path}:{call.lineno} {called}")
    assert not at_fault


def test_missing_extra_names_the_command():
    with pytest.raises(ImportError, match=r"no_such_library is not installed\. .*pip install 'rankwise\[torch\]'"):
        check.optional("no_such_library", "torch")
    assert check.optional("json", "torch").loads("1") == 1


def test_an_extra_that_lacks_another_library_says_which(tmp_path, monkeypatch):
    (tmp_path / "library_of_an_extra.py").write_text("import no_such_library")
    monkeypatch.syspath_prepend(tmp_path)
    says = r"library_of_an_extra cannot be imported: No module named 'no_such_library'\. Install it with: pip .*export"
    with pytest.raises(ImportError, match=says):
        check.optional("library_of_an_extra", "export")


def _is_module(name: str) -> bool:
    path = Path(rw.__file__).parents[1].joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").exists()


def test_the_reference_lists_every_public_name():
    source = Path(rw.__file__).parent
    page = (source.parents[1] / "docs" / "reference.md").read_text(encoding="utf-8")
    entries = re.findall(r"^::: (\S+)\n(?:    options: \{members: \[([^\]]*)\]\}\n)?", page, re.MULTILINE)
    listed: dict[str, set[str]] = {}
    for module, members in entries:
        listed.setdefault(module, set()).update(name.strip(' "') for name in members.split(",") if name.strip())
    front = source / "__init__.pyi"
    spaces = [name for name, module in lazy.listing(front).items() if not module]
    stubs = [source / name / "__init__.pyi" if (source / name).is_dir() else source / f"{name}.pyi" for name in spaces]
    for stub in filter(Path.is_file, (front, *stubs)):
        for name, module in lazy.listing(stub).items():
            if not module or name in ("__version__", *INTERNAL) or _is_module(f"{module}.{name}"):
                continue
            assert module in listed, f"docs/reference.md has no entry for {name}, of {module}"
            assert not listed[module] or name in listed[module], f"docs/reference.md leaves {name} out"
