"""Settings of nets and of their training; the papers' published settings by name."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any

from rankwise import check
from rankwise.check.parameters import Above, AtLeast, OneOf, Search, Within, declared

OPTIMIZERS = ("adam", "adamw", "adagrad", "sgd")
_OF_DOCUMENTS = ("raw", "standardize", "log1p", "log1p+standardize", "quantile")
TRANSFORMS = (*_OF_DOCUMENTS, "query", *(f"{one}+query" for one in _OF_DOCUMENTS))
_BELOW_ONE = {
    "dropout": "it is the share that is dropped, as in torch",
    "averaging": "`set averaging=0.99` for an average over about a hundred steps",
}
"""Shares that must not be all, with hints."""


Activation = Annotated[
    str,
    OneOf(("relu", "gelu", "silu", "elu", "tanh", "sigmoid")),
    """``"relu"``, ``"gelu"``, ``"silu"``, ``"elu"``, ``"tanh"`` or ``"sigmoid"``. It follows hidden layers.""",
]
BatchNorm = Annotated[
    str | bool,
    OneOf(("off", "hidden", "input", "all")),
    """Batch normalization: ``"hidden"``, ``"input"``, ``"all"``, ``"off"``. True is all, and False is off.""",
    Search("choice('off', 'hidden', 'all', start='off')", place=4),
]
BatchNormMomentum = Annotated[
    float,
    Within(0, 1),
    """Share of a running mean that a batch replaces. It is torch's convention: TensorFlow's momentum is one minus
    it.""",
]
Dropout = Annotated[
    float,
    Within(0, 1),
    """Share of hidden outputs that is dropped. It is below 1, as in torch; a keep rate is one minus it.""",
    Search("uniform(0.0, 0.6, start=0.3)", place=3),
]
Optimizer = Annotated[str, OneOf(OPTIMIZERS), """Optimizer: ``"adam"``, ``"adamw"``, ``"adagrad"`` or ``"sgd"``."""]
LearningRate = Annotated[
    float, Above(0), "Learning rate of the optimizer.", Search("log(1e-4, 3e-2, start=1e-3)", place=1)
]
WeightDecay = Annotated[float, AtLeast(0), "Weight decay of the optimizer.", Search("log(1e-7, 1e-2, start=1e-7)")]
BatchQueries = Annotated[int, AtLeast(1), "Number of queries of a batch.", Search("choice(16, 32, 64, 128, start=32)")]
Reduction = Annotated[
    str,
    OneOf(("mean", "sum")),
    """Loss of a batch: ``"mean"`` or ``"sum"`` over queries. Each query counts by its weight.""",
]
Transform = Annotated[
    str,
    OneOf(TRANSFORMS),
    """Transformation of features. ``"standardize"``, ``"log1p"`` for long tails, both (``"log1p+standardize"``),
    ``"quantile"`` (normal, by rank) or ``"raw"``; ``"quantile+query"`` and the like append every feature standardised
    within its query. It is fitted on training data and saved with the model. Missing values (NaN) become the mean.""",
]
FeatureNoise = Annotated[
    float,
    AtLeast(0),
    "Deviation of noise that is added to features. It is Gaussian, of transformed features, in training alone.",
]
Averaging = Annotated[
    float,
    Within(0, 1),
    """Share that a step keeps in averaged weights. The net that scores has the average of the weights of all steps, in
    which each later step leaves that share, below 1, to those before: 0.99 averages about the last hundred steps; 0
    takes the last weights.""",
]
Members = Annotated[
    int,
    AtLeast(1),
    """Number of nets that are trained together. They share the matrices of layers and differ by vectors (TabM), each
    with a loss of its own; their scores are averaged.""",
]
Attention = Annotated[
    int,
    AtLeast(0),
    """Heads of self-attention among documents. They are over the first hidden layer of a query; 0 is none. Such nets,
    and those of ``transform="…+query"``, score whole lists: see :meth:`predict`.""",
]


def _layers(hidden: object) -> tuple[int, ...]:
    """Sizes of layers: numbers, one number, or their text as in papers, ``"1024-512-256"``; empty: none."""
    if isinstance(hidden, str):
        words = [word for word in hidden.split("-") if word]
        hidden = [int(word) if word.isdecimal() else word for word in words]
    sizes = [hidden] if isinstance(hidden, int) else hidden
    if not isinstance(sizes, list | tuple):
        raise check.error("hidden must be the sizes of layers", got=repr(hidden), hint="write (64, 32) or '64-32'")
    return tuple(check.integer("a layer of hidden", size, least=1) for size in sizes)


def _word(batch_norm: object) -> Any:
    """Read True for all layers and the input, and False for off."""
    return {True: "all", False: "off"}[batch_norm] if isinstance(batch_norm, bool) else batch_norm


@dataclass(frozen=True, kw_only=True)
class NetSettings:
    """The settings of a preset, checked.

    The values here are a preset's own defaults, and do not change: papers' presets rest on them. A net without a preset
    has ``DEFAULT`` instead.
    """

    hidden: tuple[int, ...] = (256, 128, 64)
    activation: Activation = "relu"
    batch_norm: BatchNorm = "off"
    batch_norm_momentum: BatchNormMomentum = 0.1
    dropout: Dropout = 0.1
    optimizer: Optimizer = "adam"
    learning_rate: LearningRate = 1e-3
    weight_decay: WeightDecay = 0.0
    batch_queries: BatchQueries = 32
    reduction: Reduction = "mean"
    transform: Transform = "log1p+standardize"
    feature_noise: FeatureNoise = 0.0
    averaging: Averaging = 0.0
    members: Members = 1
    attention: Attention = 0

    def __post_init__(self) -> None:
        changed = {"hidden": _layers(self.hidden), "batch_norm": _word(self.batch_norm)}
        for name, value in (vars(self) | changed).items():
            object.__setattr__(self, name, declared(NetSettings)[name].check(value))
        for name, hint in _BELOW_ONE.items():
            if getattr(self, name) == 1.0:
                raise check.error(f"{name} must be below 1", got="1.0", hint=hint)
        if self.members > 1 and (not self.hidden or self.batch_norm in ("hidden", "all")):
            raise check.error(
                "members of a net share its hidden layers, which must be there, without batch norm",
                got=f"members={self.members}, hidden={self.hidden} and batch_norm={self.batch_norm!r}",
                hint="`set hidden=(64,)` and `batch_norm='off'` or 'input', or `members=1`",
            )
        if self.attention and (not self.hidden or self.hidden[0] % self.attention):
            raise check.error(
                "the heads of attention share the first hidden layer among them",
                got=f"attention={self.attention} and hidden={self.hidden}",
                hint="`set hidden=(64,)` and `attention=4`, or another divisor of the first layer",
            )


DEFAULT = NetSettings(hidden=(128, 64), dropout=0.3, averaging=0.99, transform="quantile")
"""A net without a preset: chosen by validation queries of MQ2008 and MQ2007, as docs/benchmarks/nets.md shows."""

_BRUCH2020 = NetSettings(
    hidden=(1024, 512, 256, 128, 64, 32, 16),
    batch_norm="all",
    batch_norm_momentum=0.2,  # of Web30K: 0.8 in TensorFlow's convention
    dropout=0.0,
    optimizer="adagrad",
    learning_rate=0.005,
    batch_queries=128,
    reduction="sum",
    transform="raw",
)

PRESETS: dict[str, NetSettings] = {
    # Bruch et al. 2020, section 6.
    "2020": _BRUCH2020,
    "2020-yahoo": replace(_BRUCH2020, batch_norm_momentum=0.01),  # 0.99 in TensorFlow's convention
    "2020-tuned": replace(
        _BRUCH2020,
        hidden=(1024, 512, 256),
        batch_norm_momentum=0.6,  # 0.4 in TensorFlow's convention
        dropout=0.5,
        optimizer="adam",
        reduction="mean",
    ),
    # The thesis on bounded metrics: one hidden layer of 46, Adam, batches of 32; it prints no activation or rate.
    "thesis": NetSettings(hidden=(46,), dropout=0.0, batch_queries=32, transform="raw"),
    # Kang et al. 2024: the middle of the ranges in their code; rankwise.tune(…, space="kang2024") searches them.
    "2024": NetSettings(
        hidden=(32, 32), activation="sigmoid", dropout=0.0, learning_rate=3e-3, batch_queries=128, reduction="sum"
    ),
    # Gorishniy et al. 2024, TabM: what their code suggests to start from, and the transform of most of their sets; the
    # batch is ours, since theirs hold documents.
    "tabm": NetSettings(
        hidden=(512, 512, 512),
        members=32,
        dropout=0.1,
        optimizer="adamw",
        learning_rate=2e-3,
        weight_decay=3e-4,
        transform="quantile",
    ),
    "linear": NetSettings(hidden=(), dropout=0.0, learning_rate=0.01),
}
"""Name -> settings. Settings that a paper does not name are those of ``NetSettings()``."""


def settings(preset: str | int | None, parameters: Mapping[str, Any]) -> NetSettings:
    """Return the settings of a preset, or our defaults, with the given parameters in their place.

    >>> settings("2020-tuned", {"dropout": 0.2, "hidden": None}).hidden
    (1024, 512, 256)
    >>> settings(None, {"hidden": "64-32"}).hidden
    (64, 32)
    """
    base = DEFAULT if preset is None else PRESETS[check.choice("preset", str(preset), PRESETS)]
    names = {field.name for field in fields(NetSettings)}
    return replace(base, **{name: value for name, value in parameters.items() if name in names and value is not None})
