"""Options that several commands share, so that they are called, explained and checked alike."""

from pathlib import Path
from typing import Annotated

import typer

DEFAULT_METRICS = ["ndcg@5", "ndcg@10", "ap", "rr"]
READING, RUNNING = "Reading data", "Running"
"""Titles below which help lists options that are not the command's own."""

Json = Annotated[
    bool,
    typer.Option(
        "--json", help="Print one JSON document on standard output and nothing else.", rich_help_panel=RUNNING
    ),
]
Progress = Annotated[
    bool | None,
    typer.Option(
        "--progress/--no-progress",
        help="Show progress on standard error.",
        show_default="on a terminal",
        rich_help_panel=RUNNING,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist already.", rich_help_panel=RUNNING)]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        min=0,
        metavar="N",
        help="The same seed gives the same result, on any machine.",
        rich_help_panel=RUNNING,
    ),
]
Part = Annotated[
    str | None,
    typer.Option(
        metavar="train|valid|test",
        help="Which part of a catalog set or a .toml file.",
        show_default="test",
        rich_help_panel=READING,
    ),
]
TrainPart = Annotated[
    str | None,
    typer.Option(
        metavar="train|valid|test",
        help="Which part of a catalog set or a .toml file.",
        show_default="train",
        rich_help_panel=READING,
    ),
]
Fold = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Which fold of a catalog set or a .toml file.",
        show_default="1",
        rich_help_panel=READING,
    ),
]
Metrics = Annotated[
    list[str],
    typer.Option(
        "--metrics",
        "-m",
        metavar="LIST",
        help="Metrics between commas: ndcg@10, ap, rr, err@5, recall@100, 'ndcg(gain=linear, ties=worst)@5', …; names "
        "of trec_eval and ir_measures are read too: ndcg_cut_10, P_5, nDCG@20, Bpref.",
    ),
]
Conventions = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Count gains, ties and queries without relevant documents as another library does: lightgbm, xgboost, "
        "catboost, sklearn or trec_eval; rankwise names our own way.",
        show_default="trec_eval with --qrels",
    ),
]
Qrels = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Take relevance from a TREC qrels file instead of DATA; the rankings are TREC runs, and counted as "
        "trec_eval does.",
    ),
]
Titles = Annotated[
    str | None,
    typer.Option(
        metavar="LIST",
        help="What metrics are called in the tables: one title for each, between commas, in their order.",
    ),
]
AllTopics = Annotated[
    bool,
    typer.Option("--all-topics", help="With --qrels: count topics that a run has no line for, as trec_eval -c does."),
]
Confidence = Annotated[float, typer.Option(metavar="X", help="Confidence of the intervals, between 0 and 1.")]
Policy = Annotated[
    str | None,
    typer.Option(
        metavar="plackett_luce|deterministic",
        help="Value scores as a policy that draws a ranking for every visitor, by Plackett-Luce, or always ranks by "
        "score: expected metrics, and with --groups the exposure of groups.",
    ),
]
Samples = Annotated[
    int | None,
    typer.Option(
        min=2, metavar="N", help="With --policy: how many rankings of each query are drawn.", show_default="256"
    ),
]

ExposureCutoff = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="K", help="With --policy: only the first K ranks expose documents.", show_default="all ranks"
    ),
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
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="The file to write: .csv, .tsv or .parquet, query, document and score; .run or .trec, a TREC run; .npy or "
        ".txt, one score per document. Text may end in .gz or .zst, too.",
        show_default="standard output, one score per line",
    ),
]
Tag = Annotated[str, typer.Option(metavar="NAME", help="The name of the system in a TREC run.")]
Valid = Annotated[
    str | None,
    typer.Option(metavar="DATA", help="Validation data, by which the best round is chosen; of a set, its own part."),
]
Objective = Annotated[
    str | None,
    typer.Option(
        metavar="EXPRESSION",
        help="What is optimised: a name from 'rankwise objectives', with arguments and wrappers, or native:… for an "
        "objective of the tree library itself.",
        show_default="lambdarank; softmax_ce for a net",
    ),
]
Ranker = Annotated[
    str | None,
    typer.Option(
        metavar="EXPRESSION",
        help="Trees of lightgbm, xgboost or catboost, a neural net: neural, or one that --import registers; with its "
        "objective and parameters, 'lightgbm(xendcg, leaves=7)', or an ensemble, 'bagged(…, folds=5)', 'blended(…, "
        "neural, column(0))', 'distilled(TEACHER, STUDENT)'.",
        show_default="lightgbm",
    ),
]
Teacher = Annotated[
    Path | None,
    typer.Option(
        metavar="MODEL",
        help="The folder of a trained model whose scores are learned; labels count as far as --teacher-weight says.",
    ),
]
TeacherWeight = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        max=1.0,
        metavar="X",
        help="With --teacher: its share of the loss; with 1 labels do not count.",
        show_default="1.0",
    ),
]
Unlabelled = Annotated[
    str | None,
    typer.Option(metavar="DATA", help="With --teacher: more queries, which only the teacher labels."),
]
Rounds = Annotated[int | None, typer.Option(min=1, metavar="N", help="How many trees at most.", show_default="500")]
Patience = Annotated[
    int | None,
    typer.Option(
        min=0,
        metavar="N",
        help="Stop after so many rounds without a better metric; 0: never.",
        show_default="50; 20 for a net",
    ),
]
Epochs = Annotated[
    int | None, typer.Option(min=1, metavar="N", help="How many epochs of a net at most.", show_default="100")
]
Dask = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        help="Train on the workers of the Dask cluster whose scheduler has this address; they read TRAIN, Parquet, "
        "themselves.",
        rich_help_panel=RUNNING,
    ),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="A folder to keep the state of the training in.", rich_help_panel=RUNNING),
]
Resume = Annotated[
    bool, typer.Option("--resume", help="Resume from the checkpoint, if there is one.", rich_help_panel=RUNNING)
]
Summary = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Write the summary: .json, .csv, .md, .tex, .txt."),
]
PerQuery = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Write the value of every query: .csv or .parquet.")
]
Threads = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="How many threads.", show_default="one for each core", rich_help_panel=RUNNING
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Another parameter of the ranker, or of its library by its own name; may be repeated.",
    ),
]
