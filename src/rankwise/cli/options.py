"""Options that several commands share, and how descriptions of options are read.

An option is described as its line of help, in the docstring of its command or below for several commands:
``--leaves N>=2: Leaves of a tree at most. [default: by the number of documents]``. Type and default value are those of
the parameter of its name.
"""

import json
import re
from pathlib import Path
from typing import Annotated, Any

import typer

DEFAULT_METRICS = ["ndcg@5", "ndcg@10", "ap", "rr"]
READING, RUNNING = "Reading data", "Running"
"""Titles below which help lists options that are not the command's own."""

_DESCRIPTION = re.compile(
    r"(?P<names>-\S+( -\w)?)( (?P<metavar>[^\s:<>]+)(>=(?P<min>[\d.]+))?(<=(?P<max>[\d.]+))?)?"
    r": (?P<help>.*?)( \[default: (?P<default>.*)\])?"
)


def described(text: str) -> dict[str, Any]:
    r"""Read descriptions of options: name of the parameter -> option; a line such as "Running:" is a title in help.

    >>> option = described("--leaves -l N>=2: Leaves of a tree at\n    most. [default: by size]")["leaves"]
    >>> option.metavar, option.min, option.help, option.show_default
    ('N', 2, 'Leaves of a tree at most.', 'by size')
    """
    options, title = {}, None
    for entry in re.split(r"\n+(?=\S)", text.strip()):
        words = _DESCRIPTION.fullmatch(" ".join(entry.split()))
        if words is None:
            title = entry.strip().rstrip(":")
            continue
        names = words["names"].split()
        limits: Any = {end: json.loads(words[end]) for end in ("min", "max") if words[end]}
        options[names[0].partition("/")[0].lstrip("-").replace("-", "_")] = typer.Option(
            *names, metavar=words["metavar"], help=words["help"], rich_help_panel=title,
            show_default=words["default"] or True, **limits,
        )  # fmt: skip
    return options


SHARED = described("""
--set NAME=VALUE: Another parameter of the ranker, or of its library by its own name; may be repeated.
--metrics -m LIST: Metrics between commas: ndcg@10, ap, rr, err@5, recall@100, 'ndcg(gain=linear, ties=worst)@5', …;
    names of trec_eval and ir_measures have its conventions: ndcg_cut_10, P_5, nDCG@20, Bpref.
--conventions NAME: Count gains, ties and queries without relevant documents as another library does: lightgbm, xgboost,
    catboost, sklearn or trec_eval; rankwise names our own way. [default: by the names of metrics]
--qrels FILE: Take relevance from a TREC qrels file instead of DATA; the rankings are TREC runs.
--judge FILE: Grades of a judge, such as an LLM, for all queries: qrels, also .csv, or a column of the table
    --qrels. Few human labels, --qrels, then suffice.
--all-topics: With --qrels: count topics that a run has no line for, as trec_eval -c does.
--titles LIST: What metrics are called in the tables: one title for each, between commas, in their order.
--confidence X: Confidence of the intervals, between 0 and 1.
--policy plackett_luce|deterministic: Value scores as a policy that draws a ranking for every visitor, by Plackett-Luce,
    or always ranks by score: expected metrics, and with --groups the exposure of groups.
--samples N>=2: With --policy: how many rankings of each query are drawn. [default: 256]
--exposure-cutoff K>=1: With --policy: only the first K ranks expose documents. [default: all ranks]
--per-query FILE: Write the value of every query: .csv or .parquet.
--tag NAME: The name of the system in a TREC run.
--valid DATA: Validation data, by which the best round is chosen; of a set, its own part.
--objective EXPRESSION: What is optimised: a name from 'rankwise objectives', with arguments and wrappers, or native:…
    for an objective of the tree library itself. [default: lambdarank]
--ranker EXPRESSION: Trees of lightgbm, xgboost or catboost, a neural net: neural, or one that --import registers; with
    its objective and parameters, 'lightgbm(xendcg, leaves=7)', or an ensemble, 'bagged(…, folds=5)', 'blended(…,
    neural, column(0))', 'distilled(TEACHER, STUDENT)'. [default: lightgbm]
--rounds N>=1: How many trees at most. [default: 500]
--epochs N>=1: How many epochs of a net at most. [default: 100]
--patience N>=0: Stop after so many rounds without a better metric; 0: never. [default: 50; 20 for a net]
--teacher MODEL: The folder of a trained model whose scores are learned; labels count as far as --teacher-weight says.
--teacher-weight X>=0.0<=1.0: With --teacher: its share of the loss; with 1 labels do not count. [default: 1.0]
--unlabelled DATA: With --teacher: more queries, which only the teacher labels.
Reading data:
--part train|valid|test: Which part of a catalog set or a .toml file. [default: test]
--fold N>=1: Which fold of a catalog set or a .toml file. [default: 1]
Running:
--json: Print one JSON document on standard output and nothing else.
--force: Replace files that exist already.
--seed N>=0: The same seed gives the same result, on any machine.
--threads N>=1: How many threads. [default: one for each core]
--progress/--no-progress: Show progress on standard error. [default: on a terminal]
--checkpoint DIR: A folder to keep the state of the training in.
--resume: Resume from the checkpoint, if there is one.
--dask ADDRESS: Train on the workers of the Dask cluster whose scheduler has this address; they read TRAIN, Parquet,
    themselves.
""")

FORMS = (
    "LETOR text (.txt, .svm, …), .csv or .tsv (all also .gz and .zst), .parquet, - for standard input, a .toml file "
    "that describes a set of yours, or a name from 'rankwise data list'."
)
DATA = f"DATA: {FORMS}"
SCORES = (
    "SCORES: a model, the folder that 'rankwise train' wrote, text with one number per document in the order of DATA, "
    "a .npy array, or a TREC run. With --qrels there is no DATA, only runs."
)
Train = Annotated[str, typer.Argument(metavar="TRAIN", help=f"Training data: {FORMS}")]
Data = Annotated[str, typer.Argument(metavar="DATA", help=FORMS)]
Rankings = Annotated[list[str], typer.Argument(metavar="DATA SCORES", help=f"{DATA} {SCORES}")]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder that 'rankwise train' wrote.")]
