"""Rankers: models that learn to score documents, with any objective, in the library of your choice."""
