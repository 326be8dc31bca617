"""The figure of a search: its progress, and the effect of each parameter."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rankwise.base import tables
from rankwise.base.arrays import Keywords
from rankwise.statistics import GREY, light_grid
from rankwise.wings.tuning.result import COMPLETE, FAILED, PRUNED, Trial, Tuning
from rankwise.wings.tuning.spaces import Choice, Range

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TRIAL, _BEST = "#555555", "#000000"  # no colours, which are those of methods in a report
_STYLES: dict[str, tuple[str, Keywords]] = {
    PRUNED: ("ended early (best until then)", {"color": GREY, "markerfacecolor": "none"}),
    COMPLETE: ("complete", {"color": _TRIAL}),
}
_MOST = 8  # panels of parameters
_QUARTERS = 4


def search_size(tuning: Tuning) -> tuple[float, float]:
    """Return width and height, in inches, of the figure of a search."""
    columns, rows = _grid(tuning)
    return 2.6 * columns, 3.2 + 2.3 * rows


def _grid(tuning: Tuning) -> tuple[int, int]:
    panels = min(len(tuning.space), _MOST)
    columns = min(4, max(panels, 2))
    return columns, -(-panels // columns)


def draw_search(drawing: "Figure", tuning: Tuning) -> None:
    """Draw the value of each trial with the best so far, and below it one panel for each parameter.

    Parameters stand in the order of their share in the spread of the values: how much of it lies between the quarters
    of a parameter's range, rather than within them.
    """
    shares = {name: share(tuning, name) for name in tuning.space}
    columns, rows = _grid(tuning)
    grid = drawing.add_gridspec(1 + rows, columns, height_ratios=[1.35, *[1.0] * rows])
    _draw_history(drawing.add_subplot(grid[0, :]), tuning)
    for place, name in enumerate(sorted(shares, key=lambda name: -shares[name])[:_MOST]):
        panel = drawing.add_subplot(grid[1 + place // columns, place % columns])
        _draw_slice(panel, tuning, name, shares[name])
        panel.tick_params(labelleft=place % columns == 0)
        panel.set_ylabel("" if place % columns else tuning.metric)
    note = "in each corner: the parameter's share in the spread of complete trials"
    drawing.supxlabel(note, fontsize=8, color="#555555", x=0.99, ha="right")


def share(tuning: Tuning, name: str) -> float:
    """Return a parameter's share in the spread of the complete trials' values, beyond that of chance.

    This is the adjusted correlation ratio over the quarters of what was tried, or over the values of a choice.
    """
    trials = [trial for trial in tuning.trials if trial.state == COMPLETE and name in trial.values]
    values = np.array([trial.value for trial in trials], np.float64)
    if not values.size or values.min() == values.max():
        return 0.0
    total = float(((values - values.mean()) ** 2).sum())
    groups = _groups([trial.values[name] for trial in trials], tuning.space[name])
    present = np.unique(groups)
    if values.size <= present.size:
        return 0.0
    within = sum(float(((values[groups == one] - values[groups == one].mean()) ** 2).sum()) for one in present)
    return max(0.0, 1.0 - within / (values.size - present.size) * (values.size - 1) / total)


def _groups(tried: list[Any], dimension: Range | Choice) -> NDArray[np.int64]:
    if isinstance(dimension, Choice):
        return np.array([dimension.values.index(value) for value in tried])
    ranks = np.argsort(np.argsort(np.array(tried, np.float64), kind="stable"), kind="stable")
    return ranks * min(_QUARTERS, len(tried)) // len(tried)


def _draw_history(panel: "Axes", tuning: Tuning) -> None:
    best, failed = tuning.best, [trial.number for trial in tuning.trials if trial.state == FAILED]
    _draw_trials(panel, tuning, lambda trial: trial.number, size=4.5, above=0.08)
    values = [trial.value if trial.state == COMPLETE else None for trial in tuning.trials]
    so_far = np.fmax.accumulate(np.array(values, np.float64))  # None is NaN
    panel.step(range(len(values)), so_far, where="post", color=_BEST, linewidth=1.6, label="best so far")
    early = best.number <= 0.6 * max(len(values) - 1, 1)
    panel.annotate(
        f"{tables.number(tuning.value)} in trial {best.number}", (best.number, tuning.value), color=_BEST,
        xytext=(9 if early else -9, 7), textcoords="offset points", ha="left" if early else "right", fontweight="bold",
    )  # fmt: skip
    if failed:
        lowest = [panel.get_ylim()[0]] * len(failed)
        panel.plot(failed, lowest, "x", color="black", markersize=6, clip_on=False, zorder=5, label="failed")
    panel.set_xlim(-0.6, max(len(values) - 0.4, 1.0))
    panel.locator_params(axis="x", integer=True)
    panel.set_xlabel("trial")
    panel.set_ylabel(f"{tuning.metric}, validation")
    panel.set_title(f"The search found {tuning.metric} {tables.number(tuning.value)}", loc="left", fontweight="bold")
    panel.legend(loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=4, fontsize=8, borderaxespad=0.2)


def _draw_slice(panel: "Axes", tuning: Tuning, name: str, part: float) -> None:
    dimension = tuning.space[name]
    if isinstance(dimension, Choice):
        panel.set_xticks(range(len(dimension.values)), [str(value) for value in dimension.values])
        panel.set_xlim(-0.5, len(dimension.values) - 0.5)
        _draw_trials(panel, tuning, lambda trial: dimension.values.index(trial.values[name]), size=3.8, needs=name)
    else:
        panel.plot((dimension.low, dimension.high), (tuning.value, tuning.value), linestyle="")  # the ends are in it
        panel.set_xscale("log" if dimension.log else "linear")
        panel.margins(x=0.04)
        _plain_ticks(panel, dimension)
        _draw_trials(panel, tuning, lambda trial: trial.values[name], size=3.8, needs=name)
    panel.set_title(name, loc="left", fontweight="bold", fontsize=9)
    panel.set_title(f"{part:.0%}", loc="right", fontsize=8.5, color="#555555")


def _draw_trials(
    panel: "Axes", tuning: Tuning, place: Callable[[Trial], Any], *, size: float, needs: str = "", above: float = 0.05
) -> None:
    """Draw the value of every trial, the best as a diamond; a net may lack the layer whose size a panel ``needs``."""
    able = [trial for trial in tuning.trials if trial.value is not None and (not needs or needs in trial.values)]
    for state, (label, style) in _STYLES.items():
        chosen = [trial for trial in able if trial.state == state]
        values = [trial.value for trial in chosen]
        panel.plot([place(trial) for trial in chosen], values, "o", markersize=size, label=label, **style)  # type: ignore[arg-type]
    if tuning.best in able:
        style = {"color": _BEST, "markersize": 1.8 * size, "markeredgecolor": "white", "zorder": 3}
        panel.plot(place(tuning.best), tuning.value, "D", **style)
    low, high = _limits(tuning)
    panel.set_ylim(low, high + above * (high - low))
    light_grid(panel)


def _plain_ticks(panel: "Axes", dimension: Range) -> None:
    """Set few ticks with plain numbers: within two decades the ends and the middle, beyond that powers of ten."""
    if not dimension.log:
        panel.locator_params(axis="x", nbins=4, integer=dimension.whole)
        return
    if dimension.high / dimension.low < 1000:
        middle = dimension.middle()
        ticks = [dimension.low, float(f"{middle:.1g}") if not dimension.whole else round(middle), dimension.high]
        panel.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
        panel.set_xticks([], minor=True)


def _limits(tuning: Tuning) -> tuple[float, float]:
    """Return limits for the better half of the trials; worse ones may lie below, or they would fill the figure."""
    values = np.array([t.value for t in tuning.trials if t.state != FAILED and t.value is not None], np.float64)
    best, middle, worst = tuning.value, float(np.median(values)), float(values.min())
    low = max(worst, best - 4.0 * (best - middle)) if best > middle else worst
    room = best - low or max(abs(best), 1e-6) * 0.01
    return low - 0.06 * room, best + 0.06 * room
