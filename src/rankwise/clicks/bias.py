"""Position bias: how the click rate of a document depends on the position at which it is shown."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from rankwise import check, settings_files
from rankwise.arrays import Array, Json, read_only
from rankwise.clicks.check import BiasCheck, check_bias
from rankwise.clicks.log import Log
from rankwise.files import replacing
from rankwise.statistics import tables

_FORMAT = "rankwise position bias 1"
_CURVES = ("alpha", "alpha_low", "alpha_high", "beta", "beta_low", "beta_high")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Bias:
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
        sizes = {name: getattr(self, name).shape for name in _CURVES}
        n_positions = self.alpha.size
        if n_positions == 0 or set(sizes.values()) != {(n_positions,)}:
            raise check.error("curves of a bias need one number per position each", got=sizes)
        if not (np.isfinite(self.alpha).all() and np.isfinite(self.beta).all() and (self.alpha >= 0).all()):
            got = f"alpha {self.alpha.tolist()}, beta {self.beta.tolist()}"
            raise check.error("alpha must be finite and at least 0, beta finite", got=got)
        expected = (len(self.segment_names), n_positions)
        if self.by_segment is not None and self.by_segment.shape != expected:
            raise check.error(f"curves by segment must have the shape {expected}", got=self.by_segment.shape)

    @classmethod
    def known(cls, alpha: ArrayLike, beta: ArrayLike | None = None) -> Self:
        """Return the bias of curves that are known from elsewhere, such as an experiment of one's own.

        >>> Bias.known([1.0, 0.5], beta=[0.0, 0.02])
        Bias(known, 2 positions: alpha 1.0000, 0.5000; beta 0.0000, 0.0200)
        """
        curve = _curve("alpha", alpha)
        trust = np.zeros(curve.size) if beta is None else _curve("beta", beta)
        curve, trust = read_only(curve), read_only(trust)
        return cls(
            alpha=curve,
            alpha_low=curve,
            alpha_high=curve,
            beta=trust,
            beta_low=trust,
            beta_high=trust,
            method="known",
            assumptions=("the curves are known from elsewhere and exact",),
        )

    @property
    def n_positions(self) -> int:
        """The last position with a bias."""
        return self.alpha.size

    def of(self, positions: NDArray[np.integer], segments: NDArray[np.integer] | None = None) -> tuple[Array, Array]:
        """Return alpha and beta at each of these positions, which count from 1; both are 0 beyond the last.

        ``segments`` are numbers in ``segment_names``; −1 is the common curve, as everywhere without curves by segment.
        """
        positions = np.asarray(positions)
        if (positions < 1).any():
            raise check.error("positions count from 1", got=int(positions.min()))
        place = np.minimum(positions - 1, self.n_positions)
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
        if self.by_segment is not None:
            columns |= {f"alpha of {name}": row for name, row in zip(self.segment_names, self.by_segment, strict=True)}
        return pl.DataFrame({"position": np.arange(1, self.n_positions + 1), **columns})

    def table(self) -> tables.Table:
        """Return a table with a row per position."""
        trusting = bool(self.beta.any())
        header = ["position", "alpha", f"{self.level:.0%} interval"]
        header += ["beta", f"{self.level:.0%} interval"] if trusting else []
        header += ["alpha without trust"] if self.pbm is not None else []
        segments = () if self.by_segment is None else self.segment_names
        header += [f"alpha of {tables.shortened(name)}" for name in segments]
        rows = []
        for k in range(self.n_positions):
            row = [str(k + 1), tables.number(self.alpha[k])]
            row.append(tables.interval(self.alpha_low[k], self.alpha_high[k]))
            if trusting:
                row += [tables.number(self.beta[k]), tables.interval(self.beta_low[k], self.beta_high[k])]
            if self.pbm is not None:
                row.append(tables.number(self.pbm.alpha[k]))
            row += [tables.number(alpha) for alpha in (() if self.by_segment is None else self.by_segment[:, k])]
            rows.append(tuple(row))
        return tables.Table(
            header=tuple(header), rows=tuple(rows), align="r" * len(header), notes=tuple(self.assumptions)
        )

    def __repr__(self) -> str:
        curve = ", ".join(map(tables.number, self.alpha))
        trust = f"; beta {', '.join(map(tables.number, self.beta))}" if self.beta.any() else ""
        return f"Bias({self.method}, {tables.count(self.n_positions, 'position')}: alpha {curve}{trust})"

    def __str__(self) -> str:
        return f"position bias by method {self.method!r}\n{self.table().text()}"

    def _repr_html_(self) -> str:
        return self.table().html()

    def plot(self, path: str | Path, *, force: bool = False) -> Path:
        """Draw the curves with their intervals: .png, .svg or .pdf."""
        from rankwise.clicks.bias_figures import plot_bias

        return plot_bias(self, path, force=force)

    def save(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the bias to a JSON file that :func:`rankwise.clicks.read_bias` reads."""
        with replacing(path, force=force) as new:
            new.write_text(json.dumps(self._json(), indent=1, ensure_ascii=False, allow_nan=False) + "\n", "utf-8")
        return Path(path)

    def _json(self) -> Json:
        curves = {name: [_plain(value) for value in getattr(self, name)] for name in _CURVES}
        facts: Json = {"method": self.method, "level": self.level, "assumptions": list(self.assumptions)}
        rows = None if self.by_segment is None else self.by_segment.tolist()
        segments = {"segment_names": list(self.segment_names), "by_segment": rows}
        return {"format": _FORMAT, **facts, **curves, **segments, "pbm": None if self.pbm is None else self.pbm._json()}


