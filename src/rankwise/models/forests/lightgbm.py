"""Finished models of LightGBM."""

import functools
import sys
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Floats, Keywords, Offsets
from rankwise.base.sparse import dense, for_library, is_sparse
from rankwise.base.threads import openmp
from rankwise.data.io.disk import mapped as disk
from rankwise.models.forests.forest import ForestModel, numbers
from rankwise.models.forests.library_errors import without_lines
from rankwise.models.formats import lightgbm as text_format
from rankwise.models.schema import Schema

if TYPE_CHECKING:
    from lightgbm import Booster

FATAL = (b"[LightGBM] [Fatal]", b"Please recompile with CMake option")


@functools.cache
def lightgbm() -> Any:
    """Return the library; it prints lines to standard output, unless a logger of the user's receives them."""
    import lightgbm

    if type(lightgbm.basic._LOGGER).__module__ == lightgbm.basic.__name__:
        lightgbm.register_logger(_StandardError())
    return lightgbm


class _StandardError:
    """A logger that does what LightGBM's own does, but for the stream."""

    def info(self, message: str) -> None:
        print(message, file=sys.stderr)

    def warning(self, message: str) -> None:
        warnings.warn(message, stacklevel=3)


def threads() -> int:
    """Return the number of threads that LightGBM may use."""
    return openmp(_one_thread)


def _one_thread() -> None:
    """Make LightGBM use one thread, which it remembers."""
    lightgbm().Dataset(np.zeros((2, 1)), params={"num_threads": 1, "verbosity": -1}).construct()


def read_booster(content: bytes) -> "Booster":
    """Read a model as LightGBM's own object."""
    threads()  # trees are read in parallel
    try:
        text = content.decode()
        if not text.startswith("tree\n") or "\nend of trees\n" not in text:
            raise ValueError("a file that does not begin as a model and end as one")
        with without_lines(FATAL):
            booster: Booster = lightgbm().Booster(model_str=text)
    except (UnicodeDecodeError, ValueError, lightgbm().basic.LightGBMError) as broken:
        raise check.error("cannot read as a LightGBM model", got=str(broken)) from None
    return booster


class LightGBMForest(ForestModel):
    """A finished booster."""

    library, file = "lightgbm", "model.txt"
    reader = text_format.LightGBMModel
    booster: "Booster"

    @classmethod
    def read(cls, content: bytes, schema: Schema) -> Self:
        """Read a model."""
        booster = read_booster(content)
        return cls(schema, booster, content, booster.num_trees())

    @classmethod
    def sum(cls, models: Sequence[Self], factors: Sequence[float]) -> Self:
        """Return one model that scores as their weighted sum; LightGBM itself writes the rest of its file."""
        schema = models[0].schema
        joined = cls.read(text_format.join_models([one.content() for one in models], factors), schema)
        return cls.read(text_format.with_objective(joined.booster.model_to_string(num_iteration=-1)).encode(), schema)

    def cut(self, n_trees: int) -> Self:
        """Return the model of the first ``n_trees`` trees."""
        if n_trees >= self.n_trees:
            return self
        threads()  # trees are written in parallel
        text = text_format.with_objective(self.booster.model_to_string(num_iteration=n_trees))
        return self.read(text.encode(), self.schema)

    def scores(self, features: Floats, offsets: Offsets | None = None, **trees: int) -> Array:
        """Score documents; ``trees`` are LightGBM's arguments for some of the trees."""
        options: Keywords = {**trees, "raw_score": True, "num_threads": threads()}
        if is_sparse(features):
            return numbers(self.booster.predict(for_library(features), **options))
        return numbers(np.concatenate([self.booster.predict(block, **options) for block in disk.blocks(features)]))

    def tree(self, features: Floats, number: int) -> Array:
        """Return what one tree, counted from 0, adds to the scores."""
        return self.scores(features, start_iteration=number, num_iteration=1)

    def explain(self, features: Floats) -> Array:
        """SHAP contributions."""
        if b"\nis_linear=1\n" in self.content():  # of a model that was read from a file LightGBM explains them wrongly
            raise check.error(
                "LightGBM cannot explain these trees", got="linear leaves", hint="train without linear_tree"
            )
        return numbers(self.booster.predict(dense(features), pred_contrib=True, num_threads=threads()))

    def importances(self, kind: str = "gain") -> Array:
        """Return one number per feature: total gain of its splits, or how many there are."""
        return numbers(self.booster.feature_importance(kind))
