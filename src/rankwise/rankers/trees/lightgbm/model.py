"""A booster of LightGBM that grows."""

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rankwise.arrays import Array, Floats, Keywords
from rankwise.models.forests.forest import numbers
from rankwise.models.forests.lightgbm import LightGBMForest, lightgbm
from rankwise.models.forests.refusals import STANDARD_OUTPUT, without_lines
from rankwise.models.formats.lightgbm import shifted, with_objective
from rankwise.rankers.trees.protocol import Derive

if TYPE_CHECKING:
    from collections.abc import Callable

    from lightgbm import Booster, Dataset

_INFO = b"[LightGBM] [Info]"


class LightGBMMatrices(NamedTuple):
    """The data as LightGBM holds them."""

    train: "Dataset"
    held_out: "list[Dataset]"


class LightGBMGrowth:
    """A booster that grows."""

    def __init__(
        self,
        parameters: Keywords,
        matrices: LightGBMMatrices,
        start: LightGBMForest | None,
        tries: int = 1,
        base_score: float = 0.0,
    ) -> None:
        self.parameters, self.matrices, self.start, self.tries = parameters, matrices, start, tries
        self.base_score = base_score
        if base_score:  # LightGBM's scores have it, and its trees have not
            for data in (matrices.train, *matrices.held_out):
                labels: Any = data.get_label()
                data.set_init_score(np.full(len(labels), base_score))
        self.booster: Booster | None = None

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
        if alone and self.start is None and not _has_splits(self.matrices.train):
            return False
        # A thread of LightGBM's network says that it listens, whatever the verbosity.
        quiet = contextlib.nullcontext() if alone else without_lines(_INFO, STANDARD_OUTPUT)
        # lgb.train sets a booster up with the trees that it continues; the rounds after the first are ours.
        try:
            with quiet:
                self.booster = self._started(objective)
        except lightgbm().basic.LightGBMError as failed:
            if "num_features" in str(failed):  # none is left that could be split
                return False
            raise
        trees, grown = 0 if self.start is None else self.start.n_trees, self.booster.num_trees()
        if grown > trees:
            last = self.booster.model_to_string(num_iteration=1, start_iteration=grown - 1)
            if "num_leaves=1\n" not in last:
                return True
        if not trees:  # a first tree without a split is kept as a constant; a later one is dropped
            self.booster, self.parameters = None, {**self.parameters, "seed": self.parameters["seed"] + 1}
        return False

    def _started(self, objective: "Callable[..., Any] | None") -> "Booster":
        booster: Booster = lightgbm().train(
            self.parameters if objective is None else {**self.parameters, "objective": objective},
            self.matrices.train,
            num_boost_round=1,
            valid_sets=self.matrices.held_out or None,
            init_model=None if self.start is None else self.start.booster,
            keep_training_booster=True,
        )
        return booster

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
            return self.start.content() if self.start is not None else b""
        content = with_objective(self.booster.model_to_string(num_iteration=-1)).encode()
        return shifted(content, self.base_score) if self.base_score else content


def _has_splits(data: "Dataset") -> bool:
    """Whether there is a feature that LightGBM could split; it ends with lines of its own where there is none."""
    data.construct()
    return any(data.feature_num_bin(feature) > 0 for feature in range(data.num_feature()))
