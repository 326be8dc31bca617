"""The model of a net: raw features in, one score per document out, and what each feature adds to a score.

Most nets score documents one by one. Those with attention, or with features within queries, need whole lists.
"""

import functools
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import nn

from rankwise import check
from rankwise.base import arrays
from rankwise.base.arrays import Array, Floats, Json, Offsets, row_blocks
from rankwise.base.sparse import dense
from rankwise.models import (
    MODEL,
    Contributions,
    DrawnModel,
    Schema,
    Score,
    own_randomness,
    require_lists,
    torch_threads,
    usable_device,
    weights,
)
from rankwise.wings.nets.layers import Body, ListAttention, MemberHeads, MemberLinear
from rankwise.wings.nets.presets import NetSettings
from rankwise.wings.nets.transforms import Transform

if TYPE_CHECKING:
    from rankwise.models.formats.onnx_graph import Graph

_ACTIVATIONS = {
    "relu": nn.ReLU, "gelu": nn.GELU, "silu": nn.SiLU, "elu": nn.ELU, "tanh": nn.Tanh, "sigmoid": nn.Sigmoid,
}  # fmt: skip
_OPTIMIZERS = {
    "adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "adagrad": torch.optim.Adagrad, "sgd": torch.optim.SGD,
}  # fmt: skip
_FUSED = ("adam", "adamw", "sgd")
_ON_GPU = 2**26  # numbers of a layer that are computed at once there, 256 MiB: small blocks would leave it idle
_STEPS = 64  # on the way from the mean document to a document


