"""Rankers as models of MLflow."""
