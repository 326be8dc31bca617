"""Options that several commands share, so that they are called, explained and checked alike."""

from pathlib import Path
from typing import Annotated, Any

import typer

DEFAULT_METRICS = ["ndcg@5", "ndcg@10", "ap", "rr"]
READING, RUNNING = "Reading data", "Running"
"""Titles below which help lists options that are not the command's own."""


def option(
    help_text: str, metavar: str, *names: str, default: str | bool = True, panel: str | None = None, **more: Any
) -> Any:
    """Declare an option with a value; ``default`` is what help shows as its default."""
    return typer.Option(*names, metavar=metavar, help=help_text, show_default=default, rich_help_panel=panel, **more)


def flag(help_text: str, *names: str, default: str | bool = True, panel: str | None = None) -> Any:
    """Declare an option without a value."""
    return typer.Option(*names, help=help_text, show_default=default, rich_help_panel=panel)


Json = Annotated[bool, flag("Print one JSON document on standard output and nothing else.", "--json", panel=RUNNING)]
Progress = Annotated[
    bool | None,
    flag("Show progress on standard error.", "--progress/--no-progress", default="on a terminal", panel=RUNNING),
]
Force = Annotated[bool, flag("Replace files that exist already.", "--force", panel=RUNNING)]
Seed = Annotated[
    int, option("The same seed gives the same result, on any machine.", "N", "--seed", panel=RUNNING, min=0)
]
Part = Annotated[
    str | None,
    option("Which part of a catalog set or a .toml file.", "train|valid|test", default="test", panel=READING),
]
TrainPart = Annotated[
    str | None,
    option("Which part of a catalog set or a .toml file.", "train|valid|test", default="train", panel=READING),
]
Fold = Annotated[
    int | None, option("Which fold of a catalog set or a .toml file.", "N", default="1", panel=READING, min=1)
]
Metrics = Annotated[
    list[str],
    option(
        "Metrics between commas: ndcg@10, ap, rr, err@5, recall@100, 'ndcg(gain=linear, ties=worst)@5', …; "
        "names of trec_eval and ir_measures are read too: ndcg_cut_10, P_5, nDCG@20, Bpref.",
        "LIST",
        "--metrics",
        "-m",
    ),
]
Conventions = Annotated[
    str | None,
    option(
        "Count gains, ties and queries without relevant documents as another library does: lightgbm, "
        "xgboost, catboost, sklearn or trec_eval; rankwise names our own way.",
        "NAME",
        default="trec_eval with --qrels",
    ),
]
Qrels = Annotated[
    Path | None,
    option(
        "Take relevance from a TREC qrels file instead of DATA; the rankings are TREC runs, and counted as "
        "trec_eval does.",
        "FILE",
    ),
]
Titles = Annotated[
    str | None,
    option("What metrics are called in the tables: one title for each, between commas, in their order.", "LIST"),
]
AllTopics = Annotated[
    bool, flag("With --qrels: count topics that a run has no line for, as trec_eval -c does.", "--all-topics")
]
Confidence = Annotated[float, option("Confidence of the intervals, between 0 and 1.", "X")]
Policy = Annotated[
    str | None,
    option(
        "Value scores as a policy that draws a ranking for every visitor, by Plackett-Luce, or always "
        "ranks by score: expected metrics, and with --groups the exposure of groups.",
        "plackett_luce|deterministic",
    ),
]
Samples = Annotated[
    int | None, option("With --policy: how many rankings of each query are drawn.", "N", default="256", min=2)
]

ExposureCutoff = Annotated[
    int | None, option("With --policy: only the first K ranks expose documents.", "K", default="all ranks", min=1)
]

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
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder that 'rankwise train' wrote.")]
ScoresFile = Annotated[
    Path | None,
    option(
        "The file to write: .csv, .tsv or .parquet, query, document and score; .run or .trec, a TREC run; "
        ".npy or .txt, one score per document. Text may end in .gz or .zst, too.",
        "FILE",
        "--output",
        "-o",
        default="standard output, one score per line",
    ),
]
Tag = Annotated[str, option("The name of the system in a TREC run.", "NAME")]
Valid = Annotated[
    str | None, option("Validation data, by which the best round is chosen; of a set, its own part.", "DATA")
]
Objective = Annotated[
    str | None,
    option(
        "What is optimised: a name from 'rankwise objectives', with arguments and wrappers, or native:… "
        "for an objective of the tree library itself.",
        "EXPRESSION",
        default="lambdarank; softmax_ce for a net",
    ),
]
Ranker = Annotated[
    str | None,
    option(
        "Trees of lightgbm, xgboost or catboost, a neural net: neural, or one that --import registers; "
        "with its objective and parameters, 'lightgbm(xendcg, leaves=7)', or an ensemble, 'bagged(…, "
        "folds=5)', 'blended(…, neural, column(0))', 'distilled(TEACHER, STUDENT)'.",
        "EXPRESSION",
        default="lightgbm",
    ),
]
Teacher = Annotated[
    Path | None,
    option(
        "The folder of a trained model whose scores are learned; labels count as far as --teacher-weight says.", "MODEL"
    ),
]
TeacherWeight = Annotated[
    float | None,
    option("With --teacher: its share of the loss; with 1 labels do not count.", "X", default="1.0", min=0.0, max=1.0),
]
Unlabelled = Annotated[str | None, option("With --teacher: more queries, which only the teacher labels.", "DATA")]
Rounds = Annotated[int | None, option("How many trees at most.", "N", default="500", min=1)]
Patience = Annotated[
    int | None,
    option("Stop after so many rounds without a better metric; 0: never.", "N", default="50; 20 for a net", min=0),
]
Epochs = Annotated[int | None, option("How many epochs of a net at most.", "N", default="100", min=1)]
Dask = Annotated[
    str | None,
    option(
        "Train on the workers of the Dask cluster whose scheduler has this address; they read TRAIN, "
        "Parquet, themselves.",
        "ADDRESS",
        "--dask",
        panel=RUNNING,
    ),
]
Checkpoint = Annotated[Path | None, option("A folder to keep the state of the training in.", "DIR", panel=RUNNING)]
Resume = Annotated[bool, flag("Resume from the checkpoint, if there is one.", "--resume", panel=RUNNING)]
Summary = Annotated[Path | None, option("Write the summary: .json, .csv, .md, .tex, .txt.", "FILE", "--output", "-o")]
PerQuery = Annotated[Path | None, option("Write the value of every query: .csv or .parquet.", "FILE")]
Threads = Annotated[int | None, option("How many threads.", "N", default="one for each core", panel=RUNNING, min=1)]
Set = Annotated[
    list[str] | None,
    option(
        "Another parameter of the ranker, or of its library by its own name; may be repeated.", "NAME=VALUE", "--set"
    ),
]
