"""Rendering of self-contained HTML pages: templates, number filters, style, script and policy."""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

import bon
from bon.analysis.report import leaderboard
from bon.analysis.report.glossary import TERMS
from bon.analysis.results import phrasing as text

if TYPE_CHECKING:
    from bon.analysis.report.browser_data import Packed
    from bon.analysis.report.figures import Figures

HERE = Path(__file__).parent
_ON_PAGE_ONE = re.compile(
    r"(?<![\w-])(?:pass@1|majority vote|rewarders?|base models?|oracle|r)(?![\w-])"
)


def explained(html: str) -> Markup:
    """Give the first of each term in a text of HTML its definition on hover and focus."""
    seen = set()

    def define(match: re.Match[str]) -> str:
        term = match[0] if match[0] in TERMS else match[0].removesuffix("s")
        if term in seen:
            return match[0]
        seen.add(term)
        return f'<abbr tabindex="0" title="{escape(TERMS[term])}">{match[0]}</abbr>'

    parts = re.split(r"(<[^>]*>)", html)
    parts[::2] = [_ON_PAGE_ONE.sub(define, part) for part in parts[::2]]
    return Markup("".join(parts))


def environment(*folders: Path) -> Environment:
    """Return an environment with the templates of these folders and of the report."""
    env = Environment(
        loader=FileSystemLoader([*folders, HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters = (
        "share percent difference loss coefficient bounded correlation p_value count size duration "
        "chance"
    )
    env.filters.update(
        {name: getattr(text, name) for name in (*filters.split(), "money", "short")},
        names=partial(text.names, most=9),
        explained=explained,
        axis=leaderboard.axis_name,
        plain_points=partial(text.signed, digits=1, sign=True, scale=100),
    )
    env.globals["terms"] = TERMS
    return env


@cache
def _pages() -> Environment:
    return environment()


def render(template: str, figures: Figures, packed: Packed | None = None, **context: Any) -> str:
    """Render a page that works offline.

    Its content security policy allows this style, this script and, where `packed` needs it, the
    side folder.
    """
    style = (HERE / "style.css").read_text(encoding="utf-8") + figures.css
    script = "".join((HERE / name).read_text("utf-8") for name in ("tables.js", "report.js"))
    files = " 'self' file:"
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; "
        f"script-src {_hash(script)}{files if packed and packed.beside else ''}; "
        f"img-src data:{files if packed and packed.images_beside else ''}; "
        "base-uri 'none'; form-action 'none'"
    )
    icon = base64.b64encode((HERE / "icon.svg").read_bytes()).decode()
    page = _pages().get_template(template)
    return page.render(
        figures=figures,
        packed=packed,
        style=Markup(style),
        script=Markup(script),
        csp=policy,
        icon=f"data:image/svg+xml;base64,{icon}",
        version=bon.__version__,
        **context,
    )


def _hash(source: str) -> str:
    digest = hashlib.sha256(source.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
