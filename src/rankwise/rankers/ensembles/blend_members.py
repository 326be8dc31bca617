"""Members of a blend: rankers, bags of them, and features; trained as bags with the same folds, one after the other."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.arrays import Json
from rankwise.data.dataset import RankingDataset
from rankwise.data.splits import fold_of_query
from rankwise.language.workspace import Workspace
from rankwise.metrics import Metric
from rankwise.rankers import expressions, table
from rankwise.rankers.base import Ranker
from rankwise.rankers.ensembles.bagged import bagged, is_single
from rankwise.rankers.ensembles.feature import FeatureRanker
from rankwise.rankers.ensembles.meta import kind_of, out_of_fold_of
from rankwise.rankers.training import constraints
from rankwise.rankers.training.resume import checkpoint_folder, fingerprint
from rankwise.rankers.training.run import interruption_unannounced
from rankwise.rankers.training.settings import FREE, TrainingSettings, code_of
from rankwise.rankers.trees.ranker import TreeRanker

Member = Ranker | str | int
"""A ranker of trees or nets, or of one's own, a bag of them, or a feature by its name or number."""


@dataclass(frozen=True)
class Folds:
    """The folds that all members of a blend share."""

    count: int
    repeats: int
    seed: int

    def of(self, data: RankingDataset) -> NDArray[np.int64]:
        """Return the fold of every query, in the first repeat."""
        count = min(self.count, data.n_queries)
        return fold_of_query(data, count, seed=self.seed) if count > 1 else np.zeros(data.n_queries, np.int64)


def check_members(rankers: Any) -> None:
    """Raise an error about anything but a list of members."""
    if isinstance(rankers, str | Ranker) or not isinstance(rankers, Iterable) or not list(rankers):
        hint = "pass several, such as rw.blended([rw.LightGBMRanker(), rw.NeuralRanker()])"
        raise check.error("a blend is made of a list of rankers", got=repr(rankers), hint=hint)
    for one in rankers:
        ranks = isinstance(one, bagged) or is_single(one)
        if not (ranks or isinstance(one, str | int)) or isinstance(one, bool):
            what = "a blend is made of rankers of trees or nets, or of one's own, bags of them, and features"
            hint = (
                "pass rankers that are not trained yet, such as rw.LightGBMRanker(), and names or numbers of features; "
                "derive your own from rw.Ranker"
            )
            raise check.error(what, got=kind_of(one), hint=hint)
        constraints.reject(one, "a blend may break the constraints of its members", "train a bag: rw.bagged(ranker)")


def titles(rankers: Sequence[Member]) -> tuple[str, ...]:
    """Return what members are called; those that are called alike are numbered.

    >>> import rankwise as rw
    >>> titles(["price", 0, "price"])
    ('price #1', 'column 0', 'price #2')
    >>> titles([rw.LightGBMRanker("xendcg"), rw.bagged(rw.LightGBMRanker("xendcg", transform="raw+query"))])
    ('lightgbm(xendcg)', 'lightgbm(xendcg, transform=raw+query)')
    """
    plain = [_title(one) for one in rankers]
    counts, seen = Counter(plain), Counter[str]()
    numbered = []
    for title in plain:
        seen[title] += 1
        numbered.append(title if counts[title] == 1 else f"{title} #{seen[title]}")
    return tuple(numbered)


def _title(one: Member) -> str:
    if isinstance(one, int):
        return f"column {one}"
    if isinstance(one, str):
        return one
    ranker = one.ranker if isinstance(one, bagged) else one
    transform = ranker.transform if isinstance(ranker, TreeRanker) else None
    return expressions.title_of(ranker, f"transform={transform}" if transform else "")


def member_kind(one: Member) -> object:
    """Return what those have in common that err alike: trees their objective and transform, others their ranker.

    >>> import rankwise as rw
    >>> member_kind(rw.LightGBMRanker("xendcg", leaves=7)) == member_kind(rw.bagged(rw.XGBoostRanker("xendcg")))
    True
    >>> member_kind(rw.LightGBMRanker("xendcg")) == member_kind(rw.LightGBMRanker("xendcg", transform="raw+query"))
    False
    >>> member_kind(rw.NeuralRanker("xendcg")), member_kind("price")
    ('neural', 'price')
    """
    ranker = one.ranker if isinstance(one, bagged) else one
    if isinstance(ranker, TreeRanker):
        return (
            TreeRanker,
            expressions.objective_of(ranker),
            *(() if ranker.transform is None else (ranker.transform,)),
        )
    return ranker.name or type(ranker) if isinstance(ranker, Ranker) else ranker


