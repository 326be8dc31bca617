"""Figure 1 of Bruch et al. (2020): where samples of stochastic scores lie, for three documents.

    python -m benchmarks.pages.concrete [--output docs/results/img/2020-figure1.png] [--draws 400000]

A sample ŷ of the Concrete distribution is a point of a triangle: a corner is all for one document, the middle is the
same for all three. Samples are drawn by ``rw.objectives.sample_scores``; brighter is denser. Beside the figure the
shares of draws in which a document comes first are printed, with what eq. 3 says, softmax(s / scale), and how far the
draws are from the density in closed form (Maddison et al. 2017): half of the summed differences between their shares of
cells.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

import rankwise as rw
from benchmarks import harness
from benchmarks.pages.results.__main__ import smaller
from rankwise.base import tables
from rankwise.statistics.figures.drawing import figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCORES = ((0.0, 0.0, 0.0), (1.5, 0.5, 0.0))
SETTINGS = ((1.0, 1.0), (0.25, 1.0), (1.0, 0.5))
"""Scale and temperature: those of the paper's figure, the scale of its trees, and a lower temperature."""
CELLS = 90
CORNERS = np.array([[0.0, 0.0], [1.0, 0.0], [0.5, np.sqrt(0.75)]])


def drawn(scores: tuple[float, ...], scale: float, temperature: float, draws: int) -> np.ndarray:
    """Samples of the Concrete distribution, (draws, 3): of many queries with these scores, a hundred each."""
    queries = -(-draws // 100)
    offsets = 3 * np.arange(queries + 1)
    logs = rw.objectives.sample_scores(
        np.tile(scores, queries), offsets, rw.Stream(seed=0), 100, scale=scale, temperature=temperature
    )
    return np.exp(logs).reshape(-1, 3)


def log_density(points: np.ndarray, scores: tuple[float, ...], scale: float, temperature: float) -> np.ndarray:
    """The log of the density: 2 λ² Π α y^(−λ−1) / (Σ α y^(−λ))³; λ is temperature / scale, α is exp(s / scale).

    Noise of a scale is noise of scale 1 on scores over it, at a temperature over it.

    >>> middle = np.full((1, 3), 1 / 3)
    >>> np.exp(log_density(middle, (0.0, 0.0, 0.0), 1.0, 1.0)).round(6)  # 2 · 3⁶ / 9³
    array([2.])
    """
    sharp, shares, logs = temperature / scale, np.array(scores) / scale, np.log(points)
    total = np.logaddexp.reduce(shares - sharp * logs, axis=1)
    found: np.ndarray = np.log(2.0 * sharp**2) + (shares - (sharp + 1.0) * logs).sum(axis=1) - 3.0 * total
    return found


def cells(points: np.ndarray) -> np.ndarray:
    """How many points lie in each cell of the two first coordinates."""
    edges = np.linspace(0.0, 1.0, CELLS + 1)
    counts: np.ndarray = np.histogram2d(points[:, 0], points[:, 1], bins=(edges, edges))[0]
    return counts


def apart(points: np.ndarray, scores: tuple[float, ...], scale: float, temperature: float) -> float:
    """How far draws are from the density, 0 to 1: over cells of log(y₁/y₃) and log(y₂/y₃), where it is smooth."""
    side, fine = 12, 30
    middle, reach = (np.array(scores[:2]) - scores[2]) / temperature, 6.0 * scale / temperature
    edges = [centre + reach * np.linspace(-1.0, 1.0, side + 1) for centre in middle]
    steps = [np.linspace(one[0], one[-1], side * fine, endpoint=False) for one in edges]
    ratios = np.stack([axis.ravel() for axis in np.meshgrid(*steps, indexing="ij")], axis=1) + reach / (side * fine)
    logs = np.column_stack([ratios, np.zeros(len(ratios))])
    logs -= np.logaddexp.reduce(logs, axis=1)[:, None]
    mass = np.exp(log_density(np.exp(logs), scores, scale, temperature) + logs.sum(axis=1))  # of log-ratios: times Π y
    expected = np.histogram2d(ratios[:, 0], ratios[:, 1], bins=edges, weights=mass)[0]
    expected *= (2.0 * reach / (side * fine)) ** 2
    with np.errstate(divide="ignore", invalid="ignore"):
        own = np.log(points[:, :2] / points[:, 2:])
        found = np.histogram2d(own[:, 0], own[:, 1], bins=edges)[0] / len(points)
    return float(np.abs(found - expected).sum() / 2.0)


def panel(axes: "Axes", points: np.ndarray) -> None:
    """Draw how dense the points are, on a triangle."""
    from matplotlib.patches import Polygon

    counts = cells(points)
    places = np.add.outer(np.arange(CELLS), np.arange(CELLS))
    counts[places == CELLS - 1] *= 2.0  # half of these cells is outside
    edges = np.linspace(0.0, 1.0, CELLS + 1)
    first, second = np.meshgrid(edges, edges, indexing="ij")
    corners = np.stack([first, second, 1.0 - first - second], axis=-1) @ CORNERS
    shown = np.ma.masked_where(places >= CELLS, counts)
    top = float(np.quantile(counts[counts > 0], 0.99))
    mesh = axes.pcolormesh(corners[..., 0], corners[..., 1], shown, cmap="viridis", vmin=0.0, vmax=top, rasterized=True)
    mesh.set_clip_path(Polygon(CORNERS, transform=axes.transData))
    for number, place in enumerate(CORNERS):
        away = place + 0.09 * (place - CORNERS.mean(axis=0))
        axes.text(away[0], away[1], f"d{number + 1}", ha="center", va="center", fontsize=8)
    around = np.vstack([CORNERS, CORNERS[:1]])
    axes.plot(around[:, 0], around[:, 1], color="#444444", linewidth=0.8)
    axes.set_aspect("equal")
    axes.set_xlim(-0.12, 1.12)
    axes.set_ylim(-0.1, 0.98)
    axes.set_axis_off()


def main() -> None:
    parser = harness.arguments(__doc__)
    parser.add_argument("--output", type=Path, default=Path("docs/results/img/2020-figure1.png"))
    parser.add_argument("--draws", type=int, default=400_000)
    chosen = parser.parse_args()
    rows = []
    with figure(chosen.output, 7.8, 5.4, force=True) as drawing:
        grid = drawing.subplots(len(SCORES), len(SETTINGS))
        for line, scores in zip(grid, SCORES, strict=True):
            for axes, (scale, temperature) in zip(line, SETTINGS, strict=True):
                points = drawn(scores, scale, temperature, chosen.draws)
                panel(axes, points)
                named = ", ".join(f"{score:g}" for score in scores)
                axes.set_title(f"scores {named}\nscale {scale:g}, temperature {temperature:g}", fontsize=8.5, pad=2)
                shares = np.bincount(points.argmax(axis=1), minlength=3) / len(points)
                weights = np.exp(np.array(scores) / scale)
                texts = [", ".join(f"{one:.3f}" for one in each) for each in (shares, weights / weights.sum())]
                gap = f"{apart(points, scores, scale, temperature):.3f}"
                rows.append((named, f"{scale:g}", f"{temperature:g}", *texts, gap))
    smaller(chosen.output, chosen.output)
    header = ("scores", "scale", "temperature", "first place, drawn", "softmax(s / scale)", "apart from the density")
    print(tables.Table(header=header, rows=tuple(rows), align="lrrllr", notes=()).markdown())


if __name__ == "__main__":
    main()
