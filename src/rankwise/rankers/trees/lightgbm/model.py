"""A booster of LightGBM that grows."""

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from rankwise.base.arrays import Array, Floats, Keywords
from rankwise.models.forests.forest import numbers
from rankwise.models.forests.library_errors import STANDARD_OUTPUT, without_lines
from rankwise.models.forests.lightgbm import lightgbm
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
