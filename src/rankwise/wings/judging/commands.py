"""The commands ``judge plan``, ``serve``, ``agreement``, ``merge``, ``preferences`` and ``forecast``."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import rankwise as rw
from rankwise.base import tables
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import AtLeast, Option, Unset, Within
from rankwise.cli.wing import EVALUATE, Only, Running, console, inputs, of, register_group
from rankwise.evaluation import ranking_names

if TYPE_CHECKING:
    from typer import Typer


def plan(
    runs: Annotated[list[str], "The TREC runs to be compared, two or more.", Option(metavar="name=RUN")],
    *,
    judge: Annotated[Path | None, "Grades of a judge, such as an LLM, for all queries: qrels, also .csv."] = None,
    output: Annotated[Path, "The documents, with probabilities: .csv.", Option(short="-o", metavar="FILE")],
    settings: Annotated[Keywords, of("rankwise.judging:plan")],
    running: Annotated[Running, Only("force", "json")],
) -> None:
    """Draw the documents whose human judgements tell most about the difference of systems.

    Begin with a pilot of about 100, fill in the column of grades, and name the file in --previous of the second plan.
    'rankwise compare --judge --sampled' estimates from the last file, by the same metric.

    Without --judge nothing is drawn: the documents that fill the holes of --previous, any qrels, with the most
    informative first. 'rankwise judge serve' shows a plan to people.

    rankwise judge plan old=old.run new=new.run --judge llm.txt --judgements 100 -o pilot.csv
    rankwise judge plan old=old.run new=new.run --judge llm.txt --previous pilot.csv -o to_judge.csv
    rankwise judge plan old=old.run new=new.run --previous qrels.txt -o to_judge.csv
    """
    running.check_target(output, (".csv",))
    systems = {name: rw.trec.read_run(path) for name, path in ranking_names.named(runs).items()}
    drawn = rw.judging.plan(systems, judge=judge, **settings)
    drawn.write(output, force=running.force)
    document = {"documents": drawn.documents.height, "candidates": drawn.candidates, "output": output}
    running.say(document, repr(drawn), wrote=(output,))


def serve(
    plan: Annotated[Path, "The documents to judge: .csv with columns query and document.", Option(metavar="PLAN")],
    *,
    documents: Annotated[Path, "Texts of documents: JSON lines with _id, text and perhaps title."],
    queries: Annotated[Path, "Texts of queries: JSON lines with _id and text, or lines id<TAB>text."],
    output: Annotated[
        Path | None, "The file to which each answer is appended: .csv.", Unset("PLAN-judged.csv"),
        Option(short="-o", metavar="FILE")
    ] = None,
    highest_grade: Annotated[int, Within(1, 9), "The highest grade."] = 4,
    host: Annotated[
        str, "The address to listen on; 0.0.0.0 is all networks, where others can read what is sent.",
        Option(metavar="ADDRESS")
    ] = "127.0.0.1",
    port: Annotated[int, Within(0, 65535), "The port to listen on; 0 is a free one."] = 0,
    running: Annotated[Running, Only("seed", "progress")],
) -> None:  # fmt: skip
    """Let people judge documents in a browser, by keys, without seeing which system found them.

    Every answer is on the disk before the page says that it is saved. The same command goes on where judges stopped;
    several may judge at once, each by a name. Ctrl-C ends it.

    rankwise judge serve to_judge.csv --documents docs.jsonl --queries queries.jsonl
    rankwise compare old=old.run new=new.run --qrels to_judge-judged.csv --judge llm.txt --sampled probability
    """
    from rankwise.wings.judging.server import Server, stopped_by_signals
    from rankwise.wings.judging.task import JudgingTask

    output = output or plan.with_name(f"{plan.stem}-judged.csv")
    with running.steps(1) as bar:
        bar.step(f"Reading {documents}")
        task = JudgingTask(plan, documents, queries, output, seed=running.seed, most=highest_grade)
    try:
        with stopped_by_signals(), Server(task, host, port) as server:
            for lost, what in zip(task.lost(), (("query", "queries"), ("document", "documents")), strict=True):
                if lost:
                    console.note(f"there is no text of {tables.count(lost, *what)}: judges see the id alone")
            if task.file.torn:
                console.note(f"removed a line of {output} that was torn by a crash: it was never acknowledged")
            sys.stdout.write(f"judge at {server.address}\n")  # not by the console, which leaves tokens out of addresses
            sys.stdout.flush()
            server.serve_forever()
    finally:
        task.file.close()
    judges, grades = task.counts()
    console.say(f"{tables.count(grades, 'grade')} of {tables.count(judges, 'judge')} in {output}")


_Judged = Annotated[
    list[str], "Judgements: .csv with a column judge, or the qrels of one judge.", Option(metavar="[name=]FILE")
]
_Output = Annotated[Path | None, "The numbers: .csv or .json.", Option(short="-o", metavar="FILE")]


def agreement(
    judgements: _Judged,
    *,
    output: _Output = None,
    settings: Annotated[Keywords, of("rankwise.judging:judge_agreement")],
    running: Annotated[Running, Only("force", "json")],
) -> None:
    """Show how well judges agree with each other, and each with its own repeats: weighted κ.

    rankwise judge agreement judged.csv llm=llm.txt
    """
    running.check_target(output, (".csv", ".json"))
    found = rw.judging.judge_agreement(ranking_names.named(judgements), **settings)
    running.deliver(found, output)


def merge(
    judgements: _Judged,
    *,
    precedence: Annotated[
        str, "Judges, the one whose grades count first; * stands for all others.", Option(metavar="A,B")
    ],
    output: Annotated[Path, "One grade per document: .csv, or qrels.", Option(short="-o", metavar="FILE")],
    running: Annotated[Running, Only("force", "json")],
) -> None:
    """Merge the judgements of several judges: of each document the first by --precedence counts, and its last grade.

    rankwise judge merge judged.csv llm=llm.txt --precedence '*,llm' -o qrels.txt
    """
    running.check_target(output)
    merged = rw.judging.merge(ranking_names.named(judgements), precedence=precedence.split(","))
    merged.write(output, force=running.force)
    running.say(merged.to_dict(), merged, wrote=(output,))


def preferences(
    pairs: Annotated[
        Path, "Preferences: .csv with columns query, first, second and preferred.", Option(metavar="PAIRS")
    ],
    *,
    grades: Annotated[int | None, AtLeast(2), "Write whole grades, this many.", Unset("real numbers")] = None,
    output: Annotated[Path, "Grades of documents: .csv; whole ones also as qrels.", Option(short="-o", metavar="FILE")],
    plot: Annotated[Path | None, "Draw the strengths of the first query.", Option(metavar="FILE")] = None,
    settings: Annotated[Keywords, of("rankwise.judging:preferences")],
    running: Annotated[Running, Only("force", "json")],
) -> None:
    """Turn preferences of pairs into grades, with a position bias: Bradley and Terry's model.

    The .csv has the strength of each document and its interval, too, and is read wherever qrels are.

    rankwise judge preferences pairs.csv --grades 4 -o llm.csv
    """
    running.check_target(output)
    found = rw.judging.preferences(pairs, **settings)
    table = found.labels(grades)
    if output.suffix.lower() == ".csv":
        table = table.join(found.to_frame(), on=["query", "document"], maintain_order="left")
    from rankwise.wings.judging.merging import write_grades  # with polars, which help does without

    write_grades(table, output, force=running.force)
    running.say(found.to_dict(), found, plot=plot, wrote=(output,))


def forecast(
    runs: Annotated[list[str], "TREC runs.", Option(metavar="name=RUN")],
    *,
    qrels: Annotated[Path, "Human grades: qrels, or the graded plan with --sampled."],
    judge: Annotated[Path, "Grades of a judge, such as an LLM, for all queries: qrels, also .csv."],
    more: Annotated[str, "Numbers of further judgements.", Option(metavar="N,N")] = "50,100,200,500,1000",
    output: _Output = None,
    settings: Annotated[Keywords, of("rankwise.judging:forecast")],
    running: Annotated[Running, Only("force", "json")],
) -> None:
    """Forecast how narrow the interval of --judge will be after more human judgements.

    rankwise judge forecast old=old.run new=new.run --qrels human.txt --judge llm.txt --within 0.01
    """
    running.check_target(output, (".csv", ".json"))
    systems = {name: rw.trec.read_run(path) for name, path in ranking_names.named(runs).items()}
    steps = [int(one) if one.is_integer() else 0 for one in inputs.numbers("more", more)]
    found = rw.judging.forecast(systems, str(qrels), judge=str(judge), more=steps, **settings)
    running.deliver(found, output)


def add(app: "Typer") -> None:
    """Add the commands of the wing."""
    title = "Few labels: which documents to judge, judging them, and what judges agree on."
    register_group(app, EVALUATE, "judge", title, plan, serve, agreement, merge, preferences, forecast)
