"""Matrix factorization: a vector for every user and every item, trained with any ranking objective."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, Self

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.arrays import Array, Floats, row_blocks
from rankwise.data.dataset import RankingDataset
from rankwise.data.interactions.lists import Interactions
from rankwise.metrics.base import Metric
from rankwise.objectives.table import ObjectiveLike
from rankwise.plain import Json, Keywords
from rankwise.rankers.contributions import Contributions
from rankwise.rankers.factorization import lists as sources
from rankwise.rankers.factorization.factors import BLOCK, UNKNOWN, Factors, best
from rankwise.rankers.nets.base import MODEL, TorchRanker
from rankwise.rankers.training.loop import History, State
from rankwise.stream import Stream

if TYPE_CHECKING:
    import polars as pl
    import torch

    from rankwise.rankers.nets.learner import NetLearner
    from rankwise.rankers.nets.weights import Weights

_OPTIMIZERS = ("adam", "sparse_adam")


class FactorizationRanker(TorchRanker):
    """A vector for every user and every item: the score of an item for a user is the product of their vectors.

    Trained on :class:`rankwise.Interactions`, or on a RankingDataset whose query ids are users and whose document ids
    are items (its features are not looked at). A user is a query: every objective works as it does elsewhere.

    Args:
        objective: An objective, its text (``"bounded(approx_ndcg)"``), or anything that can be called like one.
        factors: The length of the vectors.
        item_bias: Give every item a number of its own beside its vector. (A user's own would change no ranking.)
        initial: First vectors are uniform in (−initial, initial), drawn by the ids of users and items.
        optimizer: ``"adam"`` steps all vectors in every batch, as torch does unless told otherwise: those of users and
            items that are not in the batch move on by their momentum. ``"sparse_adam"`` steps those of the batch only,
            which is another method, and faster where there are many more items than a batch holds.
        learning_rate: Of the optimizer.
        weight_decay: Of the optimizer: times the vectors, added to their gradient. Not for ``"sparse_adam"``.
        batch_users: How many users a batch holds.
        negatives: On interactions: how many items that are not relevant are drawn for each one that is.
        resample: On interactions: draw them anew in every epoch.
        graded: On interactions: the ratings of relevant items are their labels, instead of 1.
        unknown: A user or item that was not there in training: ``"error"``; ``"mean"``, the mean vector stands for it;
            or ``"popular"``, items are ordered for a new user by how many users they were relevant for, and the mean
            vector stands for a new item.
        epochs: How many times training goes through the users at most.
        seed: Of every draw: the first vectors, negatives, the order of users, the objective.
        threads: How many threads; by default ``RANKWISE_THREADS`` or every core.
        patience: With validation data, training stops after so many epochs without a better first metric, and the best
            vectors are kept; None trains all epochs (and still keeps the best).
        smoothing: Compare epochs by the mean of the metric over so many of them in a row, each with those before it; 1
            compares single epochs, which are noise where validation data are few.
        stop_on: What epochs are compared by: the ``"first"`` metric, or the ``"mean"`` of all.
        metrics: What is measured on the validation data after every epoch.
        checkpoint: A folder, written every ``checkpoint_every`` epochs, from which ``fit(…, resume=True)`` resumes.
        checkpoint_every: How many epochs lie between checkpoints.
        progress: A bar with the time left and the metric: True, False, or None, on terminals only.
        device: ``"auto"`` (a GPU if there is one), ``"cpu"``, ``"cuda"``, or any name that torch knows.

    >>> import polars as pl, rankwise as rw
    >>> pairs = [(user, item) for user in range(12) for item in range(20) if (user + item) % 2 == 0]
    >>> frame = pl.DataFrame(pairs, schema=["user", "item"], orient="row")
    >>> train, test = rw.Interactions.from_frame(frame, rating=None).split((0.8, 0.2), seed=1)
    >>> ranker = rw.FactorizationRanker("softmax_ce", factors=4, epochs=60, threads=1, device="cpu").fit(train)
    >>> ranker.recommend([3], k=2).columns
    ['user', 'rank', 'item', 'score']
    >>> set(ranker.recommend([3], k=2)["item"] % 2)  # users of odd numbers like items of odd numbers
    {1}
    """

    name = "factorization"
    debias = False
    model_: Factors
    """The vectors, and what is needed to recommend with them: ``model_.user_vectors``, ``model_.item_vectors``."""

    def __init__(
        self,
        objective: ObjectiveLike = "softmax_ce",
        *,
        factors: int = 32,
        item_bias: bool = False,
        initial: float = 0.01,
        optimizer: str = "adam",
        learning_rate: float = 0.01,
        weight_decay: float = 0.0,
        batch_users: int = 32,
        negatives: int = 1,
        resample: bool = False,
        graded: bool = False,
        unknown: str = "error",
        epochs: int = 100,
        seed: int = 0,
        threads: int | None = None,
        patience: int | None = 20,
        smoothing: int = 1,
        stop_on: str = "first",
        metrics: str | Metric | Sequence[str | Metric] = ("ndcg@10",),
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 10,
        progress: bool | None = None,
        device: str = "auto",
        **unheard: Any,
    ) -> None:
        self.objective = objective
        self.factors = factors
        self.item_bias = item_bias
        self.initial = initial
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_users = batch_users
        self.negatives = negatives
        self.resample = resample
        self.graded = graded
        self.unknown = unknown
        self.epochs = epochs
        self.seed = seed
        self.threads = threads
        self.patience = patience
        self.smoothing = smoothing
        self.stop_on = stop_on
        self.metrics = metrics
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.progress = progress
        self.device = device
        self.native = {}
        self._check_native(unheard)

    def fit(  # type: ignore[override]
        self,
        train: object,
        valid: object = None,
        *,
        init_model: "FactorizationRanker | str | Path | None" = None,
        resume: bool = False,
        watch: Callable[[int, History], None] | None = None,
        **others: Never,
    ) -> Self:
        """Train on interactions, or on a RankingDataset with ids of users and items.

        ``valid`` is either, too; negatives for interactions are drawn as for training, once. With ``init_model``, a
        trained ranker or its folder, users and items that it knows start from its vectors. ``resume`` resumes from the
        checkpoint if there is one, and ends in the same model as a run that was never interrupted. Ctrl-C ends training
        and keeps the best model so far. ``watch`` is called after every epoch with its number and the history so far.
        """
        self._refuse("fit", others)
        drawn: Keywords = {"negatives": self.negatives, "graded": self.graded, "seed": self.seed}
        source = sources.source(train, resample=self.resample, **drawn)
        if isinstance(valid, Interactions):
            valid = valid.dataset(**drawn)
        held_out = None if valid is None else sources.by_ids(valid)
        older = None if init_model is None else self._older(init_model)
        return self._train(
            source.train,
            held_out,
            learner=lambda: self._learner_of(source, held_out, older),
            older=older,
            resume=resume,
            watch=watch,
            digest=source.digest(),
        )

    def predict(self, data: object, **others: Never) -> Array:
        """Give one score per item of every user's list, the higher the better; scores compare within a user."""
        self._refuse("predict", others)
        self._check_fitted()
        score = self._scorer(self.model_, sources.by_ids(data))
        with self._own_threads():
            return score(self.model_)

    def matrix(self, users: ArrayLike, items: ArrayLike | None = None) -> Array:
        """Scores of these users (rows) by these items (columns), by default the whole catalogue."""
        self._check_fitted()
        model = self.model_
        rows = model.user_numbers(users, self.unknown)
        columns = np.arange(model.items.size) if items is None else model.item_numbers(items, self.unknown)
        return model.matrix(rows, columns, self.unknown)

    def recommend(self, users: ArrayLike | None = None, k: int = 10, *, exclude_seen: bool = True) -> "pl.DataFrame":
        """Give the best ``k`` items of each user, best first: a table with the columns user, rank, item and score.

        ``users`` are ids, by default all that training had. With ``exclude_seen`` items that a user rated in the
        training data (of a RankingDataset: that were relevant) are left out; a user who knows nearly all gets fewer.
        """
        import polars as pl

        self._check_fitted()
        k, model = check.integer("k", k, least=1), self.model_
        ids = model.users if users is None else np.atleast_1d(np.asarray(users))
        everything = np.arange(model.items.size)
        found: list[tuple[Any, ...]] = []
        with self._own_threads():
            numbers = model.user_numbers(ids, self.unknown)
            for block in row_blocks(numbers.size, model.items.size, BLOCK):
                scores = model.matrix(numbers[block], everything, self.unknown)
                if exclude_seen:
                    model.hide_seen(numbers[block], scores)
                found.append(best(scores, k))
        counts, ranks, items, values = (np.concatenate(column) for column in zip(*found, strict=True))
        table = {"user": np.repeat(ids, counts), "rank": ranks, "item": model.items[items], "score": values}
        return pl.DataFrame(table)

    def similar_items(self, items: ArrayLike, k: int = 10) -> "pl.DataFrame":
        """Give the ``k`` items that are most like each of these, by the cosine of their vectors.

        A table with the columns item, rank, similar and cosine.
        """
        import polars as pl

        self._check_fitted()
        k, model = check.integer("k", k, least=1), self.model_
        ids = np.atleast_1d(np.asarray(items))
        numbers = model.item_numbers(ids, "error")
        vectors = model.item_vectors / np.maximum(np.linalg.norm(model.item_vectors, axis=1, keepdims=True), 1e-30)
        cosines = (vectors[numbers] @ vectors.T).astype(np.float64)
        cosines[np.arange(numbers.size), numbers] = -np.inf
        counts, ranks, found, values = best(cosines, k)
        table = {"item": np.repeat(ids, counts), "rank": ranks, "similar": model.items[found], "cosine": values}
        return pl.DataFrame(table)

    def contributions(self, data: object) -> Contributions:
        """Refuse: single factors mean nothing, since any rotation of all vectors gives the same scores."""
        raise check.error(
            "a factorization has no features to explain scores by, and its factors mean nothing one by one",
            hint="look at similar_items, or at model_.item_vectors as a whole",
        )

    def _scorer(self, model: Factors, data: RankingDataset) -> Callable[[Factors], Array]:
        """Find the users and items of lists; gives what scores them with these or with later vectors."""
        users = model.user_numbers(np.asarray(data.query_ids), self.unknown)
        items = model.item_numbers(np.asarray(data.document_ids), self.unknown)
        return lambda vectors: vectors.score(users, items, data.offsets, self.unknown)

    def _learner(
        self, train: RankingDataset, valid: RankingDataset | None, older: "FactorizationRanker | None"
    ) -> "NetLearner":
        source = sources.source(train, negatives=0, resample=False, graded=False, seed=self.seed)
        return self._learner_of(source, valid, older)

    def _learner_of(
        self, source: sources.Source, valid: RankingDataset | None, older: "FactorizationRanker | None"
    ) -> "NetLearner":
        check.extra("torch", "torch")  # noqa: S610
        check.extra("safetensors", "torch")  # noqa: S610
        import torch

        from rankwise.rankers.factorization.net import factor_arrays, factor_weights
        from rankwise.rankers.nets.batches import Batching, Part
        from rankwise.rankers.nets.learner import NetLearner

        device, seed = self._device(), check.integer("seed", self.seed, least=0)
        check.choice("way to treat unknown users and items", self.unknown, UNKNOWN)
        net = self._net(source, seed)
        if older is not None:
            self._continue(net, source, older.model_)
        net.to(device)
        score = self._scorer(source.factors(*net.vectors()), valid or source.train)

        def inputs(part: Part) -> "tuple[torch.Tensor, ...]":
            numbers = (source.users[part.queries], source.items[part.rows], np.diff(part.offsets))
            return tuple(torch.from_numpy(one).to(device) for one in numbers)

        def unpack(content: bytes) -> "Weights":
            model = Factors.read(content)
            return factor_weights(model.user_vectors, model.item_vectors, model.item_bias)

        learner = NetLearner(
            objective=self._objective(),
            train=source.train,
            documents={},
            seed=seed,
            module=net,
            inputs=inputs,
            score=lambda: score(source.factors(*net.vectors())),
            optimizer=self._stepper(),
            batching=Batching(check.integer("batch_users", self.batch_users, least=1)),
            made=lambda: source.factors(*net.vectors()),
            pack=lambda weights: source.factors(*factor_arrays(weights)).content(),
            unpack=unpack,
            device=device,
            data=None if source.redraw is None else source.epoch,
        )
        if self.optimizer == "sparse_adam" and not learner.processes.alone:
            raise check.error("sparse_adam trains in a single process", hint="use adam under torchrun")
        return learner

    def _net(self, source: sources.Source, seed: int) -> Any:
        """The first vectors: they depend on the seed and on the id of the user or item alone."""
        from rankwise.rankers.factorization.net import FactorNet

        factors = check.integer("factors", self.factors, least=1)
        initial = check.number("initial", self.initial, least=0.0, open_ends=True)
        vectors = []
        for kind, ids in enumerate((source.user_ids, source.item_ids)):
            draws = Stream(seed, query_ids=ids).child("initial", kind).per_query(ids.size, factors)
            vectors.append(((2.0 * draws - 1.0) * initial).astype(np.float32))
        return FactorNet(*vectors, item_bias=self.item_bias, sparse=self.optimizer == "sparse_adam")

    def _stepper(self) -> Any:
        import torch

        rate = check.number("learning_rate", self.learning_rate, least=0.0, open_ends=True)
        decay = check.number("weight_decay", self.weight_decay, least=0.0)
        if check.choice("optimizer", self.optimizer, _OPTIMIZERS) == "adam":
            return lambda parameters: torch.optim.Adam(parameters, lr=rate, weight_decay=decay, fused=True)
        if decay:
            raise check.error("sparse_adam has no weight decay", got=f"weight_decay={decay:g}", hint="use adam")
        return lambda parameters: torch.optim.SparseAdam(list(parameters), lr=rate)

    def _continue(self, net: Any, source: sources.Source, older: Factors) -> None:
        """Start from the vectors of an older model, where it knows the user or item."""
        from rankwise.rankers.factorization.net import factor_weights

        if older.user_vectors.shape[1] != self.factors or bool(older.item_bias.size) != self.item_bias:
            got = f"{older.user_vectors.shape[1]} factors {'with' if older.item_bias.size else 'without'} item_bias"
            raise check.error("init_model must have the same factors and biases", got=got)
        arrays = net.vectors()
        users, items = (source.user_ids, older.users), (source.item_ids, older.items)
        old = (older.user_vectors, older.item_vectors, older.item_bias)
        for ours, before, (ids, known) in zip(arrays, old, (users, items, items), strict=True):
            if ours.size:
                _, here, there = np.intersect1d(ids, known, assume_unique=True, return_indices=True)
                ours[here] = before[there]
        net.load_state_dict(factor_weights(*arrays))

    def _keep(self, model: Factors, state: State) -> None:
        self.model_ = model
        self.epochs_ = state.before + state.best

    def _made_of(self, rounds: int) -> Json:
        import torch

        return {"epochs": rounds, "versions": {"torch": torch.__version__}}

    def _files(self) -> dict[str, bytes]:
        return {MODEL: self.model_.content()}

    def _restore(self, description: Json, files: dict[str, bytes]) -> None:
        self.model_ = Factors.read(files[MODEL])
        self.epochs_ = int(description["epochs"])

    def _score(self, features: Floats) -> Array:
        raise check.error("FactorizationRanker scores ids of users and items, and no features")
