"""The guide stays short enough to be read: a page is a sitting, and all pages together a thin book."""

from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
OTHERS = {"cli.md", "reference.md"}  # which are looked up
EVIDENCE = {"quality.md", "gpu.md", "gallery.md"}  # and the folders beside them
GUIDE = sorted(page for page in DOCS.glob("*.md") if page.name not in OTHERS | EVIDENCE)
OF_A_PAGE, OF_ALL = 900, 45_000


def words(page: Path) -> int:
    """Count as ``wc -w`` does."""
    return len(page.read_text(encoding="utf-8").split())


def table(pages: list[Path]) -> str:
    """List pages with their words, the longest first."""
    counts = sorted(((words(page), page.name) for page in pages), reverse=True)
    rows = [f"{count:6,}  {name}{' (too long)' if count > OF_A_PAGE else ''}" for count, name in counts]
    return "\n".join([*rows, f"{sum(count for count, _ in counts):6,}  all {len(counts)} pages"])


@pytest.mark.parametrize("page", GUIDE, ids=lambda page: page.name)
def test_a_page_of_the_guide_is_short(page: Path):
    assert words(page) <= OF_A_PAGE, f"{page.name} has {words(page):,} words: {OF_A_PAGE} at most"


def test_the_guide_is_short():
    print(table(GUIDE))
    assert sum(map(words, GUIDE)) <= OF_ALL, table(GUIDE)


def test_words_are_counted(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# One\n\ntwo | three\n" + "more " * OF_A_PAGE, encoding="utf-8")
    assert words(page) == 5 + OF_A_PAGE
    assert table([page]).split("\n") == ["   905  page.md (too long)", "   905  all 1 pages"]
