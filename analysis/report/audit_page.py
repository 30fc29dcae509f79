"""The page of an audit: one HTML file that works offline, with the items to look at."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from markupsafe import Markup
from PIL import Image

import bon
from bon.analysis.plots.difficulties import items_and_rewarders
from bon.analysis.report.figures import Figures, Sketch, drawn
from bon.analysis.report.page import icon, policy, script
from bon.analysis.report.templates import HERE, pages
from bon.analysis.results.audited import CurationAudit, ItemAudit

ROOM = 3_000_000
"""Bytes of images that the page embeds; items after that are shown without theirs."""

SMALL = 120  # pixels of width, as in the report's browser
TYPES = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".webp": "webp", ".gif": "gif"}


@dataclass(frozen=True)
class Suspected:
    """An item to look at; `numbers` is what rewarders say of it."""

    id: str
    prompt: str
    responses: tuple[str, ...]
    better: int | None
    images: tuple[Path, ...]
    consensus: str
    contradicted: bool
    numbers: ItemAudit | None


def audit_page(audit: CurationAudit, suspected: Sequence[Suspected]) -> str:
    """The page as HTML."""
    figures = Figures()
    if audit.by_rewarders is not None and audit.by_rewarders.rasch is not None:
        title = "How hard the items are and how able the rewarders"
        figures = drawn(Sketch("difficulties", title, partial(items_and_rewarders, audit)))
    style = (HERE / "style.css").read_text(encoding="utf-8") + "".join(figures.css)
    code = script()
    return (
        pages()
        .get_template("audit.html.jinja")
        .render(
            audit=audit,
            suspected=suspected,
            pictures=_embedded(suspected),
            figure_of=figures.get,
            ids={one.key: one.id for one in audit.by_rewarders.items} if audit.by_rewarders else {},
            style=Markup(style),
            script=Markup(code),
            csp=policy(style, code, None),
            icon=icon(),
            version=bon.__version__,
        )
    )


@dataclass(frozen=True)
class Embedded:
    """An image as an address that needs no file; `small` ones are shown enlarged."""

    address: str
    small: bool


def _embedded(suspected: Sequence[Suspected]) -> dict[Path, Embedded]:
    """Images, while there is room."""
    found: dict[Path, Embedded] = {}
    left = ROOM
    for path in dict.fromkeys(path for one in suspected for path in one.images):
        kind = TYPES.get(path.suffix.lower())
        if kind is None or not path.is_file() or path.stat().st_size > left:
            continue
        left -= path.stat().st_size
        with Image.open(path) as image:
            small = image.width < SMALL
        address = f"data:image/{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
        found[path] = Embedded(address, small)
    return found
