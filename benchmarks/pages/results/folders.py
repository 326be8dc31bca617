"""Where results, their reports and the pages about them lie, and which page is about which experiment."""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import rankwise as rw
from rankwise.wings.lab.experiments.results import DESCRIPTION, Results

BLOCK = re.compile(r"<!-- (?P<what>\w+) (?P<run>[\w/.-]+):begin -->.*?<!-- (?P=what) (?P=run):end -->", re.DOTALL)
FIGURE = re.compile(
    r'<figure id="([^"]+)"><h3>(.*?)</h3>\n<svg[^>]* aria-label="([^"]*)">.*?<figcaption>(.*?)</figcaption>', re.DOTALL
)


@dataclass(frozen=True)
class Folders:
    """Where results, their reports and the pages lie."""

    results: Path
    reports: Path | None
    """None: figures are left as they are."""
    pages: Path
    all_there: bool = False
    """Whether these are all results that there are, so that what is not among them is not computed yet."""

    def has(self, run: str) -> bool:
        """Whether there are results of an experiment, or measurements of a benchmark."""
        return any(one.is_file() for one in (self.results / run / DESCRIPTION, self.pack(run), self.measured(run)))

    def measured(self, run: str) -> Path:
        """Where the measurements of a benchmark lie, if they are kept."""
        return self.results / f"{run}.csv"

    def pack(self, run: str) -> Path:
        """Where the pack of an experiment lies, if there is one."""
        return self.results / f"{run}.zip"

    @cache  # noqa: B019 (lives as long as the program)
    def read(self, run: str) -> Results:
        """The results of an experiment."""
        folder = self.results / run
        return Results.read(folder if folder.is_dir() else self.pack(run))

    @cache  # noqa: B019
    def figures(self, run: str) -> dict[str, tuple[str, str, str]]:
        """Title, text and caption of every figure in the report of an experiment, by name."""
        page = (self.reports or Path()) / run / "report.html"
        if not page.is_file():
            rw.lab.write_report(self.read(run), page.parent)
        found = FIGURE.findall(page.read_text(encoding="utf-8"))
        return {
            name: (html.unescape(title), html.unescape(alt), html.unescape(text)) for name, title, alt, text in found
        }

    def subjects(self) -> Iterator[tuple[Path, str]]:
        """Every experiment that a page is about: those that it says the making of."""
        for page in sorted(self.pages.glob("*.md")):
            for block in BLOCK.finditer(page.read_text(encoding="utf-8")):
                if block["what"] == "made":
                    yield page, block["run"]
