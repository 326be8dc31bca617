"""Rerankers: cross-encoders and language models."""
