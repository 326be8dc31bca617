"""Matrix factorization: a vector for every user and every item, trained with any ranking objective."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Never, Self

import numpy as np

from rankwise import Objective, RankingDataset, Stream, check, moved
from rankwise.base.arrays import Array, Column, Floats, Ids, Keywords
from rankwise.base.threads import openmp
from rankwise.check.docstrings import documented
from rankwise.check.parameters import Above, AtLeast, OneOf, Option, Search, assign
from rankwise.rankers import TorchRanker, fit_arguments, reject, table
from rankwise.rankers.training import History, TrainingData, TrainingSettings, measures_of, objective_of
from rankwise.rankers.training import parameters as training
from rankwise.wings.recommend.base import RecommenderMixin, UnknownVector, by_ids
from rankwise.wings.recommend.data.interactions import Interactions
from rankwise.wings.recommend.factorization import lists as sources
from rankwise.wings.recommend.factors import TrainedFactors, fold_in
from rankwise.wings.recommend.model import Liked

if TYPE_CHECKING:
    from pathlib import Path

    from rankwise.rankers import BatchPart, NetLearner

FULL_CATALOGUE: Final[Keywords] = {
    "objective": "weighted(softmax_ce, by=relevant, power=0.5)",
    "factors": 64,
    "initial": 0.1,
    "learning_rate": 0.03,
    "regularization": 0.6,
    "batch_users": 128,
    "negatives": "all",
    "epochs": 30,
    "patience": None,
}
"""Settings that find a few items among all: every item that is not relevant counts, and vectors are regularised.

