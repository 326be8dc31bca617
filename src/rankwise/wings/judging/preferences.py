"""Which of two documents is better: strengths of documents from preferences, as grades, labels or evidence."""

import math
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Annotated, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import check
from rankwise.base import tables
from rankwise.base.arrays import Array, Json, offsets_of
from rankwise.check.docstrings import plain_signature
from rankwise.check.parameters import Above, Option, Within
from rankwise.data.io import Table, as_polars, checked_ids, read_table, without_nulls
from rankwise.statistics import BLUE, Result, canvas
from rankwise.wings.judging.bradley_terry import fit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_COLUMNS = ("query", "first", "second", "preferred")
_SHOWN, _DRAWN = 20, 40


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Preferences(Result):
    """Strengths of documents, with intervals, from preferences of pairs; made by :func:`preferences`."""

    documents: pl.DataFrame
    """The rows of :meth:`to_frame`."""
    bias: float
    """Log-odds for the document shown first, where both are equally good."""
    bias_interval: tuple[float, float]
    comparisons: int
    level: float
    notes: tuple[str, ...]
    """What the comparisons cannot tell."""

    def to_frame(self) -> pl.DataFrame:
        """One row per document: query, document, part, comparisons, strength and its interval (low, high).

        Strengths are log-odds and have mean 0 in each part. Documents of different parts of a query were never
        compared, not even through others, and their strengths say nothing about each other; part 0 is the largest.
        """
        return self.documents

    def labels(self, grades: int | None = None) -> pl.DataFrame:
        """Return qrels: query, document and grade, of the largest part of each query.

        A grade is the strength above that of the query's weakest document, a real number from 0 on, for training or
        as ``judge=``. With ``grades`` it is a whole number below that: the quantile of the strength among all.

        >>> pairs = [("q", "a", "b", "a"), ("q", "b", "a", "a"), ("q", "b", "c", "b"), ("q", "c", "b", "tie")]
        >>> found = preferences(pl.DataFrame(pairs, schema=["query", "first", "second", "preferred"], orient="row"))
        >>> found.labels(grades=3)["grade"].to_list()
        [2.0, 1.0, 0.0]
        """
        chosen = self.documents.filter(pl.col("part") == 0)
        if grades is None:
            above = pl.col("strength") - pl.col("strength").min().over("query")
            return chosen.select("query", "document", grade=above)
        check.integer("grades", grades, least=2)
        strengths = chosen["strength"].to_numpy()
        edges = np.quantile(strengths, np.arange(1, grades) / grades)
        return chosen.select("query", "document", grade=pl.Series(np.searchsorted(edges, strengths) * 1.0))

    def to_dict(self) -> Json:
        """Return the strengths, the position bias and what the comparisons cannot tell, as plain data."""
        facts = {"bias": self.bias, "bias_interval": list(self.bias_interval), "comparisons": self.comparisons}
        return super().to_dict() | facts | {"notes": list(self.notes)}

    @property
    def sentence(self) -> str:
        """How many comparisons there are, and how much the position counts."""
        chances = [f"{1.0 / (1.0 + math.exp(-one)):.0%}" for one in (self.bias, *self.bias_interval)]
        counts = tables.count(self.documents.height, "document"), tables.count(self.comparisons, "comparison")
        queries = tables.count(self.documents["query"].n_unique(), "query", "queries")
        return (
            f"{counts[1]} of {counts[0]} of {queries}. Of two equally good documents the first is preferred in "
            f"{chances[0]} [{chances[1]}, {chances[2]}] of cases."
        )

    def table(self) -> tables.Table:
        """Return the strengths of the first documents, with what the comparisons cannot tell below."""
        rows = []
        for query, document, part, number, strength, low, high in self.documents.head(_SHOWN).iter_rows():
            ends = tables.interval(low, high, 2, signed=True)
            rows.append((query, document, str(part), f"{number:,}", tables.number(strength, 2, signed=True), ends))
        more = self.documents.height - len(rows)
        left = (f"{tables.count(more, 'more document')}: see to_frame().",) * (more > 0)
        parts = self.documents["part"].max() != 0
        header = ("query", "document", "part", "comparisons", "strength", f"{100 * self.level:g}% interval")
        kept = [at for at in range(len(header)) if at != 2 or parts]
        return tables.Table(
            header=tuple(header[at] for at in kept),
            rows=tuple(tuple(row[at] for at in kept) for row in rows),
            align="".join("llrrrl"[at] for at in kept),
            notes=(*left, self.sentence, *self.notes),
        )

    def figure(self, query: object = None) -> "Figure":
        """Draw the strengths of a query, by default of the first, with their intervals."""
        queries = self.documents["query"].unique(maintain_order=True)
        chosen = queries[0] if query is None else str(query)
        rows = self.documents.filter(pl.col("query") == chosen).head(_DRAWN)
        if rows.is_empty():
            raise check.error("no documents of this query were compared", got=repr(query))
        names = [tables.shortened(name) for name in rows["document"]]
        parts = rows["part"].to_list()
        names = [f"{name} ({part})" if any(parts) else name for name, part in zip(names, parts, strict=True)]
        with canvas(6.0, 0.9 + 0.24 * len(names)) as drawing:
            panel = drawing.subplots()
            for y, (low, high, strength) in enumerate(rows.select("low", "high", "strength").iter_rows()):
                panel.plot([low, high], [y, y], "|-", color=BLUE, markersize=7)
                panel.plot(strength, y, "o", color=BLUE, markersize=5)
            panel.set_yticks(range(len(names)), names)
            panel.set_ylim(len(names) - 0.4, -0.6)
            panel.set_xlabel("strength (log-odds)" + (", each part (in brackets) by itself" if any(parts) else ""))
            panel.set_title(f"query {tables.shortened(str(chosen))}", loc="left", fontweight="bold")
        return drawing


