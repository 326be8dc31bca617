"""Recommenders."""
