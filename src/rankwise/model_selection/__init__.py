"""Tuning: the search for a ranker's best parameters, on training and validation data alone."""
