"""How figures look and are written: colours, style, and files in the format of their ending.

Colours are from Okabe and Ito's palette, which colour-blind readers can tell apart, with darker ones for more systems
than it has, and nothing is said by colour alone. Figures are drawn without a display and without touching
matplotlib's global state.
"""

import contextlib
import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.base.files import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

BLUE, VERMILLION, GREY = "#0072B2", "#D55E00", "#8C8C8C"
# For lines: the palette's colours that stand out on white, with a dash pattern each.
COLOURS = (
    VERMILLION, BLUE, "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#882255", "#8A8A2B", "#332288", "#8C510A", "#000000",
)  # fmt: skip
DASHES: tuple[str | tuple[int, tuple[float, ...]], ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)))
FORMATS: dict[str, Keywords] = {".png": {}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}
_STYLE = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#444444",
    "axes.unicode_minus": True,
    "legend.frameon": False,
    "svg.hashsalt": "rankwise",  # the same picture is the same file
    "savefig.dpi": 200,
}


@contextlib.contextmanager
def canvas(width: float, height: float) -> "Iterator[Figure]":
    """Yield a styled figure of some inches, which is laid out when the context ends; notebooks show it."""
    import matplotlib as mpl

    from rankwise.statistics.figures.picture import Picture

    with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
        drawing = Picture(figsize=(width, height), layout="constrained")
        yield drawing
        engine = drawing.get_layout_engine()
        if engine is not None:
            engine.execute(drawing)  # laid out once, for all formats
            drawing.set_layout_engine(None)


@contextlib.contextmanager
def writing(*paths: str | Path, force: bool = False) -> "Iterator[Callable[[Figure], None]]":
    """Yield a function that writes a figure to all paths, each in the format of its ending: .png, .svg or .pdf.

    Paths are checked at once, before anything is drawn.
    """
    import matplotlib as mpl

    files = {Path(one): Path(one).suffix.lower() for one in paths}
    for one, suffix in files.items():
        if suffix not in FORMATS:
            raise check.error("a plot is written as .png, .svg or .pdf", got=repr(one.name))
    with contextlib.ExitStack() as stack:
        news = {stack.enter_context(replacing(one, force=force)): suffix for one, suffix in files.items()}

        def write(drawing: "Figure") -> None:
            with mpl.rc_context(_STYLE):  # type: ignore[arg-type]
                for new, suffix in news.items():
                    content = io.BytesIO()  # on a full disk, matplotlib's PDF fails while it fails
                    drawing.savefig(content, format=suffix[1:], metadata=FORMATS[suffix])
                    new.write_bytes(content.getvalue())

        yield write


def plot(draw: "Callable[[], Figure]", path: str | Path, *, force: bool = False) -> Path:
    """Write the figure that ``draw`` returns to ``path``, and return the path."""
    with writing(path, force=force) as write:
        write(draw())
    return Path(path)


@contextlib.contextmanager
def figure(
    path: str | Path, width: float, height: float, *, also: Iterable[str | Path] = (), force: bool = False
) -> "Iterator[Figure]":
    """Yield a styled figure that is written to ``path``, and to the files in ``also``, when the context ends."""
    with writing(path, *also, force=force) as write:
        with canvas(width, height) as drawing:
            yield drawing
        write(drawing)


def light_grid(panel: "Axes") -> None:
    """Draw a light grid behind everything else."""
    panel.grid(color="#E4E4E4", linewidth=0.6)
    panel.set_axisbelow(True)
