"""What the validations of a server do, as metrics."""

from collections import Counter

from bon.service import views
from bon.service.metrics import Metrics
from bon.service.state import Service

WATCHED = 200  # the newest validations, whose work is added up


def watch(service: Service, metrics: Metrics) -> None:
    """States, work, calls by stage with their seconds, and what was known already."""

    def states() -> dict[str, float]:
        return {state: float(count) for state, count in service.jobs.counts().items()}

    def work() -> dict[str, float]:
        found: Counter[str] = Counter()
        for row in service.jobs.listed(limit=WATCHED):
            found.update(views.counts(row, service.supervisor.directory(row.id)))
        return {kind: float(value) for kind, value in found.items()}

    def calls() -> dict[str, tuple[int, float]]:
        total = work()
        return {
            stage: (int(total.get(rows, 0)), total.get(f"{stage}_seconds", 0.0))
            for stage, rows in (("sample", "candidates"), ("judge", "judgements"))
        }

    def known() -> dict[str, float]:
        found: Counter[str] = Counter()
        for row in service.jobs.listed(limit=WATCHED):
            for stage in views.progress(row, service.supervisor.directory(row.id))["stages"]:
                found[stage["stage"]] += stage.get("known", 0)
        return {stage: float(count) for stage, count in found.items()}

    metrics.collect("bon_validations", "Validations by state.", "state", states)
    metrics.collect("bon_validation_work", "Work of validations so far.", "kind", work)
    metrics.collect_calls(
        "bon_validation_call_seconds", "Model time of the calls of validations.", "stage", calls
    )
    metrics.collect(
        "bon_validation_items_known", "Items that lacked nothing when a run came to them.",
        "stage", known,
    )  # fmt: skip
