"""Boosters of LightGBM: one that grows, and models that were trained elsewhere."""

import contextlib
import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rankwise.base.arrays import Array, Floats, Keywords
from rankwise.data.categories import Values
from rankwise.models.forests.forest import numbers
from rankwise.models.forests.library_errors import STANDARD_OUTPUT, without_lines
from rankwise.models.forests.lightgbm import lightgbm, threads
from rankwise.models.formats.lightgbm import PANDAS, LightGBMText, shifted, with_objective
from rankwise.models.schema import Schema
from rankwise.rankers.trees.protocol import AS_A_FUNCTION, ONE_SCORE, Derive, ForeignModel, cannot_wrap, untrained

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightgbm import Booster, Dataset

_INFO = b"[LightGBM] [Info]"


class LightGBMMatrices(NamedTuple):
    """The data as LightGBM holds them."""

    train: "Dataset"
    held_out: "list[Dataset]"


@dataclass
class LightGBMGrowth:
    """A booster that grows."""

    parameters: Keywords
    matrices: LightGBMMatrices
    start: bytes | None
    """The model that is continued, as LightGBM's text."""
    older: "Booster | None" = None
    """The same as LightGBM's own object."""
    tries: int = 1
    base_score: float = 0.0
    """LightGBM's scores have it, and its trees have not."""
    booster: "Booster | None" = None

    def add(self, derive: Derive | None) -> bool:
        """Grow one tree; False if LightGBM found no split for it, with other draws each time that it is tried."""
        return any(self._grown(derive) for _ in range(self.tries))

    def _grown(self, derive: Derive | None) -> bool:
        objective: Callable[..., Any] | None = None
        if derive is not None:

            def objective(scores: Array, _: "Dataset") -> tuple[Floats, Floats]:
                return derive(numbers(scores))

        if self.booster is not None:
            return not self.booster.update(fobj=objective)
        alone = "num_machines" not in self.parameters  # what one machine cannot split, another may
        if alone and self.start is None:
            data = self.matrices.train.construct()
            if not any(data.feature_num_bin(feature) > 0 for feature in range(data.num_feature())):
                return False  # LightGBM ends with lines of its own where no feature could be split
        # A thread of LightGBM's network says that it listens, whatever the verbosity.
        quiet = contextlib.nullcontext() if alone else without_lines(_INFO, STANDARD_OUTPUT)
        # lgb.train sets a booster up with the trees that it continues; the rounds after the first are ours.
        try:
            with quiet:
                self.booster = lightgbm().train(
                    self.parameters if objective is None else {**self.parameters, "objective": objective},
                    self.matrices.train,
                    num_boost_round=1,
                    valid_sets=self.matrices.held_out or None,
                    init_model=self.older,
                    keep_training_booster=True,
                )
        except lightgbm().basic.LightGBMError as failed:
            if "num_features" in str(failed):  # none is left that could be split
                return False
            raise
        trees, grown = 0 if self.older is None else self.older.num_trees(), self.booster.num_trees()
        if grown > trees:
            last = self.booster.model_to_string(num_iteration=1, start_iteration=grown - 1)
            if "num_leaves=1\n" not in last:
                return True
        if not trees:  # a first tree without a split is kept as a constant; a later one is dropped
            self.booster, self.parameters = None, {**self.parameters, "seed": self.parameters["seed"] + 1}
        return False

    def scores(self, number: int) -> Array:
        """Return the scores of a held-out data set, as LightGBM keeps them up to date."""
        copies: list[Array] = []

        def copy(scores: Array, _: "Dataset") -> tuple[str, float, bool]:  # LightGBM has no public accessor
            copies.append(numbers(scores))
            return "copied", 0.0, True

        booster: Any = self.booster
        booster.eval(self.matrices.held_out[number], "held out", copy)
        return copies[0]

    def content(self) -> bytes:
        """Return all trees so far as LightGBM's text."""
        if self.booster is None:
            return self.start or b""
        content = with_objective(self.booster.model_to_string(num_iteration=-1)).encode()
        return shifted(content, self.base_score) if self.base_score else content


def read_foreign(model: Any) -> ForeignModel | None:
    """Read a model, cut after its best round as its own ``predict`` is; None if it is of another library.

    Whatever it was trained for, raw scores are sums of leaves, and the text names an objective that ranks.
    """
    library: Any = sys.modules["lightgbm"]  # as it is, without a logger of ours
    if not isinstance(model, library.Booster | library.LGBMModel):
        return None
    threads()  # trees are written in parallel
    try:
        booster = model.booster_ if isinstance(model, library.LGBMModel) else model
    except library.sklearn.LGBMNotFittedError:
        raise untrained(model) from None
    if booster.num_model_per_iteration() != 1:
        raise cannot_wrap(model, f"{booster.num_model_per_iteration()} scores of each document (multiclass)", ONE_SCORE)
    if not booster.num_trees():
        raise untrained(model)
    text = LightGBMText(booster.model_to_string().encode())
    codes, names = _codes(text), text.head[b"feature_names"].decode().split()
    unnamed = names == [f"Column_{column}" for column in range(len(names))]
    categories = _categories(model, json.loads(text.tail.rpartition(PANDAS)[2]) or [], codes)
    schema = Schema(len(names), None if unnamed else tuple(names), tuple(codes), categories)
    return ForeignModel(text.for_ranking(), schema, text.objective)


def _codes(text: LightGBMText) -> dict[int, list[int]]:
    """Return the codes of each categorical column that training saw.

    There are none of a column that LightGBM dropped as constant; the parameters alone name it.
    """
    infos = text.head[b"feature_infos"].split()
    parameter = re.search(rb"^\[categorical_feature: ([\d,]+)\]$", text.tail, flags=re.MULTILINE)
    columns = set() if parameter is None else {int(column) for column in parameter[1].split(b",")}
    columns |= {column for column, info in enumerate(infos) if info != b"none" and not info.startswith(b"[")}
    return {
        column: [] if infos[column] == b"none" else [int(code) for code in infos[column].split(b":")]
        for column in sorted(columns & set(range(len(infos))))
    }


def _categories(model: object, listed: list[list[str | float]], codes: Mapping[int, list[int]]) -> dict[int, Values]:
    """The categories of columns; LightGBM keeps the lists of a table's columns in their order, and not whose they are.

    A list belongs to a column whose codes are places in it. Columns that held plain codes have none.
    """
    first = _first_fit(listed, codes)
    last = _first_fit(listed[::-1], dict(reversed(list(codes.items()))))
    if first is None or last is None or first != last[::-1]:
        why = f"categories of {len(listed)} columns of a table, and {len(codes)} categorical columns"
        how = (
            "whose they are is not known"
            if first is not None
            else "ordered categories and plain codes are not told apart"
        )
        raise cannot_wrap(model, f"{why}: {how}", f"train it on unordered categories alone, or {AS_A_FUNCTION}")
    return {column: tuple(values) for column, values in zip(first, listed, strict=True)}


def _first_fit(listed: list[list[str | float]], codes: Mapping[int, list[int]]) -> list[int] | None:
    """The first column for each list, in order, that may be its own; None where there is none."""
    columns = iter(codes)
    owners = [
        next((column for column in columns if max(codes[column], default=0) < len(values)), -1) for values in listed
    ]
    return None if -1 in owners else owners
