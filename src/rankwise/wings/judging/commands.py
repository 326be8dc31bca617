"""The commands ``judge plan`` and ``interleave``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import rankwise as rw
from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import Option
from rankwise.cli import arguments, outputs
from rankwise.cli.command import EVALUATE, register, register_group
from rankwise.cli.options import But, Of, Only, of
from rankwise.cli.running import Running
from rankwise.evaluation import ranking_names

if TYPE_CHECKING:
    from typer import Typer


def plan(
    runs: Annotated[list[str], "The TREC runs to be compared, two or more.", Option(metavar="name=RUN")],
    *,
    judge: Annotated[Path, "Grades of a judge, such as an LLM, for all queries: qrels, also .csv."],
    output: Annotated[Path, "The documents, with probabilities: .csv.", Option(short="-o", metavar="FILE")],
    settings: Annotated[Keywords, of("rankwise.judging:plan")],
    running: Annotated[Running, Only("force", "json")],
) -> None:
    """Draw the documents whose human judgements tell most about the difference of systems.

    Begin with a pilot of about 100, fill in the column of grades, and name the file in --previous of the second plan.
    'rankwise compare --judge --sampled' estimates from the last file, by the same metric.

    rankwise judge plan old=old.run new=new.run --judge llm.txt --judgements 100 -o pilot.csv
    rankwise judge plan old=old.run new=new.run --judge llm.txt --previous pilot.csv -o to_judge.csv
    """
    running.free(output, (".csv",))
    systems = {name: rw.trec.read_run(path) for name, path in ranking_names.named(runs).items()}
    drawn = rw.judging.plan(systems, judge=judge, **settings)
    drawn.write(output, force=running.force)
    document = {"documents": drawn.documents.height, "candidates": drawn.candidates, "output": output}
    running.say(document, repr(drawn), wrote=(output,))


_LOG = "A row for each document that was shown, in the order of time: .csv (also .gz and .zst) or .parquet."


def interleave(
    log: Annotated[str, _LOG, Option(metavar="LOG")],
    rankings: Annotated[list[str] | None, "Two TREC runs.", Option(metavar="a=RUN b=RUN")] = None,
    *,
    bias: Annotated[
        Path | None, "With --credit debiased: the position bias that 'rankwise clicks propensities' wrote."
    ] = None,
    settings: Annotated[Keywords, Of(lambda: {"": [rw.judging.interleaving]})],
    plot: arguments.Plot = None,
    running: Annotated[Running, But("threads", "progress")],
) -> None:
    """Find out which of two rankings users prefer, by clicks on interleaved lists, as often as you like to look.

    LOG has columns key, query, document and clicked, and user where users come again. Lists are rebuilt from the key;
    without runs a column team has a, b or nothing. The 5% of wrong decisions are against no preference at any time,
    given the past: a drift decides, too, and without the column user so does one visitor of many impressions.

    rankwise interleave log.parquet a=new.run b=old.run --seed 7 --plot preference.png
    rankwise interleave log.csv a=new.run b=old.run --credit debiased --bias bias.json
    """
    running.free(plot, outputs.PICTURES)
    runs = ranking_names.named(rankings or ())
    if set(runs) not in (set(), {"a", "b"}):
        raise check.error("rankings to compare are a=RUN and b=RUN", got=", ".join(runs))
    curve = None if bias is None else rw.clicks.read_bias(bias)
    result = rw.judging.interleaving(log, runs.get("a"), runs.get("b"), bias=curve, **settings)
    if plot is not None:
        result.plot(plot, force=running.force)
    names = ("preference", "interval", "e_value", "decided", "dependent", "sentence", "notes")
    running.show({name: getattr(result, name) for name in names}, ("", result.table()), wrote=(plot,))


def add(app: "Typer") -> None:
    """Add the commands of the wing."""
    register(app, EVALUATE, interleave)
    register_group(app, EVALUATE, "judge", "Few labels: which documents to judge.", plan)
