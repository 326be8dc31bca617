"""The command ``judge plan``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import rankwise as rw
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import Option
from rankwise.cli.wing import EVALUATE, Only, Running, of, register_group
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


def add(app: "Typer") -> None:
    """Add the commands of the wing."""
    register_group(app, EVALUATE, "judge", "Few labels: which documents to judge.", plan)