@plain_signature
def preferences(
    pairs: Table | str | Path,
    *,
    ridge: Annotated[float, Above(0), "Ridge: strengths are held near 0 by ½ ridge θ²."] = 0.01,
    level: Annotated[float, Within(0, 1, open=True), "Confidence level.", Option(metavar="LEVEL")] = 0.95,
) -> Preferences:
    """Estimate strengths of documents from preferences of pairs, by Bradley and Terry's model with a position bias.

    ``pairs`` is a table, or a .csv file, with columns query, first, second (ids of the documents in the order in which
    they were shown) and preferred: one of the two ids, or the words first, second or tie. Rows without a preference
    are left out. The log-odds that the first is preferred are θ_first − θ_second + b. A tie counts as half a win of
    each. Show each pair in both orders: that is what tells the position bias b from strengths.

    The likelihood has Firth's penalty, as without it few comparisons give a b and strengths that are too large, and
    intervals are from its information matrix. They take each row as an independent judgement: a model that is asked
    the same twice adds nothing, although it narrows them.

    >>> pairs = [("q", "a", "b", "a"), ("q", "b", "a", "a"), ("q", "b", "c", "b"), ("q", "c", "b", "tie")]
    >>> preferences(pl.DataFrame(pairs, schema=["query", "first", "second", "preferred"], orient="row"))
    query  document  comparisons  strength  95% interval
    q      a                   2     +1.13  [−1.39, +3.66]
    q      b                   4     −0.27  [−1.78, +1.24]
    q      c                   2     −0.86  [−3.14, +1.41]
    <BLANKLINE>
    4 comparisons of 3 documents of 1 query. Of two equally good documents the first is
    preferred in 60% [13%, 94%] of cases.
    <BLANKLINE>
    In 1 query some documents won all comparisons with the others: by how much they are
    better is known only from below.
    """
    check.number("ridge", ridge, least=0.0, open_ends=True)
    check.number("level", level, least=0.0, most=1.0, open_ends=True)
    rows, notes = _read(pairs)
    keys = pl.concat([rows.select("query", document=name) for name in ("first", "second")])
    documents = keys.group_by("query", "document", maintain_order=True).agg(comparisons=pl.len())
    documents = documents.with_row_index("place").with_columns(pl.col("place").cast(pl.Int64))
    first, second = (
        rows.join(documents, left_on=["query", name], right_on=["query", "document"], how="left", maintain_order="left")
        ["place"].to_numpy()
        for name in ("first", "second")
    )  # fmt: skip
    won, parts = rows["won"].to_numpy(), _components(documents.height, first, second)
    place = np.empty_like(parts)
    place[np.argsort(parts, kind="stable")] = np.arange(parts.size)  # documents of a part together
    order = np.argsort(parts[first], kind="stable")
    sizes, counts = np.bincount(parts), np.bincount(parts[first])
    pairs_of_parts = place[first][order], place[second][order], won[order]
    found = fit(offsets_of(sizes), offsets_of(counts), *pairs_of_parts, ridge=ridge)
    z = NormalDist().inv_cdf(0.5 + level / 2.0)
    strength, error = found.strengths[place], found.errors[place]
    half = z * found.bias_error
    documents = documents.with_columns(
        size=pl.Series(sizes[parts]), part=pl.Series(parts), strength=pl.Series(strength),
        low=pl.Series(strength - z * error), high=pl.Series(strength + z * error),
    )  # fmt: skip
    # Parts of a query are numbered by their size, and documents ordered by their strength.
    documents = documents.with_columns(first=pl.col("place").min().over("query")).sort(
        ["first", "size", "part", "strength", "place"], descending=[False, True, False, True, False]
    )
    documents = documents.with_columns(part=pl.col("part").rle_id())
    documents = documents.with_columns(part=pl.col("part") - pl.col("part").min().over("query"))
    return Preferences(
        documents=documents.select("query", "document", "part", "comparisons", "strength", "low", "high"),
        bias=found.bias,
        bias_interval=(found.bias - half, found.bias + half),
        comparisons=rows.height,
        level=level,
        notes=(*notes, *_limits(documents, rows, parts, first, second, won)),
    )


