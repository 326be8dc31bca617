"""The ranker that ``train`` trains: ``--ranker`` with an expression, and older options, which are parts of one."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rankwise import check
from rankwise.arrays import Keywords
from rankwise.model_selection.result import read_parameters
from rankwise.rankers import expressions
from rankwise.rankers.expressions import RankerExpression
from rankwise.rankers.table import RECOMMENDERS, build_ranker, expression_class, ranker_class

_OTHER_COMMANDS = {
    "auto": "use 'rankwise auto'",
    "feature": "write it as a member of a blend: blended(lightgbm, column(0))",
    **dict.fromkeys(RECOMMENDERS, "use 'rankwise recommend'"),
}
"""Rankers that this command does not train -> hint."""
_ANY = ("metrics", "threads", "progress")
"""Settings of every training, also of a ranker that has no such parameter."""
_BAG = ("seed", "checkpoint", "checkpoint_every")
"""Settings that a bag has where its ranker has no such parameter."""


def build(
    text: str | None,
    params: Path | None,
    options: Keywords,
    native: Keywords,
    *,
    blend: Sequence[str],
    bag: int | None,
    teacher: Any,
    running: Keywords,
) -> Any:
    """Build the ranker: its own expression goes before options of the command line, and these before a file.

    ``native`` holds what ``--set`` sets, ``running`` settings of ensembles: processes, dask.
    """
    name, saved = (None, {}) if params is None else read_parameters(params)
    if "metrics" in saved:
        saved["metrics"] = tuple(saved["metrics"])
    if blend:
        if text is not None:
            hint = f'write all of it: --ranker "blended({", ".join(blend)}, …)"'
            raise check.error("--blend and --ranker do not go together", got=f"--ranker {text}", hint=hint)
        text = f"blended({', '.join(map(_member, blend))}, folds={bag or 5})"
    expression = expressions.read(text or name or "lightgbm")
    single = expression.singles()[0].name if expression.singles() else ""
    if name not in (None, single):
        hint = "leave --ranker out, or tune that ranker"
        raise check.error(f"the parameters are of {name}", got=f"--ranker {text}", where=str(params), hint=hint)
    if other := _OTHER_COMMANDS.get(expression.name):
        raise check.error(f"{expression.name} is not trained by this command", got=f"--ranker {text}", hint=other)
    if bag is not None and not blend:
        expression = RankerExpression("bagged", settings={"folds": bag}, members=(expression,))
    if expression_class(expression.name).pools:
        expression = replace(expression, settings=running | dict(expression.settings))
    elif "processes" in running:
        got = f"--processes {running['processes']}"
        raise check.error("processes train the members of a bag", got=got, hint="add --bag N")
    if teacher is not None:
        expression = RankerExpression("distilled", members=(teacher, expression))
    options = {name: value for name, value in options.items() if value is not None}
    if options.get("patience") == 0:
        options["patience"] = None
    if text is not None and "(" in text:
        for option, value in (("--objective", options.get("objective")), ("--set", native), ("--params", saved)):
            if value:
                hint = "write it into the expression: --ranker 'lightgbm(xendcg, leaves=15)'"
                raise check.error(f"{option} and an expression do not go together", got=text, hint=hint)
    if expression_class(expression.name).weighs or len(expression.singles()) != 1:
        checkpoint = {"checkpoint": options.pop("checkpoint")} if "checkpoint" in options else {}
        return replace(expression, settings=checkpoint | dict(expression.settings)).build(options)
    if saved:
        with check.naming(params):
            build_ranker(single, saved)
    parameters = ranker_class(single).own_parameters()
    general = {*_ANY, *(_BAG if expression.is_bag else ())} - parameters.keys()
    settings = {name: value for name, value in options.items() if name not in general}
    complete = expression.map(lambda one: {**saved, **settings, **native, **one.settings})
    return complete.build({name: value for name, value in options.items() if name in general})


def _member(word: str) -> str:
    """Return the expression of a member of ``--blend``: ``column:NAME``, or ``column:N`` from 1, is a feature."""
    kind, mark, column = word.partition(":")
    if kind != "column" or not mark:
        return word
    return f"column({int(column) - 1 if column.isdecimal() and int(column) else repr(column)})"
