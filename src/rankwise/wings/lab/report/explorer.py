"""The data of the query explorer, packed small: what the page shows of each query, and its documents in chunks.

A pack is gzip, in base64, of a JSON header and float32 numbers behind it: browsers unpack it without a library, also
from a plain file. The values of metrics are one pack per data set; documents are packs of a few hundred queries each,
unpacked when one of them is looked at.
"""

import base64
import gzip
import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import Comparison
from rankwise import metrics as rw_metrics
from rankwise.base.arrays import Column, Ids, Json, offsets_of
from rankwise.statistics import Ranked, colours_of
from rankwise.wings.lab.report.view import View

if TYPE_CHECKING:
    from collections.abc import Iterable

MOST_QUERIES = 10_000
MOST_DOCUMENTS = 500_000
MOST_SIMILARITIES = 1_000_000
"""Similarities of rankings, of all pairs and queries, that are embedded; beyond that only the first, or none."""
SIMILARITIES = ("rbo", "overlap@10", "tau", "tau_ap")
MOST_NUMBERS = 5_000_000
"""Features, all together, that are embedded; beyond that the page has rankings without features."""
COLOUR_NAMES = {
    "#d55e00": "vermillion", "#0072b2": "blue", "#009e73": "green", "#cc79a7": "purple", "#56b4e9": "sky",
    "#e69f00": "orange", "#882255": "wine", "#8a8a2b": "olive", "#332288": "indigo", "#8c510a": "brown",
    "#000000": "ink",
}  # fmt: skip
"""What figures are drawn in, and the style sheet's name for it, which is another colour in the dark."""
_CHUNK = 8_000  # documents
_SIGNIFICANT = 5  # digits of a feature


@dataclass(frozen=True)
class Packed:
    """What is embedded: an index as plain data, and packs by name."""

    index: Json
    packs: dict[str, str]


def packed(view: View) -> Packed | None:
    """Pack the documents of every data set; None if there are none, or fewer than one query to show."""
    documents = view.results.documents
    if not documents.height:
        return None
    packs: dict[str, str] = {}
    sets = []
    for number, data in enumerate(documents["data"].unique(maintain_order=True).to_list()):
        sets.append(pack_set(_explored(view, data), f"set-{number}", packs))
    names = view.results.feature_names or []
    trials = view.results.queries["trial"].n_unique()
    return Packed({"metrics": view.query_metrics, "features": list(names), "trials": trials, "sets": sets}, packs)


class Explored(NamedTuple):
    """Queries of one data set, and their documents in the rankings of every method."""

    name: str
    methods: list[str]
    colours: Mapping[str, str]
    """Method -> colour in figures."""
    total: int
    """How many queries there are, shown or not."""
    queries: pl.DataFrame
    """``query`` and ``len``, the number of its documents, of those that are shown; see :func:`sampled`."""
    documents: pl.DataFrame
    """One row per document of these, query after query: ``query``, ``document`` (its number), ``id``, ``label``, which
    is null if nobody judged it, and ``score 0``, ``score 1``, …, null if that method did not rank it."""
    relevant: NDArray[np.int64]
    """How many documents of each query are relevant."""
    values: NDArray[np.float32]
    """(methods, metrics, queries); NaN where a query is skipped."""
    features: NDArray[np.float32] | None = None
    """(documents, features)."""
    contributions: Sequence[NDArray[np.float32]] = ()
    """What features add to the scores of each method."""


def _explored(view: View, data: str) -> Explored:
    rows = view.results.documents.filter(data=data)
    methods = [name for name in view.methods if name in set(rows["method"].unique().to_list())]
    wide = _side_by_side(rows, methods)
    queries = sampled(wide)
    wide = queries.select("query").join(wide, on="query", maintain_order="left_right")
    features = _features(view, data, wide)
    relevant, values = _values(view, data, methods, queries)
    return Explored(
        name=data,
        methods=methods,
        colours=view.colours,
        total=max(_tested(view, data)["query"].n_unique(), rows["query"].n_unique()),
        queries=queries,
        documents=wide,
        relevant=relevant,
        values=values,
        features=features,
        contributions=_contributions(view, data, methods, wide, 0 if features is None else features.shape[1]),
    )


