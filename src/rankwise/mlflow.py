"""Rankers as models of MLflow, whose logged models name this module: it stays where it is."""

from rankwise.wings.mlflow.flavor import _load_pyfunc as _load_pyfunc
from rankwise.wings.mlflow.flavor import log_model, requirement, signature

__all__ = ["log_model", "requirement", "signature"]
