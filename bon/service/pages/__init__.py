"""The pages: rendered here, with a little script, over the same data as the API."""

import json
from pathlib import Path
from typing import Annotated, Any

import yaml
from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, RedirectResponse
from starlette.responses import Response

from bon.analysis.report.templates import HERE as REPORT
from bon.running.catalogue import catalogue
from bon.service import views
from bon.service.api.common import Parts, Problem, Reader, ValidationId, find
from bon.service.api.validations import EXAMPLE
from bon.service.interim import Interim
from bon.service.job import read_json
from bon.service.jobs import FINAL, STATES, Validation
from bon.service.pages.compare import comparison
from bon.service.pages.render import HERE, page
from bon.service.tokens import Identity

MAX_COMPARED = 6
PAGE_ROWS = 50

StartFrom = Annotated[str, Query(alias="from", max_length=40)]
_SVG_HEADERS = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
router = APIRouter(include_in_schema=False)


@router.get("/")
def home(request: Request) -> Response:
    """The list is the first page; of who may only label, what there is to label."""
    me: Identity | None = request.scope.get("identity")
    labels_only = me is not None and not me.may("read")
    return RedirectResponse("/annotate" if labels_only else "/validations", 303)


@router.get("/validations")
def list_page(
    request: Request,
    service: Parts,
    _: Reader,
    state: str = "",
    text: Annotated[str, Query(max_length=100)] = "",
    before: Annotated[int | None, Query(ge=0, le=2**62)] = None,
) -> Response:
    """All validations, newest first."""
    chosen = state if state in STATES else None
    rows = service.jobs.listed(state=chosen, text=text or None, before=before, limit=PAGE_ROWS)
    shown = [
        {**views.summary(row), "share": _share(row, service.supervisor.directory(row.id))}
        for row in rows
    ]
    return page(
        request,
        "list.html.jinja",
        rows=shown,
        counts=service.jobs.counts(),
        state=chosen or "",
        text=text,
        older=rows[-1].seq if len(rows) == PAGE_ROWS else None,
    )


@router.get("/validations/{key}")
def validation_page(key: ValidationId, request: Request, service: Parts, me: Reader) -> Response:
    """One validation, live."""
    found = find(service, key)
    directory = service.supervisor.directory(key)
    shown = views.detail(found, directory)
    yaml_text = yaml.safe_dump(found.experiment, sort_keys=False, allow_unicode=True)
    return page(
        request,
        "validation.html.jinja",
        v=shown,
        final=found.state in FINAL,
        mine=me.may("admin") or (me.may("submit") and me.name == found.owner),
        experiment=yaml_text,
        finding=_finding(directory),
        interim=found.state not in FINAL and (directory / "interim.json").is_file(),
        log=views.log_tail(directory, 8192),
        **{name: rows for name, rows in catalogue().items() if name in ("rewarders", "benchmarks")},
    )


@router.get("/validations/{key}/interim")
def interim(key: ValidationId, request: Request, service: Parts, _: Reader) -> dict[str, Any]:
    """What the last drawing says; asks for a newer one."""
    found = find(service, key)
    directory = service.supervisor.directory(key)
    if found.state == "running" and service.settings.interim_plots:
        drawer: Interim = request.app.state.interim
        drawer.want(directory)
    return read_json(directory / "interim.json") or {"at": None}


@router.get("/validations/{key}/interim-{theme}.svg")
def interim_plot(key: ValidationId, theme: str, service: Parts, _: Reader) -> Response:
    """The last drawing."""
    find(service, key)
    path = service.supervisor.directory(key) / f"interim-{theme}.svg"
    if theme not in ("light", "dark") or not path.is_file():
        raise Problem(404, "nothing is drawn yet")
    return FileResponse(path, media_type="image/svg+xml", headers=_SVG_HEADERS)


@router.get("/compare")
def compare_page(
    request: Request,
    service: Parts,
    _: Reader,
    id: Annotated[list[str], Query()] = [],  # noqa: B006
) -> Response:
    """Several validations side by side."""
    found = [row for key in id[:MAX_COMPARED] if (row := service.jobs.get(key)) is not None]
    compared = []
    for row in found:
        directory = service.supervisor.directory(row.id)
        compared.append((views.summary(row), read_json(directory / "results.json"), directory))
    done = service.jobs.listed(state="done", limit=100)
    return page(
        request,
        "compare.html.jinja",
        chosen=[row.id for row in found],
        choices=[views.summary(row) for row in done],
        table=comparison(compared),
        most=MAX_COMPARED,
    )


@router.get("/catalogue")
def catalogue_page(request: Request, _: Reader) -> Response:
    """Policies, rewarders and benchmarks with their cards."""
    online = request.app.state.online
    return page(
        request,
        "catalogue.html.jinja",
        **catalogue(),
        online={} if online is None else online.names(),
    )


@router.get("/new")
def new_page(request: Request, service: Parts, me: Reader, start_from: StartFrom = "") -> Response:
    """A form that writes an experiment, checks it as it is written and shows its plan."""
    start = service.jobs.get(start_from) if start_from else None
    experiment = EXAMPLE
    if start is not None:
        experiment = yaml.safe_dump(start.experiment, sort_keys=False, allow_unicode=True)
    return page(
        request,
        "new.html.jinja",
        experiment=experiment,
        may_submit=me.may("submit"),
        files=_data_files(service.settings.files),
        **{name: rows for name, rows in catalogue().items() if name != "rules"},
    )


@router.get("/static/{name}")
def static(name: str) -> Response:
    """The pages' own style and script."""
    files = {
        "style.css": (REPORT / "style.css", "text/css"),
        "service.css": (HERE / "static" / "service.css", "text/css"),
        "tables.js": (REPORT / "tables.js", "text/javascript"),
        "service.js": (HERE / "static" / "service.js", "text/javascript"),
        "annotate.css": (HERE / "static" / "annotate.css", "text/css"),
        "annotate.js": (HERE / "static" / "annotate.js", "text/javascript"),
        "icon.svg": (REPORT / "icon.svg", "image/svg+xml"),
    }
    if name not in files:
        raise Problem(404, "no such file")
    path, kind = files[name]
    return FileResponse(path, media_type=kind, headers={"cache-control": "no-cache"})


# ------------------------------------------------------------------ inside


def _share(validation: Validation, directory: Path) -> float | None:
    stages = views.progress(validation, directory)["stages"]
    total = sum(stage["total"] for stage in stages)
    return sum(stage["done"] for stage in stages) / total if total else None


def _finding(directory: Path) -> dict[str, Any] | None:
    try:
        found = json.loads((directory / "results.json").read_text(encoding="utf-8"))["finding"]
    except (OSError, ValueError, KeyError):
        return None
    return found if isinstance(found, dict) else None


def _data_files(root: Path, most: int = 200) -> list[str]:
    """Data files that an experiment can name."""
    found = []
    for path in sorted(root.rglob("*")):
        if path.suffix in (".jsonl", ".parquet", ".json") and path.is_file():
            found.append(str(path.relative_to(root)))
        if len(found) == most:
            break
    return found
