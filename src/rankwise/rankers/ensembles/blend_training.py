"""Training the members of a blend: all as bags with the same folds, one after the other, kept as they are finished."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.arrays import Json
from rankwise.data.dataset import RankingDataset
from rankwise.data.splits import fold_of_query
from rankwise.metrics import Metric
from rankwise.rankers import inputs
from rankwise.rankers.base import Ranker
from rankwise.rankers.ensembles.bagged import bagged
from rankwise.rankers.ensembles.blend_members import Member, check_members, described
from rankwise.rankers.ensembles.feature import FeatureRanker
from rankwise.rankers.training.resume import FREE, FinishedModels, checkpoint_folder, fingerprint
from rankwise.rankers.training.session import Watch, interruption_unannounced
from rankwise.rankers.training.validation import Measure, Validation

_IDENTITY = "blend.json"


@dataclass(frozen=True)
class Folds:
    """The folds that all members of a blend share."""

    count: int
    repeats: int
    seed: int

    def __post_init__(self) -> None:
        for name, value, least in (("folds", self.count, 2), ("repeats", self.repeats, 1), ("seed", self.seed, 0)):
            check.integer(name, value, least=least)

    def of(self, data: RankingDataset) -> NDArray[np.int64]:
        """Give the fold of every query, in the first repeat."""
        count = min(self.count, data.n_queries)
        return fold_of_query(data, count, seed=self.seed) if count > 1 else np.zeros(data.n_queries, np.int64)


def untrained(
    rankers: Sequence[Member], folds: Folds, metrics: Sequence[Metric], *, processes: int, dask: str | None
) -> list[Any]:
    """Give clones of rankers, all as bags with the same folds, and features as rankers."""
    check_members(rankers)
    found: list[Any] = []
    for one in rankers:
        if not isinstance(one, Ranker):
            found.append(FeatureRanker(one, tuple(metrics)))
            continue
        if one.__sklearn_is_fitted__():
            hint = "pass new ones, or bags with their data to rw.blended.of_fitted"
            got = type(one).__name__
            raise check.error("a blend trains clones of rankers, and one is trained already", got=got, hint=hint)
        fresh = one.__sklearn_clone__()
        if not isinstance(fresh, bagged):
            fresh = bagged(fresh, folds.count, processes=processes, dask=dask)
        elif fresh.folds != folds.count:
            got, hint = f"folds={fresh.folds} and folds={folds.count}", "set the same folds"
            raise check.error("bags of a blend must have its folds", got=got, hint=hint)
        found.append(fresh.set_params(repeats=folds.repeats, fold_seed=folds.seed))
    return found


def train(
    members: Sequence[Any],
    titles: Sequence[str],
    data: RankingDataset,
    folds: Folds,
    *,
    checkpoint: str | Path | None,
    resume: bool,
    watch: Watch | None,
) -> list[Any]:
    """Train members; those that are finished in the folder ``checkpoint`` are read from there."""
    if data.propensities is not None and any(getattr(member, "debias", False) for member in members):
        hint = "train members without debias, or on judged documents"
        raise check.error("weights of a blend are not chosen on clicks", got="a ranker with debias=True", hint=hint)
    finished = _finished(checkpoint, members, data, resume=resume)
    found = []
    for number, (member, title) in enumerate(zip(members, titles, strict=True), 1):
        if isinstance(member, FeatureRanker):
            found.append(member.cross_fit(data, folds.of(data)))
            continue
        where = f"member {number} of {len(members)}, {title}"
        found.append(_trained(member, data, finished, f"member-{number}", where, resume=resume, watch=watch))
    return found


def _finished(
    checkpoint: str | Path | None, members: Sequence[Any], data: RankingDataset, *, resume: bool
) -> FinishedModels | None:
    """Return the folder of trained members, which must be of these."""
    folder = checkpoint_folder(checkpoint, resume=resume)
    if folder is None:
        return None
    identity: Json = {"members": [described(member, FREE) for member in members], "data": fingerprint(data)}
    if code := {name: digest for member in members for name, digest in member._code().items()}:
        identity["code"] = code
    same = "rankers, settings and data"
    return FinishedModels(folder, _IDENTITY, identity, what="blend", same=same, resume=resume)


def _trained(
    bag: bagged,
    data: RankingDataset,
    finished: FinishedModels | None,
    name: str,
    where: str,
    *,
    resume: bool,
    watch: Watch | None,
) -> Any:
    if finished is not None:
        if (member := finished[name]) is not None:
            return member
        bag.set_params(checkpoint=finished.folder / f"{name}-checkpoint")
    with interruption_unannounced():
        bag.fit(data, resume=resume and bag.checkpoint is not None, watch=watch)
    if bag.stopped_ == "interrupted":  # a member that is not complete would get a weight that is not its own
        raise KeyboardInterrupt(
            f"interrupted in {where}" + ("" if finished is None else f"; {finished.folder} can be resumed")
        )
    if finished is not None:
        bag.save(finished.folder / name)
    return bag


def shared_folds(rankers: Sequence[Any], data: RankingDataset) -> Folds | None:
    """The folds of bags that are trained, which must be the same, as must be their data; None of features alone."""
    shared: Folds | None = None
    for one in rankers:
        if not isinstance(one, Ranker):
            continue
        if not isinstance(one, bagged):
            what, hint = "only trained bags are blended without training", "pass rw.bagged(ranker, …).fit(…)"
            raise check.error(what, got=type(one).__name__, hint=hint)
        held_out, own = one._out_of_fold(), Folds(one.folds, one.repeats, one.seed_of_folds)
        shared = shared or own
        if own != shared:
            got = " and ".join(f"folds={it.count}, repeats={it.repeats}, seed={it.seed}" for it in (own, shared))
            hint = "train them with the same folds, repeats and fold_seed"
            raise check.error("bags of a blend must share their folds", got=got, hint=hint)
        if not held_out.covers(data):
            got = f"{held_out.scores.size} out-of-fold scores for {data.n_docs} documents, or other queries"
            hint = "pass the training and validation data that the bags were trained on"
            raise check.error("a bag was trained on other data", got=got, hint=hint)
    return shared


def measured(
    blend: Ranker, measure: Mapping[str, RankingDataset | Measure], data: RankingDataset, metrics: Sequence[Metric]
) -> dict[str, list[float]]:
    """Give what a blend that is trained on ``data`` adds to its history: metrics of other data."""
    found: dict[str, list[float]] = {}
    for name, one in measure.items():
        if not isinstance(one, Measure):
            other = inputs.aligned(one, data)
            one = Measure(other, Validation(other, metrics, debias=False))
        values = one.function(blend.predict(one.data))
        found |= {f"{name} {key}": [float(value)] for key, value in values.items()}
    return found
