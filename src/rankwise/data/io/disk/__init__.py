"""Data on disk: caches, and features that stay in a file."""
