"""Position bias: how the click rate of a document depends on the position at which it is shown."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.base import tables
from rankwise.base.arrays import Array, Json, Keywords, read_only
from rankwise.language import settings_files
from rankwise.statistics import BLUE, COLOURS, DASHES, GREY, VERMILLION, Result, canvas, plain
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.positions.check import BiasCheck, check_bias

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FORMAT = "rankwise position bias 1"
_CURVES = ("alpha", "alpha_low", "alpha_high", "beta", "beta_low", "beta_high")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Bias(Result):
    """Clicks by position: P(click | query, document, position k) = alpha_k · relevance + beta_k.

    ``alpha`` is examination (a document that is not seen is not clicked), ``beta`` clicks by trust alone. Relevance is
    the click rate at the first position unless a method says otherwise: ``alpha`` is 1 and ``beta`` 0 there. Positions
    beyond the last have neither.

    >>> bias = Bias.known([1.0, 0.5, 0.25])
    >>> bias.of(np.array([1, 3, 4]))[0]
    array([1.  , 0.25, 0.  ])
    """

    alpha: Array
    """One per position, from the first."""
    beta: Array
    alpha_low: Array
    """Ends of the intervals; NaN where there is none."""
    alpha_high: Array
    beta_low: Array
    beta_high: Array
    method: str
    assumptions: tuple[str, ...]
    """What has to hold for these numbers to be right, and what was found on the way."""
    segment_names: tuple[str, ...] = ("",)
    by_segment: Array | None = None
    """``alpha`` of each segment (rows) at each position."""
    level: float = 0.95
    """Confidence level of the intervals."""
    pbm: "Bias | None" = None
    """The curve without trust, beside one with it."""

    def __post_init__(self) -> None:
        shapes = {name: getattr(self, name).shape for name in _CURVES}
        if self.alpha.size == 0 or set(shapes.values()) != {(self.alpha.size,)}:
            raise check.error("curves of a bias need one number per position each", got=shapes)
        if not (np.isfinite(self.alpha).all() and np.isfinite(self.beta).all() and (self.alpha >= 0).all()):
            got = f"alpha {self.alpha.tolist()}, beta {self.beta.tolist()}"
            raise check.error("alpha must be finite and at least 0, beta finite", got=got)
        expected, rows = (len(self.segment_names), self.alpha.size), self.by_segment
        if rows is not None and not (rows.shape == expected and np.isfinite(rows).all()):
            raise check.error(f"by_segment must have finite numbers and the shape {expected}", got=rows.tolist())

    @classmethod
    def known(cls, alpha: ArrayLike, beta: ArrayLike | None = None) -> Self:
        """Return the bias of curves that are known from elsewhere, such as an experiment of one's own.

        >>> Bias.known([1.0, 0.5], beta=[0.0, 0.02])
        Bias(known, 2 positions: alpha 1.0000, 0.5000; beta 0.0000, 0.0200)
        """
        curve = _numbers("alpha", alpha)
        trust = _numbers("beta", np.zeros(curve.size) if beta is None else beta)
        curves: Keywords = dict(zip(_CURVES, [curve] * 3 + [trust] * 3, strict=True))
        return cls(**curves, method="known", assumptions=("the curves are known from elsewhere and exact",))

    def of(self, positions: NDArray[np.integer], segments: NDArray[np.integer] | None = None) -> tuple[Array, Array]:
        """Return alpha and beta at each of these positions, which count from 1; both are 0 beyond the last.

        ``segments`` are numbers in ``segment_names``; −1 is the common curve, as everywhere without curves by segment.
        """
        positions = np.asarray(positions)
        if (positions < 1).any():
            raise check.error("positions count from 1", got=int(positions.min()))
        place = np.minimum(positions - 1, self.alpha.size)
        alpha = np.append(self.alpha, 0.0)[place]
        if segments is not None and self.by_segment is not None:
            curves = np.vstack([self.by_segment, self.alpha])  # the last row is number −1
            alpha = np.hstack([curves, np.zeros((len(curves), 1))])[segments, place]
        return alpha, np.append(self.beta, 0.0)[place]

    def of_cells(self, log: Log) -> tuple[Array, Array]:
        """Return alpha and beta of each cell of a log; segments are matched by name, new ones have the common curve."""
        number = {name: index for index, name in enumerate(self.segment_names)}
        numbers = np.array([number.get(name, -1) for name in log.segment_names])
        return self.of(log.positions, numbers[log.segments])

    def check(self, log: Log, other: Log | None = None, *, level: float = 0.95) -> BiasCheck:
        """Compare clicks by position with predictions: each ranker of the log held out in turn, or another log.

        There is an alarm where observed clicks are off by more than a tenth, and not by chance. With one ranker nothing
        can be checked, unless ``other`` is the log of another time, such as after a change of the index.
        """
        return check_bias(self, log, other, level=level)

    def to_frame(self) -> pl.DataFrame:
        """One row per position: alpha and beta with their intervals, and a column for each segment."""
        columns = {name: getattr(self, name) for name in _CURVES}
        return pl.DataFrame({"position": np.arange(1, self.alpha.size + 1), **columns, **self._other_curves()})

    def table(self) -> tables.Table:
        """Return a table with a row per position."""
        columns = {"position": [str(position) for position in range(1, self.alpha.size + 1)]}
        for name in ("alpha", "beta") if self.beta.any() else ("alpha",):
            ends = zip(getattr(self, f"{name}_low"), getattr(self, f"{name}_high"), strict=True)
            columns[name] = [tables.number(value) for value in getattr(self, name)]
            columns[f"{self.level:.0%} of {name}"] = [tables.interval(low, high) for low, high in ends]
        for name, curve in self._other_curves().items():
            columns[tables.shortened(name)] = [tables.number(value) for value in curve]
        rows = tuple(zip(*columns.values(), strict=True))
        title, align = f"position bias by method {self.method!r}", "r" * len(columns)
        return tables.Table(header=tuple(columns), rows=rows, align=align, notes=self.assumptions, title=title)

    def _other_curves(self) -> dict[str, Array]:
        """Return alpha without trust and alpha of each segment, by the names of their columns."""
        curves = {} if self.pbm is None else {"alpha without trust": self.pbm.alpha}
        rows = () if self.by_segment is None else self.by_segment
        return curves | {f"alpha of {name}": row for name, row in zip(self.segment_names, rows, strict=False)}

    def __repr__(self) -> str:
        curve = ", ".join(map(tables.number, self.alpha))
        trust = f"; beta {', '.join(map(tables.number, self.beta))}" if self.beta.any() else ""
        return f"Bias({self.method}, {tables.count(self.alpha.size, 'position')}: alpha {curve}{trust})"

    def __str__(self) -> str:
        return self.to_text()

    def figure(self) -> "Figure":
        """Draw the curves with their intervals."""
        positions = np.arange(1, self.alpha.size + 1)
        with canvas(7.2, 4.0) as drawing:
            panel = drawing.subplots()
            for name, colour, style in (("alpha", BLUE, "o-"), ("beta", VERMILLION, "s--")):
                if (curve := getattr(self, name)).any():
                    low, high = getattr(self, f"{name}_low"), getattr(self, f"{name}_high")
                    panel.fill_between(positions, low, high, color=colour, alpha=0.18, linewidth=0)
                    panel.plot(positions, curve, style, color=colour, markersize=4, linewidth=1.5, label=name)
            for i, (name, curve) in enumerate(self._other_curves().items()):
                colour = (GREY, *COLOURS[2:])[i % (len(COLOURS) - 1)]
                dashes = DASHES[1 + i % (len(DASHES) - 1)]
                label = tables.shortened(name)
                panel.plot(positions, curve, color=colour, linestyle=dashes, linewidth=1.1, label=label)
            panel.locator_params(axis="x", integer=True)
            panel.set_xlabel("position")
            panel.set_ylabel("clicks of one document, first position = 1")
            panel.set_ylim(bottom=min(0.0, float(np.nanmin(self.beta_low, initial=0.0)) * 1.1))
            panel.set_title(f"Position bias ({self.method}), {self.level:.0%} intervals", loc="left", fontweight="bold")
            panel.legend(loc="upper right")
        return drawing

    def to_dict(self) -> Json:
        """Return all fields; :meth:`save` writes them to a .json file that :func:`rankwise.clicks.read_bias` reads."""
        fields_: Json = plain({"format": _FORMAT, **asdict(self)})
        return fields_


def read_bias(path: str | Path) -> Bias:
    """Read a bias that :meth:`Bias.save` wrote; every field is checked.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read_bias(Bias.known([1.0, 0.5]).save(Path(folder) / "bias.json"))
    Bias(known, 2 positions: alpha 1.0000, 0.5000)
    """
    path = check.readable(path)
    with check.naming(path):
        keys = settings_files.load(path, "a position bias", as_json=True).keys
        if keys.pop("format", None) != _FORMAT:
            raise check.error(f"a position bias has the format {_FORMAT!r}", hint="read a file that Bias.save wrote")
        return _from_json(keys)


def _from_json(keys: Any) -> Bias:
    expected = {field.name for field in fields(Bias)}
    if not isinstance(keys, dict) or set(keys) != expected:
        got = sorted(keys) if isinstance(keys, dict) else repr(keys)
        raise check.error(f"a position bias has the fields {sorted(expected)}", got=got)
    rows, pbm = keys["by_segment"], keys["pbm"]
    return Bias(
        **{name: _numbers(name, keys[name]) for name in _CURVES},
        method=_texts("method", [keys["method"]])[0],
        level=check.number("level", keys["level"], least=0.0, most=1.0, open_ends=True),
        assumptions=_texts("assumptions", keys["assumptions"]),
        segment_names=_texts("segment_names", keys["segment_names"]),
        by_segment=None if rows is None else _numbers("by_segment", rows),
        pbm=None if pbm is None else _from_json(pbm),
    )


def _numbers(name: str, values: ArrayLike) -> Array:
    """Return a copy as numbers; None is NaN."""
    try:
        return read_only(np.array(values, np.float64))
    except (TypeError, ValueError):
        raise check.error(f"{name} must be numbers, one per position", got=repr(values)[:80]) from None


def _texts(name: str, values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise check.error(f"{name} must be text", got=repr(values)[:80])
    return tuple(values)
