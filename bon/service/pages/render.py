"""Templates as responses, and errors as pages."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from starlette.responses import Response

import bon
from bon.analysis.report.templates import environment
from bon.core.errors import BonError
from bon.service.server.access import Identity
from bon.service.server.logs import public_text
from bon.service.server.middleware import PAGE_CSP
from bon.service.validations.jobs import STATES

HERE = Path(__file__).parent
TEMPLATES = environment(HERE / "templates")
TEMPLATES.filters["when"] = lambda moment: (moment or "")[:16].replace("T", " ")
TEMPLATES.filters["utc"] = lambda seconds: f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M}"
TEMPLATES.globals.update(version=bon.__version__, states=STATES)


def root(request: Request) -> str:
    """Return the prefix of the server's paths in a browser; "" without a proxy's prefix."""
    return str(request.scope["root_path"])


def page(request: Request, name: str, status: int = 200, /, **values: Any) -> HTMLResponse:
    """Render a template under the pages' content security policy."""
    me: Identity | None = request.scope.get("identity")
    here = request.url.path.removeprefix(root(request))
    common = {"root": root(request), "here": here, "me": me, "signed_in": bool(me and me.token)}
    html = TEMPLATES.get_template(name).render(**common, **values)
    return HTMLResponse(html, status, {"content-security-policy": PAGE_CSP})


def wants_page(request: Request) -> bool:
    """Whether a browser sends the request, and not a program."""
    api = request.url.path.removeprefix(root(request)).startswith("/v1")
    accepted = request.headers.get("accept", "")
    return request.method == "GET" and not api and "text/html" in accepted


def error_page(request: Request, error: BonError) -> Response:
    """Return an error as a page; without a token, redirect to the sign-in form."""
    status = getattr(error, "status", 422)
    if status == 401:
        query = f"?{request.url.query}" if request.url.query else ""
        target = quote(request.url.path + query, safe="/")
        return RedirectResponse(f"{root(request)}/login?to={target}", 303)
    message, fix = public_text(error.message), public_text(error.fix)
    return page(request, "error.html.jinja", status, message=message, fix=fix)
