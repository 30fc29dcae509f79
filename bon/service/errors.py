"""Errors of the HTTP API and their one JSON form."""

from starlette.responses import JSONResponse

from bon.core.errors import BonError
from bon.service.server.logs import public_text, request_id

MAX_CHARS = 1000
_KINDS = {429: "rate_limit_error", 502: "server_error", 503: "server_error", 504: "server_error"}
CLOSING = (401, 403, 408, 413, 429, 431)
"""Statuses after which the guard closes the connection: the rest of the request is not read."""


class ApiError(BonError):
    """An error reply with its HTTP status; `retry` is in seconds."""

    def __init__(self, status: int, message: str, fix: str = "", *, retry: float = 0.0) -> None:
        super().__init__(message, fix)
        self.status = status
        self.retry = retry


def no_token() -> ApiError:
    """The reply to a request without a valid token."""
    return ApiError(401, "a token is needed", "send `Authorization: Bearer TOKEN` (bon token add)")


def error_response(error: BonError, param: str | None = None) -> JSONResponse:
    """Return the error as JSON: OpenAI's form with `fix` and `request_id` added."""
    status = getattr(error, "status", 422)
    body = {
        "message": _clean(error.message),
        "type": _KINDS.get(status, "invalid_request_error"),
        "param": None if param is None else _clean(param),
        "code": None,
        "fix": _clean(error.fix),
        "request_id": request_id.get(),
    }
    headers = {"www-authenticate": "Bearer"} if status == 401 else {}
    if retry := getattr(error, "retry", 0.0):
        headers["retry-after"] = str(max(1, round(retry)))
    return JSONResponse({"error": body}, status, headers)


def _clean(text: str) -> str:
    """Valid UTF-8 without secrets or paths of this machine."""
    return public_text(text.encode("utf-8", "replace").decode("utf-8"))[:MAX_CHARS]
