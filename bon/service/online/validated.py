"""What a validation measured of a rewarder, and whether its card is still the validated one."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from bon.analysis.results import Results
from bon.core.errors import BonError
from bon.core.text import unicode_only
from bon.experiment.cards import Loaded
from bon.experiment.config import RewarderCard
from bon.planning.run_tables import asked_with
from bon.running.reporting import read_results
from bon.service.errors import ApiError


def results_of(run: Path) -> Results:
    """Return the results of a run, cached until they are written again."""
    path = run / "results.json"
    return _read(run, path.stat().st_mtime_ns if path.is_file() else 0)


@lru_cache(maxsize=8)
def _read(run: Path, _written: int) -> Results:
    return read_results(run)


def validated_scales(run: Path) -> dict[tuple[str, str], float]:
    """Return the unit of scores by (policy, rewarder): their spread within questions."""
    try:
        results = results_of(run)
    except BonError as error:
        raise BonError(f"online.validated: {error.message}", error.fix) from None
    return {(b.policy, b.rewarder): b.scale for b in results.best_of_n if b.scale is not None}


def changed(loaded: Loaded[RewarderCard], results: Results, run: str) -> list[str]:
    """Return which of a card's prompt, model, images and sampling changed since the run."""
    name = loaded.card.name
    validated: Mapping[str, str] | None = next(
        (s.details for s in results.sources if (s.kind, s.name) == ("rewarder", name)), None
    )
    if validated is None:
        raise ApiError(404, f"run {run}: it did not validate {name}", "name a run that did")
    current = {key: unicode_only(value) for key, value in asked_with(loaded).items() if value}
    if validated.get("model", "") == loaded.model_path:  # the run holds the folder's full path
        current["model"] = loaded.model_path

    def prompt_text(details: Mapping[str, str]) -> dict[str, str]:
        """A prompt is identified by its text, not by its name."""
        return {**details, "prompt": details.get("prompt", "").split(" ")[-1]}

    before, now = prompt_text(validated), prompt_text(current)
    keys = ("prompt", "model", "images", "sampling")
    return [key for key in keys if before.get(key, "") != now.get(key, "")]


_BEST_OF_N = {
    "policy", "rule", "headline", "n", "num_questions", "accuracy", "gain", "peak_n",
    "over_optimised", "verdict_versus_majority",
}  # fmt: skip
_BENCHMARK = {"benchmark", "num_pairs", "overall", "macro", "consistency"}


def validation_record(loaded: Loaded[RewarderCard], results: Results, run: str) -> dict[str, Any]:
    """Return a run's estimates for a rewarder, with their intervals."""
    name, changes = loaded.card.name, changed(loaded, results, run)

    def rows(table: Any, fields: set[str]) -> list[dict[str, Any]]:
        return [
            row.model_dump(mode="json", include=fields) for row in table if row.rewarder == name
        ]

    return {
        "run": run,
        "name": results.run.name,
        "created": results.run.created,
        "bon_version": results.run.bon_version,
        "unchanged": not changes,
        "changed": changes,
        "finding": results.finding.sentence,
        "best_of_n": rows(results.best_of_n, _BEST_OF_N),
        "benchmarks": rows(results.benchmarks, _BENCHMARK),
        "r": [
            row.model_dump(mode="json", include={"policy", "benchmark", "n", "num_rewarders"})
            | {"pearson": row.pearson.estimate.model_dump(mode="json")}
            for row in results.correlations
            if row.primary
        ],
    }
