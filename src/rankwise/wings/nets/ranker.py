"""Nets: a multilayer perceptron, trained with any objective."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from rankwise import check
from rankwise.base.arrays import Json, Keywords
from rankwise.base.stream import Stream
from rankwise.base.threads import openmp
from rankwise.check.docstrings import documented
from rankwise.check.parameters import AtLeast, OneOf, Option, Search, Unset, assign
from rankwise.models import Schema
from rankwise.rankers import TorchRanker, table
from rankwise.rankers.table import Recipe
from rankwise.rankers.training import TrainingData, TrainingSettings, objective_of, stopping
from rankwise.rankers.training import parameters as training
from rankwise.wings.nets import presets

if TYPE_CHECKING:
    from rankwise.rankers import NetLearner
    from rankwise.wings.nets.model import NetModel

_RECIPE: Keywords = {"epochs": 100, "smoothing": 3}
_WITHIN: Keywords = {"transform": "quantile+query"}
_LIGHT: Keywords = {"hidden": (64,), "learning_rate": 0.005, "batch_queries": 64, "averaging": 0.98, "patience": 5}
"""Trained in the time of trees, and level with them: ``light`` of docs/benchmarks/nets.md."""


@documented
class NeuralRanker(TorchRanker):
    """A multilayer perceptron, trained with any objective on batches of whole queries, which are never padded.

    A preset fills whatever is not given: the papers' settings, most under their years, or ``"linear"``. Without
    one there are two layers, 128-64, on quantiles of features, dropout of three tenths, Adam, and an average of the
    weights.

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
    search_space: ClassVar[Keywords] = {"optimizer": "adamw"}
    portfolio = (
        # Level with trees on MQ2008, ahead on MQ2007 (docs/benchmarks/nets.md); it gets other queries wrong.
        Recipe("lambdarank", _RECIPE | _WITHIN | _LIGHT | {"epochs": 30}, small=(24,)),
        Recipe("lambdarank", _RECIPE | _WITHIN, middle=(1,), large=(2,)),
        Recipe("softmax_ce", _RECIPE, small=(25,)),  # ahead of lambdarank on clicks and long lists
    )
    single, takes_categories = True, False
    model_: "NetModel"
    """The net, a ``torch.nn.Module`` from raw features to scores."""

    def __init__(
        self,
        objective: training.Objective = "lambdarank",
        *,
        preset: Annotated[
            str | int | None,
            OneOf(presets.PRESETS),
            Unset("two layers, 128-64"),
            """Settings of a paper, or a linear model. Their names are ``"2020"``, ``"2020-yahoo"``, ``"2020-tuned"``,
            ``"thesis"``, ``"2024"``, ``"tabm"`` and ``"linear"``.""",
        ] = None,
        hidden: Annotated[
            int | str | Sequence[int] | None,
            """Sizes of hidden layers, such as 64-32. A sequence, ``(64, 32)``, means the same, and ``()`` is a
            linear model.""",
            Search("choice('64', '128-64', '256-128-64', '512-256-128', '1024-512-256', start='128-64')", place=2),
        ] = None,
        activation: presets.Activation | None = None,
        batch_norm: presets.BatchNorm | None = None,
        batch_norm_momentum: presets.BatchNormMomentum | None = None,
        dropout: presets.Dropout | None = None,
        optimizer: presets.Optimizer | None = None,
        learning_rate: presets.LearningRate | None = None,
        weight_decay: presets.WeightDecay | None = None,
        batch_queries: presets.BatchQueries | None = None,
        batch_documents: Annotated[
            int | None, AtLeast(1), "Documents of a batch, instead. It has as many whole queries as fit."
        ] = None,
        reduction: presets.Reduction | None = None,
        transform: presets.Transform | None = None,
        feature_noise: presets.FeatureNoise | None = None,
        averaging: presets.Averaging | None = None,
        members: presets.Members | None = None,
        attention: presets.Attention | None = None,
        epochs: training.Epochs = 100,
        seed: Annotated[
            training.Seed, "The first weights, the order of queries, dropout and the objective are drawn by it."
        ] = 0,
        threads: training.Threads = None,
        patience: training.Patience = 20,
        min_rounds: training.MinRounds = 0,
        smoothing: training.Smoothing = 1,
        stop_on: training.StopOn = "first",
        metrics: training.Metrics = ("ndcg@10",),
        debias: training.Debias = False,
        constraints: training.Constraints = None,
        checkpoint: training.Checkpoint = None,
        checkpoint_every: training.CheckpointEvery = 10,
        progress: training.Progress = None,
        device: training.Device = "auto",
        precision: Annotated[
            str,
            OneOf(("float32", "tf32", "bf16")),
            """Precision of products in training. ``"tf32"`` is for GPUs, and ``"bf16"`` is mixed precision.""",
            Option(group="Running"),
        ] = "float32",
        **others: Any,
    ) -> None:
        assign(self, locals())
        self._check_native(others)

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

    def learner(self, data: TrainingData, settings: TrainingSettings) -> "NetLearner":
        """Return what trains the net, on data that it takes."""
        table.installed(self.name)
        import torch

        from rankwise.models import one_thread, own_randomness, seed_torch, usable_device
        from rankwise.rankers import Batching, NetLearner, seed_of
        from rankwise.wings.nets.capture import CapturedNet
        from rankwise.wings.nets.inputs import Inputs
        from rankwise.wings.nets.model import NetModel, optimizer

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
        # In float32 batch norm over padded documents costs more than the launches that graphs save.
        graphs = device.type == "cuda" and (net_settings.batch_norm == "off" or self.precision != "float32")

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
            reduction=net_settings.reduction,
            averaging=net_settings.averaging,
            device=device,
            precision=self.precision,
        )

    def read_model(self, description: Json, files: dict[str, bytes], schema: Schema) -> "NetModel":
        """Build the net and read its weights."""
        table.installed(self.name)
        from rankwise.wings.nets.model import NetModel

        net = NetModel.from_files(description, files, schema)
        net.runs_on = self.device
        return net


def _continue(net: "NetModel", older: "NetModel") -> None:
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
