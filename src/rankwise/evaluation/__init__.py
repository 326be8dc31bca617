"""Evaluation: per-query tables with intervals, paired tests, comparisons, TREC runs and qrels."""
