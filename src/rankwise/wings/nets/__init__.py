"""Nets: neural networks on tables of features."""

from rankwise.base import hooks

hooks.register("ranker of features", "neural", f"{__name__}.ranker", "NeuralRanker")
