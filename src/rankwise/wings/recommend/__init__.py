"""Recommenders: rankers of items for users, from interactions alone."""

from rankwise.base import hooks

hooks.register("ranker of features", "factorization", f"{__name__}.factorization.ranker", "FactorizationRanker")
for _name, _class in {"ease": "EASE", "als": "ALS", "knn": "ItemKNN", "popularity": "Popularity"}.items():
    hooks.register("recommender", _name, f"{__name__}.{_name}", _class)
hooks.register("class", "ratings", f"{__name__}.data.interactions", "Interactions")
hooks.register("join", "Interactions", f"{__name__}.data.joining", "join")
hooks.register("commands", "recommend", f"{__name__}.commands", "add")
