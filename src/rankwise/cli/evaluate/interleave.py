"""The command ``interleave``."""

from pathlib import Path
from typing import Annotated

import typer

import rankwise as rw
from rankwise import check
from rankwise.cli import inputs, outputs

_LOG = "A row for each document that was shown, in the order of time: .csv (also .gz and .zst) or .parquet."


def interleave(
    log: Annotated[str, typer.Argument(metavar="LOG", help=_LOG)],
    rankings: Annotated[list[str] | None, typer.Argument(metavar="a=RUN b=RUN", help="Two TREC runs.")] = None,
    k: int = 10,
    method: str = "team_draft",
    credit: str = "sign",
    bias: Path | None = None,
    confidence: float = 0.95,
    plot: Path | None = None,
    seed: int = 0,
    force: bool = False,
    json: bool = False,
) -> None:
    """Find out which of two rankings users prefer, by clicks on interleaved lists, as often as you like to look.

    LOG has columns key, query, document and clicked, and user where users come again. Lists are rebuilt from the key;
    without runs a column team has a, b or nothing. The 5% of wrong decisions are against no preference at any time,
    given the past: a drift decides, too, and without the column user so does one visitor of many impressions.

    [cyan]rankwise interleave log.parquet a=new.run b=old.run --seed 7 --plot preference.png[/cyan]
    [cyan]rankwise interleave log.csv a=new.run b=old.run --credit debiased --bias bias.json[/cyan]

    --k N>=1: How many documents a list had.
    --method team_draft|balanced: How lists were interleaved.
    --credit sign|clicks|debiased: What an impression counts.
    --bias FILE: With --credit debiased: the position bias that 'rankwise clicks propensities' wrote.
    --plot FILE: Draw a figure: .png, .svg or .pdf.
    """
    outputs.free(plot, outputs.PICTURES, force=force)
    runs = inputs.named(rankings or ())
    if set(runs) not in (set(), {"a", "b"}):
        raise check.error("rankings to compare are a=RUN and b=RUN", got=", ".join(runs))
    curve = None if bias is None else rw.clicks.read_bias(bias)
    result = rw.judging.interleaving(
        log,
        runs.get("a"),
        runs.get("b"),
        cutoff=k,
        seed=seed,
        method=method,
        credit=credit,
        bias=curve,
        level=confidence,
    )
    if plot is not None:
        result.plot(plot, force=force)
    names = ("preference", "interval", "e_value", "decided", "dependent", "sentence", "notes")
    outputs.show({name: getattr(result, name) for name in names}, ("", result.table()), json=json, wrote=(plot,))
