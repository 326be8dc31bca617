"""Scoring the documents of one query in the least time."""
