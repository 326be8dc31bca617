"""Modules of the user's that register objectives, metrics and rankers: ``--import``."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from rankwise.cli import console

_OPTION = "--import"


def first(words: Sequence[str]) -> list[str]:
    """Move ``--import MODULE``, wherever it stands on a command line, before the command.

    >>> first(["train", "data.txt", "--import", "mine", "-o", "model"])
    ['--import', 'mine', 'train', 'data.txt', '-o', 'model']
    """
    front: list[str] = []
    rest: list[str] = []
    left = iter(words)
    for word in left:
        if word == _OPTION:
            front += [word, *[value for value in [next(left, None)] if value is not None]]
        elif word.startswith(f"{_OPTION}="):
            front.append(word)
        else:
            rest.append(word)
    return front + rest


def load(modules: Sequence[str] | None) -> Sequence[str] | None:
    """Import what the user named: a module, also of the current folder, or a file that ends in ``.py``."""
    for name in modules or ():
        path = Path(name)
        is_file = path.suffix == ".py"
        folder = str(path.parent.resolve()) if is_file else str(Path.cwd())
        if folder not in sys.path:
            sys.path.insert(0, folder)  # processes that this one starts look there, too
        try:
            importlib.import_module(path.stem if is_file else name)
        except Exception as failed:  # whatever a module of the user's raises
            console.problem(f"cannot import {name}: {type(failed).__name__}: {failed}")
            raise typer.Exit(2) from None
    return modules
