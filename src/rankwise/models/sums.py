"""Several models that score as one: what a bag or a blend becomes that is not one forest."""

from collections.abc import Mapping, Sequence

import numpy as np

from rankwise.base.arrays import Array, Floats, Json, Offsets, weighted_sum
from rankwise.models.forests.forest import summed
from rankwise.models.model import Contributions, Model, Score


class SumModel(Model):
    """A weighted sum of the scores of models, or with ``factors=None`` their mean."""

    def __init__(self, models: Sequence[Model], factors: Sequence[float] | None = None) -> None:
        self.models, self.factors = tuple(models), None if factors is None else tuple(factors)
        self.kind = f"{'mean' if factors is None else 'weighted sum'} of {len(self.models)} models"
        self.schema, self.parts = self.models[0].schema, self.models
        self.least_code = max(one.least_code for one in self.models)
        self.needs_lists = any(one.needs_lists for one in self.models)

    def scores(self, features: Floats, offsets: Offsets | None = None) -> Array:
        """Add up the scores."""
        return self._sum([one.scores(features, offsets) for one in self.models])

    def contributions(self, features: Floats, offsets: Offsets | None = None) -> Contributions:
        """Add up the contributions of all models."""
        each = [one.contributions(features, offsets) for one in self.models]
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

    def serving(self) -> Score:
        """Return the sum of what serves each model."""
        each = [one.serving() for one in self.models]
        return lambda documents, offsets: self._sum([score(documents, offsets) for score in each])

    def files(self) -> dict[str, bytes]:
        """Return the files of all models, under names of their own."""
        return packed([one.files() for one in self.models])

    def description(self) -> Json:
        """Return the descriptions of all models, and their factors."""
        factors = {} if self.factors is None else {"factors": list(self.factors)}
        return {"members": [one.description() for one in self.models]} | factors

    def _sum(self, columns: Sequence[Array]) -> Array:
        if self.factors is None:
            return np.asarray(np.mean(columns, axis=0))
        return weighted_sum(zip(self.factors, columns, strict=True))


def added_up(models: Sequence[Model], factors: Sequence[float] | None = None) -> Model:
    """Return one forest where models are trees of one library, as far as it can hold them, else their sum."""
    from rankwise.models.forests.query_forest import summed_within

    shares = [1.0 / len(models)] * len(models) if factors is None else factors
    return summed(models, shares) or summed_within(models, shares) or SumModel(models, factors)


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
