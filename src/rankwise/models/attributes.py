"""What a ranker of one's own has learned, on disk: the attributes whose names end in ``_``. No pickle.

Arrays go into one file, numbers, texts, lists and dictionaries of them into another, and a ranker that it is made of
into files of its own. What is none of these is an error when it is saved.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise import check
from rankwise.arrays import Json
from rankwise.models import storage

if TYPE_CHECKING:
    from rankwise.rankers.base import Ranker

_ARRAYS, _VALUES = "learned.npz", "learned.json"
_DESCRIBED = ("history_", "scales_", "best_round_", "stopped_", "settings_", "trained_on_", "trained_queries_")
"""Attributes that every ranker has, which the description of a model holds."""


def files(ranker: object) -> dict[str, bytes]:
    """Return the files that hold what a ranker has learned."""
    arrays: dict[str, Any] = {}
    values: Json = {}
    rankers: Json = {}
    packed: dict[str, bytes] = {}
    for name, value in sorted(vars(ranker).items()):
        if not name.endswith("_") or name.startswith("_") or name in _DESCRIBED:
            continue
        if isinstance(value, np.ndarray) and value.dtype != object:
            arrays[name] = value
        elif hasattr(value, "_description") and hasattr(value, "_files"):
            value._check_named()
            rankers[name] = value._description()
            packed |= {f"{name}-{role}": content for role, content in value._files().items()}
        elif _is_plain(value):
            values[name] = storage.plain(value)
        else:
            hint = "keep arrays, numbers, texts, lists and dictionaries of them, and rankers"
            got = f"{name}, which is of type {type(value).__name__}"
            raise check.error(f"what a {type(ranker).__name__} learned cannot be saved", got=got, hint=hint)
    content = json.dumps({"values": values, "rankers": rankers}).encode()
    return {_ARRAYS: storage.npz(arrays), _VALUES: content} | packed


def restore(ranker: object, contents: Mapping[str, bytes]) -> None:
    """Set the attributes that :func:`files` wrote."""
    from rankwise.rankers.table import any_class

    with check.library("what a ranker has learned", _ARRAYS):
        for name, array in storage.arrays(contents[_ARRAYS]).items():
            _set(ranker, name, array)
    with check.library("what a ranker has learned", _VALUES):
        plain = json.loads(contents[_VALUES])
        values, rankers = {**plain["values"]}, {**plain["rankers"]}
    for name, value in values.items():
        _set(ranker, name, value)
    for name, description in rankers.items():
        start = f"{name}-"
        files = {role.removeprefix(start): content for role, content in contents.items() if role.startswith(start)}
        _set(ranker, name, any_class(str(description["ranker"]))._from_description(description, files))


def check_parameters(ranker: "Ranker") -> None:
    """Reject parameters that a file could not hold; objectives and metrics are written as expressions."""
    for name, value in ranker.get_params(deep=False).items():
        if name not in ("objective", "metrics") and not _is_plain(value):
            got = f"{name}, which is of type {type(value).__name__}"
            hint = "use numbers, texts, and lists and dictionaries of them"
            raise check.error(f"a parameter of the {type(ranker).__name__} cannot be saved", got=got, hint=hint)


def _set(ranker: object, name: str, value: object) -> None:
    """Set an attribute that was learned; a file that was tampered with sets no others."""
    if not name.endswith("_") or name.startswith("_") or name in _DESCRIBED:
        raise check.error(
            "the model is damaged", got=f"an attribute {name!r}", hint="get the folder again, or train anew"
        )
    setattr(ranker, name, value)


def _is_plain(value: object) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(inner) for key, inner in value.items())
    return value is None or isinstance(value, str | int | float | np.bool_ | np.integer | np.floating)
