"""Several rankers that score as one: as one forest where they are trees of one library, else side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from rankwise.arrays import Array, Floats, Json, Offsets, weighted_sum
from rankwise.models.contributions import Contributions
from rankwise.models.schema import Documents
from rankwise.rankers.base import Ranker
from rankwise.rankers.trees.ranker import TreeRanker


@dataclass(frozen=True, eq=False)
class Ensemble:
    """What a bag and a blend score with, and save."""

    rankers: tuple[Any, ...] = ()
    """Rankers whose scores are added up; none where they became one forest, or before training."""
    factors: tuple[float, ...] | None = None
    """Factors of the scores of each; None stands for their mean."""
    forest: TreeRanker | None = None

    @classmethod
    def of(
        cls, owner: Ranker, rankers: Sequence[Any], factors: Sequence[float] | None = None, *, like: Ranker | None
    ) -> Self:
        """Add up rankers of the bag or blend ``owner``.

        They become one forest where that can be, with the parameters of ``like``, or of the first.
        """
        trees = [one if isinstance(one, TreeRanker) else getattr(one, "ranker_", None) for one in rankers]
        if len({type(one) for one in trees}) == 1 and isinstance(trees[0], TreeRanker):
            shares = [1.0 / len(trees)] * len(trees) if factors is None else factors
            model = trees[0].library.sum([one.model_ for one in trees if one is not None], shares)
            if model is not None:
                ranker: Any = (trees[0] if like is None else like).__sklearn_clone__()
                ranker.model_, ranker.settings_ = model, trees[0].settings_
                return cls._one_forest(owner, ranker)
        return cls(tuple(rankers), None if factors is None else tuple(factors))

    @classmethod
    def read(cls, owner: Ranker, like: Ranker, description: Json, files: dict[str, bytes]) -> Self:
        """Read the one forest from its files; ``like`` is an untrained ranker of its class."""
        ranker = like.__sklearn_clone__()
        ranker._schema = owner._schema
        ranker._restore(description, files)
        return cls._one_forest(owner, ranker)

    @classmethod
    def _one_forest(cls, owner: Ranker, ranker: Any) -> Self:
        ranker._schema = owner._schema
        ranker.history_, ranker.best_round_, ranker.stopped_ = owner.history_, owner.best_round_, owner.stopped_
        ranker.trained_queries_ = owner.trained_queries_
        return cls(forest=ranker)

    @property
    def delegate(self) -> "Ranker | Ensemble":
        """The one forest where there is one, else this ensemble."""
        return self if self.forest is None else self.forest

    @property
    def ranker(self) -> TreeRanker:
        """The one forest as a ranker; where there is none, an AttributeError, so that ``hasattr`` is false."""
        if self.forest is None:
            raise AttributeError("only trees of one library become one ranker, once they are trained")
        return self.forest

    # As a ranker, where it is not one forest.

    @property
    def needs_lists(self) -> bool:
        """Whether a score depends on the other documents of its query."""
        return any(one.needs_lists for one in self.rankers)

    @property
    def feature_importances_(self) -> Array:
        """The mean over rankers of the shares of features in the gain of splits."""
        return self._sum([one.feature_importances_ for one in self.rankers])

    def _score_lists(self, features: Floats, offsets: Offsets | None) -> Array:
        return self._sum([one._score_lists(features, offsets) for one in self.rankers])

    def contributions(self, data: Documents) -> Contributions:
        """Add up the contributions of all rankers."""
        each = [one.contributions(data) for one in self.rankers]
        first = each[0]
        if self.factors is None:
            method, start = f"mean of {len(each)} members' {first.method}", first.start
        else:
            columns = ({one.method for one in each}, {one.start for one in each})
            method, start = ("weighted sum of " + ", ".join(sorted(column)) for column in columns)
        return Contributions(
            parts=self._sum([one.parts for one in each]),
            left=self._sum([one.left for one in each]),
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
        """Return the description of the files: of the one forest, or of ``members``."""
        if self.forest is None:
            return {"members": list(members)}
        return self.forest._made_of(self.forest.model_.n_trees) | {"settings": self.forest.settings_}

    def files(self, members: Sequence[Ranker]) -> dict[str, bytes]:
        """Return the files of the one forest, or of all members under names of their own."""
        return packed([one._files() for one in members]) if self.forest is None else self.forest._files()


def packed(members: Sequence[Mapping[str, bytes]]) -> dict[str, bytes]:
    """Return the files of members under names in one folder: ``member-1-model.txt``."""
    return {
        f"member-{number}-{role}": content for number, files in enumerate(members, 1) for role, content in files.items()
    }


def unpacked(files: Mapping[str, bytes], count: int) -> list[dict[str, bytes]]:
    """Return the files of every member by their own names."""
    starts = [f"member-{number}-" for number in range(1, count + 1)]
    return [
        {role.removeprefix(start): content for role, content in files.items() if role.startswith(start)}
        for start in starts
    ]
