"""`GET /v1/rewarders`: the online rewarders, and what a validation measured of each."""

import asyncio
import re
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from bon.analysis.results import Results
from bon.choosing.rules import rules_for
from bon.core.errors import BonError
from bon.service.api.common import ONLINE_ERRORS, Reader
from bon.service.api.online import selector_of
from bon.service.errors import ApiError
from bon.service.online.validated import changed, results_of, validation_record
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
    if not run and _default_run(request.app.state.service.settings) is None:
        return {**card, "validation": None}
    results, run = await _results(request, run)
    loaded = selector_of(request).rewarder(name)
    return {**card, "validation": validation_record(loaded, results, run)}


async def check_validated(request: Request, name: str, run: str) -> None:
    """Refuse a card that is not the one that the run validated."""
    results, run = await _results(request, run)
    try:
        changes = changed(selector_of(request).rewarder(name), results, run)
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


def _default_run(settings: Settings) -> Path | None:
    path = settings.online.validated
    return None if path is None else settings.base / path


async def _results(request: Request, run: str) -> tuple[Results, str]:
    """Return the results of a run by id: online.validated, or a validation of this server."""
    settings: Settings = request.app.state.service.settings
    default = _default_run(settings)
    if default is not None and run in ("", default.name):
        directory = default
    elif _RUN.fullmatch(run):
        directory = settings.runs / run
    else:
        known = "none" if default is None else default.name
        fix = f"the id of a validation, or online.validated: {known}"
        raise ApiError(404, f"no run {run[:100]!r}", fix)
    try:
        return await asyncio.to_thread(results_of, directory), directory.name
    except BonError:
        raise ApiError(404, f"the run {directory.name} has no results here") from None
