"""Evaluations, comparisons and significance tests of scores per query: they know metrics and streams, no rankers."""
