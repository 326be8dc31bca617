"""Settings of nets and of their training; the papers' published settings by name."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from rankwise import check

ACTIVATIONS = ("relu", "gelu", "silu", "elu", "tanh", "sigmoid")
OPTIMIZERS = ("adam", "adamw", "adagrad", "sgd")
_OF_DOCUMENTS = ("raw", "standardize", "log1p", "log1p+standardize", "quantile")
TRANSFORMS = (*_OF_DOCUMENTS, "query", *(f"{one}+query" for one in _OF_DOCUMENTS))
BATCH_NORMS = ("off", "hidden", "input", "all")
REDUCTIONS = ("mean", "sum")
PRECISIONS = ("float32", "tf32", "bf16")


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


def _below_one(name: str, value: object, hint: str) -> float:
    share = check.number(name, value, least=0.0, most=1.0)
    if share == 1.0:
        raise check.error(f"{name} must be below 1", got="1.0", hint=hint)
    return share


@dataclass(frozen=True, kw_only=True)
class NetSettings:
    """The settings of a preset, checked.

    The values here are a preset's own defaults, and do not change: papers' presets rest on them. A net without a preset
    has ``DEFAULT`` instead.
    """

    hidden: tuple[int, ...] = (256, 128, 64)
    activation: str = "relu"
    batch_norm: str = "off"
    batch_norm_momentum: float = 0.1
    dropout: float = 0.1
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    batch_queries: int = 32
    reduction: str = "mean"
    transform: str = "log1p+standardize"
    feature_noise: float = 0.0
    averaging: float = 0.0
    members: int = 1
    attention: int = 0

    def __post_init__(self) -> None:
        checked = {
            "hidden": _layers(self.hidden),
            "activation": check.choice("activation", self.activation, ACTIVATIONS),
            "batch_norm": check.choice("batch_norm", _word(self.batch_norm), BATCH_NORMS),
            "batch_norm_momentum": check.number("batch_norm_momentum", self.batch_norm_momentum, least=0.0, most=1.0),
            "dropout": _below_one("dropout", self.dropout, "it is the share that is dropped, as in torch"),
            "optimizer": check.choice("optimizer", self.optimizer, OPTIMIZERS),
            "learning_rate": check.number("learning_rate", self.learning_rate, least=0.0, open_ends=True),
            "weight_decay": check.number("weight_decay", self.weight_decay, least=0.0),
            "batch_queries": check.integer("batch_queries", self.batch_queries, least=1),
            "reduction": check.choice("reduction", self.reduction, REDUCTIONS),
            "transform": check.choice("transform", self.transform, TRANSFORMS),
            "feature_noise": check.number("feature_noise", self.feature_noise, least=0.0),
            "averaging": _below_one(
                "averaging", self.averaging, "`set averaging=0.99` for an average over about a hundred steps"
            ),
            "members": check.integer("members", self.members, least=1),
            "attention": check.integer("attention", self.attention, least=0),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
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
"""A net without a preset: chosen by validation queries of MQ2008 and MQ2007, as docs/neural.md shows."""

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
