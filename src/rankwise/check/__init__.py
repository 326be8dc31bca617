"""Every input check and every error sentence.

An error says what was wrong, what was given, where, and what to do about it. Checks return the value in the form
that the rest of the package works with, so that a caller reads ``labels = check.labels(labels, n)``.
"""

from rankwise.check.documents import (
    diverged,
    document_values,
    document_weights,
    grades,
    judged,
    labels,
    loss_scores,
    positions,
    propensities,
    scores,
    teacher_scores,
)
from rankwise.check.environment import MissingExtraError, extra, free_path, installed, readable
from rankwise.check.errors import error, library, naming, placing, printable, suggestion, unexpected
from rankwise.check.hints import hints, translated
from rankwise.check.matrix import categories, columns, dense_features, explainable, feature_names, features
from rankwise.check.queries import (
    different_as_text,
    document_ids,
    groups,
    identifiers,
    member,
    metric_values,
    offsets,
    query_ids,
    query_of_row,
    query_values,
    query_weights,
    runs,
    sizes,
)
from rankwise.check.settings import affordable, choice, distribution, fractions, integer, number, probabilities

__all__ = [
    "MissingExtraError",
    "affordable",
    "categories",
    "choice",
    "columns",
    "dense_features",
    "different_as_text",
    "distribution",
    "diverged",
    "document_ids",
    "document_values",
    "document_weights",
    "error",
    "explainable",
    "extra",
    "feature_names",
    "features",
    "fractions",
    "free_path",
    "grades",
    "groups",
    "hints",
    "identifiers",
    "installed",
    "integer",
    "judged",
    "labels",
    "library",
    "loss_scores",
    "member",
    "metric_values",
    "naming",
    "number",
    "offsets",
    "placing",
    "positions",
    "printable",
    "probabilities",
    "propensities",
    "query_ids",
    "query_of_row",
    "query_values",
    "query_weights",
    "readable",
    "runs",
    "scores",
    "sizes",
    "suggestion",
    "teacher_scores",
    "translated",
    "unexpected",
]
