"""A run's report, isolated from the server: it contains what models wrote.

It is served under its own content security policy and as a sandbox, that is, as an origin of its
own without cookies; its link carries a signature, with which its files load for a day or two, and
no longer than the token lives that it was made for.
"""

import hmac
import re
import time
from pathlib import Path

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, RedirectResponse
from starlette.responses import Response

from bon.service.api.common import Existing, Parts, Reader, ValidationId
from bon.service.errors import ApiError
from bon.service.pages.render import root
from bon.service.server.state import Service

router = APIRouter(include_in_schema=False)
DAY_SECONDS = 86_400
_POLICY = re.compile(rb'http-equiv="Content-Security-Policy" content="([^"]*)"')
_PATH = re.compile(r"[\w./-]{1,200}", re.ASCII)
_IMAGES = ((b"\x89PNG", "png"), (b"\xff\xd8", "jpeg"), (b"GIF8", "gif"), (b"BM", "bmp"))


@router.get("/validations/{key}/report")
def report(validation: Existing, request: Request, service: Parts, identity: Reader) -> Response:
    """Redirect to the report under a signed link: its page has no cookies."""
    key = validation.id
    if not (service.directory(validation) / "report.html").is_file():
        raise ApiError(404, f"{key} has no report yet", "wait until its state is done")
    signature = f"{identity.token}-{_signature(service, key, identity.token)}"
    return RedirectResponse(f"{root(request)}/reports/{key}/{signature}/report.html", 303)


@router.get("/reports/{key}/{signature}/{path:path}")
def report_file(key: ValidationId, signature: str, path: str, service: Parts) -> Response:
    """A file of the report, as an origin of its own that cannot reach the server."""
    token, _, signature = signature.partition("-")
    signed = [_signature(service, key, token, days_ago) for days_ago in (0, 1)]
    # Both are compared in any case: the time reveals nothing.
    valid = any([hmac.compare_digest(signature.encode(), other.encode()) for other in signed])
    lives = service.tokens.valid(token) if token else not service.settings.auth
    if not (valid and lives):
        raise ApiError(404, "no such report", f"open it again: /validations/{key}/report")
    return of_report(service.settings.runs / key, path)


def of_report(folder: Path, path: str) -> Response:
    """Return a run's report or a file of it; no other file of the run."""
    folder = folder.resolve()
    file = (folder / path).resolve() if _PATH.fullmatch(path) else folder
    known = file == folder / "report.html" or file.is_relative_to(folder / "report_files")
    if not (known and file.is_file()):
        raise ApiError(404, "no such file of the report")
    # The page has an opaque origin, so even its own files are on another origin.
    headers = {"access-control-allow-origin": "*", "cross-origin-resource-policy": "cross-origin"}
    if file.name == "report.html":
        return sandboxed(file, headers)
    headers["content-security-policy"] = "default-src 'none'; sandbox"
    with file.open("rb") as stream:  # its type by its first bytes: no other file becomes a page
        head = stream.read(16)
    webp = "image/webp" if head[8:12] == b"WEBP" else "application/octet-stream"
    media = next((f"image/{kind}" for start, kind in _IMAGES if head.startswith(start)), webp)
    media = "text/javascript" if file.suffix == ".js" else media
    return FileResponse(file, media_type=media, headers=headers)


def sandboxed(page: Path, headers: dict[str, str] | None = None) -> FileResponse:
    """Return a page that bon generated, under its own policy and as an origin of its own."""
    with page.open("rb") as stream:
        match = _POLICY.search(stream.read(65_536))
    own = match[1].decode().replace("&#39;", "'") if match else "default-src 'none'"
    own = f"{own}; frame-ancestors 'none'; sandbox allow-scripts allow-downloads"
    headers = {**(headers or {}), "content-security-policy": own}
    return FileResponse(page, media_type="text/html", headers=headers)


def _signature(service: Service, key: str, token: str, days_ago: int = 0) -> str:
    day = int(time.time() // DAY_SECONDS) - days_ago
    return service.tokens.sign("report", f"{key}:{token}:{day}")
