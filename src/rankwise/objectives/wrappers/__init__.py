"""Wrappers around any objective."""
