"""Hints name what exists: every option, argument, function and command that one names is looked up."""

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import typer

import rankwise as rw
from rankwise.check import Message
from rankwise.cli.app import app
from rankwise.cli.command import advice
from rankwise.metrics.table import METRICS
from rankwise.objectives.table import OBJECTIVES, WRAPPERS
from tests.hints import hints

loss = pytest.importorskip("rankwise.wings.rerank.loss", exc_type=ImportError)
HINTS = hints()
_ARGUMENT = re.compile(r"(?<![\w-])([a-z_]+)=")
_COMMAND = re.compile(r"'rankwise ([^']*)'")
_CALL = re.compile(r"(?<![\w'.])((?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)\(((?:[^()]|\([^()]*\))*)\)")
_INSIDE_CALL = re.compile(r"(?<=\w)\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)")
_NAME = re.compile(r"\brw\.((?:\w+\.)*\w+)")
_OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
_OURS = (
    "",
    "rw",
    "data",
    "model",
    "tuning",
    "loss",
    "ranker",
    "Lists",
    "RankingDataset",
    "Tuning",
)  # what calls are of
_PYTHON_ALONE = (  # whose hints no command shows
    "wings/cluster/",
    "evaluation/compare.py",
    "wings/tuning/auto/ranker.py",
    "model_selection/fold_splits.py",
    "rankers/adapters.py",
    "rankers/sklearn.py",
    "spark.py",
    "wings/text/engines/",
)
_OF_OTHERS = {  # arguments of other libraries
    "create_graph": "torch.autograd.grad",
    "eval_set": "LightGBM and XGBoost, accepted by fit among others",
    "form": "PyTerrier's apply_learned_model",
    "num_labels": "transformers' from_pretrained",
    "padding": "transformers' tokenizers",
    "return_tensors": "transformers' tokenizers",
    "one_hot_max_size": "CatBoost",
    "params": "scikit-learn's cross_validate",
    "scoring": "scikit-learn's searches",
    **dict.fromkeys(("host", "dbname", "user", "password"), "Postgres's connection strings"),
}


