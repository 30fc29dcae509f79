"""The page of an audit: one HTML file that works offline, with the items to review."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bon.analysis.report.figures import Figures
from bon.analysis.report.templates import render
from bon.analysis.results.audit import CurationAudit

ROOM = 3_000_000
"""Bytes of images that the page embeds; later items are shown without theirs."""

TYPES = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".webp": "webp", ".gif": "gif"}


@dataclass(frozen=True)
class Suspected:
    """An item whose label annotators contradict."""

    id: str
    prompt: str
    responses: tuple[str, ...]
    better: int
    images: tuple[Path, ...]


def audit_page(audit: CurationAudit, suspected: Sequence[Suspected]) -> str:
    """Return the page as HTML."""
    return render(
        "audit.html.jinja",
        Figures(),
        audit=audit,
        suspected=suspected,
        pictures=_embed_images(suspected),
    )


def _embed_images(suspected: Sequence[Suspected]) -> dict[Path, str]:
    """Return data addresses of images, while there is room."""
    addresses: dict[Path, str] = {}
    room = ROOM
    for path in dict.fromkeys(path for item in suspected for path in item.images):
        kind = TYPES.get(path.suffix.lower())
        if kind is not None and path.is_file() and path.stat().st_size <= room:
            room -= path.stat().st_size
            data = base64.b64encode(path.read_bytes()).decode()
            addresses[path] = f"data:image/{kind};base64,{data}"
    return addresses
