"""Distillation: losses that learn the scores of a teacher."""
