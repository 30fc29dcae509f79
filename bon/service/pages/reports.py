"""A run's report, served so that nothing in it can reach the server.

The report is one HTML file made from what models wrote. It is served under its own content
security policy and as a sandbox, that is, as an origin of its own without cookies; its link
carries a signature that lasts a day or two, so that what lies beside it can be loaded.
"""

import hmac
import re
import time
from pathlib import Path

from fastapi import APIRouter
from fastapi.responses import FileResponse, RedirectResponse
from starlette.responses import Response

from bon.service.api.common import Parts, Problem, Reader, ValidationId, find
from bon.service.state import Service

router = APIRouter(include_in_schema=False)
DAY_SECONDS = 86_400
_POLICY = re.compile(rb'http-equiv="Content-Security-Policy" content="([^"]*)"')
_PATH = re.compile(r"[\w./-]{1,200}", re.ASCII)
_IMAGES = ((b"\x89PNG", "png"), (b"\xff\xd8", "jpeg"), (b"GIF8", "gif"), (b"BM", "bmp"))


@router.get("/validations/{key}/report")
def report(key: ValidationId, service: Parts, _: Reader) -> Response:
    """To the report under a link that carries its own right: its page has no cookies."""
    find(service, key)
    if not (service.supervisor.directory(key) / "report.html").is_file():
        raise Problem(404, f"{key} has no report yet", "wait until its state is done")
    return RedirectResponse(f"/reports/{key}/{_signature(service, key)}/report.html", 303)


@router.get("/reports/{key}/{signature}/{path:path}")
def report_file(key: ValidationId, signature: str, path: str, service: Parts) -> Response:
    """A report and what lies beside it, as an origin of its own that can reach nothing here."""
    rights = [_signature(service, key, days_ago) for days_ago in (0, 1)]
    # Both are compared whatever the first says: nothing is learned from the time it takes.
    if not any([hmac.compare_digest(signature.encode(), right.encode()) for right in rights]):
        raise Problem(404, "no such report", f"open it again: /validations/{key}/report")
    if not _PATH.fullmatch(path):
        raise Problem(404, "no such file of the report")
    root = service.supervisor.directory(key).resolve()
    wanted = (root / path).resolve()
    known = path == "report.html" or Path(path).parts[:1] == ("report_files",)
    if not (known and wanted.is_relative_to(root) and wanted.is_file()):
        raise Problem(404, "no such file of the report")
    # Its page has an opaque origin, so even what lies beside it is on another origin.
    headers = {"access-control-allow-origin": "*", "cross-origin-resource-policy": "cross-origin"}
    if path == "report.html":
        return sandboxed(wanted, headers)
    headers["content-security-policy"] = "default-src 'none'; sandbox"
    media = "text/javascript" if wanted.suffix == ".js" else _image_type(wanted)
    return FileResponse(wanted, media_type=media, headers=headers)


def sandboxed(page: Path, headers: dict[str, str] | None = None) -> FileResponse:
    """A page that bon made, under its own policy and as an origin of its own."""
    with page.open("rb") as file:
        match = _POLICY.search(file.read(65_536))
    own = match[1].decode().replace("&#39;", "'") if match else "default-src 'none'"
    own = f"{own}; frame-ancestors 'none'; sandbox allow-scripts allow-downloads"
    headers = {**(headers or {}), "content-security-policy": own}
    return FileResponse(page, media_type="text/html", headers=headers)


def _signature(service: Service, key: str, days_ago: int = 0) -> str:
    day = int(time.time() // DAY_SECONDS) - days_ago
    return service.tokens.sign("report", f"{key}:{day}")


def _image_type(path: Path) -> str:
    """By its first bytes; what is no picture is never shown as a page."""
    with path.open("rb") as file:
        head = file.read(16)
    for start, kind in _IMAGES:
        if head.startswith(start):
            return f"image/{kind}"
    return "image/webp" if head[8:12] == b"WEBP" else "application/octet-stream"
