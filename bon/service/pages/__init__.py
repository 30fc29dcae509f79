"""The pages: rendered here, with a little script, over the same data as the API."""

from pathlib import Path
from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, RedirectResponse
from starlette.responses import Response

from bon.analysis.report.templates import HERE as REPORT
from bon.service.api.common import Existing, Parts, Reader
from bon.service.api.validations import EXAMPLE, Page, as_yaml
from bon.service.errors import ApiError
from bon.service.pages.render import HERE, page, root
from bon.service.server.access import Identity
from bon.service.validations import views
from bon.service.validations.job import read_json
from bon.service.validations.jobs import FINAL, STATES, Validation
from bon.work.catalogue import catalogue

PAGE_ROWS = 50
MAX_FILES = 200
_DATA = (".jsonl", ".parquet", ".json")
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_STATIC = {
    **{name: REPORT / name for name in ("style.css", "tables.js", "icon.svg")},
    **{path.name: path for path in (HERE / "static").iterdir()},
}
StartFrom = Annotated[str, Query(alias="from", max_length=40)]
router = APIRouter(include_in_schema=False)


@router.get("/")
def home(request: Request) -> Response:
    """Redirect to the list; those who may only annotate, to the benchmarks."""
    identity: Identity | None = request.scope.get("identity")
    annotates_only = identity is not None and not identity.may("read")
    target = "annotate" if annotates_only else "validations"
    return RedirectResponse(f"{root(request)}/{target}", 303)


@router.get("/validations")
def list_page(
    request: Request,
    service: Parts,
    _: Reader,
    state: str = "",
    text: Annotated[str, Query(max_length=100)] = "",
    before: Page = None,
) -> Response:
    """All validations, newest first."""
    known = state if state in STATES else None
    rows = service.jobs.listed(state=known, text=text, before=before, limit=PAGE_ROWS)
    return page(
        request,
        "list.html.jinja",
        rows=[
            {
                **views.summary(row),
                "share": _share(row, service.directory(row)),
                "dollars": service.ledger.committed(spec=row.id),
            }
            for row in rows
        ],
        counts=service.jobs.counts(),
        state=known or "",
        text=text,
        address=str(request.base_url).rstrip("/"),
        older=rows[-1].seq if len(rows) == PAGE_ROWS else None,
    )


@router.get("/validations/{key}")
def validation_page(
    validation: Existing, request: Request, service: Parts, identity: Reader
) -> Response:
    """One validation, live."""
    directory = service.directory(validation)
    own = identity.may("submit") and identity.name == validation.owner
    return page(
        request,
        "validation.html.jinja",
        v=views.detail(validation, directory),
        final=validation.state in FINAL,
        may_change=own or identity.may("admin"),
        experiment=as_yaml(validation.experiment),
        finding=(read_json(directory / "results.json") or {}).get("finding"),
        log=views.log_tail(directory, 8192),
    )


@router.get("/catalogue")
def catalogue_page(request: Request, _: Reader) -> Response:
    """Policies, rewarders and benchmarks with their cards."""
    selector = request.app.state.online
    online = {} if selector is None else selector.names()
    return page(request, "catalogue.html.jinja", **catalogue(), online=online)


@router.get("/new")
def new_page(
    request: Request, service: Parts, identity: Reader, start_from: StartFrom = ""
) -> Response:
    """A form for an experiment, which is checked as it is written and shown with its plan."""
    start, folder = service.jobs.get(start_from) if start_from else None, service.settings.files
    paths = [path for path in sorted(folder.rglob("*")) if path.suffix in _DATA and path.is_file()]
    return page(
        request,
        "new.html.jinja",
        experiment=EXAMPLE if start is None else as_yaml(start.experiment),
        may_submit=identity.may("submit"),
        files=[str(path.relative_to(folder)) for path in paths[:MAX_FILES]],
        **catalogue(),
    )


@router.get("/static/{name}")
def static(name: str) -> Response:
    """The pages' own styles and scripts."""
    if name not in _STATIC:
        raise ApiError(404, "no such file")
    path = _STATIC[name]
    return FileResponse(path, media_type=_TYPES[path.suffix], headers={"cache-control": "no-cache"})


def _share(validation: Validation, directory: Path) -> float | None:
    stages = views.progress(validation, directory)["stages"]
    total = sum(stage["total"] for stage in stages)
    return sum(stage["done"] for stage in stages) / total if total else None