def read_bias(path: str | Path) -> Bias:
    """Read a bias that :meth:`Bias.save` wrote; every field is checked.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read_bias(Bias.known([1.0, 0.5]).save(Path(folder) / "bias.json"))
    Bias(known, 2 positions: alpha 1.0000, 0.5000)
    """
    path = check.readable(path)
    with check.naming(path):
        return _from_json(settings_files.load(path, "a position bias", as_json=True).keys)


def _from_json(keys: Json) -> Bias:
    if keys.get("format") != _FORMAT:
        hint = "read a file that Bias.save wrote"
        raise check.error(f"a position bias has the format {_FORMAT!r}", got=repr(keys.get("format")), hint=hint)
    expected = {"format", "method", "level", "assumptions", *_CURVES, "segment_names", "by_segment", "pbm"}
    if set(keys) != expected:
        missing, extra = sorted(expected - set(keys)), sorted(set(keys) - expected)
        raise check.error("the fields of a position bias are wrong", got=f"missing {missing}, unknown {extra}")
    curves = {name: read_only(_numbers(name, keys[name])) for name in _CURVES}
    if not isinstance(keys["method"], str):
        raise check.error("method must be text", got=repr(keys["method"]))
    rows = keys["by_segment"]
    if rows is not None and not (isinstance(rows, list) and rows):
        raise check.error("by_segment must be rows of numbers", got=repr(rows))
    if keys["pbm"] is not None and not isinstance(keys["pbm"], dict):
        raise check.error("pbm must be a position bias", got=repr(keys["pbm"]))
    return Bias(
        **curves,
        method=keys["method"],
        level=check.number("level", keys["level"], least=0.0, most=1.0, open_ends=True),
        assumptions=_texts("assumptions", keys["assumptions"]),
        segment_names=_texts("segment_names", keys["segment_names"]),
        by_segment=None if rows is None else _matrix([_numbers("by_segment", row) for row in rows]),
        pbm=None if keys["pbm"] is None else _from_json(keys["pbm"]),
    )


def _curve(name: str, values: ArrayLike) -> Array:
    """Return a curve as numbers, one per position."""
    try:
        curve = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        curve = np.empty((0, 0))
    if curve.ndim != 1:
        raise check.error(f"{name} must be one number per position", got=repr(values)[:80])
    return curve.copy()


def _matrix(rows: Sequence[Array]) -> Array:
    if len({row.size for row in rows}) != 1 or not np.isfinite(rows).all():
        raise check.error("by_segment must have one finite number per position in each row")
    return read_only(np.vstack(rows))


def _plain(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


def _numbers(name: str, values: Any) -> Array:
    if not isinstance(values, list) or not all(
        value is None or (isinstance(value, int | float) and not isinstance(value, bool)) for value in values
    ):
        raise check.error(f"{name} must be a list of numbers", got=repr(values)[:80])
    return np.array([np.nan if value is None else float(value) for value in values], np.float64)


def _texts(name: str, values: Any) -> tuple[str, ...]:
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise check.error(f"{name} must be a list of texts", got=repr(values)[:80])
    return tuple(values)
