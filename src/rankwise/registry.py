"""Names of users' own objectives, metrics and rankers, as :func:`rankwise.register` gave them.

Expressions, TOML files, the command line and saved models hold names and no code. Nothing is imported for a name: it is
known once the user's own program, or a module that the user named, has registered it. Processes that this one starts
are told what is registered here.
"""

import contextlib
import importlib
import pickle
from collections.abc import Iterable
from typing import Any, NamedTuple

from rankwise import check, syntax

HINT = "register one of your own with rw.register"
"""What errors about unknown names say."""


class Entry(NamedTuple):
    """A registered thing."""

    kind: str
    """``objective``, ``metric`` or ``ranker``."""
    thing: Any
    """A class, or a function."""


_entries: dict[str, Entry] = {}


def add(name: str, kind: str, thing: Any) -> None:
    """Register a thing; the same one, as when the cell of a notebook runs again, replaces what it was."""
    if not isinstance(name, str) or not syntax.is_name(name):
        hint = "write letters, digits and underscores, the first of them no digit"
        raise check.error("a name must be a word that an expression can hold", got=repr(name), hint=hint)
    older = _entries.get(name)
    if older is not None and (older.kind != kind or not _is_same(older.thing, thing)):
        raise taken(name, f"the {older.kind} {_place(older.thing)}")
    _entries[name] = Entry(kind, thing)


def taken(name: str, by: str) -> ValueError:
    """Return the error of a name that something else has."""
    return check.error("the name is taken", got=f"{name!r}, which is {by}", hint="choose another name")


def of(kind: str) -> dict[str, Any]:
    """Return everything of a kind by its name."""
    return {name: entry.thing for name, entry in _entries.items() if entry.kind == kind}


def name_of(thing: object) -> str:
    """Return the name that a class or a function is registered under; empty where it is not."""
    return next((name for name, entry in _entries.items() if entry.thing is thing), "")


def parcels() -> list[bytes]:
    """Pack what is registered for another process; what cannot be sent stays here."""
    packed = []
    for name, entry in _entries.items():
        with contextlib.suppress(Exception):  # what cannot be pickled may raise anything
            packed.append(_pickler().dumps((name, *entry)))
    return packed


def receive(packed: Iterable[bytes]) -> None:
    """Register what another process of the same program sent."""
    for parcel in packed:
        with contextlib.suppress(Exception):  # what is not there to be imported is unknown here, and said when needed
            name, kind, thing = pickle.loads(parcel)  # noqa: S301 (from the process that started this one)
            _entries.setdefault(name, Entry(kind, thing))


def _pickler() -> Any:
    """Return cloudpickle, which Dask brings and which also sends what a notebook defines; else pickle."""
    try:
        return importlib.import_module("cloudpickle")
    except ImportError:
        return pickle


def _is_same(older: Any, newer: Any) -> bool:
    return older is newer or (_place(older) == _place(newer) and "<lambda>" not in _place(older))


def _place(thing: Any) -> str:
    """Where a class or a function is defined."""
    cls = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{cls.__module__}.{cls.__qualname__}"