Chosen on validation data of MovieLens latest-small, on splits with three seeds: see ``docs/benchmarks/recommend.md``.
Without regularization a vector for each of a few hundred users fits them by heart. The square root of how many items a
user likes, as the weight of the user, lies between all users counting alike and all their items doing so.
"""


@documented
class FactorizationRanker(RecommenderMixin, TorchRanker):
    """A vector for every user and every item: the score of an item for a user is the product of their vectors.

    Trained on :class:`rankwise.recommend.Interactions`, or on a RankingDataset whose query ids are users and whose
    document ids are items (its features are not looked at). A user is a query: every objective works as it does
    elsewhere.

    >>> import polars as pl, rankwise as rw
    >>> pairs = [(user, item) for user in range(12) for item in range(20) if (user + item) % 2 == 0]
    >>> frame = pl.DataFrame(pairs, schema=["user", "item"], orient="row")
    >>> train, test = rw.recommend.Interactions.from_frame(frame, rating=None).split((0.8, 0.2), seed=1)
    >>> ranker = rw.recommend.FactorizationRanker("softmax_ce", factors=4, epochs=60, threads=1, device="cpu")
    >>> ranker = ranker.fit(train)
    >>> ranker.recommend([3], cutoff=2).columns
    ['user', 'rank', 'item', 'score']
    >>> set(ranker.recommend([3], cutoff=2)["item"] % 2)  # users of odd numbers like items of odd numbers
    {1}
    """

    name, extra = "factorization", "recommend"
    debias = False
    model_kind = TrainedFactors
    model_: TrainedFactors
    """The vectors, and what is needed to recommend with them: ``model_.user_vectors``, ``model_.item_vectors``."""

    def __init__(
        self,
        objective: training.Objective = "softmax_ce",
        *,
        factors: Annotated[
            int,
            AtLeast(1),
            "Length of the vectors.",
            Option(metavar="N", group="Training"),
            Search("choice(16, 32, 64, 128, start=32)", place=2),
        ] = 32,
        item_bias: Annotated[
            bool,
            "Whether every item has a number of its own beside its vector. (A user's own would change no ranking.)",
            Search("choice(False, True, start=False)"),
        ] = False,
        initial: Annotated[
            float,
            Above(0),
            "First vectors are uniform in (−initial, initial), drawn by the ids of users and items.",
        ] = 0.01,
        optimizer: Annotated[
            str,
            OneOf(("adam", "sparse_adam", "sgd")),
            """``"adam"`` steps all vectors in every batch, as torch does unless told otherwise: those of users and
            items that are not in the batch move on by their momentum. ``"sparse_adam"`` steps those of the batch only,
            which is another method, and faster where there are many more items than a batch holds. ``"sgd"`` steps down
            the gradient itself, which is small while vectors are: it wants rates in the tens or hundreds.""",
        ] = "adam",
        learning_rate: Annotated[
            training.LearningRate, "Learning rate of the optimizer.", Search("log(1e-3, 1e-1, start=1e-2)", place=1)
        ] = 0.01,
        weight_decay: Annotated[
            float,
            AtLeast(0),
            """Weight decay of the optimizer: times the vectors, added to their gradient. Not for ``"sparse_adam"``.""",
            Search("log(1e-7, 1e-2, start=1e-7)", place=3),
        ] = 0.0,
        regularization: Annotated[
            float,
            AtLeast(0),
            """Weight λ: what is minimised is the sum of all users' losses plus λ (Σ‖u‖² + Σ‖v‖²), as in ALS. The same
            as a ``weight_decay`` of 2λ over the number of users.""",
        ] = 0.0,
        batch_users: Annotated[
            int, AtLeast(1), "Number of users of a batch.", Search("choice(16, 32, 64, 128, start=32)")
        ] = 32,
        negatives: Annotated[
            int | str,
            """Number of items that are drawn for each relevant one of interactions; or ``"all"``: every other item of
            the catalogue is on every user's list, as in ALS and EASE. That is trained on the CPU, a batch of users
            times all items at once.""",
        ] = 1,
        resample: Annotated[bool, "Whether they are drawn anew in every epoch."] = False,
        graded: Annotated[bool, "Whether ratings of relevant items are their labels, instead of 1."] = False,
        unknown: UnknownVector = "error",
        epochs: training.Epochs = 100,
        seed: Annotated[
            training.Seed, "First vectors, negatives, the order of users and the objective are drawn by it."
        ] = 0,
        threads: training.Threads = None,
        patience: training.Patience = 20,
        min_rounds: training.MinRounds = 0,
        smoothing: training.Smoothing = 1,
        stop_on: training.StopOn = "first",
        metrics: training.Metrics = ("ndcg@10",),
        checkpoint: training.Checkpoint = None,
        checkpoint_every: training.CheckpointEvery = 10,
        progress: training.Progress = None,
        device: training.Device = "auto",
        **others: Any,
    ) -> None:
        assign(self, locals())
        self._check_native(others)

    @classmethod
    def full_catalogue(cls, **changes: Any) -> Self:
        """Return a ranker with settings that find a few items among all: see ``FULL_CATALOGUE``.

        >>> FactorizationRanker.full_catalogue(factors=32).negatives
        'all'
        """
        return cls(**FULL_CATALOGUE | changes)

    def fit(  # type: ignore[override]
        self,
        train: object,
        valid: object = None,
        *,
        init_model: "FactorizationRanker | str | Path | None" = None,
        resume: bool = False,
        eval_sets: Mapping[str, Any] | None = None,
        callback: Callable[[int, History], None] | None = None,
        **others: Never,
    ) -> Self:
        """Train on interactions, or on a RankingDataset with ids of users and items.

        ``valid`` is either, too; negatives for interactions are drawn as for training, once, with ``"all"`` every item
        of the part's share. So ``history_`` is measured over these items, and is higher than what
        :func:`rankwise.recommend.evaluate_interactions` finds among the full catalogue. With ``init_model``, a trained
        ranker or its folder, users and items that it knows start from its vectors. ``resume`` resumes from the
        checkpoint if there is one, and ends in the same model as a run that was never interrupted. Ctrl-C ends training
        and keeps the best model so far. ``eval_sets`` names data on which the metrics are measured after every epoch,
        beside the validation data: with ``eval_sets={"train": train}`` there is ``history_["train ndcg@10"]``.
        ``callback`` is called after every epoch with its number and the history so far.
        """
        eval_sets, callback = moved.taken("rw.recommend.FactorizationRanker.fit", others, eval_sets, callback)
        reject(self, "fit", others)
        if getattr(train, "document_weights", None) is not None:
            hint = "drop them: data.with_(document_weights=None); `pass weights=…` for weights of users"
            raise check.error("FactorizationRanker weighs no documents", got="document_weights", hint=hint)
        if isinstance(train, RankingDataset):
            fit_arguments.reject_start(train, self)
        drawn: Keywords = {"negatives": self.negatives, "graded": self.graded, "seed": self.seed}
        source = sources.source(train, resample=self.resample, **drawn)

        def lists(data: object) -> RankingDataset:
            return by_ids(data.dataset(**drawn) if isinstance(data, Interactions) else data, type(self).__name__)

        data = sources.ListsData(
            train=source.train,
            valid=None if valid is None else lists(valid),
            eval_sets=measures_of(eval_sets or {}, lists, self, debias=False),
            older=None if init_model is None else self.older(init_model),
            digest=source.digest(),
            lists=source,
        )
        self._train(data, TrainingSettings.of(self, resume=resume, callback=callback))
        return self

    def _of_history(self, users: Ids, liked: Liked) -> dict[str, Column]:
        """Train the vectors of the users alone, on the whole catalogue: items keep theirs."""
        objective = objective_of(self)
        if objective.reads:
            got = f"{objective!r}, which reads {', '.join(objective.reads)}"
            raise check.error("a history has labels alone to learn from", got=got, hint="train with the new users")
        # What weighed against long vectors in training; else that the new ones are as long as those.
        strength = self.regularization + 0.5 * self.weight_decay * self.model_.users.size
        strength = strength or 0.5 / max(float(np.square(self.model_.user_vectors).mean()), 1e-12)
        return {"user_vectors": fold_in(self.model_, users, liked, objective, strength, self.seed)}

    def learner(self, data: TrainingData, settings: TrainingSettings) -> "NetLearner":
        """Return what trains the vectors, on lists of items by user."""
        table.installed(self.name)
        import torch

        from rankwise.base.device import to_device
        from rankwise.models import MODEL, one_thread, usable_device
        from rankwise.rankers import Batching, NetLearner
        from rankwise.wings.recommend.factorization.net import CatalogueLoss, FactorNet, factor_arrays, factor_weights

        openmp(one_thread)
        seed, objective = settings.seed, settings.objective or objective_of(self)
        source = data.lists if isinstance(data, sources.ListsData) else sources.source(data.train)
        together = ("optimizer", ("adam",)), ("device", ("auto", "cpu")), ("resample", (False,))
        for what, possible in together if source.catalogue else ():
            if (value := getattr(self, what)) not in possible:
                hint = f"`set {what}={possible[-1]!r}`, or draw some: `negatives=20`"
                raise check.error(f"negatives='all' does not go with this {what}", got=repr(value), hint=hint)
        device = torch.device("cpu") if source.catalogue else usable_device(self.device)
        net = FactorNet(*self._first(source, objective, seed, data.older), sparse=self.optimizer == "sparse_adam")
        net.to(device)
        model = source.factors(*net.vectors())

        def scorer(data: RankingDataset) -> Callable[[], Array]:
            users = model.warm(model.user_numbers(np.asarray(data.query_ids), self.unknown))
            items = model.item_numbers(np.asarray(data.document_ids), self.unknown)
            return lambda: source.factors(*net.vectors()).score_lists(users, items, data.offsets, self.unknown)

        def inputs(part: "BatchPart") -> "tuple[torch.Tensor, ...]":
            numbers = (source.users[part.queries], source.items[part.rows], np.diff(part.offsets))
            return tuple(to_device(number, device) for number in numbers[: 1 if source.catalogue else 3])

        learner = NetLearner(
            objective=objective,
            train=source.train,
            documents=settings.columns(data),
            seed=seed,
            module=net,
            inputs=inputs,
            forward=net.catalogue if source.catalogue else None,
            losses=(lambda _: CatalogueLoss(objective, source)) if source.catalogue else None,
            held_out=[scorer(part) for part in data.held_out],
            optimizer=self._optimizer(source),
            batching=Batching(self.batch_users),
            made=lambda epochs: source.factors(*net.vectors(), epochs),
            pack=lambda weights: source.factors(*factor_arrays(weights)).files()[MODEL],
            unpack=lambda file: factor_weights(model.from_files(model.description(), {MODEL: file}, model.schema)),
            device=device,
            data=None if source.redraw is None else source.epoch,
        )
        if self.optimizer == "sparse_adam" and not learner.processes.alone:
            raise check.error("sparse_adam trains in a single process", hint="use adam under torchrun")
        return learner

    def _first(
        self, source: sources.TrainingLists, objective: Objective, seed: int, older: "FactorizationRanker | None"
    ) -> tuple[Floats, Floats, Floats]:
        """Return the first vectors, which depend on the seed and on the id of the user or item alone, and biases.

        Users without a list to learn from have zeros, which no step changes: they are scored by popularity. Users and
        items of an older model have its vectors.
        """
        factors, initial = int(self.factors), float(self.initial)
        vectors = []
        for kind, ids in enumerate((source.user_ids, source.item_ids)):
            draws = Stream(seed, query_ids=ids).child("initial", kind).per_query(ids.size, factors)
            vectors.append(((2.0 * draws - 1.0) * initial).astype(np.float32))
        vectors[0][~source.taught(objective, seed)] = 0.0
        bias = np.zeros(source.item_ids.size if self.item_bias else 0, np.float32)
        arrays = vectors[0], vectors[1], bias
        if older is None:
            return arrays
        model = older.model_
        if model.user_vectors.shape[1] != factors or bool(model.item_bias.size) != self.item_bias:
            got = f"{model.user_vectors.shape[1]} factors {'with' if model.item_bias.size else 'without'} item_bias"
            raise check.error("init_model must have the same factors and biases", got=got)
        users, items = (source.user_ids, model.users), (source.item_ids, model.items)
        before = (model.user_vectors, model.item_vectors, model.item_bias)
        for new, old, (ids, older_ids) in zip(arrays, before, (users, items, items), strict=True):
            if new.size:
                _, rows, older_rows = np.intersect1d(ids, older_ids, assume_unique=True, return_indices=True)
                new[rows] = old[older_rows]
        return arrays

    def _optimizer(self, source: sources.TrainingLists) -> Any:
        """Return the function from parameters to their optimizer, whose decay is that of the mean loss."""
        import torch

        weights = source.train.weights
        users = source.train.n_queries if weights is None else float(weights.sum())
        decay, rate = self.weight_decay + 2.0 * self.regularization / users, float(self.learning_rate)
        if self.optimizer == "sgd":
            return lambda parameters: torch.optim.SGD(parameters, lr=rate, weight_decay=decay)
        if self.optimizer == "adam":
            return lambda parameters: torch.optim.Adam(parameters, lr=rate, weight_decay=decay, fused=True)
        if decay:
            raise check.error("sparse_adam has no weight decay", got=f"weight_decay={decay:g}", hint="use adam")
        return lambda parameters: torch.optim.SparseAdam(list(parameters), lr=rate)
