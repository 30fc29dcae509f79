"""Validations: submit, list, watch, cancel, resume, delete; results, tables and log."""

import shutil
from functools import partial
from typing import Annotated, Any, Literal

import yaml
from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from bon.core.errors import BonError
from bon.planning.plan import Plan, make_plan
from bon.service.api.common import ERRORS, Existing, Own, Parts, Reader, Submitter, audit
from bon.service.errors import ApiError
from bon.service.server.state import Service
from bon.service.settings import Limits
from bon.service.validations import views
from bon.service.validations.jobs import FINAL, STATES
from bon.service.validations.submission import (
    MAX_PAIRS,
    MAX_QUESTIONS,
    check_submission,
    read_submission,
)
from bon.work.setup import Setup

router = APIRouter(prefix="/v1", tags=["validations"], responses=ERRORS)

EXAMPLE = """\
name: first-look
questions: {benchmark: mmmu_pro, path: miniature/questions.parquet, limit: 20}
pairs: {benchmark: vl_rewardbench, path: miniature/pairs.parquet, limit: 60}
policies:
- mini-policy-a
rewarders:
- mini-scalar-a
- mini-scalar-b
- mini-critic-a
- mini-pair-d
"""
MAX_QUEUED = 50
"""Validations of an owner that wait."""
_MEDIA = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
_YAML = ("application/yaml", "application/x-yaml", "text/yaml")
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/yaml": {"schema": {"type": "string"}, "example": EXAMPLE},
            "application/json": {"schema": {"type": "object"}, "example": yaml.safe_load(EXAMPLE)},
        },
    }
}
Page = Annotated[int | None, Query(ge=0, le=2**62, description="`next` of a page")]
Search = Annotated[str | None, Query(max_length=100, description="in the name")]


@router.post("/validations", status_code=201, openapi_extra=_BODY)
async def submit(request: Request, service: Parts, identity: Submitter) -> JSONResponse:
    """Queue an experiment: the YAML file that `bon run` takes, or the same as JSON."""
    _check_kind(request)
    raw, setup, _ = await _planned(service, identity.name, await request.body())
    if service.jobs.num_queued(identity.name) >= MAX_QUEUED:
        raise ApiError(429, "too many of your validations are queued", "cancel some", retry=60)
    queued = await run_in_threadpool(_queue, service, identity.name, setup, experiment=raw)
    audit(request, "submit", queued["id"])
    headers = {"location": f"{request.scope['root_path']}/v1/validations/{queued['id']}"}
    return JSONResponse(queued, 201, headers)


@router.post("/plan", openapi_extra=_BODY)
async def plan_experiment(request: Request, service: Parts, identity: Reader) -> dict[str, Any]:
    """Check an experiment; return the plan of `bon plan --json`."""
    _check_kind(request)
    _, _, plan = await _planned(service, identity.name, await request.body(), limited=False)
    return plan.as_dict()


