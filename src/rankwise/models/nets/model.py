"""The model of a net: its weights, the settings that build it, and the device that it runs on."""

import functools
from copy import deepcopy
from dataclasses import asdict
from typing import Self

import numpy as np
import torch

from rankwise import check
from rankwise.base.arrays import Array, Floats, Json, Offsets
from rankwise.models.contributions import Contributions
from rankwise.models.model import Model, Score, require_lists
from rankwise.models.nets import weights
from rankwise.models.nets.mlp import Perceptron
from rankwise.models.nets.presets import NetSettings
from rankwise.models.nets.state import own_randomness, torch_threads, usable_device
from rankwise.models.schema import Schema

MODEL = "model.safetensors"


class NetModel(Perceptron, Model):
    """A multilayer perceptron, a ``torch.nn.Module`` from raw features to scores."""

    kind, trained_by = "a neural net", "NeuralRanker"

    def __init__(
        self, schema: Schema, settings: NetSettings, *, last_bias: bool = False, runs_on: str = "auto", epochs: int = 0
    ) -> None:
        super().__init__(schema.count, settings, last_bias=last_bias)
        self.schema, self.settings, self.runs_on, self.rounds = schema, settings, runs_on, epochs

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
        with torch_threads():
            parts, left = self.explain(features)
        return Contributions(
            parts=parts,
            left=left,
            method="integrated gradients over 64 points",
            start="score of the mean document",
            features=features,
            schema=self.schema,
        )

    def serving(self) -> Score:
        """Return a copy on the CPU."""
        net = deepcopy(self).cpu().eval()

        def score(documents: Floats, offsets: Offsets | None) -> Array:
            with torch_threads():
                return net.score(documents, offsets)

        return score

    def files(self) -> dict[str, bytes]:
        """Return the weights as safetensors."""
        return {MODEL: weights.packed(self.state_dict())}

    def description(self) -> Json:
        """Return what builds the net again, whatever presets say by then."""
        return net_description(self.settings, self.rounds)

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


def net_description(settings: NetSettings, epochs: int) -> Json:
    """Return what ``rankwise.json`` says of a net after so many epochs."""
    return {"epochs": epochs, "settings": asdict(settings), "versions": {"torch": torch.__version__}}
