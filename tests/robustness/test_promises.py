"""The pages about promises name every attack of this folder, and every test that they name is there."""

import re
from pathlib import Path

from tests.robustness.test_fuzz_models import CASES, KINDS

HERE = Path(__file__).parent
GUIDE = HERE.parents[1] / "docs" / "promises.md"
EVIDENCE = HERE.parents[1] / "docs" / "benchmarks" / "promises.md"


def test_every_attack_is_named() -> None:
    page = EVIDENCE.read_text(encoding="utf-8")
    for path in sorted(HERE.glob("test_*.py")):
        assert path == Path(__file__) or f"| `{path.name}` |" in page, path.name


def test_what_the_pages_name_is_there() -> None:
    pages = GUIDE.read_text(encoding="utf-8") + EVIDENCE.read_text(encoding="utf-8")
    for name in re.findall(r"`([\w/]*test_\w+\.py)`", pages):
        assert (HERE.parent / name).is_file() or (HERE / name).is_file(), name


def test_cases_of_the_fuzzers_add_up() -> None:
    page = EVIDENCE.read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| `(test_fuzz_\w+)\.py` \|.*\| ([\d,]+) [\w ]+ \|[^|]*\|$", page)
    counts = {name: int(count.replace(",", "")) for name, count in rows}
    assert set(counts) == {path.stem for path in HERE.glob("test_fuzz_*.py")}
    assert f"The fuzzers have {sum(counts.values()):,} cases" in page
    assert counts["test_fuzz_models"] == CASES * len(KINDS)
