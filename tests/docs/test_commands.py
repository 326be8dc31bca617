"""Every command line of the documentation is run, or at least parsed: options exist and files follow from each other.

The commands of a page are run in their order, in one folder, on small stand-ins for the files that they name, and with
small settings in place of long trainings.
"""

import re
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from rankwise.cli.app import app, imports_first
from rankwise.wings.lab.experiments.reproduce import experiment_spec
from tests.cli.running import run
from tests.docs import commands, stand_ins
from tests.docs.commands import PAGES, ROOT, Command

SMALLER = {
    "train": ("--rounds", "2"),
    "cross-validate": ("--rounds", "2"),
    "tune": ("--trials", "2", "--rounds", "2"),
    "auto": ("--minutes", "0.001", "--folds", "2"),
    "reproduce": ("--trials", "2", "--jobs", "1", "--set", "queries=12", "--set", "settings.rounds=2"),
}
RUN = [page for page in PAGES if any(not one.why_not for one in commands.blocks(page))]
CLICK = typer.main.get_command(app)


def named(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


@pytest.mark.filterwarnings("ignore:.* of training queries")  # the stand-ins have the same rows in all files
@pytest.mark.parametrize("page", RUN, ids=named)
def test_commands_of_a_page_run_one_after_the_other(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    home, work = tmp_path / "home", tmp_path / "work"
    work.mkdir()
    stand_ins.sets(home)
    monkeypatch.chdir(work)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("RANKWISE_DATA", str(home))
    monkeypatch.setenv("RANKWISE_THREADS", "1")
    monkeypatch.setattr("sys.path", list(sys.path))
    for command in commands.blocks(page):
        parse(command)
        if command.why_not:
            continue
        words = tuple(word.replace("~", str(home)) for word in command.words)
        stand_ins.provide((*words, command.input), home)
        if command.folder:
            Path(command.folder).mkdir(parents=True)
        try:
            stdin = Path(command.input).read_bytes() if command.input else None
            result = run(*words, *smaller(words), stdin=stdin)
        except AssertionError as failed:
            pytest.fail(f"{named(page)}, line {command.line}: rankwise {' '.join(command.words)}\n{failed}")
        if command.output:
            Path(command.output).write_text(result.stdout)


def smaller(words: tuple[str, ...]) -> tuple[str, ...]:
    """Settings with which a command takes a moment."""
    if "--import" in words:
        return ()
    if "neural" in words or "factorization" in words:
        return ("--epochs", "1")
    return () if "--list" in words else SMALLER.get(words[0], ())


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_commands_that_are_not_run_are_parsed(page: Path):
    for command in commands.blocks(page):
        parse(command)
        if command.why_not and command.words[0] == "reproduce":
            experiment_spec(command.words[1])
    for command in commands.sentences(page):
        known = {name for option in found(command.words)[0].params for name in (*option.opts, *option.secondary_opts)}
        for word in command.words:
            assert not word.startswith("-") or word in known | {"--help"}, f"{named(page)}, line {command.line}: {word}"


def leaves(group: Any, path: tuple[str, ...] = ()) -> Any:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


@pytest.mark.parametrize(("name", "command"), list(leaves(CLICK)), ids=lambda one: one if isinstance(one, str) else "")
def test_examples_of_help_pages_are_parsed(name: str, command: Any):
    examples = re.findall(r"^rankwise .*", f"{command.help}", re.MULTILINE)
    assert examples or name == "data list"
    for line in examples:
        parse(Command(tuple(shlex.split(line.partition(" > ")[0])[1:]), 0))


def test_examples_of_the_first_help_page_are_parsed():
    examples = [re.split(r"  +", line)[0] for line in re.findall(r"^rankwise [a-z].*", f"{CLICK.help}", re.MULTILINE)]
    assert len(examples) >= 5
    for line in examples:
        parse(Command(tuple(shlex.split(line)[1:]), 0))


def parse(command: Command) -> None:
    """Parse a command without running it."""
    leaf, words = found(tuple(imports_first(command.words)))
    if "--help" not in words:
        leaf.make_context("rankwise", list(words))


def found(words: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
    """The command that the first words name, and the words after them."""
    command: Any = CLICK
    while words and words[0] == "--import":
        words = words[2:]
    while words and hasattr(command, "commands") and not words[0].startswith("-"):
        command, words = command.commands[words[0]], words[1:]
    return command, words


def test_other_programs_are_called_on_files_that_there_are():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for script in re.findall(r"\b(?:python|torchrun)\b[^`\n]*? ((?:examples|benchmarks|docs)/[\w/]+\.py)", text):
            assert (ROOT / script).is_file(), (named(page), script)
        for target in re.findall(r"(?m)^(?:\$ )?make (\w+)", text):
            assert re.search(rf"(?m)^{target}\b.*:", makefile), (named(page), target)
