"""Targets and comparisons of rankers from logged clicks."""
