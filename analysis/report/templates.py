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
DATA, FILES = "{{questions}}", ("{{scripts}}", "{{images}}")
"""Places that `finished` fills."""
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
    filters = "share percent difference coefficient bounded p_value count size duration chance"
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


def render(template: str, figures: Figures, **context: Any) -> str:
    """Render a page that works offline; its security policy allows this style and script."""
    style = (HERE / "style.css").read_text(encoding="utf-8") + figures.css
    script = "".join((HERE / name).read_text("utf-8") for name in ("tables.js", "report.js"))
    policy = (
        f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}{FILES[0]}; "
        f"img-src data:{FILES[1]}; base-uri 'none'; form-action 'none'"
    )
    icon = base64.b64encode((HERE / "icon.svg").read_bytes()).decode()
    return (
        _pages()
        .get_template(template)
        .render(
            figures=figures,
            style=Markup(style),
            script=Markup(script),
            csp=policy,
            icon=f"data:image/svg+xml;base64,{icon}",
            version=bon.__version__,
            **context,
        )
    )


def finished(html: str, packed: Packed | None) -> str:
    """Fill in the questions' data, and allow files of the side folder where it has any."""
    head, end, body = html.partition("</head>")
    for place, used in (
        (FILES[0], packed is not None and packed.beside),
        (FILES[1], packed is not None and packed.images_beside),
    ):
        head = head.replace(place, " &#39;self&#39; file:" if used else "")
    return head + end + (body.replace(DATA, packed.text(), 1) if packed else body)


def _hash(source: str) -> str:
    digest = hashlib.sha256(source.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