class NetModel(nn.Module, DrawnModel):
    """A multilayer perceptron with its transform of features, a ``torch.nn.Module`` from raw features to scores.

    Without hidden layers it is linear. ``settings`` are those of a preset, checked.

    >>> net = NetModel(Schema(4), NetSettings(hidden=(8,), batch_norm="all", dropout=0.2))
    >>> [type(layer).__name__ for layer in net.body]
    ['BatchNorm1d', 'Linear', 'BatchNorm1d', 'ReLU', 'Dropout', 'Linear']
    >>> net.eval()(torch.zeros(3, 4)).shape
    torch.Size([3])
    """

    kind, trained_by = "a neural net", "NeuralRanker"

    def __init__(
        self, schema: Schema, settings: NetSettings, *, last_bias: bool = False, runs_on: str = "auto", epochs: int = 0
    ) -> None:
        super().__init__()
        self.schema, self.settings, self.runs_on, self.rounds = schema, settings, runs_on, epochs
        momentum, members = settings.batch_norm_momentum, settings.members
        over_hidden, over_input = (settings.batch_norm in (one, "all") for one in ("hidden", "input"))
        self.transform = Transform(schema.count, settings.transform)
        width = self.transform.width
        layers: list[nn.Module] = [nn.BatchNorm1d(width, momentum=momentum)] if over_input else []
        for number, size in enumerate(settings.hidden):
            layers.append(
                nn.Linear(width, size) if members == 1 else MemberLinear(width, size, members, first=not number)
            )
            if over_hidden:
                layers.append(nn.BatchNorm1d(size, momentum=momentum))
            layers.append(_ACTIVATIONS[settings.activation]())
            if settings.dropout:
                layers.append(nn.Dropout(settings.dropout))
            if settings.attention and not number:
                layers.append(ListAttention(size, settings.attention, settings.dropout))
            width = size
        self.needs_lists = bool(settings.attention) or self.transform.query
        """Whether a score depends on the other documents of its query."""
        self.widest = max(self.transform.width, members * max(settings.hidden, default=1))
        """How many numbers of a document a layer has at most."""
        # Most ranking losses do not change with a constant added to all scores: the gradient of a last bias would be
        # rounding errors, which optimizers that divide by its size take for steps. They have none.
        head = nn.Linear(width, 1, bias=last_bias) if members == 1 else MemberHeads(width, members, bias=last_bias)
        self.body = Body(*layers, head)

    def forward(self, features: torch.Tensor, offsets: torch.Tensor | None = None) -> torch.Tensor:
        """Score documents by their raw features: the mean over members. ``offsets``: of their queries, if needed."""
        return self.members(features, offsets).mean(-1)

    def members(self, features: torch.Tensor, offsets: torch.Tensor | None = None) -> torch.Tensor:
        """Return the scores of every member, (documents, members)."""
        return self.members_of(self.transform(features, offsets), offsets)

    def members_of(
        self, inputs: torch.Tensor, offsets: torch.Tensor | None = None, inside: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the scores of every member by features that are transformed already.

        ``inside``: which rows are documents, where some are padding; attention knows none.
        """
        if self.training and (noise := self.settings.feature_noise):
            inputs = inputs + noise * torch.randn_like(inputs)
        return self.body(inputs, offsets, inside)  # type: ignore[no-any-return]

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.transform.mean.device

    def read(self, features: Floats) -> torch.Tensor:
        """Copy rows of a matrix, which may be sparse, or lie on disk and be read-only, to the device of the weights."""
        return torch.from_numpy(np.require(dense(features), requirements="W")).to(self.device, non_blocking=True)

    def score(self, features: Floats, offsets: Offsets | None = None) -> Array:
        """Score a matrix of any length, block by block; without ``offsets``, where they are needed, as one list."""
        scores = np.empty(features.shape[0])
        with torch.inference_mode():
            for rows, starts in self.blocks(features.shape, offsets):
                scores[rows] = self(self.read(features[rows]), starts).cpu().numpy()
        return scores

    def blocks(self, shape: tuple[int, ...], offsets: Offsets | None) -> Iterator[tuple[slice, torch.Tensor | None]]:
        """Yield the blocks of rows that are computed at once, with the offsets of their queries if needed."""
        width, numbers = (shape[1], arrays.BLOCK) if self.device.type != "cuda" else (self.widest, _ON_GPU)
        if not self.needs_lists:
            yield from ((rows, None) for rows in row_blocks(shape[0], width, numbers))
            return
        ends = np.array([0, shape[0]]) if offsets is None else offsets
        for rows, starts in blocks(ends, width, numbers):
            yield rows, torch.from_numpy(starts)

    def trained(self, epochs: int) -> Self:
        """Return this model, after so many epochs."""
        self.rounds = epochs
        return self

    def scores(self, features: Floats, offsets: Offsets | None = None) -> Array:
        """Return one score per document, computed on its device."""
        require_lists(self, offsets)
        self.to(usable_device(self.runs_on)).eval()
        with torch_threads():
            scores = self.score(features, offsets)
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

    def contributions(self, features: Floats, offsets: Offsets | None = None) -> Contributions:
        """Return the integrated gradients of every document.

        The gradient is averaged over 64 points on the straight way, in transformed features, from the mean document of
        the training data to the document, and multiplied by how far they are apart: exact for linear models and close
        for others. What the 64 points leave over goes to the features in proportion to their contributions, so that
        rows add up to the scores; ``contributions(data).left`` says how much that is.
        """
        if self.needs_lists:
            raise check.error(
                "what a feature adds to the score of a document is not known of nets that look at whole lists",
                got=f"attention={self.settings.attention}, transform={self.settings.transform!r}",
                hint="explain a net with `attention=0` and a transform without query",
            )
        self.to(usable_device(self.runs_on)).eval()
        n_docs, n_features = features.shape
        parts, left = np.empty((n_docs, n_features + 1)), np.empty(n_docs)
        start = self.transform.average()
        with torch_threads():
            with torch.no_grad():
                expected = float(self.body(start[None]).mean())
            for rows in row_blocks(n_docs, n_features):
                rise = self.score(features[rows]) - expected
                parts[rows, :-1], left[rows] = _complete(*self._gradients(features[rows], start), rise)
                parts[rows, -1] = expected
        return Contributions(
            parts=parts,
            left=left,
            method="integrated gradients over 64 points",
            start="score of the mean document",
            features=features,
            schema=self.schema,
        )

    def _gradients(self, features: Floats, start: torch.Tensor) -> tuple[Array, Array]:
        """Return documents less the mean one, and the mean gradient on the way (by Gauss and Legendre)."""
        with torch.no_grad():
            away = self.transform(self.read(features)) - start
        total = torch.zeros_like(away, dtype=torch.float64)
        places, shares = np.polynomial.legendre.leggauss(_STEPS)
        for place, share in zip((places + 1) / 2, shares / 2, strict=True):
            point = (start + float(place) * away).requires_grad_()
            (gradient,) = torch.autograd.grad(self.body(point).mean(-1).sum(), point)
            total += float(share) * gradient
        return away.double().cpu().numpy(), total.cpu().numpy()

    def serving(self) -> Score:
        """Return a copy on the CPU."""
        net = deepcopy(self).cpu().eval()

        def score(documents: Floats, offsets: Offsets | None) -> Array:
            with torch_threads():
                return net.score(documents, offsets)

        return score

    def onnx_graph(self) -> "Graph":
        """Return its graph of ONNX."""
        from rankwise.wings.nets.onnx import perceptron

        return perceptron(self)

    def slopes_for(self, system: str) -> Array:
        """Return what one of each feature adds to the score of a linear net, whose constant is left out."""
        kinds = [type(layer).__name__ for layer in self.body]
        curved = "the logarithm of features" * self.transform.log or "the ranks of features" * (
            not self.transform.linear
        )
        if kinds.count("Linear") != 1 or set(kinds) - {"Linear", "BatchNorm1d"} or curved:
            raise check.error(
                f"{system} takes trees and linear models",
                got=f"a net with {curved or f'{len(self.settings.hidden)} hidden layers'}",
                hint="train a net with `hidden=()` and `transform='standardize'`",
            )
        weights = 1.0 / _numbers(self.transform.scale)
        for layer in self.body:
            own = _numbers(layer.weight)
            if isinstance(layer, nn.BatchNorm1d):
                weights = weights * own / np.sqrt(_numbers(layer.running_var) + layer.eps)
            else:
                weights = weights * own[0]
        return weights

    def files(self) -> dict[str, bytes]:
        """Return the weights as safetensors."""
        return {MODEL: weights.packed(self.state_dict())}

    def description(self) -> Json:
        """Return what builds the net again, whatever presets say by then."""
        return {"epochs": self.rounds, "settings": asdict(self.settings), "versions": {"torch": torch.__version__}}

    @classmethod
    def from_files(cls, description: Json, files: dict[str, bytes], schema: Schema) -> Self:
        """Build the net and read its weights."""
        tensors = weights.unpacked(files[MODEL])
        settings, epochs = NetSettings(**description["settings"]), int(description["epochs"])
        build = functools.partial(cls, schema, settings, epochs=epochs)
        with own_randomness(torch.device("cpu")):
            with torch.device("meta"):  # takes no memory, however large the layers
                plain = build()
                last_bias = f"body.{len(plain.body) - 1}.bias" in tensors
                weights.verify(build(last_bias=True) if last_bias else plain, tensors)
            net = build(last_bias=last_bias)
        weights.fill(net, tensors)
        return net.eval()


def _numbers(tensor: Any) -> Array:
    return np.asarray(tensor.detach().cpu(), np.float64)


def _complete(away: Array, gradient: Array, total: Array) -> tuple[Array, Array]:
    """Return contributions that add up to ``total``, and the rest that the steps left, which features share."""
    parts = away * gradient
    sizes = np.abs(parts)
    sizes = np.where(sizes.sum(1, keepdims=True) > 0, sizes, np.abs(away))
    sizes = np.where(sizes.sum(1, keepdims=True) > 0, sizes, 1.0)
    left = total - parts.sum(1)
    complete: Array = parts + left[:, None] * sizes / sizes.sum(1, keepdims=True)
    return complete, left


def optimizer(settings: NetSettings, device: torch.device) -> Callable[[Iterable[nn.Parameter]], torch.optim.Optimizer]:
    """Return the constructor of a net's optimizer; on a GPU a step is one kernel, where torch has that."""
    kind: Any = _OPTIMIZERS[settings.optimizer]
    fused = {"fused": True} if device.type == "cuda" and settings.optimizer in _FUSED else {}
    return lambda parameters: kind(parameters, lr=settings.learning_rate, weight_decay=settings.weight_decay, **fused)


def blocks(offsets: Offsets, width: int, numbers: int) -> Iterator[tuple[slice, Offsets]]:
    """Yield rows of whole queries with about so many ``numbers``, at least one query each, and their offsets.

    >>> [(rows, starts.tolist()) for rows, starts in blocks(np.array([0, 2, 3, 7]), width=1, numbers=3)]
    [(slice(0, 3, None), [0, 2, 3]), (slice(3, 7, None), [0, 4])]
    """
    most, start, last = max(1, numbers // max(1, width)), 0, offsets.size - 1
    while start < last:
        end = max(int(np.searchsorted(offsets, offsets[start] + most, side="right")) - 1, start + 1)
        yield slice(int(offsets[start]), int(offsets[end])), offsets[start : end + 1] - offsets[start]
        start = end
