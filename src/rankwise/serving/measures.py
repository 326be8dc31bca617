"""Metrics of the HTTP service for Prometheus, added up over the processes that serve."""

import os
from collections.abc import Mapping

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from rankwise.arrays import Keywords

FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""The environment variable by which prometheus_client knows that there are several processes."""
_SECONDS = (0.0005, 0.001, 0.002, 0.003, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Measures:
    """Requests, documents and times by model, and the versions of the models."""

    media_type = CONTENT_TYPE_LATEST

    def __init__(self, versions: Mapping[str, str], production: str) -> None:
        self._registry = CollectorRegistry()
        by: Keywords = {"registry": self._registry, "namespace": "rankwise"}
        self._requests = Counter("requests", "Requests.", ("model", "method", "status"), **by)
        self._documents = Counter("documents", "Documents scored.", ("model", "method"), **by)
        self._seconds = Histogram("request_seconds", "Seconds.", ("model", "method"), buckets=_SECONDS, **by)
        labels = ("model", "version", "production")
        info = Gauge("model_info", "Models that are served.", labels, multiprocess_mode="max", **by)
        for name, version in versions.items():
            info.labels(name, version, str(name == production).lower()).set(1)
        if os.environ.get(FOLDER):
            self._registry = CollectorRegistry()
            MultiProcessCollector(self._registry)  # type: ignore[no-untyped-call]

    def request(self, model: str, method: str, status: int, seconds: float, documents: int) -> None:
        """Count a request."""
        self._requests.labels(model, method, str(status)).inc()
        self._documents.labels(model, method).inc(documents)
        self._seconds.labels(model, method).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self._registry)
