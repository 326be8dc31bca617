"""The command ``interleave``."""

from pathlib import Path
from typing import Annotated

import rankwise as rw
from rankwise import check
from rankwise.arrays import Keywords
from rankwise.check.parameters import Option
from rankwise.cli import arguments, outputs
from rankwise.cli.options import But, Of
from rankwise.cli.running import Running
from rankwise.evaluation import ranking_names

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
