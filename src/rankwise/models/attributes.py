"""What a ranker of the user's has learned: the attributes whose names end in ``_``, which are files. No pickle.

Arrays go into one file, numbers, texts, lists and dictionaries of them into another, and a ranker that it is made of
into files of its own. What is none of these is an error when it is saved.
"""

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Floats, Json, Offsets
from rankwise.models import storage
from rankwise.models.model import Contributions, Model, require_lists
from rankwise.models.schema import Schema

_ARRAYS, _VALUES = "learned.npz", "learned.json"
_DESCRIBED = ("history_", "scales_", "best_round_", "stopped_", "settings_", "trained_on_", "trained_queries_")
"""Attributes that every ranker has, which the description of a model holds."""


class AttributeModel(Model):
    """The attributes that a ranker of the user's has learned, and its ``_predict``, which reads them.

    An attribute ``model_`` of the user's gives way to this one: ``own`` holds it, and its attributes are found here.
    """

    def __init__(self, schema: Schema, owner: Any, own: tuple[Any, ...] = (), *, explains: bool = False) -> None:
        self.schema, self.owner, self.own, self.explains = schema, owner, own, explains
        self.trained_by, self.needs_lists = type(owner).__name__, bool(owner.needs_lists)
        self.kind = owner.name or self.trained_by

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or not (own := vars(self).get("own")):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(own[0], name)

    def reader(self) -> Any:
        """Return the ranker with its own attribute ``model_``."""
        if not self.own:
            return self.owner
        ranker = copy.copy(self.owner)
        ranker.model_ = self.own[0]
        return ranker

    def scores(self, features: Floats, offsets: Offsets | None = None) -> Array:
        """Return what ``_predict`` returns, checked."""
        require_lists(self, offsets)
        scores = np.asarray(self.reader()._predict(features, offsets), np.float64)
        if scores.shape != (features.shape[0],) or np.isnan(scores).any():
            got = f"shape {scores.shape}" if scores.shape != (features.shape[0],) else "NaN"
            what = f"a {self.trained_by} must give each of {features.shape[0]} documents one number"
            raise check.error(what, got=got, hint="let _predict return one score per row of features")
        return scores

    def contributions(self, features: Floats, offsets: Offsets | None = None) -> Contributions:
        """Return what the ranker says, if it explains its scores."""
        if not self.explains:
            raise check.error(f"a {self.trained_by} cannot explain its scores by features")
        explained: Contributions = self.reader().contributions(features)
        return explained

    def files(self) -> dict[str, bytes]:
        """Return the files of the attributes."""
        return files(self.reader())

    def description(self) -> Json:
        """Return nothing: all is in the files."""
        return {}


def files(owner: object) -> dict[str, bytes]:
    """Return the files that hold what a ranker has learned."""
    arrays: dict[str, Any] = {}
    values: Json = {}
    rankers: Json = {}
    packed: dict[str, bytes] = {}
    for name, value in sorted(vars(owner).items()):
        if not name.endswith("_") or name.startswith("_") or name in _DESCRIBED or isinstance(value, Model):
            continue
        if isinstance(value, np.ndarray) and value.dtype != object:
            arrays[name] = value
        elif hasattr(value, "saved"):  # a ranker
            rankers[name], contents = value.saved()
            packed |= {f"{name}-{role}": content for role, content in contents.items()}
        elif _is_plain(value):
            values[name] = storage.plain(value)
        else:
            hint = "keep arrays, numbers, texts, lists and dictionaries of them, and rankers"
            got = f"{name}, which is of type {type(value).__name__}"
            raise check.error(f"what a {type(owner).__name__} learned cannot be saved", got=got, hint=hint)
    content = json.dumps({"values": values, "rankers": rankers}).encode()
    return {_ARRAYS: storage.npz(arrays), _VALUES: content} | packed


def restore(owner: object, contents: Mapping[str, bytes], read: Callable[[Json, dict[str, bytes]], object]) -> None:
    """Set the attributes that :func:`files` wrote; ``read`` reads a ranker among them."""
    with check.library("what a ranker has learned", _ARRAYS):
        for name, array in storage.arrays(contents[_ARRAYS]).items():
            _set(owner, name, array)
    with check.library("what a ranker has learned", _VALUES):
        plain = json.loads(contents[_VALUES])
        values, rankers = {**plain["values"]}, {**plain["rankers"]}
    for name, value in values.items():
        _set(owner, name, value)
    for name, description in rankers.items():
        start = f"{name}-"
        files = {role.removeprefix(start): content for role, content in contents.items() if role.startswith(start)}
        _set(owner, name, read(description, files))


def check_parameters(ranker: Any) -> None:
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