def _read(pairs: Table | str | Path) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Read and check pairs: ids as text, and ``won``, 1 where the first is preferred, ½ of a tie."""
    file = Path(pairs) if isinstance(pairs, str | Path) else None
    table = as_polars(cast("Table", pairs))[0].collect() if file is None else tables.from_csv(read_table(file).frame)
    if missing := [name for name in _COLUMNS if name not in table.columns]:
        what = "preferences need columns query, first, second and preferred"
        raise check.error(what, got=f"no {', '.join(missing)}", where=str(file or ""))
    rows = table.select(_COLUMNS).filter(pl.col("preferred").is_not_null())
    for name in _COLUMNS:
        ids = without_nulls(rows[name], f"the {name} must be known in every row of the preferences", check.Row)
        rows = rows.with_columns(checked_ids(ids, name, check.Row).cast(pl.String))
    if rows.is_empty():
        raise check.error("there are no preferences", hint="fill in the column preferred")
    chosen = pl.col("preferred")
    won = pl.when(chosen == pl.col("first")).then(1.0).when(chosen == pl.col("second")).then(0.0)
    won = won.when(chosen == "first").then(1.0).when(chosen == "second").then(0.0).when(chosen == "tie").then(0.5)
    rows = rows.with_columns(won=won)
    if (wrong := rows.filter(pl.col("won").is_null())).height:
        query, first, second, got = wrong.row(0)[:4]
        what = f"preferred must be {first!r}, {second!r}, first, second or tie"
        raise check.error(what, got=repr(got), where=f"query {query!r}")
    if (same := rows.filter(pl.col("first") == pl.col("second"))).height:
        query, document = same.row(0)[:2]
        raise check.error("a document is not compared with itself", got=repr(document), where=f"query {query!r}")
    left_out = table.height - rows.height
    return rows, (f"Left out: {tables.count(left_out, 'row')} without a preference.",) * (left_out > 0)


def _components(
    size: int, sources: NDArray[np.int64], targets: NDArray[np.int64], kind: str = "weak"
) -> NDArray[np.int64]:
    """Return the number of the component of each document; strong ones are those of directed edges."""
    from scipy import sparse

    graph = sparse.coo_array((np.ones(sources.size, np.int8), (sources, targets)), shape=(size, size))
    numbers = sparse.csgraph.connected_components(graph, connection=kind)[1]
    return np.asarray(numbers, np.int64)


def _limits(
    documents: pl.DataFrame, rows: pl.DataFrame, parts: NDArray[np.int64],
    first: NDArray[np.int64], second: NDArray[np.int64], won: Array,
) -> list[str]:  # fmt: skip
    """Return what the comparisons cannot tell, in sentences."""
    notes, by_query = [], documents.sort("place")
    divided = documents.filter(pl.col("part") > 0)["query"].n_unique()
    if divided:
        queries = tables.count(divided, "query has", "queries have")
        notes.append(f"{queries} parts that were never compared, not even through others: strengths of different parts "
                     "say nothing about each other.")  # fmt: skip
    wins, losses = won > 0.0, won < 1.0
    edges = np.concatenate([first[wins], second[losses]]), np.concatenate([second[wins], first[losses]])
    groups = by_query.select("query", part=pl.Series(parts), group=pl.Series(_components(len(parts), *edges, "strong")))
    counts = groups.group_by("query", "part").agg(pl.col("group").n_unique()).filter(pl.col("group") > 1)
    if counts.height:
        queries = tables.count(counts["query"].n_unique(), "query", "queries")
        notes.append(f"In {queries} some documents won all comparisons with the others: by how much they are better is "
                     "known only from below.")  # fmt: skip
    shown = rows.select("query", a=pl.min_horizontal("first", "second"), b=pl.max_horizontal("first", "second"),
                        order=pl.col("first") < pl.col("second"))  # fmt: skip
    both = int((shown.group_by("query", "a", "b").agg(pl.col("order").n_unique())["order"] > 1).sum())
    if not both:
        notes.append("No pair was shown in both orders: the position bias is hard to tell from strengths.")
    if repeats := rows.height - shown.unique().height:
        what = tables.count(repeats, "row repeats", "rows repeat")
        notes.append(f"{what} a pair in the same order: intervals take repeats as independent judgements.")
    return notes