def leaves(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(leaves(typer.main.get_command(app)))
OPTIONS = {
    name: {text for one in command.params for text in (*one.opts, *one.secondary_opts)}
    for name, command in COMMANDS.items()
}


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Everything that users call, by its last name: functions, classes, and methods of classes."""
    spaces = [getattr(rw, name) for name in dir(rw) if inspect.ismodule(getattr(rw, name))]
    for space in (rw, *spaces, rw.cluster.dask, rw.cluster.ray, rw.cluster.spark, loss):
        for name in dir(space):
            thing = getattr(space, name)
            if not name.startswith("_") and callable(thing):
                yield name, thing
                for method, function in inspect.getmembers(thing) if isinstance(thing, type) else ():
                    if not method.startswith("_") and callable(function):
                        yield method, function


def parameters(function: Callable[..., Any]) -> set[str]:
    found = set()
    try:
        for name, one in inspect.signature(function).parameters.items():
            found.add(name)
            unpacked = getattr(one.annotation, "__args__", ())
            if one.kind is one.VAR_KEYWORD and unpacked and hasattr(unpacked[0], "__annotations__"):
                found |= set(unpacked[0].__annotations__)
    except (TypeError, ValueError):
        pass
    return found


FUNCTIONS: dict[str, list[Callable[..., Any]]] = {}
for _name, _function in public():
    FUNCTIONS.setdefault(_name, []).append(_function)
ARGUMENTS = {name for several in FUNCTIONS.values() for function in several for name in parameters(function)}
MADE: list[Any] = [*METRICS.values(), *OBJECTIVES.values(), *WRAPPERS.values()]
ARGUMENTS |= {field.name for one in MADE for field in dataclasses.fields(one)}


def arguments(text: str) -> list[str]:
    """Arguments that a hint names by themselves."""
    return _ARGUMENT.findall(_INSIDE_CALL.sub("()", text))


def calls(text: str) -> Iterator[tuple[str, list[str]]]:
    """Functions that a hint writes a call of, and the arguments that it names there."""
    for found in _CALL.finditer(text):
        yield found[1], _ARGUMENT.findall(found[2])
        yield from calls(found[2])


def test_hints_are_found_in_the_source():
    assert len(HINTS) > 400
    texts = {hint.text for hint in HINTS}
    assert "pass sort=True, or sort the rows by query id" in texts  # an argument of the function that checks
    assert "add --valid DATA, or --folds 5" in texts
    assert any(text.startswith("unpack it there, name another data folder with folder=") for text in texts)
    assert any(text.endswith("is then an event") for text in texts)


def test_arguments_in_hints_are_arguments_of_something():
    wrong = [str(hint) for hint in HINTS for name in arguments(hint.text) if name not in {*ARGUMENTS, *_OF_OTHERS}]
    assert not wrong


def test_calls_in_hints_have_the_arguments_that_they_are_given():
    wrong = []
    for hint in HINTS:
        for name, given in calls(hint.text):
            owner, _, last = name.rpartition(".")
            known = FUNCTIONS.get(last) if owner.partition(".")[0] in _OURS else None
            if known and not any(set(given) <= parameters(function) | {"…"} for function in known):
                wrong.append(f"{hint}: {name}")
    assert not wrong


def test_names_in_hints_are_those_of_the_package():
    wrong = []
    for hint in HINTS:
        for found in _NAME.finditer(hint.text):
            thing: Any = rw
            for part in found[1].split("."):
                thing = getattr(thing, part, None)
            wrong += [] if thing is not None else [f"{hint}: rw.{found[1]}"]
    assert not wrong


def test_commands_and_options_in_hints_are_those_of_the_command_line():
    wrong = []
    every = {option for options in OPTIONS.values() for option in options}
    for hint in HINTS:
        for found in _COMMAND.finditer(hint.text):
            words = re.sub(r"\s*[…{<].*", "", found[1])
            name = max((one for one in OPTIONS if words.startswith(one)), key=len, default=None)
            ok = name is not None and set(_OPTION.findall(words)) <= OPTIONS[name]
            wrong += [] if ok else [f"{hint}: {found[1]}"]
        rest = _COMMAND.sub("", hint.text)
        wrong += [f"{hint}: {option}" for option in _OPTION.findall(rest) if option not in every]
    assert not wrong


def test_hints_of_commands_have_no_python():
    ours = [hint for hint in HINTS if hint.file.startswith("cli/")]
    assert len(ours) > 20
    wrong = []
    for hint in ours:
        rest = re.sub(r"--(?:set|search|blend|read|cost) (?:'[^']*'|\S+)|\bname=(?:FILE|SCORES)", "", hint.text)
        if arguments(rest) or (_NAME.search(rest) and "rerank" not in hint.file and "texts" not in hint.file):
            wrong.append(str(hint))
    assert not wrong


def test_arguments_that_are_options_are_marked():
    options = {str(one.name).rstrip("_") for command in COMMANDS.values() for one in command.params}
    wrong = []
    for hint in HINTS:
        if not hint.file.startswith(_PYTHON_ALONE):
            wrong += [str(hint) for name in arguments(re.sub("`[^`]*`", "", hint.marked)) if name in options]
    assert not wrong


@pytest.mark.parametrize("name", COMMANDS)
def test_advice_names_options_that_the_command_has(name: str):
    wrong = []
    for hint in HINTS:
        said = advice(Message("wrong", hint=hint.marked), COMMANDS[name])
        if hint.file.startswith("cli/"):
            wrong += [] if said == f"wrong. Hint: {hint.text}." else [said]  # it is in these words already
            continue
        before = set(_OPTION.findall(hint.text)) | {"--import"}
        wrong += [said for option in _OPTION.findall(said) if option not in OPTIONS[name] | before]
    assert not wrong
