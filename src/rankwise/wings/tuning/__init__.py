"""Choosing a ranker, its parameters, its goals and its features, on data for that alone."""

from rankwise.base import hooks

hooks.register("ranker saved as another", "auto", f"{__name__}.auto.ranker", "AutoRanker")
hooks.register("commands", "tuning", f"{__name__}.commands", "add")
