"""How far a run is, read beside a running driver."""

from pathlib import Path
from typing import Any

from bon.running.completeness import completeness
from bon.running.reporting import open_run
from bon.running.spending import cost_line, costs
from bon.running.store import Store


def run_status(directory: Path) -> dict[str, Any]:
    """When a run was started and finished, what each model has, and what is missing."""
    with Store(directory, readonly=True) as store:
        setup = open_run(store)
        return {
            "name": setup.experiment.name,
            "started": store.meta("started"),
            "finished": store.meta("finished"),
            "questions": store.count("questions", "active > 0"),
            "pairs": store.count("pairs", "active > 0"),
            "bad_rows": store.count("bad_rows"),
            **completeness(setup, store).as_dict(),
            "costs": [one.model_dump() for one in costs(setup, store)],
        }


def show_status(found: dict[str, Any]) -> str:
    """The same as lines of text."""
    bad = f", {found['bad_rows']} bad rows" if found["bad_rows"] else ""
    # Version 0.1 also called a run finished that lacked something.
    ended = f"complete since {found['finished']}" if found["complete"] else "not complete"
    lines = [
        f"{found['name']}: {found['questions']} questions, {found['pairs']} preference pairs{bad}",
        f"started {found['started']}, {ended}",
    ]
    for model in found["models"]:
        candidates = model["role"] == "policy"
        rows = "" if candidates else f", {model['rows']:,} judgements"
        errors = f", {model['errors']:,} errors" if model["errors"] else ""
        lines.append(
            f"  {model['model']:<32} {model['have']:>8,}/{model['wanted']:,} "
            f"{'candidates' if candidates else 'items'}{rows}{errors}"
        )
    lines += [f"  missing: {problem}" for problem in found["missing"]]
    if found["costs"]:
        lines.append("what it cost, per 1,000 candidates or judgements:")
        lines += map(cost_line, found["costs"])
    return "\n".join(lines)
