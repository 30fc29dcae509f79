"""The page of an audit: one HTML file that works offline, with the items to review."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from bon.analysis.report.figures import Figures
from bon.analysis.report.templates import render
from bon.analysis.results.audit import CurationAudit, ItemAudit

ROOM = 3_000_000
"""Bytes of images that the page embeds; later items are shown without theirs."""

SMALL = 120  # pixels of width, as in the report's browser
TYPES = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".webp": "webp", ".gif": "gif"}


@dataclass(frozen=True)
class Suspected:
    """An item to review; `numbers`: its statistics over rewarders."""

    id: str
    prompt: str
    responses: tuple[str, ...]
    better: int | None
    images: tuple[Path, ...]
    consensus: str
    contradicted: bool
    numbers: ItemAudit | None


def audit_page(audit: CurationAudit, suspected: Sequence[Suspected]) -> str:
    """Return the page as HTML."""
    items = audit.by_rewarders
    return render(
        "audit.html.jinja",
        Figures(),
        audit=audit,
        suspected=suspected,
        pictures=_embed_images(suspected),
        ids={item.key: item.id for item in items.items} if items else {},
    )


@dataclass(frozen=True)
class Embedded:
    """An image as a data address; `small` ones are shown enlarged."""

    address: str
    small: bool


def _embed_images(suspected: Sequence[Suspected]) -> dict[Path, Embedded]:
    """Embed images while there is room."""
    images: dict[Path, Embedded] = {}
    room = ROOM
    for path in dict.fromkeys(path for item in suspected for path in item.images):
        kind = TYPES.get(path.suffix.lower())
        if kind is None or not path.is_file() or path.stat().st_size > room:
            continue
        room -= path.stat().st_size
        with Image.open(path) as image:
            small = image.width < SMALL
        address = f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
        images[path] = Embedded(address, small)
    return images
