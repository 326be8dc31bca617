"""Several rankers that score as one: as one forest where they are trees of one library, else side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from rankwise.arrays import Array, Floats, Json, Offsets, weighted_sum
from rankwise.rankers.base import Ranker
from rankwise.rankers.contributions import Contributions
from rankwise.rankers.ensembles.learner import packed
from rankwise.rankers.schema import Documents
from rankwise.rankers.scoring.scorer import Scorer
from rankwise.rankers.trees.ranker import TreeRanker


@dataclass(frozen=True, eq=False)
class Combined:
    """What a bag and a blend score with, and save."""

    rankers: tuple[Any, ...] = ()
    """Whose scores are added up; none where they became one forest, or before training."""
    factors: tuple[float, ...] | None = None
    """What the scores of each are multiplied by; None gives their mean."""
    forest: TreeRanker | None = None

    @classmethod
    def of(
        cls, whole: Ranker, rankers: Sequence[Any], factors: Sequence[float] | None = None, *, like: Ranker | None
    ) -> Self:
        """Add rankers up, to one forest where that can be: it has the parameters of ``like``, or of the first."""
        trees = [_trees(one) for one in rankers]
        if len({type(one) for one in trees}) == 1 and isinstance(trees[0], TreeRanker):
            shares = [1.0 / len(trees)] * len(trees) if factors is None else factors
            model = trees[0].library.sum([one.model_ for one in trees], shares)
            if model is not None:
                ranker: Any = (trees[0] if like is None else like).__sklearn_clone__()
                ranker.model_, ranker.settings_ = model, trees[0].settings_
                return cls._one_forest(whole, ranker)
        return cls(tuple(rankers), None if factors is None else tuple(factors))

    @classmethod
    def read(cls, whole: Ranker, like: Ranker, description: Json, files: dict[str, bytes]) -> Self:
        """Read the one forest from its files; ``like`` is a ranker of its class that is not trained."""
        ranker = like.__sklearn_clone__()
        ranker._schema = whole._schema
        ranker._restore(description, files)
        return cls._one_forest(whole, ranker)

    @classmethod
    def _one_forest(cls, whole: Ranker, ranker: Any) -> Self:
        ranker._schema = whole._schema
        ranker.history_, ranker.best_round_, ranker.stopped_ = whole.history_, whole.best_round_, whole.stopped_
        return cls(forest=ranker)

    @property
    def ranker(self) -> TreeRanker:
        """The one forest as a ranker; where there is none, that is an AttributeError, so that ``hasattr`` tells."""
        if self.forest is None:
            raise AttributeError("only trees of one library become one ranker, once they are trained")
        return self.forest

    @property
    def needs_lists(self) -> bool:
        """Whether a score depends on the other documents of its query."""
        return any(one.needs_lists for one in self.rankers)

    @property
    def importances(self) -> Array:
        """The shares of features in the gain of splits, of the one forest or the mean over rankers."""
        if self.forest is not None:
            return self.forest.feature_importances_
        return self._sum([one.feature_importances_ for one in self.rankers])

    def score(self, features: Floats, offsets: Offsets | None) -> Array:
        """Score documents of these queries."""
        if self.forest is not None:
            return self.forest._score(features)
        return self._sum([one._score_lists(features, offsets) for one in self.rankers])

    def scorer(self, whole: Ranker) -> Scorer:
        """Give what scores one query's documents in the least time."""
        return Scorer(whole) if self.forest is None else self.forest.scorer()

    def contributions(self, data: Documents) -> Contributions:
        """Give the contributions of the one forest, or add up those of all rankers."""
        if self.forest is not None:
            return self.forest.contributions(data)
        found = [one.contributions(data) for one in self.rankers]
        first = found[0]
        if self.factors is None:
            method, start = f"mean of {len(found)} members' {first.method}", first.start
        else:
            columns = ({one.method for one in found}, {one.start for one in found})
            method, start = ("weighted sum of " + ", ".join(sorted(column)) for column in columns)
        return Contributions(
            parts=self._sum([one.parts for one in found]),
            left=self._sum([one.left for one in found]),
            method=method,
            start=start,
            features=first.features,
            schema=first.schema,
        )

    def _sum(self, columns: Sequence[Array]) -> Array:
        if self.factors is None:
            return np.asarray(np.mean(columns, axis=0))
        return weighted_sum(zip(self.factors, columns, strict=True))

    # On disk.

    def description(self, members: Sequence[Json]) -> Json:
        """Say what the files are of: the one forest, or ``members``, which say it themselves."""
        if self.forest is None:
            return {"members": list(members)}
        return self.forest._made_of(self.forest.model_.n_trees) | {"settings": self.forest.settings_}

    def files(self, members: Sequence[Ranker]) -> dict[str, bytes]:
        """Give the files of the one forest, or of all members under names of their own."""
        return packed([one._files() for one in members]) if self.forest is None else self.forest._files()


def _trees(ranker: Any) -> Any:
    """The ranker of trees that a ranker is, or has become; None if it is neither."""
    return ranker if isinstance(ranker, TreeRanker) else getattr(ranker, "ranker_", None)
