"""Nets: a multilayer perceptron, trained with any objective."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rankwise import check
from rankwise.arrays import Json, Keywords
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import MetricLike
from rankwise.models.nets import presets
from rankwise.models.schema import Schema
from rankwise.objectives.table import ObjectiveLike
from rankwise.rankers import table
from rankwise.rankers.base import IterativeRanker
from rankwise.rankers.table import Recipe
from rankwise.rankers.training import stopping
from rankwise.rankers.training.settings import TrainingData, TrainingSettings, objective_of
from rankwise.stream import Stream
from rankwise.threads import openmp

if TYPE_CHECKING:
    from rankwise.models.nets.mlp import Perceptron
    from rankwise.models.nets.model import NetModel
    from rankwise.rankers.nets.learner import NetLearner

_RECIPE: Keywords = {"epochs": 100, "smoothing": 3}


class TorchRanker(IterativeRanker):
    """A ranker whose rounds are epochs of torch; a subclass has the parameters ``epochs`` and ``device``."""

    unit = "epochs"
    extra, modules, packages = "torch", ("torch", "safetensors"), ("torch",)
    first_round_pace = 10.0
    device: str

    @property
    def epochs_(self) -> int:
        """The number of epochs in the model, those of ``init_model`` included."""
        return int(self.model_.rounds)


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
        threads, patience, min_rounds, smoothing, stop_on, metrics, debias, constraints, checkpoint, checkpoint_every,
            progress: As those of :class:`TreeRanker`, with epochs for rounds.
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
    single = True
    model_: "NetModel"
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
        min_rounds: int = 0,
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
        self.min_rounds = min_rounds
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
    def device(self) -> str:
        """The device's name; a trained net moves to another that is set."""
        return self._device

    @device.setter
    def device(self, name: str) -> None:
        self._device = name
        if self.__sklearn_is_fitted__():
            self.model_.runs_on = name

    @property
    def settings(self) -> presets.NetSettings:
        """What the net is made of and trained with: what was given, else the preset's, else the defaults.

        >>> NeuralRanker(preset="2020-tuned", dropout=0.2).settings.hidden
        (1024, 512, 256)
        """
        return presets.settings(self.preset, self.get_params())

    def check_data(self, train: RankingDataset) -> None:
        """Raise an error about categories, which nets do not take."""
        if train.categorical:
            raise check.error(
                "NeuralRanker takes numbers, and no categories",
                got=f"{len(train.categorical)} categorical columns, the first number {train.categorical[0]}",
                hint="make a column of 0 and 1 for each category, or use a ranker of trees",
            )
        super().check_data(train)

    def learner(self, data: TrainingData, settings: TrainingSettings) -> "NetLearner":
        """Return what trains the net, on data that it takes."""
        table.installed(self.name)
        import torch

        from rankwise.models.nets.mlp import optimizer
        from rankwise.models.nets.model import NetModel, described
        from rankwise.models.nets.state import one_thread, own_randomness, seed_torch, usable_device
        from rankwise.rankers.nets.batches import Batching
        from rankwise.rankers.nets.capture import CapturedNet
        from rankwise.rankers.nets.inputs import Inputs
        from rankwise.rankers.nets.learner import NetLearner
        from rankwise.rankers.nets.processes import seed_of

        openmp(one_thread)
        train, net_settings = data.train, self.settings
        objective = settings.objective or objective_of(self)  # which says that a library's own is for its trees
        device = usable_device(self.device)
        self.check_data(train)
        with own_randomness(torch.device("cpu")):  # the first weights depend on the seed alone
            seed_torch(torch.device("cpu"), seed_of(Stream(settings.seed).child("initial").key))
            last_bias = not objective.shift_invariant
            net = NetModel(Schema.of(train), net_settings, last_bias=last_bias, runs_on=self.device)
        if not net.transform.fit(train.features):
            raise stopping.no_feature(train)
        if data.older is not None:
            _continue(net, data.older.model_)
        if start := settings.start(data):
            head: Any = net.body[-1]
            head.bias.data += start
        net.to(device)
        inputs, captured = Inputs(net, train), CapturedNet(net)
        precision = check.choice("precision", self.precision, presets.PRECISIONS)
        # In float32 batch norm over padded documents costs more than the launches that graphs save.
        graphs = device.type == "cuda" and (net_settings.batch_norm == "off" or precision != "float32")

        return NetLearner(
            objective=objective,
            train=train,
            documents=settings.columns(data),
            seed=settings.seed,
            module=net,
            inputs=inputs.of,
            prefetch=inputs.prefetch,
            forward=captured if graphs else net.members_of,
            backward=captured.backward,
            held_out=[Inputs(net, part).scores for part in data.held_out],
            optimizer=optimizer(net_settings, device),
            batching=Batching(net_settings.batch_queries, self.batch_documents),
            made=net.trained,
            described=lambda epochs: described(net_settings, epochs),
            reduction=net_settings.reduction,
            averaging=net_settings.averaging,
            device=device,
            precision=precision,
        )

    def read_model(self, description: Json, files: dict[str, bytes], schema: Schema) -> "NetModel":
        """Build the net and read its weights."""
        table.installed(self.name)
        from rankwise.models.nets.model import NetModel

        net = NetModel.from_files(description, files, schema)
        net.runs_on = self.device
        return net


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
