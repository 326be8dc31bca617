"""What a report is made of: figures and tables that know their words and their numbers, whatever the format."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.base.files import replacing
from rankwise.base.tables import as_csv
from rankwise.statistics import figure

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from rankwise.base.tables import Table


@dataclass(frozen=True, kw_only=True)
class Plot:
    """A figure: how it is drawn, what it says to those who cannot see it, and the numbers behind it."""

    name: str
    """The name of its files, without an ending."""
    title: str
    caption: str
    alt: str
    size: tuple[float, float]
    """Width and height in inches."""
    draw: Callable[["Figure"], None]
    frame: "pl.DataFrame"
    """Every number that is drawn."""

    def svg(self) -> str:
        """Draw it; gives the text of an SVG, which a page embeds."""
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / "figure.svg"
            with figure(file, *self.size) as drawing:
                self.draw(drawing)
            return file.read_text(encoding="utf-8")

    def write(self, folder: Path, *, force: bool = False) -> str:
        """Write it as SVG, PNG and CSV; give the SVG's text, which the page embeds."""
        vector = folder / f"{self.name}.svg"
        with figure(vector, *self.size, also=[folder / f"{self.name}.png"], force=force) as drawing:
            self.draw(drawing)
        with replacing(folder / f"{self.name}.csv", force=force) as new:
            new.write_text(as_csv(self.frame), encoding="utf-8")
        return vector.read_text(encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class Tabled:
    """A table: as people read it, and its numbers with all their digits."""

    name: str
    title: str
    caption: str
    table: "Table"
    frame: "pl.DataFrame"

    def write(self, folder: Path, *, force: bool = False) -> str:
        """Write it as CSV, LaTeX and Markdown; give its HTML."""
        texts = {"tex": self.table.latex(), "md": self.table.markdown()}
        for ending, text in texts.items():
            with replacing(folder / f"{self.name}.{ending}", force=force) as new:
                new.write_text(text + "\n", encoding="utf-8")
        with replacing(folder / f"{self.name}.csv", force=force) as new:
            new.write_text(as_csv(self.frame), encoding="utf-8")
        return self.table.html()
