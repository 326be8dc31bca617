"""Numbers that say how much of the house a reader must know; each has a limit."""

import ast
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import rankwise as rw

SOURCE = Path(rw.__file__).parent
MODULES = {
    ".".join(["rankwise", *(part for part in path.relative_to(SOURCE).with_suffix("").parts if part != "__init__")]): (
        path.read_text(encoding="utf-8")
    )
    for path in SOURCE.rglob("*.py")
}
"""Module -> its text."""


def statements(nodes: Iterable[ast.AST], *, inside: bool) -> Iterator[ast.AST]:
    """Everything that runs, on import alone or ``inside`` functions too; what only type checkers read is left out."""
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not inside:
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        yield from statements(ast.iter_child_nodes(node), inside=inside)


def imports(module: str, *, inside: bool) -> set[str]:
    """Modules of rankwise that a module imports, with the packages that they are in."""
    names: list[str] = []
    for node in statements(ast.parse(MODULES[module]).body, inside=inside):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    parts = [name.split(".") for name in names]
    return {".".join(one[:n]) for one in parts for n in range(2, len(one) + 1)} & MODULES.keys()


def closure(module: str, *, inside: bool) -> set[str]:
    """All modules that importing one brings."""
    reached, todo = set[str](), [module]
    while todo:
        one = todo.pop()
        if one not in reached:
            reached.add(one)
            todo += imports(one, inside=inside)
    return reached


@pytest.mark.parametrize(("inside", "limit"), [(False, 10_000), (True, 15_000)], ids=["top", "inside"])
def test_comparing_needs_a_small_part_of_the_house(inside, limit):
    lines = {one: MODULES[one].count("\n") for one in closure("rankwise.evaluation.compare", inside=inside)}
    largest = "\n".join(f"{lines[one]:6,d} {one}" for one in sorted(lines, key=lambda one: -lines[one])[:20])
    assert sum(lines.values()) <= limit, f"{sum(lines.values()):,d} lines in {len(lines)} modules:\n{largest}"


WALK = """
import os, sys
import lightgbm
import rankwise as rw

root, entered = os.path.dirname(rw.__file__), set()

def fit(objective, seed, **settings):
    train, valid = rw.split(rw.synthetic(n_queries=60, n_docs=20, seed=seed), (0.7, 0.3), seed=0)
    ranker = rw.LightGBMRanker(objective, threads=1, **settings)
    sys.setprofile(enter if seed == 2 else None)
    ranker.fit(train, valid)

def enter(frame, event, _):
    code = frame.f_code
    if event == "call" and code.co_filename.startswith(root) and not code.co_qualname.endswith(">"):
        entered.add((os.path.relpath(code.co_filename, root), code.co_qualname))

def first_tree(*_, **__):
    sys.setprofile(None)
    for name, function in sorted(entered):
        print(name, function)
    sys.stdout.flush()
    os._exit(0)

fit("listnet", 1, rounds=2, metrics=["ap"])  # imports and compiles; of its own are expressions alone
lightgbm.train = first_tree
fit("xendcg", 2)
"""


def test_few_functions_lie_between_fit_and_the_first_tree():
    ran = subprocess.run([sys.executable, "-c", WALK], capture_output=True, encoding="utf-8")
    entered = ran.stdout.splitlines()
    assert len(entered) > 50, ran.stderr
    assert len(entered) <= 110, "\n".join([f"{len(entered)} functions:", *entered])
