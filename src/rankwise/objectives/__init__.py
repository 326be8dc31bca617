"""Losses with gradient and curvature over ragged lists, and wrappers that compose them."""
