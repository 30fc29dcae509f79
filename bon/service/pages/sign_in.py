"""The sign-in form and its sessions."""

import asyncio
import re
from urllib.parse import parse_qs

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse
from starlette.responses import Response

from bon.service.api.common import Parts, audit
from bon.service.pages.render import page, root
from bon.service.server.access import (
    Identity,
    Tokens,
    client_uid,
    cookie_name,
    session_cookie,
)

router = APIRouter(include_in_schema=False)


@router.get("/login")
def login_page(request: Request) -> Response:
    """The form that turns a token into a session."""
    target = _local(request.query_params.get("to", ""), root(request))
    return _form(request, 200, target)


@router.post("/login")
async def login(request: Request, service: Parts) -> Response:
    """Check the token and set a cookie that stands for it for half a day."""
    fields = parse_qs((await request.body()).decode("utf-8", "replace"))
    target = _local(fields.get("to", [""])[0], root(request))
    identity = await asyncio.to_thread(service.tokens.check, fields.get("token", [""])[0].strip())
    if identity is None:
        return _form(request, 401, target)
    return await asyncio.to_thread(_signed_in, request, service.tokens, identity, target)


def _form(request: Request, status: int, target: str) -> Response:
    return page(request, "login.html.jinja", status, wrong=status == 401, target=target)


def _signed_in(request: Request, tokens: Tokens, identity: Identity, target: str) -> Response:
    """Open a session and redirect to the target."""
    audit(request, "sign in", identity.name, identity)
    response = RedirectResponse(target, 303)
    session = tokens.session(identity, client_uid(request.scope))
    # Lax: a link from a chat or a wiki opens as signed in; what changes anything is never a GET.
    response.set_cookie(
        cookie_name(request.scope),
        session,
        path=root(request) or "/",
        httponly=True,
        samesite="lax",
        secure=request.headers.get("x-forwarded-proto", request.url.scheme) == "https",
    )
    return response


@router.post("/logout")
def logout(request: Request, service: Parts) -> Response:
    """End the session, here and in the browser."""
    if identity := request.scope["identity"]:
        audit(request, "sign out", identity.name)
    service.tokens.end_session(session_cookie(request.scope), client_uid(request.scope))
    response = RedirectResponse(f"{root(request)}/login", 303)
    response.delete_cookie(cookie_name(request.scope), path=root(request) or "/")
    return response


def _local(target: str, prefix: str = "") -> str:
    """Return a path of this server with its query; the home page for any other address."""
    local = re.fullmatch(r"/(?![/\\])[\w./-]*(\?[\w=&%.+-]*)?", target.removeprefix(prefix))
    return target if local and target.startswith(f"{prefix}/") else f"{prefix}/"
