"""What the papers published: figures of their tables, and what they say is better than what, with table and page.

Each file holds one paper, each section one table or figure. ``columns`` and ``rows`` are the table as it is published;
``±`` after a metric is the half-width of its 95% interval and ``sd`` a standard deviation, both in the metric's unit;
``scale`` turns percentages into shares. ``note`` says where a section has no numbers in print. Where there is a
``baseline``, figures claim only what is better or worse than it.

``claims`` are statements that stand in the text or that curves show; about two methods they stand for what the figures
would claim. ``kind`` is "difference" (one method is better than another, at a level or at each), "interaction" (it
gains on the other from level to level: between two levels the difference of differences, over more the slope) or
"untested" (it cannot be held against results of ours). With a ``curve``, of "train", "valid" or "test" data, a
difference is the mean over all rounds of training, and rounds are the levels of an interaction. ``says`` puts a
statement into words, and ``source`` says where it stands if that is not the source of the section.
"""

import itertools
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

import polars as pl

from rankwise import check
from rankwise.base.arrays import Json

_SPREADS = ("±", "sd")
_NUMBERS = ("level", "value", "low", "high")
PUBLISHED = pl.Schema(
    {
        name: pl.Float64() if name in _NUMBERS else pl.String()
        for name in ("data", "level", "method", "metric", "value", "low", "high", "source")
    }
)
"""The columns of published figures."""
PAPERS = ("bruch2019", "bruch2020", "bruch2021", "kang2024", "westerborg2022")
KINDS = ("difference", "interaction", "untested")
CURVES = ("train", "valid", "test")


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One method is better than another, in the paper, or gains on it from level to level."""

    data: str
    metric: str
    level: float | None = None
    """None: at every level."""
    better: str = ""
    worse: str = ""
    significant: bool | None = None
    """Whether the paper says so, or its intervals are apart; None: not said. False: it says that they are level."""
    source: str
    note: str = ""
    """What the source lacks, such as numbers in print."""
    kind: str = "difference"
    levels: tuple[float, ...] = ()
    """Those that an interaction is about; none: all that there are."""
    curve: str = ""
    """Of which part of the data, if it is about learning curves."""
    says: str = ""
    """The statement in words, where they are not that ``better`` is better than ``worse``."""

    @property
    def subject(self) -> tuple[str, str, frozenset[str]]:
        """Data, metric, and the two methods, whichever is better."""
        return self.data, self.metric, frozenset((self.better, self.worse))

    @property
    def measure(self) -> str:
        """The metric, or the series of the learning curve."""
        return f"{self.curve} {self.metric}" if self.curve else self.metric


def figures(name: str) -> pl.DataFrame:
    """Return the published figures of ``paper.section`` as a frame; of several sections between blanks, of all.

    >>> frame = figures("bruch2019.table1")
    >>> frame.row(0)
    ('mslr-web30k', 0.0, 'ListNet', 'ndcg@5', 0.4672, 0.4664, 0.468, 'Table 1, page 4')
    """
    rows = [row for section in _sections(name) for row in _rows(section)]
    frame = pl.DataFrame([row[:-1] for row in rows], schema=PUBLISHED, orient="row")
    return frame.with_columns(pl.col("value", "low", "high").round(6))


def claims(name: str) -> list[Claim]:
    """Return the claims of a section about which method is better, and those that its figures make.

    >>> claims("bruch2021.table1")[0]
    Claim(data='mslr-web30k', metric='ndcg@5', level=None, better='XE-NDCG', worse='LambdaMART', significant=True, ...)
    """
    all_claims = []
    for section in _sections(name):
        stated = [claim for one in section.get("claims", ()) for claim in _stated(section, one)]
        read = {(one.subject, one.level) for one in stated if one.kind == "difference" and not one.curve}
        all_claims += stated
        all_claims += [
            one for one in _from_figures(section) if not read & {(one.subject, one.level), (one.subject, None)}
        ]
    return all_claims


def _stated(section: Json, one: Json) -> list[Claim]:
    """A statement in words, about each data set and metric that it is about."""
    check.choice("kind of claim", one.get("kind", "difference"), KINDS)
    if "curve" in one:
        check.choice("curve", one["curve"], CURVES)
    keys = {key: value for key, value in one.items() if key not in ("data", "metrics")}
    keys = {
        "source": section["source"],
        "note": section.get("note", ""),
        **keys,
        "levels": tuple(one.get("levels", ())),
    }
    return [Claim(data=data, metric=metric, **keys) for data in one["data"] for metric in one["metrics"]]


def _from_figures(section: Json) -> list[Claim]:
    """Every pair of methods of a published table, or those with its baseline: the higher figure is better.

    It is surely so where intervals are apart. Equal figures claim nothing.
    """
    better = []
    baseline = section.get("baseline")
    for pair in itertools.combinations(_rows(section), 2):
        high, low = sorted(pair, key=lambda row: -row[4])
        same_place = (high[0], high[1], high[3]) == (low[0], low[1], low[3])
        if not same_place or high[4] == low[4] or (baseline is not None and baseline not in (high[2], low[2])):
            continue
        apart = high[8] == low[8] == "±" and high[5] > low[6]
        facts: Json = {"source": section["source"], "note": section.get("note", "")}
        facts |= {"data": high[0], "level": high[1], "better": high[2], "worse": low[2], "metric": high[3]}
        better.append(Claim(**facts, significant=True if apart else None))
    return better


def _rows(section: Json) -> list[tuple[Any, ...]]:
    """The rows of a published table: data, level, method, metric, value, low, high, source, kind of spread."""
    columns, scale = section.get("columns", []), section.get("scale", 1.0)
    rows = []
    for row in section.get("rows", []):
        named = dict(zip(columns, row, strict=False))
        for place, name in enumerate(columns):
            if name in ("data", "level", "method") or name in _SPREADS:
                continue
            value = row[place] * scale
            kind = columns[place + 1] if place + 1 < len(columns) and columns[place + 1] in _SPREADS else ""
            spread = row[place + 1] * scale if kind and row[place + 1] != "" else None
            ends = (value - spread, value + spread) if spread is not None else (None, None)
            key = (named["data"], float(named.get("level", 0.0)), named["method"], name)
            rows.append((*key, value, *ends, section["source"], kind if spread is not None else ""))
    return rows


def _sections(name: str) -> list[Json]:
    sections = []
    for word in name.split():
        paper, _, section = word.partition(".")
        file = _paper(check.choice("paper", paper, PAPERS))
        tables = [key for key in file if key != "paper"]
        sections.append(file[check.choice(f"table or figure of {paper}", section, tables)])
    return sections


@cache
def _paper(name: str) -> Json:
    file: Json = tomllib.loads(
        resources.files("rankwise.wings.lab.papers").joinpath("published", f"{name}.toml").read_text("utf-8")
    )
    return file
