"""Interleaving: two rankings in one list, and which of them users prefer, at any time."""
