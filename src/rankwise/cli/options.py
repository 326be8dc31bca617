"""Options of the command line: made from declared parameters, and given to whoever declares them.

A command is a function. Parameters before the ``*`` are its arguments, those after it its options, declared as
``Annotated[int, AtLeast(1), "Features that are shown.", Option(short="-t")]``. A parameter that is a dataclass stands
for an option per field, and one with the note :class:`Of` for the options of what the command calls, which arrive as
one mapping of those that the user set. An option of one name is one option, whoever declares it.
"""

import dataclasses
import inspect
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin

import typer

from rankwise.base.arrays import Keywords
from rankwise.check.parameters import OneOf, Parameter, declared
from rankwise.cli import inputs

ARGUMENTS, READING, RUNNING = "Arguments", "Reading data", "Running"
"""Titles below which help lists what has no dashes, and options that are not the command's own."""
_NAME = re.compile(r"``(\w+)``")  # of another parameter, in a sentence


@dataclass(frozen=True)
class Of:
    """A note of a parameter: the options of functions or classes, each a declared parameter with a sentence."""

    targets: Callable[[], Mapping[str, Sequence[Callable[..., Any]]]]
    """Title in help -> functions or classes; called once the command is used."""
    title: str = ""
    """The title of what several of them have."""

    def parameters(self) -> dict[str, Parameter]:
        """Return the parameters of all, by name."""
        collected: dict[str, dict[str, Parameter]] = {}
        for title, targets in self.targets().items():
            for parameter in (one for target in targets for one in declared(target).values()):
                if parameter.text and not parameter.option.hidden and parameter.default is not inspect.Parameter.empty:
                    collected.setdefault(parameter.name, {}).setdefault(title, parameter)
        common_first = sorted(collected, key=lambda name: len(collected[name]) == 1)
        return {name: self._joined(collected[name]) for name in common_first}

    def _joined(self, titled: Mapping[str, Parameter]) -> Parameter:
        """Return the first of the parameters of a name, with the defaults of all, and the words of each."""
        title, first = next(iter(titled.items()))
        defaults = {default_in_words(one): of for of, one in [*titled.items()][::-1]}
        unset = [text if of == title else f"{text} for {of.lower()}" for text, of in reversed(defaults.items()) if text]
        group = RUNNING if first.option.group == RUNNING else self.title if len(titled) > 1 else title
        text = first.text.partition(". ")[0].removesuffix(".") + "."  # more is in the reference
        words = dict.fromkeys(word for one in titled.values() for word in getattr(one.limits, "words", ()))
        limits = OneOf(words, first.limits.what) if isinstance(first.limits, OneOf) else first.limits
        option = replace(first.option, group=group)
        return replace(first, limits=limits, text=text, unset="; ".join(unset), option=option)


def of(path: str, title: str = "", installed: Callable[[], None] = lambda: None) -> Of:
    """Return the note for the options of one function or class, ``module:name``, which is imported once it is needed.

    ``installed`` raises before that if an extra is missing.
    """

    def targets() -> Mapping[str, Sequence[Callable[..., Any]]]:
        installed()
        return {title: [pkgutil.resolve_name(path)]}

    return Of(targets)


class Only:
    """A note of a bundle or a mapping: it has these options alone."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def has(self, name: str) -> bool:
        """Whether an option is one of them."""
        return name in self.names


class But(Only):
    """A note of a bundle or a mapping: it does not have these options."""

    def has(self, name: str) -> bool:
        """Whether an option is none of them."""
        return name not in self.names


class Consumer(NamedTuple):
    """A parameter of a command's function: which options it is made from, and how."""

    name: str
    parameters: Mapping[str, Parameter]
    make: Callable[[Keywords], Any]
    shares: bool = False
    """Whether it is a mapping, whose options may be those of a bundle, too."""


def default_in_words(parameter: Parameter) -> str:
    """Return what help says of the default."""
    default = parameter.default
    if parameter.unset or default is inspect.Parameter.empty or default is None or isinstance(default, bool | Mapping):
        return parameter.unset
    if isinstance(default, list | tuple):
        return ",".join(map(str, default))
    return f"{default:g}" if isinstance(default, float) else str(default)


