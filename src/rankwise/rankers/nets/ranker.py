"""Nets: a multilayer perceptron, trained with any objective."""

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rankwise import check
from rankwise.arrays import Array, Floats, Json, Keywords, Offsets
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import MetricLike
from rankwise.models.contributions import Contributions
from rankwise.models.schema import Documents
from rankwise.objectives.table import ObjectiveLike
from rankwise.rankers import table
from rankwise.rankers.nets import presets
from rankwise.rankers.table import Recipe
from rankwise.rankers.training import stopping
from rankwise.rankers.training.iterative import IterativeRanker
from rankwise.rankers.training.loop import State
from rankwise.stream import Stream
from rankwise.threads import openmp

if TYPE_CHECKING:
    import torch

    from rankwise.rankers.nets.learner import NetLearner
    from rankwise.rankers.nets.mlp import Perceptron

_RECIPE: Keywords = {"epochs": 100, "smoothing": 3}
MODEL = "model.safetensors"


class TorchRanker(IterativeRanker):
    """A ranker whose rounds are epochs of torch; a subclass has the parameters ``epochs`` and ``device``."""

    unit = "epochs"
    extra, modules, packages = "torch", ("torch", "safetensors"), ("torch",)
    first_round_pace = 10.0
    device: str
    epochs_: int
    """The number of epochs in the model, those of ``init_model`` included."""

    def _device(self) -> "torch.device":
        from rankwise.rankers.nets.processes import usable_device

        return usable_device(self.device)

    def _description(self) -> Json:
        return super()._description() | self._made_of(self.epochs_)

    def _rounds(self) -> int:
        return self.epochs_


