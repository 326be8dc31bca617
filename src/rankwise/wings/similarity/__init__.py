"""How alike are two rankings, or a ranking and the labels? Overlap and correlation of every query."""

from rankwise.base import hooks

hooks.register("measure", "similarity", f"{__name__}.rank_similarity", "similarity_measure")
hooks.register("comparison", "alike", f"{__name__}.similarity", "similarities")
hooks.register("metric", "kendall", f"{__name__}.correlation", "Kendall")
hooks.register("metric", "spearman", f"{__name__}.correlation", "Spearman")
