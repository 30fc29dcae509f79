"""Reports of finished runs, for the one who runs `bon view`: on loopback, without tokens."""

import os
from pathlib import Path

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse, RedirectResponse
from starlette.middleware.base import RequestResponseEndpoint
from starlette.responses import Response

from bon.core.errors import BonError
from bon.service import pages
from bon.service.api.common import add_error_handlers
from bon.service.app import listening_socket
from bon.service.errors import ApiError
from bon.service.pages.render import error_page, page
from bon.service.pages.reports import of_report
from bon.service.server.access import LOOPBACK, client_uid, hostname
from bon.service.validations.job import read_json

HOST = "127.0.0.1"


def reports_in(paths: list[Path]) -> list[Path]:
    """Return the runs with a report among these directories and the folders in them."""
    found: dict[Path, None] = {}
    for path in paths:
        reports = [*path.glob("report.html")] or sorted(path.glob("*/report.html"))
        if not reports:
            raise BonError(f"no report in {path}", f"bon report {path}")
        found |= dict.fromkeys(report.parent.resolve() for report in reports)
    return list(found)


def create_view(runs: list[Path]) -> FastAPI:
    """Return an application that serves the reports of these runs, and nothing else."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    add_error_handlers(app, lambda _: False, error_page)
    app.get("/static/{name}")(pages.static)

    @app.middleware("http")
    async def only_the_user(request: Request, call_next: RequestResponseEndpoint) -> Response:
        """Refuse other users of this machine, and names that a web page gave this address."""
        host, uid = hostname(request.headers.get("host", "")), client_uid(request.scope)
        if host in LOOPBACK and uid in ("", str(os.getuid())):
            return await call_next(request)
        return PlainTextResponse("only for the user who started bon view, at 127.0.0.1", 403)

    @app.get("/")
    def home(request: Request) -> Response:
        if len(runs) == 1:
            return RedirectResponse("/0/report.html", 303)
        read = [(run, (read_json(run / "results.json") or {}).get("finding")) for run in runs]
        return page(request, "view.html.jinja", runs=read)

    @app.get("/{number}/{path:path}")
    def report(number: int, path: str) -> Response:
        if not 0 <= number < len(runs):
            raise ApiError(404, "no such run")
        return of_report(runs[number], path)

    return app


def view(paths: list[Path], port: int) -> None:
    """Serve the reports until Ctrl-C."""
    runs = reports_in(paths)
    with listening_socket(HOST, port) as listener:
        listener.listen()
        address = f"http://{HOST}:{listener.getsockname()[1]}/"
        print(f"reports at {address} for you alone; Ctrl-C ends it", flush=True)
        config = uvicorn.Config(create_view(runs), log_level="error", server_header=False)
        uvicorn.Server(config).run([listener])
