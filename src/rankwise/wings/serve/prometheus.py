"""Metrics of the HTTP service for Prometheus, added up over the processes that serve."""

import os
from collections.abc import Iterable, Mapping

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from rankwise.base.arrays import Keywords

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable by which prometheus_client knows that there are several processes."""
_SECONDS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class PrometheusMetrics:
    """Requests, documents and times by model, values without meaning by feature, and the versions of the models."""

    media_type = CONTENT_TYPE_LATEST

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        by: Keywords = {"registry": self._registry, "namespace": "rankwise"}
        self._requests = Counter("requests", "Requests.", ("model", "method", "status"), **by)
        self._documents = Counter("documents", "Documents scored.", ("model", "method"), **by)
        self._seconds = Histogram("request_seconds", "Seconds.", ("model", "method"), buckets=_SECONDS, **by)
        by_feature = ("model", "feature")
        self._missing = Counter("missing_values", "Values that were null in requests.", by_feature, **by)
        self._unknown = Counter("unknown_categories", "Categories that training did not see.", by_feature, **by)
        labels = ("model", "version", "production")
        self._info = Gauge("model_info", "Models that are served.", labels, multiprocess_mode="livemax", **by)
        self._serving: list[tuple[str, str, str]] = []
        if os.environ.get(FOLDER):
            self._registry = CollectorRegistry()
            MultiProcessCollector(self._registry)  # type: ignore[no-untyped-call]

    def serving(self, versions: Mapping[str, str], production: str) -> None:
        """Set which models are served from now on, by their versions."""
        for labels in self._serving:
            self._info.labels(*labels).set(0)
        self._serving = [(name, version, str(name == production).lower()) for name, version in versions.items()]
        for labels in self._serving:
            self._info.labels(*labels).set(1)

    def values(self, model: str, features: Iterable[tuple[str, int, int]]) -> None:
        """Count missing and unknown values: the name of a feature, and how many there were of each."""
        for feature, missing, unknown in features:
            self._missing.labels(model, feature).inc(missing)
            self._unknown.labels(model, feature).inc(unknown)

    def request(self, model: str, method: str, status: int, seconds: float, documents: int) -> None:
        """Count a request."""
        self._requests.labels(model, method, str(status)).inc()
        self._documents.labels(model, method).inc(documents)
        self._seconds.labels(model, method).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
