"""`GET /v1/rewarders`: the online rewarders, and what a validation measured of each."""

import asyncio
import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from bon.analysis.results import Results
from bon.choosing.rules import rules_for
from bon.core.errors import BonError
from bon.core.text import unicode_only
from bon.experiment.cards import Loaded
from bon.experiment.config import RewarderCard
from bon.planning.run_tables import asked_with
from bon.running.reporting import read_results
from bon.service.api.common import ONLINE_ERRORS, Reader
from bon.service.api.online import selector_of
from bon.service.errors import ApiError
from bon.service.online.selector import Selector
from bon.service.settings import Settings

router = APIRouter(prefix="/v1/rewarders", tags=["rewards"], responses=ONLINE_ERRORS)
_RUN = re.compile(r"v\d{6}-[0-9a-f]{10}")
Run = Annotated[str, Query(max_length=200, description="a run; else the one of online.validated")]


@router.get("")
def rewarders(request: Request, _: Reader) -> dict[str, Any]:
    """List the online rewarders."""
    names = sorted(selector_of(request).rewarders)
    return {"rewarders": [_card(request, name) for name in names]}


@router.get("/{name}")
async def rewarder(name: str, request: Request, _: Reader, run: Run = "") -> dict[str, Any]:
    """Return a rewarder with its validation: r, the gain with its interval, the prompt's hash."""
    card = _card(request, name)
    if not run and request.app.state.service.settings.online.validated is None:
        return {**card, "validation": None}
    results, run = await _results(request, run)
    changes = _changes(selector_of(request), name, results, run)
    return {**card, "validation": _validation_record(name, changes, results, run)}


async def check_validated(request: Request, name: str, run: str) -> None:
    """Refuse a card that is not the one that the run validated."""
    results, run = await _results(request, run)
    try:
        selector = selector_of(request)
        changes = _changes(selector, name, results, run)
    except ApiError as error:
        raise ApiError(409, error.message, error.fix) from None
    if changes:
        raise ApiError(
            409,
            f"{name} is not as run {run} validated it: its {', '.join(changes)} changed since",
            f"validate it again, or see GET /v1/rewarders/{name}",
        )


def _card(request: Request, name: str) -> dict[str, Any]:
    selector = selector_of(request)
    loaded = selector.rewarder(name)
    return {
        "name": name,
        "kind": loaded.card.kind,
        "model": loaded.card.model,
        "prompt_sha256": loaded.prompt.sha256,
        "spec": loaded.own_spec,
        "rules": [rule.name for rule in rules_for(selector.kind(name))],
    }


async def _results(request: Request, run: str) -> tuple[Results, str]:
    """Return the results of a run by id: online.validated, or a validation of this server."""
    settings: Settings = request.app.state.service.settings
    path = settings.online.validated
    default = None if path is None else settings.base / path
    if default is not None and run in ("", default.name):
        directory = default
    elif _RUN.fullmatch(run):
        directory = settings.runs / run
    else:
        known = "none" if default is None else default.name
        fix = f"the id of a validation, or online.validated: {known}"
        raise ApiError(404, f"no run {run[:100]!r}", fix)
    path = directory / "results.json"
    try:
        written = path.stat().st_mtime_ns if path.is_file() else 0
        return await asyncio.to_thread(_read, directory, written), directory.name
    except BonError:
        raise ApiError(404, f"the run {directory.name} has no results here") from None


@lru_cache(maxsize=8)
def _read(run: Path, _written: int) -> Results:
    """Return the results of a run, cached until they are written again."""
    return read_results(run)


def _changed(loaded: Loaded[RewarderCard], results: Results, run: str) -> list[str]:
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

    before, now = validated.get("prompt", ""), current.get("prompt", "")
    same_prompt = before.split(" ")[-1] == now.split(" ")[-1]  # its text, whatever its name
    rest = ("model", "images", "sampling")
    changes = [key for key in rest if validated.get(key, "") != current.get(key, "")]
    return changes if same_prompt else ["prompt", *changes]


_BEST_OF_N = {
    "policy", "rule", "headline", "n", "num_questions", "accuracy", "gain", "peak_n",
    "over_optimised", "verdict_versus_majority",
}  # fmt: skip
_BENCHMARK = {"benchmark", "num_pairs", "overall", "macro", "consistency"}


def _changes(selector: Selector, name: str, results: Results, run: str) -> list[str]:
    """Return what changed in a rewarder, or in the members of a panel."""
    members = map(selector.rewarder, selector.members(name))
    return [change for member in members for change in _changed(member, results, run)]


def _validation_record(name: str, changes: list[str], results: Results, run: str) -> dict[str, Any]:
    """Return a run's estimates for a rewarder, with their intervals."""

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