class Interface:
    """The arguments and options of a command, and the call with their values."""

    def __init__(self, command: Callable[..., None]) -> None:
        self.command = command
        arguments = inspect.signature(command).parameters.values()
        consumers = [_consumer(*pair) for pair in zip(declared(command).values(), arguments, strict=True)]
        self.consumers = sorted(consumers, key=lambda one: one.shares)
        self.options: dict[str, Parameter] = {}
        """Option, without dashes -> the parameter that it is made from."""
        shared = dict.fromkeys(("help", "debug", "import"), False)  # of every command; whoever has more, has --set
        for number, one in enumerate(self.consumers):
            free = {
                name: parameter
                for name, parameter in one.parameters.items()
                if word(parameter) not in shared or (one.shares and shared[word(parameter)])
            }
            self.consumers[number] = one._replace(parameters=free)
            for parameter in free.values():
                shared.setdefault(word(parameter), one.shares or parameter.option.group == RUNNING)
                self.options.setdefault(word(parameter), parameter)
        words = {name: f"--{word(one)}" for consumer in self.consumers for name, one in consumer.parameters.items()}
        for name, parameter in self.options.items():
            text = _NAME.sub(lambda mark: words.get(mark[1], mark[0]), parameter.text)
            self.options[name] = replace(parameter, text=text)

    def parameters(self) -> list[inspect.Parameter]:
        """Return the parameters that the parser is made from."""
        return [
            inspect.Parameter(
                identifier(name), inspect.Parameter.KEYWORD_ONLY, annotation=_annotation(one),
                default=inspect.Parameter.empty if one.default is inspect.Parameter.empty else None,
            )
            for name, one in self.options.items()
        ]  # fmt: skip

    def named(self, params: Iterable[Any]) -> Iterator[tuple[str, Any]]:
        """Return the names of parameters, each with the option or argument of the parser that sets it."""
        by_name = {one.name: one for one in params}
        for consumer in self.consumers:
            for name, parameter in consumer.parameters.items():
                made_of = by_name[identifier(word(parameter))]
                yield from ((name.rstrip("_"), made_of), (made_of.name, made_of))

    def __call__(self, **words: Any) -> None:
        """Call the command with what the user set."""
        values = {name: words[identifier(name)] for name in self.options if words[identifier(name)] is not None}
        values = {name: read(self.options[name], value) for name, value in values.items()}
        arguments = {}
        for one in self.consumers:
            names = {name: word(parameter) for name, parameter in one.parameters.items()}
            arguments[one.name] = one.make({name: values[text] for name, text in names.items() if text in values})
        self.command(**arguments)


def _consumer(parameter: Parameter, argument: inspect.Parameter) -> Consumer:
    notes = getattr(argument.annotation, "__metadata__", ())
    bundle: Any = get_args(argument.annotation)[0] if notes else argument.annotation
    source = next((note for note in notes if isinstance(note, Of)), None)
    if source is None and not dataclasses.is_dataclass(bundle):
        if argument.kind is argument.POSITIONAL_OR_KEYWORD:
            parameter = replace(parameter, option=replace(parameter.option, group=ARGUMENTS))
        return Consumer(
            parameter.name, {parameter.name: parameter}, lambda values: values.get(parameter.name, parameter.default)
        )
    options = source.parameters() if source else getattr(bundle, "options", lambda: declared(bundle))()
    for note in notes:
        if isinstance(note, Only):
            options = {name: one for name, one in options.items() if note.has(name)}
    make = dict if source else getattr(bundle, "of", None) or (lambda values: bundle(**values))
    return Consumer(parameter.name, options, make, source is not None)


def word(parameter: Parameter) -> str:
    """Return the name of an option, without dashes."""
    return parameter.option.name or parameter.name.rstrip("_").replace("_", "-")


def identifier(name: str) -> str:
    """Return the name by which the parser knows an option."""
    return name.replace("-", "_")


class _Form(NamedTuple):
    """How an option is written: its type for the parser, the word for its value, and the value of a word."""

    type: Any
    metavar: str | None
    read: Callable[[Any], Any] = lambda value: value