def pack_set(explored: Explored, key: str, packs: dict[str, str]) -> Json:
    """Add the packs of a data set, whose names begin with ``key``; gives what the index says of it."""
    wide, methods, features, parts = explored.documents, explored.methods, explored.features, explored.contributions
    sizes = explored.queries["len"].to_numpy()
    starts = offsets_of(sizes)
    facts = {"ids": explored.queries["query"].to_list(), "documents": sizes.tolist()}
    alike = _similarities(wide, len(methods), starts)
    facts |= {"relevant": explored.relevant.tolist(), "alike": [*alike]}
    packs[key] = pack(facts, explored.values, *alike.values())
    bounds = _cuts(starts)
    for chunk, (first, last) in enumerate(itertools.pairwise(bounds)):
        span = slice(int(starts[first]), int(starts[last]))
        values = wide[span]
        ids = values["id"].to_list() if values["id"].null_count() < values.height else None
        header = {"ids": ids, "numbers": values["document"].to_list(), "labels": values["label"].to_list()}
        arrays: list[Column] = [values[f"score {place}"].to_numpy() for place in range(len(methods))]
        if features is not None:
            arrays.append(features[span].ravel())
        arrays += [one[span].ravel() for one in parts]
        packs[f"{key}-{chunk}"] = pack(header, *arrays)
    return {
        "name": explored.name,
        "key": key,
        "methods": methods,
        "colours": [COLOUR_NAMES[explored.colours[name].lower()] for name in methods],
        "width": 0 if features is None else features.shape[1],
        "explained": bool(parts),
        "chunks": [int(first) for first in bounds[:-1]],
        "queries": explored.total,
        "highest": float(wide["label"].max() or 0.0),  # type: ignore[arg-type]
    }


def _similarities(wide: pl.DataFrame, methods: int, starts: NDArray[np.int64]) -> dict[str, NDArray[np.float32]]:
    """Similarity -> (pairs of methods, queries), pairs in the order (0, 1), (0, 2), …; those that are defined."""
    scores = [wide[f"score {place}"].fill_null(-math.inf).fill_nan(-math.inf).to_numpy() for place in range(methods)]
    pairs = list(itertools.combinations(scores, 2))
    room = MOST_SIMILARITIES // max(len(pairs) * (starts.size - 1), 1)
    similarities = {}
    for name in SIMILARITIES[: len(SIMILARITIES) if room >= len(SIMILARITIES) else min(room, 1)] if pairs else ():
        measure = rw_metrics.similarity_measure(name)
        rows = np.array([measure(one, other, starts) for one, other in pairs])
        if not np.isnan(rows).all():
            similarities[name] = rows.round(3).astype(np.float32)
    return similarities


def _side_by_side(rows: pl.DataFrame, methods: list[str]) -> pl.DataFrame:
    """One row per document: query, document, id, label and the score of each method."""
    parts = rows.partition_by("method", as_dict=True)
    wide = parts[(methods[0],)].select("query", "document", "id", "label", pl.col("score").alias("score 0"))
    for place, name in enumerate(methods[1:], start=1):
        other = parts[(name,)].select("query", "document", pl.col("score").alias(f"score {place}"))
        wide = wide.join(other, on=["query", "document"], how="left", maintain_order="left")
    return wide


def sampled(wide: pl.DataFrame) -> pl.DataFrame:
    """The queries that are shown with their numbers of documents: all, or as many as fit, taken at even distances."""
    queries = wide.group_by("query", maintain_order=True).len()
    share = min(1.0, MOST_DOCUMENTS / wide.height)
    count = max(1, min(MOST_QUERIES, int(queries.height * share)))
    if count >= queries.height:
        return queries
    chosen = np.linspace(0, queries.height - 1, count).round().astype(np.int64)
    return queries.select(pl.all().gather(chosen.tolist()))


def _features(view: View, data: str, wide: pl.DataFrame) -> NDArray[np.float32] | None:
    """(n_documents, n_features) in the order of ``wide``, or None if there are none or too many."""
    rows = view.results.features.filter(data=data)
    if not rows.height:
        return None
    width = int(rows["features"].list.len().max() or 0)  # type: ignore[arg-type]
    return _matrix(wide, rows, "features", width) if 0 < width <= MOST_NUMBERS // wide.height else None


