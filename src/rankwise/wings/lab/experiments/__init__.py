"""Experiments: the papers' comparisons, and yours, from one flat description, resumable and in parallel."""