@router.get("/validations")
def listed(
    service: Parts,
    _: Reader,
    state: Annotated[Literal[STATES] | None, Query()] = None,  # type: ignore[valid-type]
    owner: Annotated[str | None, Query(max_length=100)] = None,
    text: Search = None,
    before: Page = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> dict[str, Any]:
    """List validations, newest first, a page at a time."""
    rows = service.jobs.listed(state=state, owner=owner, text=text, before=before, limit=limit)
    return {
        "validations": [views.summary(row) for row in rows],
        "next": rows[-1].seq if len(rows) == limit else None,
    }


@router.get("/validations/{key}")
def show(validation: Existing, service: Parts) -> dict[str, Any]:
    """Return state, progress by stage, rate, time left, calls, tokens, money."""
    return views.detail(validation, service.directory(validation))


@router.post("/validations/{key}/cancel", status_code=202)
def cancel(validation: Own, request: Request, service: Parts) -> dict[str, Any]:
    """Stop a validation and keep what was computed; no change if it has ended."""
    audit(request, "cancel", validation.id)
    cancelled = service.jobs.cancel(validation.id)
    service.supervisor.wake()
    return views.summary(cancelled)


@router.post("/validations/{key}/resume", status_code=202)
async def resume(
    validation: Own,
    request: Request,
    service: Parts,
    identity: Submitter,
    retry_errors: bool = False,
) -> dict[str, Any]:
    """Queue a validation that has ended again: it continues where it was."""
    check = partial(check_submission, validation.experiment, service.settings)
    setup = await service.plans.run(identity.name, check)
    owner, key = validation.owner, validation.id
    queued = await run_in_threadpool(_queue, service, owner, setup, key, retry_errors=retry_errors)
    audit(request, "resume", validation.id)
    return queued


@router.delete("/validations/{key}", status_code=204)
def delete(validation: Own, request: Request, service: Parts) -> Response:
    """Delete a validation that has ended, with all its files."""
    if validation.state in FINAL:
        service.budget.settle(validation.id)
    service.jobs.delete(validation.id)
    shutil.rmtree(service.directory(validation), ignore_errors=True)
    audit(request, "delete", f"{validation.id} of {validation.owner}")
    return Response(status_code=204)


@router.get("/validations/{key}/results")
def results(validation: Existing, service: Parts) -> Response:
    """Return results.json as docs/results.md describes it."""
    path = service.directory(validation) / "results.json"
    if not path.is_file():
        raise ApiError(404, f"{validation.id} has no results yet", "wait until its state is done")
    return FileResponse(path, media_type="application/json")


@router.get("/validations/{key}/tables/{table}")
def table(
    validation: Existing,
    table: Literal[views.TABLES],  # type: ignore[valid-type]
    service: Parts,
    format: Literal["csv", "parquet"] = "csv",
) -> Response:
    """Return a table of the run, also while it runs."""
    try:
        frame = views.table(service.directory(validation), table)
    except (BonError, OSError):
        raise ApiError(404, f"{validation.id} has no table {table} yet") from None
    headers = {"content-disposition": f'attachment; filename="{validation.id}-{table}.{format}"'}
    from bon.analysis.artifacts import csv_text  # slow to import

    data = csv_text(frame) if format == "csv" else frame.to_parquet(index=False)
    return Response(data, media_type=_MEDIA[format], headers=headers)


@router.get("/validations/{key}/log")
def log(
    validation: Existing,
    service: Parts,
    size: Annotated[int, Query(ge=1, le=4_000_000, description="last bytes")] = 65_536,
) -> Response:
    """Return the end of its process's log, without secrets."""
    return PlainTextResponse(views.log_tail(service.directory(validation), size))


# ------------------------------------------------------------------ inside


def as_yaml(experiment: dict[str, Any]) -> str:
    """Return an experiment as its YAML file."""
    return yaml.safe_dump(experiment, sort_keys=False, allow_unicode=True)


def _check_kind(request: Request) -> None:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in ("application/json", *_YAML):
        raise ApiError(415, "an experiment is YAML or JSON", "content-type: application/yaml")


async def _planned(
    service: Service, owner: str, text: bytes, *, limited: bool = True
) -> tuple[dict[str, Any], Setup, Plan]:
    """Return an experiment that is allowed, and its plan; `limited`: within what a run may take."""

    def work() -> tuple[dict[str, Any], Setup, Plan]:
        raw = read_submission(text)
        setup = check_submission(raw, service.settings)
        plan = make_plan(setup)
        if limited:
            _check_plan(plan, service.settings.limits)
        return raw, setup, plan

    return await service.plans.run(owner, work)


def _queue(
    service: Service, owner: str, setup: Setup, key: str = "", **changes: Any
) -> dict[str, Any]:
    """Queue a validation, a new one without a key, with what it may cost."""
    jobs, name = service.jobs, setup.experiment.name
    with jobs.write():  # it is queued with its money, or not at all
        queued = jobs.queue_again(key, **changes) if key else jobs.add(name, owner, **changes)
        service.budget.reserve(owner, setup, queued.id)
    service.supervisor.wake()
    return views.summary(queued)


def _check_plan(plan: Plan, limits: Limits) -> None:
    """Refuse more rows or calls than a validation may have."""
    sizes = [(plan.questions, MAX_QUESTIONS), *((rows, MAX_PAIRS) for rows in plan.pairs)]
    for rows, most in sizes:
        if rows.count > most:
            raise ApiError(422, f"{rows.name}: {rows.count:,} rows", f"limit them to {most:,}")
    calls = plan.totals()["calls"]
    if calls > limits.calls:
        message = f"{calls:,} model calls are above this server's {limits.calls:,}"
        raise ApiError(422, message, "reduce n, questions or rewarders")
