"""Prometheus metrics of one server."""

from collections import Counter as Total
from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bon.service.server.state import Service
from bon.service.validations import views

WATCHED = 200
"""The newest validations, whose work is summed."""
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """Metrics in a registry of their own, so that servers in one process do not add up."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"bon_{name}", text, labels, registry=self.registry)

        def histogram(name: str, text: str, label: str) -> Histogram:
            return Histogram(f"bon_{name}", text, [label], buckets=_SECONDS, registry=self.registry)

        self.requests = counter("http_requests", "HTTP requests.", "method", "route", "status")
        self.request_seconds = histogram(
            "http_request_seconds", "Time to the end of the response.", "route"
        )
        self.open_requests = Gauge(
            "bon_http_requests_open", "Requests being answered.", registry=self.registry
        )
        self.rejected = counter("rejected", "Rejected requests.", "reason")
        self.calls = counter("online_calls", "Model calls online.", "stage", "model")
        self.tokens = counter("online_tokens", "Tokens online, by direction.", "model", "direction")
        self.cache_hits = counter("online_cache_hits", "Judgements found in the cache.", "model")
        self.failures = counter("online_failures", "Failed calls online.", "stage", "model")
        self.stage_seconds = histogram("online_stage_seconds", "Time of a stage online.", "stage")

    def watch(self, service: Service) -> None:
        """Add the validations' states and work, read whenever metrics are collected."""
        self.registry.register(_Validations(service))


class _Validations(Collector):
    def __init__(self, service: Service) -> None:
        self._service = service

    def collect(self) -> Iterable[Metric]:
        jobs, work = self._service.jobs, Total[str]()
        for row in jobs.listed(limit=WATCHED):
            work.update(views.counts(row, self._service.directory(row)))
        for name, text, label, values in (
            ("bon_validations", "Validations by state.", "state", jobs.counts()),
            ("bon_validation_work", "Work of validations so far.", "kind", work),
        ):
            family = GaugeMetricFamily(name, text, labels=[label])
            for key, value in values.items():
                family.add_metric([key], value)
            yield family
