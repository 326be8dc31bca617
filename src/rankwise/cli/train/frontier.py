"""The command ``frontier``."""

from pathlib import Path

import rankwise as rw
from rankwise import check
from rankwise.arrays import Keywords
from rankwise.cli import console, inputs, options, outputs
from rankwise.cli.data_options import Reading


def frontier(
    *,
    data: options.Train,
    valid: str | None = None,
    objective: list[str] | None = None,
    metrics: list[str] | None = None,
    ranker: str | None = None,
    points: int = 9,
    bag: int = 5,
    rounds: int | None = None,
    epochs: int | None = None,
    set_: list[str] | None = None,
    plot: Path | None = None,
    output: Path | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
    seed: int = 0,
    threads: int | None = None,
    reading: Reading,
    progress: bool | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Train bags with different weights of two or three goals, and show what each goal costs the others.

    Every point of the frontier is a bag on the same folds of TRAIN, and measured on --valid, or else out of fold.

    [cyan]rankwise frontier train.csv --label buy=purchase --objective xendcg --objective "on(buy, xendcg)"[/cyan]

    --valid DATA: Data that every point is measured on; of a set, its part. [default: out of fold]
    --objective EXPRESSION: The objective of a goal; given two or three times.
    --metrics -m LIST: The metric of each objective, between commas. [default: ndcg@10, of the objective's labels]
    --points N>=2: Weights between two goals, ends included.
    --bag N>=2: Members of each bag.
    --plot FILE: Draw the frontier: .png, .svg or .pdf.
    --output -o FILE: Write it: every point as .csv or .json, the table as .md, .tex or .txt.

    Running:
    --checkpoint DIR: A folder that keeps the model of every point.
    --resume: Take finished points from that folder.
    """
    outputs.free(plot, outputs.PICTURES, force=force)
    outputs.free(output, outputs.TABLES, force=force, beside=plot)
    from rankwise.cli.train import rankers

    names, goals = inputs.items(",".join(metrics or [])), objective or []
    if names and len(names) != len(goals):
        got = f"{len(names)} metrics and {len(goals)} objectives"
        raise check.error("every objective has one metric", got=got, hint="repeat --objective, or leave --metrics out")
    settings = {"rounds": rounds, "epochs": epochs, "seed": seed, "threads": threads}
    nothing: Keywords = {"blend": (), "bag": None, "teacher": None, "running": {}}
    model = rankers.build(ranker, None, settings, inputs.settings(set_ or []), **nothing)
    with console.progress(2, progress) as bar:
        bar.step(f"Reading {data}")
        parts = reading.parts(data, valid)
    outputs.features_of(parts[0])
    curve = rw.frontier(
        model,
        *parts,
        dict(zip(names, goals, strict=True)) if names else goals,
        points,
        folds=bag,
        checkpoint=checkpoint,
        resume=resume,
        progress=progress,
    )
    if output is not None:
        document, frame = curve.to_dict(), curve.to_frame()
        outputs.save(output, document=document, tables=[curve.table()], frame=frame, force=force)
    if plot is not None:
        curve.plot(plot, force=force)
    outputs.show(curve.to_dict(), ("", curve.table()), json=json, wrote=(output, plot))
