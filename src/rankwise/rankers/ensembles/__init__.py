"""Rankers made of rankers."""