def _form(parameter: Parameter) -> _Form:
    union = get_origin(parameter.kind) in (Union, UnionType)
    kinds = {get_origin(one) or one: one for one in (get_args(parameter.kind) if union else (parameter.kind,))}
    if list in kinds:
        return _Form(list[str], "TEXT")
    if Path in kinds:
        return _Form(Path, "FILE")
    if Mapping in kinds or dict in kinds:
        return _mapping(get_args(kinds.get(Mapping, kinds.get(dict))), parameter.option.metavar or "NAME=VALUE")
    if several := kinds.keys() & {Sequence, Iterable, tuple, frozenset}:
        of = get_args(kinds[several.pop()])
        if float in of:
            return _Form(list[str], "NUMBERS", lambda words: inputs.numbers(parameter.name, ",".join(words)))
        numbers, alone = int in of, bool(kinds.keys() & {int, str})
        return _Form(list[str], "LIST", lambda words: _items(words, numbers=numbers, alone=alone))
    if kinds.keys() == {bool}:
        return _Form(bool, None)
    if kinds.keys() == {int, float}:  # a share, or a number
        return _Form(str, "X|N", inputs.value)
    if kinds.keys() <= {int, float}:
        kind = float if float in kinds else int
        metavar = "X" if kind is float else "N"
        if parameter.optional and parameter.default is not None:
            none = ("none", "inf", "0") if getattr(parameter.limits, "least", 0) > 0 else ("none", "inf")
            return _Form(str, metavar, lambda text: None if text.lower() in none else inputs.value(text))
        return _Form(kind, metavar)
    plain = kinds.keys() & {int, float, bool, Any, object}
    return _Form(str, "VALUE", inputs.value) if plain else _Form(str, "NAME")


def _mapping(arguments: tuple[Any, ...], metavar: str) -> _Form:
    of = arguments[1] if arguments else Any
    if of is float:
        return _Form(list[str], metavar, inputs.goals)
    plain = of in (Any, object, int)
    return _Form(list[str], metavar, inputs.settings if plain else lambda words: inputs.pairs(words, metavar))


def _items(words: Sequence[str], *, numbers: bool, alone: bool) -> Any:
    """Return the items of lists between commas; one number alone is itself where it may be: ``--hidden 64-32``."""
    items = inputs.items(",".join(words))
    if not numbers:
        return tuple(items)
    return inputs.value(items[0]) if alone and len(items) == 1 else tuple(map(inputs.value, items))


def read(parameter: Parameter, value: Any) -> Any:
    """Return the value of what the user wrote, checked by the declaration."""
    value = _form(parameter).read(value)
    name = parameter.name.rstrip("_") if isinstance(parameter.limits, OneOf) else f"--{word(parameter)}"
    checked = replace(parameter, name=name, optional=True)
    return checked.check(value) if isinstance(value, int | float | str) else value


def metavar(parameter: Parameter) -> str | None:
    """Return the word for the value of an option in help."""
    words = getattr(parameter.limits, "words", ())
    return parameter.option.metavar or ("|".join(words) if 0 < len("|".join(words)) <= 36 else _form(parameter).metavar)


def _annotation(parameter: Parameter) -> Any:
    kind, name = _form(parameter).type, word(parameter)
    required = parameter.default is inspect.Parameter.empty
    if parameter.option.group == ARGUMENTS:
        info = typer.Argument(metavar=metavar(parameter) or name.upper(), help=parameter.help)
        return Annotated[kind if required else kind | None, info]
    written = f"--{name}"
    if kind is bool and (parameter.optional or parameter.default is True):
        written += f"/--no-{name}"
    decls = [written, *([parameter.option.short] if parameter.option.short else [])]
    if len(name) == 1:
        decls = [f"-{name}", f"--{name}"]
    info = typer.Option(
        *decls, metavar=metavar(parameter), help=parameter.help, rich_help_panel=parameter.option.group or None,
        show_default=default_in_words(parameter) or False,
    )  # fmt: skip
    return Annotated[kind if required else kind | None, info]
