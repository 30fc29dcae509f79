"""Dependencies of the routes, documented errors, and the handlers that shape error replies."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Annotated, Any, TypeVar, cast

from fastapi import Depends, FastAPI, Path, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from bon.core.errors import BonError
from bon.experiment.config import Card
from bon.service.errors import ApiError, error_response, no_token
from bon.service.online.backend import charged_to
from bon.service.online.selector import Selector
from bon.service.server.access import Identity
from bon.service.server.state import Service
from bon.service.settings import Role
from bon.service.validations.jobs import Validation

T = TypeVar("T")
CLIENT_CLOSED = 499
"""The status in logs of a request whose client hung up; nobody receives it."""
_ERROR = {"content": {"application/json": {"schema": {"type": "object"}}}}
ERRORS: dict[int | str, dict[str, Any]] = {
    "4XX": {"description": "Refused: `error` has `message` and `fix`.", **_ERROR}
}
ONLINE_ERRORS = ERRORS | {"5XX": {"description": "The model failed, or is not online.", **_ERROR}}


async def get_service(request: Request) -> Service:
    """Return the server's parts."""
    return cast(Service, request.app.state.service)


def require(role: Role) -> Callable[[Request], Awaitable[Identity]]:
    """Return a dependency that yields the identity if it has this role."""

    async def check(request: Request) -> Identity:  # async: needs no thread per request
        identity: Identity | None = request.scope.get("identity")
        if identity is None:
            raise no_token()
        if not identity.may(role):
            raise ApiError(403, f"this needs the role {role}; yours is {identity.role}")
        return identity

    return check


Reader = Annotated[Identity, Depends(require("read"))]
Submitter = Annotated[Identity, Depends(require("submit"))]
Parts = Annotated[Service, Depends(get_service)]
ValidationId = Annotated[
    str, Path(pattern=r"^v\d{6}-[0-9a-f]{10}$", examples=["v261120-0123456789"])
]


async def find(key: ValidationId, service: Parts, _: Reader) -> Validation:
    """Return the validation, or raise 404."""
    if (validation := service.jobs.get(key)) is None:
        raise ApiError(404, f"no validation {key}")
    return validation


Existing = Annotated[Validation, Depends(find)]


async def find_own(identity: Submitter, validation: Existing) -> Validation:
    """Return the validation if this identity may change it."""
    if validation.owner != identity.name and not identity.may("admin"):
        owner = f"{validation.id} belongs to {validation.owner!r}"
        raise ApiError(403, owner, "its owner or an admin may do this")
    return validation


Own = Annotated[Validation, Depends(find_own)]


def audit(request: Request, action: str, subject: str, identity: Identity | None = None) -> None:
    """Record in the audit trail what a request changed; by default its own identity did it."""
    who = identity or request.scope["identity"]
    client = request.client.host if request.client else ""
    jobs = request.app.state.service.jobs
    jobs.audit(who.name if who else "-", client, action, subject)


def selector_of(request: Request) -> Selector:
    """Return the online models, or raise 503."""
    selector: Selector | None = request.app.state.online
    if selector is None:
        fix = "name cards under online: in the server's settings"
        raise ApiError(503, "no model is online here", fix)
    return selector


async def run_models(
    request: Request,
    cards: Sequence[Card],
    work: Callable[[], Coroutine[Any, Any, T]],
) -> T:
    """Run the work within the time limit and the owner's budget, while its client waits."""
    service = await get_service(request)
    owner, budget = request.scope["identity"].name, service.budget
    if any(card.is_paid for card in cards) and not await asyncio.to_thread(budget.left, owner):
        raise ApiError(402, "your share of this server's money is spent", "ask its operator")
    seconds = service.settings.limits.request_seconds

    async def disconnected() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    with charged_to(budget.account(owner)):
        task = asyncio.create_task(work())
    closed = asyncio.create_task(disconnected())
    try:
        await asyncio.wait({task, closed}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            return task.result()
        if closed.done():
            raise ApiError(CLIENT_CLOSED, "the client disconnected")
        raise ApiError(504, f"no answer within {seconds:g} s")
    finally:
        closed.cancel()
        task.cancel()


def add_error_handlers(
    app: FastAPI,
    wants_page: Callable[[Request], bool],
    error_page: Callable[[Request, BonError], Response],
) -> None:
    """Give every error the same form, with nothing of the request in it; pages for browsers."""
    no_page = ApiError(404, "There is no such page.")

    @app.exception_handler(BonError)
    async def bon_error(request: Request, error: BonError) -> Response:
        return error_page(request, error) if wants_page(request) else error_response(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        if wants_page(request):
            return error_page(request, no_page)
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        return error_response(ApiError(422, f"{field}: {first['msg']}"), field)

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        if wants_page(request) and error.status_code == 404:
            return error_page(request, no_page)
        response = error_response(ApiError(error.status_code, str(error.detail)))
        response.headers.update(error.headers or {})
        return response
