"""What a blend is once it is trained: its members, what each counts, their sum, and their place on disk."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from rankwise import check
from rankwise.arrays import Array, Json, weighted_sum
from rankwise.rankers.base import Ranker
from rankwise.rankers.ensembles.bagged import bagged
from rankwise.rankers.ensembles.combined import Combined
from rankwise.rankers.ensembles.held_out import HeldOut
from rankwise.rankers.ensembles.learner import unpacked
from rankwise.rankers.ensembles.weights import Weights
from rankwise.rankers.table import any_class


@dataclass(frozen=True, eq=False)
class Mixture:
    """Members and their weights, and what they add up to."""

    weights: Weights
    held_out: HeldOut
    combined: Combined
    importances: Array | None
    """The mean of members' importances of features by their weights, if all that have a weight tell them."""
    members: tuple[Any, ...] | None = None
    """Also those without a weight; None of one forest that was read, which has forgotten them."""

    @classmethod
    def of(cls, whole: Ranker, members: Sequence[Any], weights: Weights, held_out: HeldOut) -> Self:
        """Add members up by their weights; ``whole`` is the blend, which has its columns and its history."""
        pairs = [(factor, one) for factor, one in zip(weights.factors, members, strict=True) if factor]
        factors, rankers = [factor for factor, _ in pairs], [one for _, one in pairs]
        importances = None
        if all(hasattr(one, "feature_importances_") for one in rankers):
            shares = zip(weights.values, members, strict=True)
            importances = weighted_sum((share, one.feature_importances_) for share, one in shares if share)
        combined = Combined.of(whole, rankers, factors, like=None)
        return cls(weights, held_out, combined, importances, tuple(members))

    def description(self) -> Json:
        """Say what it is made of, as files hold it."""
        shares = None if self.importances is None else self.importances.tolist()
        forest = {} if self.combined.forest is None else {"forest": self.combined.forest.name}
        made = self.combined.description([one._description() for one in self.members or ()])
        return {"weights": self.weights.written(), "importances": shares} | forest | made

    def files(self) -> dict[str, bytes]:
        """Give the files of what it is made of, and of the out-of-fold scores."""
        return self.combined.files(self.members or ()) | self.held_out.files()

    @classmethod
    def read(cls, whole: Ranker, rankers: Sequence[Any], description: Json, files: dict[str, bytes]) -> Self:
        """Take what :meth:`description` and :meth:`files` gave; ``rankers`` are those of the blend, not trained."""
        weights, shares = Weights.read(description["weights"]), description["importances"]
        importances = None if shares is None else np.array(shares, np.float64)
        counted = [one for one, factor in zip(rankers, weights.factors, strict=True) if factor]
        held_out = HeldOut.read(files)
        if held_out is None or not counted:
            lacks = "weights" if held_out is not None else "its out-of-fold scores"
            raise check.error(f"a blend without {lacks}", hint="get the folder again, or train anew")
        if "members" in description:
            made = description["members"]
            pairs = zip(made, unpacked(files, len(made)), strict=True)
            members = [any_class(one["ranker"])._from_description(one, own) for one, own in pairs]
            return dataclasses.replace(cls.of(whole, members, weights, held_out), importances=importances)
        like = counted[0].ranker if isinstance(counted[0], bagged) else counted[0]
        return cls(weights, held_out, Combined.read(whole, like, description, files), importances)
