"""The rankings of a comparison as the query explorer shows them: documents of data, and of TREC runs by their ids."""

import math
from collections.abc import Mapping

import numpy as np
import polars as pl

from rankwise import Comparison
from rankwise.base.arrays import Ids
from rankwise.statistics import Ranked, colours_of
from rankwise.wings.lab.report.explorer import Explored, Packed, pack_set, sampled


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
        scores = [pl.col("score").filter(pl.col("system") == place).first() for place in range(len(frames))]
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
