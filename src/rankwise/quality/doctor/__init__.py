"""Checks of ranking data: labels and lists, features, and parts; they use metrics and data, and no rankers."""