def member_description(one: Any, without: Collection[str] = ()) -> Any:
    """Return the description of an untrained member; of a feature its name or number."""
    return one.recipe(without) if isinstance(one, Ranker) else one


def untrained(
    rankers: Sequence[Member], folds: Folds, metrics: Sequence[Metric], *, processes: int, dask: str | None
) -> list[Any]:
    """Return clones of rankers, all as bags with the same folds, and features as rankers."""
    check_members(rankers)
    members: list[Any] = []
    for one in rankers:
        if not isinstance(one, Ranker):
            members.append(FeatureRanker(one, tuple(metrics)))
            continue
        if one.__sklearn_is_fitted__():
            hint = "pass new ones, or bags with their data to rw.blended.of_fitted"
            what = "a blend trains clones of rankers, and one is trained already"
            raise check.error(what, got=type(one).__name__, hint=hint)
        bag = one.__sklearn_clone__()
        if not isinstance(bag, bagged):
            bag = bagged(bag, folds.count, processes=processes, dask=dask)
        elif bag.folds != folds.count:
            got, hint = f"folds={bag.folds} and folds={folds.count}", "set the same folds"
            raise check.error("bags of a blend must have its folds", got=got, hint=hint)
        own = folds.seed if bag.fold_seed is None else bag.fold_seed
        members.append(bag.set_params(repeats=folds.repeats, fold_seed=own))
    return members


def trained(members: Sequence[Any], data: RankingDataset, folds: Folds, settings: TrainingSettings) -> list[Any]:
    """Train members; those that are finished in the folder ``checkpoint`` are read from there."""
    resume = settings.resume
    if data.propensities is not None and any(getattr(member, "debias", False) for member in members):
        hint = "train members without debias, or on judged documents"
        raise check.error("weights of a blend are not chosen on clicks", got="a ranker with debias=True", hint=hint)
    folder = checkpoint_folder(settings.checkpoint, resume=resume)
    finished = None
    if folder is not None:
        identity: Json = {
            "members": [member_description(member, FREE) for member in members],
            "data": fingerprint(data),
        }
        if code := {name: digest for member in members for name, digest in code_of(member).items()}:
            identity["code"] = code
        same = "rankers, settings and data"
        finished = Workspace(folder, identity, what="blend", same=same).open(resume=resume)
    models: list[Any] = []
    for number, member in enumerate(members, 1):
        name, model = f"member-{number}", None
        if isinstance(member, FeatureRanker):
            models.append(member.cross_fit(data, folds.of(data)))
            continue
        if finished is not None:
            model = table.load(finished.part(name)) if finished.part(name).exists() else None
            member.set_params(checkpoint=finished.part(f"{name}-checkpoint"))
        if model is None:
            model = member
            with interruption_unannounced():
                model.fit(data, resume=resume and model.checkpoint is not None, callback=settings.callback)
            if model.stopped_ == "interrupted":  # an incomplete member would get a weight that is not its own
                resumable = "" if finished is None else f"; {finished.path} can be resumed"
                raise KeyboardInterrupt(
                    f"interrupted in member {number} of {len(members)}, {_title(member)}{resumable}"
                )
            if finished is not None:
                model.save(finished.part(name))
        models.append(model)
    return models


def shared_folds(rankers: Sequence[Any], data: RankingDataset) -> Folds | None:
    """Return the folds of the first of trained bags, None of features alone; numbers and data must be the same.

    Their seeds may differ: a score is of members that have not seen the query, whatever the division.
    """
    shared: Folds | None = None
    for one in rankers:
        if not isinstance(one, Ranker):
            continue
        if not isinstance(one, bagged):
            what, hint = "only trained bags are blended without training", "pass rw.bagged(ranker, …).fit(…)"
            raise check.error(what, got=type(one).__name__, hint=hint)
        held_out, folds = out_of_fold_of(one), Folds(one.folds, one.repeats, one.seed_of_folds)
        shared = shared or folds
        if (folds.count, folds.repeats) != (shared.count, shared.repeats):
            got = " and ".join(f"folds={it.count}, repeats={it.repeats}" for it in (folds, shared))
            hint = "train them with the same folds and repeats"
            raise check.error("bags of a blend must have as many folds", got=got, hint=hint)
        if not held_out.covers(data):
            got = f"{held_out.scores.size} out-of-fold scores for {data.n_docs} documents, or other queries"
            hint = "pass the training and validation data that the bags were trained on"
            raise check.error("a bag was trained on other data", got=got, hint=hint)
    return shared
