"""The ranker of a command: an expression, and options, which are parameters of rankers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.cli import inputs
from rankwise.cli.options import Of, Only

_OTHER_COMMANDS = {
    "auto": "use 'rankwise auto'",
    "feature": "write it as a member of a blend: blended(lightgbm, column(0))",
}
"""Rankers that these commands do not train -> hint."""
_ANY = ("metrics", "threads", "progress")
"""Settings of every training, also of a ranker that has no such parameter."""
_BAG = ("seed", "checkpoint", "checkpoint_every")
"""Settings that a bag has where its ranker has no such parameter."""


def trained() -> Mapping[str, Sequence[Callable[..., Any]]]:
    """Return the classes of rankers that learn from features, by the title of their options."""
    from rankwise.rankers.table import ranker_class, ranker_names
    from rankwise.rankers.torch.ranker import TorchRanker
    from rankwise.rankers.trees.ranker import TreeRanker

    titled: dict[str, list[Any]] = {}
    for name in ranker_names():
        cls = ranker_class(name)
        if not hasattr(cls, "recommend"):
            title = "Trees" if issubclass(cls, TreeRanker) else "Nets" if issubclass(cls, TorchRanker) else name
            titled.setdefault(title, []).append(cls)
    return titled


def ensembles() -> Mapping[str, Sequence[Callable[..., Any]]]:
    """Return the class whose options are those of every ensemble."""
    from rankwise.rankers.ensembles.bagged import bagged

    return {"Running": [bagged]}


Settings = Annotated[Keywords, Of(trained, "Training")]
"""Parameters of rankers that the user set."""
Members = Annotated[Keywords, Of(ensembles), Only("processes", "dask")]
"""How the members of an ensemble are trained."""


def read_parameters(path: str | Path) -> tuple[str | None, Keywords]:
    """Read a file of parameters, as ``rankwise tune`` writes it or as written by hand: (ranker, its arguments)."""
    from rankwise.language import settings_files
    from rankwise.rankers.table import ranker_class
    from rankwise.rankers.trees import monotone

    file = settings_files.load(check.readable(path), "a file of parameters")
    flat = dict(file.keys)
    flat.pop("tuning", None)
    nested = [name for name, value in flat.items() if isinstance(value, dict) and name != monotone.NAME]
    if nested:
        hint = "write every parameter as name = value"
        raise check.error(
            "a file of parameters is flat", got=f"the table [{nested[0]}]", where=file.place(nested[0]), hint=hint
        )
    ranker = flat.pop("ranker", None)
    if ranker is not None:
        with check.naming(file.place("ranker")):
            ranker_class(ranker)
    return ranker, {name: None if value == "none" else value for name, value in flat.items()}


def build(
    text: str | None, objective: str | None, settings: Keywords, native: Keywords, params: Path | None = None,
    members: Keywords = inputs.NONE,
) -> Any:  # fmt: skip
    """Build the ranker: its own expression goes before options of the command line, and these before a file.

    ``native`` holds what ``--set`` sets.
    """
    from rankwise.rankers import expressions
    from rankwise.rankers.table import RECOMMENDERS, build_ranker, expression_class, ranker_class

    name, saved = (None, {}) if params is None else read_parameters(params)
    if "metrics" in saved:
        saved["metrics"] = tuple(saved["metrics"])
    expression = expressions.read(text or name or "lightgbm")
    if hint := (dict.fromkeys(RECOMMENDERS, "use 'rankwise recommend'") | _OTHER_COMMANDS).get(expression.name):
        raise check.error(f"{expression.name} is not trained by this command", got=f"--ranker {text}", hint=hint)
    singles = expression.singles()
    if name not in (None, singles[0].name if singles else ""):
        hint = "leave --ranker out, or tune that ranker"
        raise check.error(f"the parameters are of {name}", got=f"--ranker {text}", where=str(params), hint=hint)
    if expression_class(expression.name).pools:
        expression = replace(expression, settings=members | dict(expression.settings))
    elif "processes" in members:
        hint = 'write --ranker "bagged(lightgbm, folds=5)"'
        raise check.error("processes train the members of a bag", got=f"--processes {members['processes']}", hint=hint)
    if len(singles) != 1 or expression_class(expression.name).weighs:
        for option, value in (("--objective", objective), ("--set", native), ("--params", saved)):
            if value:
                hint = "write it into the expression: 'blended(lightgbm(xendcg, leaves=15), neural)'"
                raise check.error(f"{option} and several rankers do not go together", got=str(text), hint=hint)
        checkpoint = {name: value for name, value in settings.items() if name == "checkpoint"}
        rest = {name: value for name, value in settings.items() if name != "checkpoint"}
        return replace(expression, settings=checkpoint | dict(expression.settings)).build(rest)
    single = singles[0]
    parameters = ranker_class(single.name).own_parameters()
    is_written = single.objective and (single.objective != parameters.get("objective") or single.objective in str(text))
    if objective is not None and is_written:
        hint = "write it into the expression: --ranker 'lightgbm(xendcg, leaves=15)'"
        raise check.error("--objective and an expression with one do not go together", got=str(text), hint=hint)
    if saved:
        with check.naming(params):
            build_ranker(single.name, saved)
    beneath = saved | settings | native | ({} if objective is None else {"objective": objective})
    if is_written:
        beneath.pop("objective", None)
    general = {*_ANY, *(_BAG if expression.is_bag else ())} - parameters.keys()
    specific = {name: value for name, value in beneath.items() if name not in general or name in native}
    complete = expression.map(lambda one: specific | dict(one.settings))
    return complete.build({name: value for name, value in settings.items() if name in general})
