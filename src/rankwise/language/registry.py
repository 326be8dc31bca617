"""Names of custom objectives, metrics and rankers, as registered by :func:`rankwise.register`.

Expressions, TOML files, the command line and saved models hold names and no code. Nothing is imported for a name: it
exists once the user's program, or a module that the user named, has registered it. Processes that this one starts
receive what is registered here.
"""

import contextlib
import importlib.util
import pickle
from collections.abc import Iterable
from typing import Any, NamedTuple

from rankwise import check
from rankwise.language import syntax

HINT = "`register one of your own with rw.register|import one of your own with --import MODULE`"
"""The hint of errors about unknown names."""


class Registration(NamedTuple):
    """A registered class or function."""

    kind: str
    """``objective``, ``metric`` or ``ranker``."""
    thing: Any
    """A class, or a function."""


_entries: dict[str, Registration] = {}


def add(name: str, kind: str, thing: Any) -> None:
    """Register a class or function; one defined at the same place, as by a notebook's cell, replaces the older one."""
    if not isinstance(name, str) or not syntax.is_name(name):
        hint = "write letters, digits and underscores, the first of them no digit"
        raise check.error("a name must be a word that an expression can hold", got=repr(name), hint=hint)
    older = _entries.get(name)
    if older is not None and (older.kind != kind or older.thing is not thing):
        place = _place(older.thing)
        if older.kind != kind or place != _place(thing) or "<lambda>" in place:
            raise taken(name, f"the {older.kind} {place}")
    _entries[name] = Registration(kind, thing)


def taken(name: str, by: str) -> ValueError:
    """Build the error of a name that something else has."""
    return check.error("the name is taken", got=f"{name!r}, which is {by}", hint="choose another name")


def of(kind: str) -> dict[str, Any]:
    """Return everything registered of a kind, by name."""
    return {name: entry.thing for name, entry in _entries.items() if entry.kind == kind}


def name_of(thing: object) -> str:
    """Return the name under which a class or function is registered; empty if it is not."""
    return next((name for name, entry in _entries.items() if entry.thing is thing), "")


def pickle_registry() -> list[bytes]:
    """Pickle what is registered for another process; what cannot be pickled is left out.

    cloudpickle, which Dask depends on, also pickles definitions of a notebook.
    """
    pickler: Any = importlib.import_module("cloudpickle") if importlib.util.find_spec("cloudpickle") else pickle
    packed = []
    for name, entry in _entries.items():
        with contextlib.suppress(Exception):  # what cannot be pickled may raise anything
            packed.append(pickler.dumps((name, *entry)))
    return packed


def restore_registry(packed: Iterable[bytes]) -> None:
    """Register what another process of the same program sent."""
    for parcel in packed:
        with contextlib.suppress(Exception):  # what cannot be imported here is unknown, and an error when it is used
            name, kind, thing = pickle.loads(parcel)  # noqa: S301 (from the process that started this one)
            _entries.setdefault(name, Registration(kind, thing))


def _place(thing: Any) -> str:
    cls = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{cls.__module__}.{cls.__qualname__}"
