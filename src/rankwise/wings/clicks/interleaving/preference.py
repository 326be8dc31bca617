"""Which of two rankings users prefer, by their clicks on interleaved lists."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from rankwise import check, moved
from rankwise.base import tables
from rankwise.base.arrays import Array, Json
from rankwise.base.compiling import kernel
from rankwise.check.docstrings import plain_signature
from rankwise.check.parameters import AtLeast, Option, Within
from rankwise.evaluation import Run, ranked, run_frame
from rankwise.statistics import BLUE, VERMILLION, Result, canvas
from rankwise.wings.clicks.interleaving import anytime_test
from rankwise.wings.clicks.interleaving.interleave import METHODS, A, B, TwoLists, draw_coins, merge
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.logs.reading import Source, open_log, typed_columns
from rankwise.wings.clicks.positions.bias import Bias

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rankings = Run | Mapping[str, Sequence[Any]]
"""A run, or the documents of each query in the order of their ranks."""
CREDITS: Final = {"sign": "wins", "clicks": "clicks", "debiased": "clicks, debiased,"}
_ROLES = {"impression": "key", **{name: name for name in ("query", "document", "clicked", "user", "team", "position")}}
_PAIR = ["query", "document"]
_MOST = 24  # documents of lists whose outcomes are enumerated


@moved.renamed("rw.judging.Interleaving")
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Interleaving(Result):
    """The preference of users between rankings a and b; made by :func:`interleaving`."""

    preference: float
    """The mean credit: above 0 users prefer a, below 0 b."""
    interval: tuple[float, float]
    """The interval of the preference, valid however often the log is looked at while it grows."""
    e_value: float
    """The evidence against no preference: 1 on average, at any time, if there is none."""
    decided: bool
    """Whether the e-value has reached 1 / (1 − level), so that the interval excludes 0."""
    credits: Array
    """The credit of a less that of b for each unit: an impression, or the first of a user."""
    scale: float
    """The largest possible credit."""
    sequential: anytime_test.Sequential
    credit: str
    by: str
    notes: tuple[str, ...]
    dependent: bool = False
    """Whether credits of neighbouring units evidently depend on each other, so that level and interval do not hold."""

    def traffic(self, effect: float, *, power: float = 0.8) -> int:
        """Return how many units show a preference of ±``effect``, by the spread of credits so far."""
        ties = 1.0 - float(np.mean((self.credits / self.scale) ** 2))
        return anytime_test.traffic(effect / self.scale, ties=ties, power=power, level=self.sequential.level)

    @property
    def sentence(self) -> str:
        """What has been decided, or what that would take."""
        if self.decided:
            better = "a" if self.interval[0] >= 0.0 else "b"
            if self.dependent:
                return f"Not sure: the e-value decides for {better}, but {self.by}s depend on each other."
            return f"Users prefer {better}: decided after {self.sequential.decided_after:,} {self.by}s."
        if not 0.0 < abs(self.preference) * self.scale < np.mean(self.credits**2):
            return "Not decided."
        size = tables.number(self.preference, signed=True)
        return f"Not decided: {self.traffic(self.preference):,} {self.by}s would show {size} with a power of 80%."

    def table(self) -> tables.Table:
        """Return a table of one row, with notes."""
        once = self.by == "impression"
        counts = [f"{np.count_nonzero(np.sign(self.credits) == sign):,}" for sign in (1, 0, -1)]
        columns = {
            "preference": tables.number(self.preference, signed=True),
            f"{self.sequential.level:.0%} interval": tables.interval(*self.interval, signed=True),
            "e-value": f"{self.e_value:,.3g}",
            f"{self.by}s": f"{self.credits.size:,}",
            **dict(zip(("for a", "ties", "for b"), counts, strict=True)),
        }
        rest = f"{1.0 - self.sequential.level:.0%} that remain"
        against = f"The {rest} are against no preference at any time, given the past: a drift decides, too"
        against += ", and so does one visitor of many impressions." if once else "."
        preference = f"Preference: {CREDITS[self.credit]} of a less those of b."
        notes = (preference, against, *self.notes, self.sentence)
        return tables.Table(header=tuple(columns), rows=(tuple(columns.values()),), align="r" * 7, notes=notes)

    def to_frame(self) -> pl.DataFrame:
        """Return one row per look at the log: units so far, mean credit, ends of its interval, and e-value."""
        sequential = self.sequential
        units = sequential.looks
        return pl.DataFrame(
            {
                "units": units,
                "preference": np.cumsum(self.credits)[units - 1] / units,
                "low": self.scale * sequential.low,
                "high": self.scale * sequential.high,
                "e_value": np.exp(sequential.evidence[units - 1].clip(-700.0, 700.0)),
            }
        )

    def to_dict(self) -> Json:
        """Return the outcome as JSON-serializable data."""
        names = ("preference", "interval", "e_value", "decided", "dependent", "credit", "notes", "sentence")
        facts = {name: getattr(self, name) for name in names}
        return facts | {"unit": self.by, "level": self.sequential.level, "units": self.credits.size}

    def figure(self) -> "Figure":
        """Draw preference, interval and e-value as they changed over the last 95% of the log."""
        sequential, level = self.sequential, self.sequential.level
        late = sequential.looks >= 0.05 * self.credits.size
        looks, ends = sequential.looks[late], (self.scale * end[late] for end in (sequential.low, sequential.high))
        units = np.unique(np.linspace(looks[0], looks[-1], 500).astype(np.int64))
        with canvas(7.2, 4.6) as drawing:
            top, bottom = drawing.subplots(2, 1, sharex=True, height_ratios=[3, 2])
            top.fill_between(looks, *ends, color=BLUE, alpha=0.18, linewidth=0)
            top.plot(units, np.cumsum(self.credits)[units - 1] / units, color=BLUE, linewidth=1.5)
            top.axhline(0.0, color="#444444", linewidth=0.8)
            top.set_ylabel(f"preference for a, {level:.0%} interval")
            top.set_title(self.sentence, loc="left", fontweight="bold")
            bottom.plot(units, np.exp(sequential.evidence[units - 1].clip(-700.0, 700.0)), color=BLUE, linewidth=1.5)
            bottom.axhline(1.0 / (1.0 - level), color=VERMILLION, linewidth=1.0, linestyle="--", label="decided")
            bottom.set(ylabel="e-value", xlabel=f"{self.by}s", yscale="log")
            bottom.xaxis.set_major_formatter("{x:,.0f}")
            bottom.legend(loc="upper left")
        return drawing


@moved.renamed("rw.judging.interleaving")
@plain_signature
def interleaving(
    log: Source | Log,
    a: Rankings | None = None,
    b: Rankings | None = None,
    *,
    cutoff: Annotated[int, AtLeast(1), "Number of documents of a list.", Option(metavar="K")] = 10,
    seed: Annotated[int, AtLeast(0), "Seed of every draw.", Option(group="Running")] = 0,
    method: Annotated[str, "How lists were interleaved.", Option(metavar="team_draft|balanced")] = "team_draft",
    credit: Annotated[str, "What an impression counts.", Option(metavar="sign|clicks|debiased")] = "sign",
    bias: Bias | ArrayLike | None = None,
    level: Annotated[float, Within(0, 1, open=True), "Confidence level.", Option(metavar="LEVEL")] = 0.95,
) -> Interleaving:
    """Return which of two rankings users prefer, with an interval and an e-value that are valid at any time.

    ``log`` is a CSV or Parquet file or a table, in the order of time, with a row for each document that was shown and
    columns ``key``, ``query``, ``document``, ``clicked``, optionally ``user`` and ``position`` (from 1, to check it).
    Lists are rebuilt from the key, as :func:`rankwise.judging.interleave` made them with ``cutoff``, ``seed`` and
    ``method``, and the rankings ``a`` and ``b``: runs, or dictionaries of lists. Without rankings a column ``team`` has
    a, b or none.

    ``credit`` of an impression is the "sign" of clicks on documents of a less those of b, their number ("clicks"), or
    "debiased": an unbiased estimate of the clicks that a alone would get less those of b alone. A click then counts
    (θ of its document's position in a − θ in b) / (mean θ of the positions where interleaving shows it), with the
    examination θ of positions in ``bias``, a curve or a :class:`rankwise.clicks.Bias`.

    Only impressions whose lists differ count, and of each user the first: later ones depend on it, and bets on them
    could not be looked at in between. Without users all count, which is right if users come once. A warning says where
    neighbouring impressions depend on each other beyond chance: visitors return, or preferences drift. Visitors whose
    impressions lie far apart cannot be told without a column of users.

    >>> rows = {"key": range(400), "query": ["q"] * 400, "document": ["x", "x", "x", "y"] * 100, "clicked": [1] * 400}
    >>> outcome = interleaving(pl.DataFrame(rows), {"q": ["x", "y"]}, {"q": ["y", "x"]})
    >>> outcome.preference, outcome.sentence
    (0.5, 'Users prefer a: decided after 39 impressions.')
    """
    if isinstance(log, Log):
        hint = "pass the table or the file that it was read from"
        raise check.error("keys of impressions are needed", got="a log that added impressions up", hint=hint)
    draft = check.choice("method", method, METHODS) == "team_draft"
    if check.choice("credit", credit, CREDITS) != "debiased" and not draft:
        what = "plain clicks on balanced lists favour a ranking by its order alone"
        raise check.error(what, got=f"credit={credit!r}", hint="`set credit='debiased'`, or show team drafts")
    if (bias is None) == (credit == "debiased"):
        what = "debiased credit, and no other, needs a position bias"
        raise check.error(what, got=f"credit={credit!r}, bias={bias!r}", hint="`pass bias=…`")
    if (a is None) != (b is None) or (a is None and bias is not None):
        raise check.error("both rankings are needed", got="one or none", hint="pass them as a= and b=")
    rows, notes = _read(log, teams=a is None), []
    scale = 1.0 if credit == "sign" else float((cutoff + 1) // 2)
    if a is not None and b is not None:
        pairs, lists = _lists(a, b, check.integer("cutoff", cutoff, least=1))
        if bias is not None:
            curve = bias if isinstance(bias, Bias) else Bias.known(bias)
            pairs, scale, last = _weighted(pairs, lists, cutoff, curve, draft)
            notes.append(f"Clicks up to position {last}: interleaving always shows the documents that both have there.")
        rows = _rebuilt(rows, pairs, lists, cutoff, seed, draft)
    else:
        rows = rows.with_columns(weight=pl.col("team").replace_strict({"a": 1.0, "b": -1.0}, default=0.0))
    weight = pl.col("weight")
    impressions = rows.group_by("number", maintain_order=True).agg(
        pl.first("user"), credit=(weight * pl.col("clicked")).sum(), differs=(weight != 0.0).any()
    )
    units = impressions.filter("differs")
    if alike := impressions.height - units.height:
        notes.append(f"{tables.count(alike, 'impression')} not counted: both rankings have the same list.")
    unit = "impression" if rows["user"].dtype == pl.Null else "user"
    if unit == "user":
        first = units.unique("user", keep="first", maintain_order=True)
        notes.append(f"{tables.count(units.height - first.height, 'impression')} not counted: later ones of a user.")
        units = first
    amounts = np.sign(units["credit"].to_numpy()) if credit == "sign" else units["credit"].to_numpy()
    if not 0.0 <= np.abs(amounts).max(initial=-1.0) <= scale * (1.0 + 1e-9):
        got = f"{units.height:,} of them, credits up to {np.abs(amounts).max(initial=0.0):g}, cutoff={cutoff}"
        raise check.error(f"a preference needs impressions whose lists differ, with credits up to {scale:g}", got=got)
    sequential = anytime_test.confidence_sequence(np.clip(amounts / scale, -1.0, 1.0), level)
    dependent = anytime_test.dependence(amounts) > anytime_test.DEPENDENT
    if dependent:
        returns = "visitors return, or preferences drift" if unit == "impression" else "preferences drift"
        what = f"credits of neighbouring {unit}s go together beyond chance: {returns}, and the interval does not hold"
        hint = (
            "log a column `user`, of which the first impression counts" if unit == "impression" else "compare periods"
        )
        notes.append(f"{what[0].upper()}{what[1:]}.")
        check.warn(what, hint=hint, stacklevel=3)
    return Interleaving(
        preference=float(amounts.mean()),
        interval=(scale * float(sequential.low[-1]), scale * float(sequential.high[-1])),
        e_value=float(np.exp(min(sequential.evidence[-1], 700.0))),
        decided=sequential.decided_after is not None,
        credits=amounts,
        scale=scale,
        sequential=sequential,
        credit=credit,
        by=unit,
        notes=tuple(notes),
        dependent=dependent,
    )


def _read(log: Source, *, teams: bool) -> pl.DataFrame:
    """Read the rows of a log, with the number of their impression, user (null where there is none) and position."""
    with contextlib.ExitStack() as stack:
        rows = open_log(log, _ROLES, stack, optional=("user", "position", "query" if teams else "team"))
        columns, problems = typed_columns(rows.frame.collect_schema())
        if teams:
            columns["team"] = pl.col("team").cast(pl.String).replace("", None)
            problems["a team that is not a, b or empty"] = "team", ~columns["team"].is_in(["a", "b"])
        counts = rows.frame.select(**{what: is_bad.sum() for what, (_, is_bad) in problems.items()}).collect()
        for what, count in counts.row(0, named=True).items():
            if count:
                bad = rows.frame.with_row_index("row").filter(problems[what][1]).first().select("row").collect()
                got = f"{tables.count(count, 'row')} with {what}"
                raise check.error("every row of a log must be usable", got=got, where=rows.place(bad.item()))
        fixed = {"query": pl.lit(""), "user": pl.lit(None), "position": pl.lit(0, pl.Int32)} | columns
        texts = pl.col("query", "impression", "document").cast(pl.String)
        frame = rows.frame.select(**fixed).with_columns(texts).collect()
    impression = pl.col("query").hash(1) ^ pl.col("impression").hash(2)
    hashes = frame.select(impression, document=impression ^ pl.col("document").hash(3))
    if hashes["document"].n_unique() < frame.height:
        raise check.error("a document may stand only once in an impression", hint="make its clicks one row")
    return frame.with_columns(number=np.unique(hashes["query"].to_numpy(), return_inverse=True)[1])


def _lists(a: Rankings, b: Rankings, k: int) -> tuple[pl.DataFrame, TwoLists]:
    """Return the first documents of queries that both rankings have, one row each, and as lists."""
    pairs = _ranks(a, k).join(_ranks(b, k), on=_PAIR, how="full", coalesce=True, suffix="_b")
    pairs = pairs.filter(pl.all_horizontal(pl.col("rank", "rank_b").count().over("query") > 0))
    pairs = pairs.sort("query", "rank", "rank_b", nulls_last=True).with_columns(
        q=pl.col("query").rle_id(), code=pl.int_range(pl.len()).over("query")
    )
    sizes = pairs.group_by("q", maintain_order=True).agg(pl.len(), pl.col("rank", "rank_b").count()).drop("q")
    offsets = [np.append(0, column.to_numpy().cumsum(dtype=np.int64)) for column in sizes]
    in_b = pairs.filter(pl.col("rank_b").is_not_null()).sort("q", "rank_b")
    return pairs, TwoLists(in_b["code"].to_numpy(), *offsets)


def _ranks(rankings: Rankings, k: int) -> pl.DataFrame:
    rank = pl.int_range(pl.len()).over("query")
    if isinstance(rankings, Mapping) and not any(isinstance(row, Mapping) for row in rankings.values()):
        lists = pl.DataFrame({"query": list(rankings), "document": [list(row) for row in rankings.values()]})
        rankings = lists.explode("document").with_columns(score=-rank)
    return ranked(run_frame(cast("Run", rankings))).select(*_PAIR, rank=rank).filter(pl.col("rank") < k)


def _weighted(pairs: pl.DataFrame, lists: TwoLists, k: int, bias: Bias, draft: bool) -> tuple[pl.DataFrame, float, int]:
    """Return pairs with what a click counts, the largest possible credit, and how many positions count."""
    theta = bias.alpha[:k]
    if theta.size < k or not (theta > 0.0).all() or bias.beta.any() or k > _MOST:
        what = f"debiased credit needs a bias without trust (beta), above 0 up to the cutoff, which is at most {_MOST}"
        raise check.error(what, got=f"cutoff={k}, {bias!r}")
    shown, seen = np.zeros(pairs.height), np.zeros(pairs.height)
    _fill_exposure(lists, k, draft, theta, shown, seen)
    ranks = [pairs[name].fill_null(k).to_numpy() for name in ("rank", "rank_b")]
    cutoff = int(np.min(ranks, axis=0)[shown < 1.0].min(initial=k))
    theta = np.append(theta[:cutoff], np.zeros(k + 1 - cutoff))
    weights = (theta[ranks[0]] - theta[ranks[1]]) / np.where(seen > 0.0, seen, 1.0)
    sums = [np.add.reduceat(np.maximum(sign * weights, 0.0), lists.offsets[:-1]).max() for sign in (1.0, -1.0)]
    return pairs.with_columns(weight=weights), float(max(sums)) or 1.0, cutoff


def _rebuilt(rows: pl.DataFrame, pairs: pl.DataFrame, lists: TwoLists, k: int, seed: int, draft: bool) -> pl.DataFrame:
    """Return the rows with the weights of pairs, or else 1, −1 and 0 for documents of a, b and neither."""
    rows = rows.join(pairs, on=_PAIR, how="left", maintain_order="left")
    missing = rows.filter(pl.col("q").is_null()).join(pairs, on="query", how="anti")
    if missing.height:
        got, where = f"{missing['number'].n_unique():,} impressions of others", f"query {missing['query'][0]!r}"
        raise check.error("both rankings must have every query of the log", got=got, where=where)
    keys = rows.select("number", "impression").unique("number").sort("number")["impression"].to_list()
    columns = (rows[name].fill_null(-1).to_numpy() for name in ("number", "q", "position", "code"))
    signs = np.empty(rows.height)
    _fill_signs(draw_coins(keys, seed), *columns, lists, k, draft, signs)
    if (wrong := np.isnan(signs)).any():
        row = rows.row(int(wrong.argmax()), named=True)
        what = "the log must show the lists that are rebuilt from its keys"
        got = f"{wrong.sum():,} of {rows.height:,} documents not in their list, or at another position"
        where = f"key {row['impression']!r}, document {row['document']!r}"
        hint = "`set cutoff=…`, `seed=…`, `method=…` and the rankings as they were when lists were shown"
        raise check.error(what, got=got, where=where, hint=hint)
    return rows if "weight" in pairs.columns else rows.with_columns(weight=signs)


@kernel
def _fill_exposure(lists, k, draft, theta, shown, seen):  # type: ignore[no-untyped-def]
    """Fill the probability that each document is shown, and its mean theta, over all outcomes of the coins."""
    documents, teams = np.empty(k, np.int64), np.empty(k, np.int64)
    n_outcomes = 2 ** ((k + 1) // 2) if draft else 2
    for q in range(lists.offsets.size - 1):
        for coins in range(n_outcomes):
            for place in range(merge(lists, q, k, np.uint64(coins), draft, documents, teams)):
                shown[lists.offsets[q] + documents[place]] += 1.0 / n_outcomes
                seen[lists.offsets[q] + documents[place]] += theta[place] / n_outcomes


@kernel
def _fill_signs(coins, numbers, queries, positions, codes, lists, k, draft, out):  # type: ignore[no-untyped-def]
    """Fill the sign of each row, NaN where its list is another; the list is made once for rows that lie together."""
    documents, teams = np.empty(k, np.int64), np.empty(k, np.int64)
    number, size = -1, 0
    for row in range(out.size):
        if codes[row] >= 0 and numbers[row] != number:
            number = numbers[row]
            size = merge(lists, queries[row], k, coins[number], draft, documents, teams)
        place = 0
        while place < size and documents[place] != codes[row]:
            place += 1
        is_wrong = codes[row] < 0 or place == size or 0 < positions[row] != place + 1
        out[row] = np.nan if is_wrong else 1.0 * (teams[place] == A) - (teams[place] == B)
