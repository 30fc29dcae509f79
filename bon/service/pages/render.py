"""Templates as answers, and errors as pages."""

from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse
from jinja2 import Environment
from starlette.responses import Response

import bon
from bon.analysis.report.templates import environment
from bon.service.api.common import Problem
from bon.service.guard import PAGE_CSP
from bon.service.jobs import STATES
from bon.service.tokens import Identity

HERE = Path(__file__).parent


def _environment() -> Environment:
    found = environment(HERE / "templates")
    found.filters["when"] = _when
    found.globals.update(version=bon.__version__, states=STATES)
    return found


def _when(moment: str | None) -> str:
    return "" if moment is None else moment[:16].replace("T", " ")


PAGES = _environment()


def page(request: Request, name: str, status: int = 200, /, **values: Any) -> HTMLResponse:
    """A template as an answer, under the pages' content security policy."""
    identity: Identity | None = request.scope.get("identity")
    html = PAGES.get_template(name).render(
        here=request.url.path, me=identity, signed_in=bool(identity and identity.token), **values
    )
    return HTMLResponse(html, status, {"content-security-policy": PAGE_CSP})


def wants_page(request: Request) -> bool:
    """Whether a person's browser asks, and not a program."""
    return (
        request.method == "GET"
        and not request.url.path.startswith(("/v1", "/metrics"))
        and ("text/html" in request.headers.get("accept", ""))
    )


def problem_page(request: Request, problem: Problem) -> Response:
    """An error for a person; without a token, the way to sign in."""
    if problem.status == 401:
        query = f"?{request.url.query}" if request.url.query else ""
        return RedirectResponse(f"/login?to={quote(request.url.path + query, safe='/')}", 303)
    return page(
        request, "problem.html.jinja", problem.status, message=problem.message, fix=problem.fix
    )
