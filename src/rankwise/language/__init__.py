"""Expressions, names and small files: one grammar, and the identity of users' code and of kept work."""
