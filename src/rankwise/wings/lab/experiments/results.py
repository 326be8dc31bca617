"""What an experiment found, as frames: everything that tables, reports and the query explorer are made of."""

import difflib
import json
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from rankwise import check
from rankwise.base.arrays import Json
from rankwise.base.tables import Table
from rankwise.statistics import Result
from rankwise.wings.lab.experiments import summary
from rankwise.wings.lab.experiments.running.store import PACKED, Store, read_pack, write_pack
from rankwise.wings.lab.experiments.schema import (
    CONTRIBUTIONS,
    CURVES,
    DOCUMENTS,
    FEATURES,
    KEY,
    QUERIES,
    empty,
    stack_trials,
)
from rankwise.wings.lab.papers.claims import PUBLISHED, figures

DESCRIPTION = "experiment.json"
"""The file in a folder of results that says what was run and which files belong to it."""
PAGE = "results.md"
"""The file beside it with the tables of a complete run."""


@dataclass(frozen=True, eq=False, repr=False)
class Results(Result):
    """The outcome of an experiment: what running it gives, or read from its folder or pack."""

    spec: Json
    """The experiment as plain data: name, title, paper, claim, methods (name -> expression), metrics, levels, …"""
    queries: pl.DataFrame
    """One row per data set, level, trial, method and query, with one column per metric; null where it is skipped."""
    curves: pl.DataFrame = field(default_factory=lambda: empty(CURVES))
    """Values by round. Series: "loss", "valid ndcg@5", "test ndcg@5", "bound ndcg", …"""
    documents: pl.DataFrame = field(default_factory=lambda: empty(DOCUMENTS))
    """Labels and scores of single documents: of the first trial and level only."""
    features: pl.DataFrame = field(default_factory=lambda: empty(FEATURES))
    """The features of those documents; may be empty."""
    contributions: pl.DataFrame = field(default_factory=lambda: empty(CONTRIBUTIONS))
    """What each feature adds to the score that a method gives a document, of as many of them as were explained."""
    feature_names: list[str] | None = None
    published: pl.DataFrame = field(default_factory=lambda: empty(PUBLISHED))
    """What the paper published, with table and page."""
    about: Json = field(default_factory=dict)
    """Versions, machine, dates, seconds of training, the command."""

    @classmethod
    def read(cls, folder: str | Path) -> "Results":
        """Read what lies in a folder of results, also of a run that is not finished, or in a file of :meth:`pack`."""
        if Path(folder).is_file():
            description, frames = read_pack(folder)
            spec, facts = description["spec"], description["about"]
            return cls(spec, **frames, published=figures(spec.get("published", "")), about=facts)  # type: ignore[arg-type]
        return cls.gathered(folder, _description(folder))

    @classmethod
    def gathered(cls, folder: str | Path, description: Json) -> "Results":
        """Read the trials that a description lists from a folder of results."""
        trials, facts = Store(folder).read(description["files"])
        with check.library("the trials", folder, hint="delete them, and run the experiment again"):
            frames = stack_trials(trials)
        return cls(
            description["spec"],
            **frames,
            feature_names=facts.pop("feature_names"),
            published=figures(description["spec"].get("published", "")),
            about=description["about"] | facts,
        )

    def pack(self, path: str | Path, *, documents: bool = False) -> Path:
        """Write what tables and figures need to one small file, which :meth:`read` reads as it does a folder.

        Features of documents, what they add to scores, and unless ``documents`` labels and scores stay behind: those
        are for the query explorer, and for figures of metrics that were not computed. The same results make the same
        bytes, so that a file under version control changes when its numbers do.
        """
        names = [name for name in PACKED if documents or name != "documents"]
        write_pack(path, {"spec": self.spec, "about": self.about}, {name: getattr(self, name) for name in names})
        return Path(path)

    def tables(self) -> list[Table]:
        """Return every table: means with intervals and marks, and whether the paper's direction agrees."""
        return [replace(table, title=title) for title, table in summary.all_tables(self)]

    def to_frame(self) -> pl.DataFrame:
        """Return the :meth:`trial_means`."""
        return self.trial_means()

    def to_markdown(self, **_: Any) -> str:
        """Return the tables as a Markdown page, with how they were made."""
        return summary.markdown(self)

    def to_dict(self) -> Json:
        """Return means, tests and verdicts as plain data."""
        return summary.to_dict(self)

    @staticmethod
    def name_in(folder: str | Path) -> str:
        """The name of the experiment whose results lie in a folder."""
        return str(_description(folder)["spec"]["name"])

    @property
    def metrics(self) -> list[str]:
        """The metrics, that which decides first."""
        decide = self.spec.get("decide")
        names = [name for name in self.queries.columns if name not in QUERIES]
        return sorted(names, key=lambda name: name != decide)

    @property
    def methods(self) -> list[str]:
        """The methods that there are results of, in the order of the description."""
        trained = set(self.queries["method"].unique())
        named = [name for name in self.spec.get("methods", {}) if name in trained]
        return named + sorted(trained.difference(named))

    def trial_means(self) -> pl.DataFrame:
        """One row per data set, level, trial and method: the mean of every metric over the queries that it scores.

        Where the frame holds ``ideal dcg@5`` beside ``dcg@5``, there is also ``dcg@5 ratio``, the mean of the one
        over the mean of the other, which some papers report as NDCG.
        """
        return self._trial_means

    @cached_property
    def _trial_means(self) -> pl.DataFrame:
        weight = pl.col("weight")
        means = []
        for name in self.metrics:
            one = pl.col(name)
            means.append(((one * weight).sum() / weight.filter(one.is_not_null()).sum()).alias(name))
        frame = self.queries.group_by(list(KEY), maintain_order=True).agg(means)
        ideals = [name for name in self.metrics if name.startswith("ideal ")]
        ratios = [
            (pl.col(name.removeprefix("ideal ")) / pl.col(name)).alias(f"{name.removeprefix('ideal ')} ratio")
            for name in ideals
        ]
        return frame.with_columns(ratios).drop(ideals)


def _description(folder: str | Path) -> Json:
    path = Path(folder) / DESCRIPTION
    if not path.is_file():
        hint = "give the folder that 'rankwise reproduce' wrote"
        beside = sorted(one.parent for one in path.parent.parent.glob(f"*/{DESCRIPTION}"))
        if near := difflib.get_close_matches(path.parent.name, [one.name for one in beside], n=1):
            hint = f"did you mean {path.parent.parent / near[0]}"
        elif beside:
            hint += f", such as {beside[0]}"
        raise check.error("not a folder of results", got=str(folder), hint=hint)
    try:
        content: Json = json.loads(path.read_text(encoding="utf-8"))
        spec, files, facts = content["spec"], content["files"], content["about"]
    except (ValueError, KeyError, TypeError, RecursionError):
        spec = files = facts = None
    complete = isinstance(spec, dict) and isinstance(spec.get("name"), str) and isinstance(facts, dict)
    if not complete or not isinstance(files, list) or not all(isinstance(file, str) for file in files):
        raise check.error(
            "the description of an experiment is damaged",
            where=str(path),
            hint="delete it and run the experiment again: its trials are kept",
        )
    return content
