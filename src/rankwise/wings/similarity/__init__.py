"""How alike are two rankings? Overlap and correlation of every query, with means and intervals."""

from rankwise.base import hooks

hooks.register("measure", "similarity", f"{__name__}.rank_similarity", "similarity_measure")
hooks.register("comparison", "alike", f"{__name__}.similarity", "similarities")