def _contributions(
    view: View, data: str, methods: list[str], wide: pl.DataFrame, width: int
) -> list[NDArray[np.float32]]:
    """The same of what features add to the scores of each method, NaN where it is not known; nothing if too many."""
    rows = view.results.contributions.filter(data=data)
    if not rows.height or not 0 < width * len(methods) <= MOST_NUMBERS // wide.height:
        return []
    return [_matrix(wide, rows.filter(method=name), "contributions", width) for name in methods]


def _matrix(wide: pl.DataFrame, rows: pl.DataFrame, column: str, width: int) -> NDArray[np.float32]:
    """Lists of numbers of documents as a matrix; those that are not there, or not so many, are missing."""
    keys = ["query", "document"]
    joined = wide.select(keys).join(rows.select(*keys, column), on=keys, how="left", maintain_order="left")
    matrix = np.full((joined.height, width), np.nan, np.float32)
    lengths = joined[column].list.len().fill_null(0).to_numpy()
    full = np.flatnonzero(lengths == width)
    matrix[full] = joined[column].gather(full).explode().to_numpy().reshape(-1, width)
    return rounded(matrix)


def rounded(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Keep five significant digits: packs become smaller, and nobody reads more.

    >>> rounded(np.array([[0.123456789, 1234567.0, 0.0]], np.float32)).tolist()
    [[0.12346000224351883, 1234600.0, 0.0]]
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        scale = 10.0 ** (_SIGNIFICANT - 1 - np.floor(np.log10(np.abs(matrix.astype(np.float64)))))
        near = np.round(matrix * scale) / scale
    return np.where(np.isfinite(near), near, matrix).astype(np.float32)


def _tested(view: View, data: str) -> pl.DataFrame:
    """The rows of the trial that the documents are of: the first, at the least level."""
    rows = view.results.queries.filter(data=data, level=view.base(data))
    return rows.filter(pl.col("trial") == rows["trial"].min())


def _values(
    view: View, data: str, methods: list[str], queries: pl.DataFrame
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Relevant documents of each query, and values as (methods, metrics, queries); NaN where a query is skipped."""
    rows = _tested(view, data)
    values = np.full((len(methods), len(view.query_metrics), queries.height), np.nan, np.float32)
    relevant = np.zeros(queries.height, np.int64)
    for place, name in enumerate(methods):
        rows_of_method = rows.filter(method=name)
        rows_of_method = queries.select("query").join(rows_of_method, on="query", how="left", maintain_order="left")
        values[place] = rows_of_method.select(pl.col(view.query_metrics).cast(pl.Float32)).to_numpy().T
        relevant = np.maximum(relevant, rows_of_method["relevant"].fill_null(0).to_numpy())
    return relevant, values


def _cuts(starts: NDArray[np.int64]) -> list[int]:
    """Numbers of queries where chunks begin, and the end: chunks of about as many documents each."""
    chunks = starts[:-1] // _CHUNK
    first = np.flatnonzero(np.diff(chunks, prepend=-1))
    return [*first.tolist(), starts.size - 1]


def pack(header: Json, *arrays: Column) -> str:
    """Pack a header and numbers: the header's length, the header, padding to a multiple of four, float32 numbers."""
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    text += b" " * (-len(text) % 4)
    body = b"".join(np.ascontiguousarray(array, "<f4").tobytes() for array in arrays)
    content = len(text).to_bytes(4, "little") + text + body
    return base64.b64encode(gzip.compress(content, 6, mtime=0)).decode("ascii")


def unpack(text: str) -> tuple[Json, NDArray[np.float32]]:
    """Read what :func:`pack` wrote, as the page does.

    >>> header, numbers = unpack(pack({"ids": ["a"]}, np.array([0.5, 2.0])))
    >>> header, numbers.tolist()
    ({'ids': ['a']}, [0.5, 2.0])
    """
    content = gzip.decompress(base64.b64decode(text))
    length = int.from_bytes(content[:4], "little")
    return json.loads(content[4 : 4 + length]), np.frombuffer(content, "<f4", offset=4 + length)


def embedded(packs: "Iterable[tuple[str, str]]") -> str:
    """Write packs as elements of the page; base64 has no letter that HTML could take for something else."""
    return "\n".join(f'<script type="application/octet-stream" id="{key}">{text}</script>' for key, text in packs)


def packed_rankings(comparison: Comparison, titles: Mapping[str, str]) -> Packed | None:
    """Pack the rankings of every query; None where documents are not known, or cannot be matched."""
    ranked = {name: one.ranked for name, one in comparison.paired.evaluations.items() if one.ranked is not None}
    if not ranked or len(ranked) < len(comparison.systems):
        return None
    documents = _documents(comparison, ranked)
    if documents is None:
        return None
    queries = sampled(documents)
    documents = queries.select("query").join(documents, on="query", maintain_order="left_right")
    places = pl.DataFrame({"query": _texts(comparison.paired.ids)}).with_row_index("place")
    query_places = queries.join(places, on="query", how="left", maintain_order="left")["place"].to_numpy()
    relevant = documents.group_by("query", maintain_order=True).agg((pl.col("label") > 0).sum())["label"]
    packs: dict[str, str] = {}
    explored = Explored(
        name="queries",
        methods=list(comparison.systems),
        colours=colours_of(comparison.systems),
        total=int(comparison.paired.ids.size),
        queries=queries,
        documents=documents,
        relevant=relevant.cast(pl.Int64).to_numpy(),
        values=np.stack(list(comparison.paired.values.values()), axis=1)[:, :, query_places].astype(np.float32),
    )
    index = {"metrics": list(titles.values()), "features": [], "trials": 1}
    return Packed(index | {"sets": [pack_set(explored, "set-0", packs)]}, packs)


def _documents(comparison: Comparison, ranked: Mapping[str, Ranked]) -> pl.DataFrame | None:
    """One row per document that any system ranked, or that was judged; None where they cannot be matched.

    Where all systems ranked the same lists, documents are matched by their places. Runs are matched by ids, and their
    documents lie in the order in which trec_eval breaks ties.
    """
    evaluations = comparison.paired.evaluations
    frames = [_ranked(evaluations[name].query_ids, one) for name, one in ranked.items()]
    lists = [frame.select("query", "document", "id", "label") for frame in frames]
    wide = lists[0]
    if all(one.equals(wide) for one in lists):
        columns = [frame["score"].alias(f"score {place}") for place, frame in enumerate(frames)]
        wide = wide.with_columns(columns)
    else:
        if any(one["id"].null_count() or one.select("query", "id").is_duplicated().any() for one in lists):
            return None
        long = pl.concat([frame.with_columns(system=pl.lit(place)) for place, frame in enumerate(frames)])
        scores = [pl.col("score").filter(system=place).first() for place in range(len(frames))]
        named = [score.alias(f"score {place}") for place, score in enumerate(scores)]
        wide = long.group_by("query", "id").agg(pl.col("label").drop_nulls().first(), *named)
        wide = wide.sort("query", "id", descending=[False, True])
    order = pl.DataFrame({"query": _texts(comparison.paired.ids)})
    wide = order.join(wide, on="query", maintain_order="left_right")
    return wide.with_columns(document=pl.int_range(pl.len()).over("query"))


def _ranked(query_ids: Ids, ranked: Ranked) -> pl.DataFrame:
    """Query, document, id, label (null if nobody judged it) and score (null if it was not retrieved)."""
    sizes = np.diff(ranked.offsets)
    ids = ranked.document_ids
    judged = np.ones(ranked.labels.size, np.bool_) if ranked.judged is None else ranked.judged == 1
    frame = pl.DataFrame(
        {
            "query": _texts(np.repeat(query_ids, sizes)),
            "document": np.concatenate([np.arange(size) for size in sizes]),
            "id": pl.Series([None] * ranked.labels.size, dtype=pl.String) if ids is None else _texts(ids),
            "label": ranked.labels,
            "score": ranked.scores,
        }
    )
    return frame.with_columns(
        pl.when(pl.Series(judged)).then("label"),
        pl.when(pl.col("score") > -math.inf).then("score"),
    )


def _texts(ids: Ids) -> pl.Series:
    return pl.Series(ids.tolist()).cast(pl.String)
