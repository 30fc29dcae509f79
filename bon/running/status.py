"""The status of a run, read beside a running driver: completeness and cost."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bon.analysis.results.phrasing import percent
from bon.running.reporting import model_costs, open_run
from bon.storage.store import Store
from bon.work.completeness import completeness


def run_status(directory: Path) -> dict[str, Any]:
    """Return start and end of a run, every model's progress and cost, and what is missing."""
    with Store(directory, readonly=True) as store:
        setup = open_run(store)
        return {
            "name": setup.experiment.name,
            "started": store.meta("started"),
            "finished": store.meta("finished"),
            "questions": store.count("questions", "active > 0"),
            "pairs": store.count("pairs", "active > 0"),
            "bad_rows": store.count("bad_rows"),
            **completeness(setup, store).model_dump(),
            "costs": [cost.model_dump() for cost in model_costs(setup, store)],
        }


def format_status(status: dict[str, Any]) -> str:
    """Format a status as lines of text."""
    bad = f", {status['bad_rows']} bad rows" if status["bad_rows"] else ""
    ended = f"complete since {status['finished']}" if status["complete"] else "not complete"
    lines = [
        f"{status['name']}: {status['questions']} questions, {status['pairs']} preference pairs"
        f"{bad}",
        f"started {status['started']}, {ended}",
    ]
    width = max((len(model["model"]) for model in (*status["models"], *status["costs"])), default=0)
    for model in status["models"]:
        is_policy = model["role"] == "policy"
        rows = "" if is_policy else f", {model['rows']:,} judgements"
        errors = f", {model['errors']:,} errors" if model["errors"] else ""
        lines.append(
            f"  {model['model']:<{width}}  {model['have']:>8,}/{model['wanted']:,} "
            f"{'candidates' if is_policy else 'items'}{rows}{errors}"
        )
    lines += [f"  missing: {problem}" for problem in status["missing"]]
    if status["costs"]:
        lines.append("what it cost, per 1,000 candidates or judgements:")
        lines += [f"  {cost['model']:<{width}}  {_format_cost(cost)}" for cost in status["costs"]]
    return "\n".join(lines)


def _format_cost(cost: Mapping[str, Any]) -> str:
    seconds, cached, waited = cost["seconds"], cost["cache_hit_rate"], cost["waited"]
    parts = [
        "" if seconds is None else f"{seconds:,.3g} {cost['unit']}",
        f"{cost['prompt_tokens']:,.0f} tokens in, {cost['reply_tokens']:,.0f} out",
        "" if cost["dollars"] is None else f"${cost['dollars']:,.2f}",
        "" if cached is None else f"{percent(cached, 0)} of prompts from the cache",
        "" if waited is None else f"waited {percent(waited, 0)} of the time for input",
    ]
    return ", ".join(filter(None, parts))
