"""The page about promises names every attack of this folder, and every test that it names is there."""

import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "promises.md"


def test_the_page_names_every_attack() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for path in sorted(HERE.glob("test_*.py")):
        assert path == Path(__file__) or f"| `{path.name}` |" in page, path.name


def test_what_the_page_names_is_there() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for name in re.findall(r"`([\w/]*test_\w+\.py)`", page):
        assert (HERE.parent / name).is_file() or (HERE / name).is_file(), name
