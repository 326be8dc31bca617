"""Choosing a ranker within a time: a portfolio of recipes, tried on the same folds, and what is best of them."""
