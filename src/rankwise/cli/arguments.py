"""Arguments and options that several commands declare."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from rankwise.base.arrays import Keywords
from rankwise.check.parameters import AtLeast, OneOf, Option, Unset, Within
from rankwise.cli.options import RUNNING

DEFAULT_METRICS = ("ndcg@5", "ndcg@10", "ap", "rr")
FORMS = (
    "LETOR text, .csv, .tsv (also .gz and .zst), .parquet, - for standard input, a .toml file that describes a set of "
    "yours, or a name from 'rankwise data list'."
)
DATA = f"DATA: {FORMS}"
SCORES = (
    "SCORES: a model, the folder that 'rankwise train' wrote, text with one number per document in the order of DATA, "
    "a .npy array, or a TREC run. With --qrels there is no DATA, only runs."
)
Train = Annotated[
    str, "Training data: LETOR text, CSV, Parquet, a .toml file or a name, as of 'rankwise data info'.",
    Option(metavar="TRAIN"),
]  # fmt: skip
Data = Annotated[str, FORMS, Option(metavar="DATA")]
Model = Annotated[Path, "The folder that 'rankwise train' wrote.", Option(metavar="MODEL")]

Folder = Annotated[Path, "The folder that the model goes to.", Option(short="-o", metavar="DIR")]
Plot = Annotated[Path | None, "Draw a figure: .png, .svg or .pdf."]
Summary = Annotated[
    Path | None, "Write it: all of it as .json or .csv, the table as .md, .tex or .txt.",
    Option(short="-o", metavar="FILE"),
]  # fmt: skip
Page = Annotated[Path | None, "Write a page for a browser: .html."]
Scores = Annotated[
    Path | None,
    "The file to write: .csv, .tsv or .parquet, query, document and score; .run or .trec, a TREC run; .npy or .txt, "
    "one score per document. Text may end in .gz or .zst, too.",
    Unset("standard output"),
    Option(short="-o", metavar="FILE"),
]
PerQuery = Annotated[Path | None, "Write the value of every query: .csv or .parquet."]
Tag = Annotated[str, "The name of the system in a TREC run."]

Valid = Annotated[str | None, "Validation data, by which the best round is chosen.", Option(metavar="DATA")]
Objective = Annotated[
    str | None, "A name from 'rankwise objectives'.", Unset("lambdarank"), Option(metavar="EXPRESSION")
]
Ranker = Annotated[
    str | None,
    "lightgbm (default), xgboost, catboost, neural, linear or your own; with parameters, 'lightgbm(xendcg, leaves=7)', "
    "or an ensemble: 'bagged(…)', 'blended(…, neural, column(0))', 'distilled(TEACHER, STUDENT)'.",
    Option(metavar="EXPRESSION"),
]
Set = Annotated[Keywords, "Another parameter of the ranker, or of its library.", Option(metavar="NAME=VALUE")]
Resume = Annotated[bool, "Resume from the checkpoint, if there is one.", Option(group=RUNNING)]
Metrics = Annotated[
    Sequence[str],
    "Metrics between commas: ndcg@10, ap, 'ndcg(gain=linear, ties=worst)@5', …; names of trec_eval and ir_measures, "
    "ndcg_cut_10, nDCG@20, have its conventions.",
    Option(short="-m", metavar="LIST"),
]
Level = Annotated[float, Within(0, 1, open=True), "Confidence level of intervals and tests.", Option(metavar="LEVEL")]
Policy = Annotated[
    str | None,
    OneOf(("plackett_luce", "deterministic"), "policy"),
    "Value scores as a policy that draws a ranking for every visitor, by Plackett-Luce, or always ranks by score: "
    "expected metrics, and with --groups the exposure of groups.",
    Option(metavar="NAME"),
]
Samples = Annotated[int | None, AtLeast(2), "With --policy: rankings that are drawn per query.", Unset("256")]
Segment = Annotated[
    Sequence[str],
    "Also by segment of the queries: a column that documents of a query share, traffic (head, torso and tail by "
    "weight), several between commas, or a table with the column query and one for each kind.",
    Option(metavar="LIST"),
]
