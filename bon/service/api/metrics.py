"""What Prometheus reads: requests as they are answered, and the state of the server when asked."""

from collections.abc import Iterator

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from bon.service.api.common import Reader
from bon.service.online.selector import Selector
from bon.service.server.state import Service

router = APIRouter(tags=["operations"])
SECONDS = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100)
"""Bounds of the histogram of times to answer: a page to a group judged by a large model."""


class Metrics(Collector):
    """The metrics of one server, each with the prefix `bon_`."""

    def __init__(self, service: Service, online: Selector | None) -> None:
        self._service, self._online = service, online
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self.requests = Histogram(
            "bon_request_seconds",
            "Time to answer a request.",
            ("route", "status"),
            buckets=SECONDS,
            registry=self.registry,
        )

    def collect(self) -> Iterator[Metric]:
        """Read what is known when Prometheus asks."""
        validations = GaugeMetricFamily("bon_validations", "Validations.", labels=["state"])
        for state, number in self._service.jobs.counts().items():
            validations.add_metric([state], number)
        yield validations
        ledger = self._service.ledger
        yield CounterMetricFamily("bon_dollars", "US dollars spent.", ledger.settled())
        committed = "US dollars spent, or reserved for validations."
        yield GaugeMetricFamily("bon_dollars_committed", committed, ledger.committed())
        if self._online is not None:
            backend = self._online.backend
            yield GaugeMetricFamily("bon_online_ready", "All online models.", backend.ready())
            length = "Requests that online models work on, or that wait for them."
            yield GaugeMetricFamily("bon_online_requests", length, backend.length())


@router.get("/metrics", response_class=PlainTextResponse)
def metrics(request: Request, _: Reader) -> Response:
    """Metrics of requests, validations, spending and online models, for Prometheus."""
    text = generate_latest(request.app.state.metrics.registry)
    return Response(text, headers={"content-type": CONTENT_TYPE_LATEST})
