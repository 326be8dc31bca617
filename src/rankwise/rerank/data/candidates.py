"""Which documents are on a query's list: those that were judged, and those that a run retrieved, or some of them."""

from dataclasses import dataclass

import numpy as np
import polars as pl

from rankwise import check
from rankwise.arrays import offsets_of
from rankwise.evaluation.trec import ranked
from rankwise.stream import Stream


@dataclass(frozen=True, kw_only=True)
class Candidates:
    """How documents of a run come onto the lists beside those that were judged."""

    depth: int | None = None
    """The last rank of the run that is looked at; None: all."""
    skip: int = 0
    """How many of the first ranks are passed over: what nobody judged is most often relevant there."""
    negatives: int | None = None
    """How many documents of the run, not judged relevant, are drawn for a query; None: all are taken."""
    add_judged: bool = True
    """Whether judged documents that the run lacks are added; not so where what was retrieved is to be ranked again."""
    seed: int = 0

    def __post_init__(self) -> None:
        skip = check.integer("skip", self.skip, least=0)
        if self.depth is not None and check.integer("depth", self.depth, least=1) <= skip:
            raise check.error("depth must be larger than skip", got=f"depth={self.depth} and skip={skip}")
        if self.negatives is not None:
            check.integer("negatives", self.negatives, least=1)
            if not self.add_judged:
                hint = "leave add_judged=False out, or take all of the run with negatives=None"
                raise check.error("negatives are drawn beside judged documents", got="add_judged=False", hint=hint)

    def origin(self, *, with_run: bool) -> str:
        """Which documents are on the lists, in words.

        >>> Candidates(negatives=8, depth=100, skip=5).origin(with_run=True)
        'judged documents and 8 drawn from ranks 6 to 100 of the run'
        """
        if not with_run:
            return "judged documents"
        ranks = f"ranks {self.skip + 1} to {self.depth} of " if self.depth is not None else ""
        if self.skip and self.depth is None:
            ranks = f"what follows rank {self.skip} of "
        drawn = "those of" if self.negatives is None else f"{self.negatives} drawn from"
        return f"judged documents and {drawn} {ranks}the run" if self.add_judged else f"those of {ranks}the run"

    def join(self, judged: pl.DataFrame | None, run: pl.DataFrame | None) -> pl.DataFrame:
        """Give query, document, label and judged (see ``RankingDataset``) of each list, documents in the order of ids.

        That order says nothing about what is relevant, as the order of a run or of qrels may.
        """
        if judged is None:
            judged = pl.DataFrame(schema={"query": pl.String, "document": pl.String, "grade": pl.Float64})
        queries = (judged if judged.height or run is None else run).select("query").unique(maintain_order=True)
        queries = queries.with_row_index("number")
        known = pl.when(pl.col("grade") < 0.0).then(-1).otherwise(1)
        rows = judged.select("query", "document", pl.col("grade").clip(0.0).alias("label"), judged=known)
        if run is not None:
            common = run.join(queries, on="query", how="semi")
            if common.is_empty():
                few = [", ".join(map(repr, one["query"].unique(maintain_order=True)[:3])) for one in (run, judged)]
                hint = "check that both belong to the same queries and spell their ids alike"
                got = f"{few[0]} in the run, {few[1]} in the qrels"
                raise check.error("run and qrels have no query in common", got=got, hint=hint)
            taken = self._taken(common, rows)
            same = ["query", "document"]
            rows = taken.join(rows, on=same, how="full" if self.add_judged else "left", coalesce=True)
            rows = rows.with_columns(pl.col("label").fill_null(0.0), pl.col("judged").fill_null(0))
        return rows.join(queries, on="query").sort("number", "document")

    def _taken(self, run: pl.DataFrame, judged: pl.DataFrame) -> pl.DataFrame:
        rank = pl.int_range(1, pl.len() + 1).over("query")
        last = np.iinfo(np.int64).max if self.depth is None else self.depth
        rows = ranked(run).filter(rank.is_between(self.skip + 1, last)).select("query", "document")
        if self.negatives is None:
            return rows
        rows = rows.join(judged, on=["query", "document"], how="anti", maintain_order="left")
        sizes = rows.group_by("query", maintain_order=True).len()
        # Each query has numbers of its own, so that a list is the same whichever other queries there are.
        stream = Stream(self.seed, query_ids=sizes["query"].to_list()).child("negatives")
        draws = stream.documents(offsets_of(sizes["len"].to_numpy()))
        return (
            rows.with_columns(draw=pl.Series(draws))
            .filter(pl.col("draw").rank("ordinal").over("query") <= self.negatives)
            .drop("draw")
        )