class NeuralRanker(TorchRanker):
    """A multilayer perceptron, trained with any objective on batches of whole queries, which are never padded.

    A preset fills whatever is not given: the papers' settings, most under their years, or ``"linear"``. Without
    one there are two layers, 128-64, on quantiles of features, dropout of three tenths, Adam, and an average of the
    weights.

    Args:
        objective: An objective, its expression (``"stochastic(approx_ndcg)"``), or a function that is called like one.
        preset: ``"2020"``, ``"2020-yahoo"``, ``"2020-tuned"``, ``"thesis"``, ``"2024"``, ``"tabm"`` or
            ``"linear"``.
        hidden: Sizes of the hidden layers, ``(64, 32)`` or ``"64-32"``; ``()`` is a linear model.
        activation: ``"relu"``, ``"gelu"``, ``"silu"``, ``"elu"``, ``"tanh"`` or ``"sigmoid"``.
        batch_norm: Batch normalization over ``"hidden"`` layers, the ``"input"``, ``"all"`` (or True) or ``"off"``.
        batch_norm_momentum: How much of a running mean each batch replaces: torch's convention. TensorFlow's momentum
            is one minus it.
        dropout: The share of each hidden layer's outputs that is dropped, as in torch; a keep rate is one minus it.
        optimizer: ``"adam"``, ``"adamw"``, ``"adagrad"`` or ``"sgd"``.
        learning_rate: Of the optimizer.
        weight_decay: Of the optimizer.
        batch_queries: How many queries a batch holds.
        batch_documents: A budget of documents for a batch, instead: as many whole queries as fit.
        reduction: The loss of a batch, the ``"mean"`` over its queries or their ``"sum"``, each by its weight.
        transform: Of features: ``"standardize"``, ``"log1p"`` for long tails, both (``"log1p+standardize"``),
            ``"quantile"`` (normal, by rank) or ``"raw"``; ``"quantile+query"`` and the like append every feature
            standardised within its query. It is fitted on training data and saved with the model.
            Missing values (NaN) become the mean.
        feature_noise: The deviation of Gaussian noise that is added to transformed features while training.
        averaging: Score with an average of the weights over steps, in which each counts so much of what the one after
            it does: 0.99 is about the last hundred steps; 0 takes the last weights.
        members: How many nets are trained together that share the matrices of layers and differ by vectors (TabM), each
            with a loss of its own; their scores are averaged.
        attention: How many heads of self-attention among the documents of a query look at the first hidden layer; 0 is
            none. Such nets, and those of ``transform="…+query"``, score whole lists: see :meth:`predict`.
        epochs: How many times training goes through the data at most.
        seed: Of every draw: the first weights, the order of queries, dropout, the objective. Models repeat exactly on a
            CPU for the same number of threads.
        threads, patience, smoothing, stop_on, metrics, debias, constraints, checkpoint, checkpoint_every, progress: As
            those of :class:`TreeRanker`, with epochs for rounds.
        device: ``"auto"`` (a GPU if there is one), ``"cpu"``, ``"cuda"``, or any name that torch knows.
        precision: Of products while training: ``"float32"``, ``"tf32"`` (on GPUs), or ``"bf16"``, mixed precision.

    >>> import rankwise as rw
    >>> train, valid = rw.split(rw.synthetic(n_queries=80, n_docs=20, seed=1), (0.7, 0.3), seed=1)
    >>> ranker = rw.NeuralRanker("softmax_ce", hidden=(16,), epochs=20, learning_rate=0.01, threads=1, device="cpu")
    >>> ranker = ranker.fit(train, valid)
    >>> ranker.history_["loss"][-1] < ranker.history_["loss"][0]
    True
    >>> ranker.score(valid) == max(ranker.history_["ndcg@10"])
    True
    """

    name = "neural"
    search_space: ClassVar[Keywords] = {
        "learning_rate": "log(1e-4, 3e-2, start=1e-3)",
        "hidden": "choice('64', '128-64', '256-128-64', '512-256-128', '1024-512-256', start='128-64')",
        "dropout": "uniform(0.0, 0.6, start=0.3)",
        "batch_norm": "choice('off', 'hidden', 'all', start='off')",
        "weight_decay": "log(1e-7, 1e-2, start=1e-7)",
        "batch_queries": "choice(16, 32, 64, 128, start=32)",
        "optimizer": "adamw",
    }
    portfolio = (
        # Level with a bag of trees on MQ2008 and ahead on MQ2007 (docs/neural.md), unlike it in what it gets wrong.
        Recipe("lambdarank", _RECIPE | {"transform": "quantile+query"}, small=(1,), middle=(1,), large=(2,)),
        Recipe("softmax_ce", _RECIPE, small=(11,)),  # ahead of lambdarank on clicks and long lists
    )
    model_: "Perceptron"
    """The net, a ``torch.nn.Module`` from raw features to scores."""

    def __init__(
        self,
        objective: ObjectiveLike = "lambdarank",
        *,
        preset: str | None = None,
        hidden: int | str | Sequence[int] | None = None,
        activation: str | None = None,
        batch_norm: str | bool | None = None,
        batch_norm_momentum: float | None = None,
        dropout: float | None = None,
        optimizer: str | None = None,
        learning_rate: float | None = None,
        weight_decay: float | None = None,
        batch_queries: int | None = None,
        batch_documents: int | None = None,
        reduction: str | None = None,
        transform: str | None = None,
        feature_noise: float | None = None,
        averaging: float | None = None,
        members: int | None = None,
        attention: int | None = None,
        epochs: int = 100,
        seed: int = 0,
        threads: int | None = None,
        patience: int | None = 20,
        smoothing: int = 1,
        stop_on: str = "first",
        metrics: MetricLike | Sequence[MetricLike] = ("ndcg@10",),
        debias: bool = False,
        constraints: Mapping[str, float] | None = None,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 10,
        progress: bool | None = None,
        device: str = "auto",
        precision: str = "float32",
        **unknown: Any,
    ) -> None:
        self.objective = objective
        self.preset = preset
        self.hidden = hidden
        self.activation = activation
        self.batch_norm = batch_norm
        self.batch_norm_momentum = batch_norm_momentum
        self.dropout = dropout
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.batch_queries = batch_queries
        self.batch_documents = batch_documents
        self.reduction = reduction
        self.transform = transform
        self.feature_noise = feature_noise
        self.averaging = averaging
        self.members = members
        self.attention = attention
        self.epochs = epochs
        self.seed = seed
        self.threads = threads
        self.patience = patience
        self.smoothing = smoothing
        self.stop_on = stop_on
        self.metrics = metrics
        self.debias = debias
        self.constraints = constraints
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.progress = progress
        self.device = device
        self.precision = precision
        self.native = {}
        self._check_native(unknown)

    @property
    def settings(self) -> presets.NetSettings:
        """What the net is made of and trained with: what was given, else the preset's, else the defaults.

        >>> NeuralRanker(preset="2020-tuned", dropout=0.2).settings.hidden
        (1024, 512, 256)
        """
        return presets.settings(self.preset, self.get_params())

    def contributions(self, data: Documents) -> Contributions:
        """Return the integrated gradients of every document.

        The gradient is averaged over 64 points on the straight way, in transformed features, from the mean document of
        the training data to the document, and multiplied by how far they are apart: exact for linear models and close
        for others. What the 64 points leave over goes to the features in proportion to their contributions, so that
        rows add up to the scores; ``contributions(data).left`` says how much that is.
        """
        features = self._features(data)
        self._schema.reject_start("contributions")
        check.explainable(features)
        if self.needs_lists:
            raise check.error(
                "what a feature adds to the score of a document is not known of nets that look at whole lists",
                got=f"attention={self._trained_with.attention}, transform={self._trained_with.transform!r}",
                hint="explain a net with `attention=0` and a transform without query",
            )
        with self._ready():
            parts, left = self.model_.explain(features)
        return Contributions(
            parts=parts,
            left=left,
            method="integrated gradients over 64 points",
            start="score of the mean document",
            features=features,
            schema=self._schema,
        )

    def check_data(self, train: RankingDataset) -> None:
        """Raise an error about categories, which nets do not take."""
        if train.categorical:
            raise check.error(
                "NeuralRanker takes numbers, and no categories",
                got=f"{len(train.categorical)} categorical columns, the first number {train.categorical[0]}",
                hint="make a column of 0 and 1 for each category, or use a ranker of trees",
            )
        super().check_data(train)

    def _learner(
        self,
        train: RankingDataset,
        valid: RankingDataset | None,
        older: "NeuralRanker | None",
        measured: Sequence[RankingDataset] = (),
    ) -> "NetLearner":
        table.installed(self.name)
        from rankwise.rankers.nets.batches import Batching
        from rankwise.rankers.nets.capture import CapturedNet
        from rankwise.rankers.nets.inputs import Inputs
        from rankwise.rankers.nets.learner import NetLearner
        from rankwise.rankers.nets.mlp import optimizer
        from rankwise.rankers.nets.state import one_thread

        openmp(one_thread)
        settings, device, objective = self.settings, self._device(), self._objective()
        self.check_data(train)
        seed = check.integer("seed", self.seed, least=0)
        net = self._net(train.n_features, settings, seed, last_bias=not objective.shift_invariant)
        if not net.transform.fit(train.features):
            raise stopping.no_feature(train)
        if older is not None:
            _continue(net, older.model_)
        if start := self._start(train, objective, older):
            head: Any = net.body[-1]
            head.bias.data += start
        net.to(device)
        inputs, captured = Inputs(net, train), CapturedNet(net)
        precision = check.choice("precision", self.precision, presets.PRECISIONS)
        # In float32 batch norm over padded documents costs more than the launches that graphs save.
        graphs = device.type == "cuda" and (settings.batch_norm == "off" or precision != "float32")

        return NetLearner(
            objective=objective,
            train=train,
            documents=self._documents(train, objective, older),
            seed=seed,
            module=net,
            inputs=inputs.of,
            prefetch=inputs.prefetch,
            forward=captured if graphs else net.members_of,
            backward=captured.backward,
            held_out=[Inputs(net, data).scores for data in (valid, *measured) if data is not None],
            optimizer=optimizer(settings, device),
            batching=Batching(settings.batch_queries, self.batch_documents),
            made=lambda: net,
            reduction=settings.reduction,
            averaging=settings.averaging,
            device=device,
            precision=precision,
        )

    def _net(self, n_features: int, settings: presets.NetSettings, seed: int, *, last_bias: bool) -> "Perceptron":
        """Build the net; its first weights depend on the seed alone."""
        import torch

        from rankwise.rankers.nets.mlp import Perceptron
        from rankwise.rankers.nets.processes import seed_of
        from rankwise.rankers.nets.state import own_randomness, seed_torch

        with own_randomness(torch.device("cpu")):
            seed_torch(torch.device("cpu"), seed_of(Stream(seed).child("initial").key))
            return Perceptron(n_features, settings, last_bias=last_bias)

    def _keep(self, model: "Perceptron", state: State) -> None:
        self.model_ = model
        self.epochs_ = state.before + state.best
        self._trained_with = self.settings

    @contextlib.contextmanager
    def _ready(self) -> Iterator[None]:
        """Move the net to its device, with the threads that it may use."""
        from rankwise.rankers.nets.state import torch_threads

        self.model_.to(self._device()).eval()
        with self._own_threads(), torch_threads():
            yield

    @property
    def needs_lists(self) -> bool:
        """Whether a score depends on the other documents of its query."""
        return self.model_.needs_lists

    def _predict(self, features: Floats, offsets: Offsets | None) -> Array:
        with self._ready():
            scores = self.model_.score(features, offsets)
        finite = np.isfinite(scores)
        if not finite.all():
            row = int(np.argmin(finite))
            raise check.error(
                "a net needs features that are finite, or NaN where they are missing",
                got=f"a score of {scores[row]}",
                where=f"row {row}",
                hint="look at the features there; clip what is infinite, or make it NaN",
            )
        return scores

    def _made_of(self, rounds: int) -> Json:
        return _made_of(rounds, self.settings)

    def _description(self) -> Json:
        return super()._description() | _made_of(self.epochs_, self._trained_with)

    def _files(self) -> dict[str, bytes]:
        from rankwise.rankers.nets import weights

        return {MODEL: weights.packed(self.model_.state_dict())}

    def _restore(self, description: Json, files: dict[str, bytes]) -> None:
        table.installed(self.name)
        import torch

        from rankwise.rankers.nets import weights

        self._trained_with, tensors = presets.NetSettings(**description["settings"]), weights.unpacked(files[MODEL])
        build = functools.partial(self._net, self.n_features_in_, self._trained_with, seed=0)
        with torch.device("meta"):  # takes no memory, however large the layers
            plain = build(last_bias=False)
            last_bias = f"body.{len(plain.body) - 1}.bias" in tensors
            weights.verify(build(last_bias=True) if last_bias else plain, tensors)
        self.model_ = build(last_bias=last_bias)
        weights.fill(self.model_, tensors)
        self.model_.eval()
        self.epochs_ = int(description["epochs"])


def _made_of(epochs: int, settings: presets.NetSettings) -> Json:
    """What a file says about a net: enough to build it again, whatever presets say by then."""
    import torch

    return {"epochs": epochs, "settings": asdict(settings), "versions": {"torch": torch.__version__}}


def _continue(net: "Perceptron", older: "Perceptron") -> None:
    """Start from the weights of an older net; a last bias that only one of them has starts at 0, or is left out."""
    start, fresh, last_bias = older.state_dict(), net.state_dict(), f"body.{len(net.body) - 1}.bias"
    if last_bias in fresh:
        start.setdefault(last_bias, fresh[last_bias].clone().zero_())
    else:
        start.pop(last_bias, None)
    theirs, ours = ({name: tuple(one.shape) for name, one in each.items()} for each in (start, fresh))
    if theirs != ours:
        name = next(name for name in (ours | theirs) if ours.get(name) != theirs.get(name))
        raise check.error(
            "init_model must be a net of the same layers",
            got=f"{theirs.get(name)} for {name}, and {ours.get(name)} here",
            hint="give this ranker the preset, hidden, batch_norm, members, attention and transform of the older one",
        )
    net.load_state_dict(start)
