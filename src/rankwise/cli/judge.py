"""The command ``judge plan``."""

from pathlib import Path
from typing import Annotated

import typer

import rankwise as rw
from rankwise.cli import console, inputs, outputs
from rankwise.cli.command import grouped


def plan(
    runs: Annotated[list[str], typer.Argument(metavar="name=RUN", help="The TREC runs to be compared, two or more.")],
    judge: Path,
    output: Path,
    judgements: int = 500,
    metric: str = "dcg@10",
    previous: Path | None = None,
    seed: int = 0,
    force: bool = False,
    json: bool = False,
) -> None:
    """Draw the documents whose human judgements tell most about the difference of systems.

    Begin with a pilot of about 100, fill in the column of grades, and name the file in --previous of the second plan.
    'rankwise compare --judge --sampled' estimates from the last file, by the same metric.

    [cyan]rankwise judge plan old=old.run new=new.run --judge llm.txt --judgements 100 -o pilot.csv[/cyan]
    [cyan]rankwise judge plan old=old.run new=new.run --judge llm.txt --previous pilot.csv -o to_judge.csv[/cyan]

    --judge FILE: Grades of a judge, such as an LLM, for all queries: qrels, also .csv.
    --output -o FILE: The documents, with probabilities: .csv.
    --judgements N>=1: How many documents to draw.
    --metric EXPRESSION: The metric of the comparison: dcg@10, precision@10, rbp or ndcg@10.
    --previous FILE: An earlier plan with its grades.
    """
    outputs.free(output, (".csv",), force=force)
    systems = {name: rw.trec.read_run(path) for name, path in inputs.named(runs).items()}
    drawn = rw.judging.plan(systems, judge=judge, judgements=judgements, metric=metric, seed=seed, previous=previous)
    drawn.write(output, force=force)
    if json:
        console.document({"documents": drawn.documents.height, "candidates": drawn.candidates, "output": output})
    else:
        console.say(repr(drawn), wrap=False)
        outputs.said(output)


app = grouped("Few labels: which documents to judge.", {"plan": plan})
