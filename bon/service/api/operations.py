"""Health, readiness, the catalogue, the audit trail."""

import shutil
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse

import bon
from bon.service.api.common import ERRORS, Parts, Reader, require
from bon.service.server.access import Identity
from bon.work.catalogue import catalogue

router = APIRouter(tags=["operations"])
MIN_FREE_BYTES = 100 * 1024 * 1024


# Probes are async: they wait for no thread.
@router.get("/healthz")
async def healthz() -> dict[str, str]:
    """Return ok: the process answers."""
    return {"status": "ok", "version": bon.__version__}


@router.get("/readyz", responses={503: {"description": "Not ready."}})
async def readyz(request: Request, service: Parts) -> JSONResponse:
    """Whether the supervisor runs, the disk has room and the online models are loaded."""
    online = request.app.state.online
    checks = {
        "supervisor": service.supervisor.alive(),
        "disk": shutil.disk_usage(service.settings.data).free > MIN_FREE_BYTES,
        "online": online is None or online.backend.ready(),
    }
    ready = all(checks.values())
    return JSONResponse({"ready": ready, "checks": checks}, 200 if ready else 503)


@router.get("/v1/catalogue", tags=["catalogue"])
def show_catalogue(request: Request, _: Reader) -> dict[str, Any]:
    """Shipped policies, rewarders and benchmarks, and which of them are online."""
    online = request.app.state.online
    return {**catalogue(), "online": {} if online is None else online.names()}


@router.get("/v1/audit", responses=ERRORS)
def audit_trail(
    service: Parts,
    _: Annotated[Identity, Depends(require("admin"))],
    before: Annotated[int | None, Query(ge=0, le=2**62, description="`next` of a page")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> dict[str, Any]:
    """Who submitted, changed and deleted what, and who made and used tokens; newest first."""
    rows = service.jobs.audited(before, limit)
    return {"entries": rows, "next": rows[-1]["seq"] if len(rows) == limit else None}
