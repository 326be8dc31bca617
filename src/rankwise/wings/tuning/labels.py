"""Labels beside the points of a figure, none over another one."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from rankwise.base.arrays import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZE = 8.0
"""Of letters, in points."""
_REACHES = (7.0, 13.0, 20.0, 29.0, 40.0)  # points between a mark and its label
_ANGLES = np.radians((50, 25, 75, -40, 140, -20, -65, 160, 110, -140))  # never along an axis, as intervals are
_MARK = 4.5  # half the width of a mark
_OVERLAP, _NEARER, _NEAR_LINE = 50.0, 12.0, 4.0  # costs of obstacles, marks that are nearer, and lines
_FAR, _TURN = 0.3, 1.0  # costs of a point of distance, and of a later angle
_STEP = 4.0  # points between obstacles along a line


def label_points(panel: "Axes", points: Array, texts: Sequence[str], lines: Sequence[Array] = ()) -> None:
    """Write texts beside points (rows of x and y) where there is room, away from marks and ``lines``.

    The panel must have its limits and be laid out. A label that is far from its point has a thin line to it; empty
    texts are marks without a label.
    """
    scale = 72.0 / panel.figure.dpi
    places = panel.transData.transform(points) * scale
    paths = [_dotted(panel.transData.transform(line) * scale) for line in lines if np.isfinite(line).all()]
    strokes = np.concatenate([np.empty((0, 2)), *paths])
    corners = panel.transAxes.transform([(0.0, 0.0), (1.0, 1.0)]) * scale
    boxes: list[Array] = []
    for place, text in zip(places, texts, strict=True):
        if not text:
            continue
        half = np.array([0.31 * SIZE * len(text), 0.6 * SIZE])
        found = []
        for reach, (turn, angle) in itertools.product(_REACHES, enumerate(_ANGLES)):
            side = np.array([np.cos(angle), np.sin(angle)])
            middle = place + side * (reach + half * np.abs(side))
            cost = _FAR * reach + _TURN * turn + _cost(place, middle, half, boxes, places, strokes)
            cost += _OVERLAP * bool((middle - half < corners[0]).any() or (middle + half > corners[1]).any())
            found.append((cost, reach, middle))
        _, reach, middle = min(found, key=lambda one: one[0])
        boxes.append(np.concatenate([middle, half]))
        arrow = {"arrowstyle": "-", "color": "#999999", "linewidth": 0.6, "shrinkA": 0.0, "shrinkB": _MARK}
        panel.annotate(
            text,
            tuple(panel.transData.inverted().transform(place / scale)),
            xytext=tuple(middle - place),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=SIZE,
            arrowprops=arrow if reach > _REACHES[1] else None,
            zorder=5,
        )


def _cost(place: Array, middle: Array, half: Array, boxes: Sequence[Array], marks: Array, strokes: Array) -> float:
    """Return what a label over others, over marks and over lines costs, and one that could belong to another mark."""
    labels = sum(bool((np.abs(middle - box[:2]) < half + box[2:] + 1.0).all()) for box in boxes)
    others = marks[(marks != place).any(axis=1)]
    gaps = np.hypot(*(np.abs(middle - others) - half).clip(min=0.0).T)
    covered = (gaps < _MARK).sum()
    nearer = (gaps < np.hypot(*(np.abs(middle - place) - half).clip(min=0.0)) + 1.0).sum()
    way = np.linspace(place, middle, 12)[:, None]
    passed = (np.hypot(*(way - others).T).min(axis=1, initial=np.inf) < _MARK).sum()
    crossed = (np.abs(middle - strokes) < half + 1.0).all(axis=1).sum()
    return float(2.0 * _OVERLAP * labels + _OVERLAP * (covered + passed) + _NEARER * nearer + _NEAR_LINE * crossed)


def _dotted(line: Array) -> Array:
    """Return points along a line, a few points of the page apart."""
    parts = [
        np.linspace(start, end, 2 + int(np.hypot(*(end - start)) / _STEP)) for start, end in itertools.pairwise(line)
    ]
    return np.concatenate([np.empty((0, 2)), *parts])
