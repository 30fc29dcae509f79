"""Figures as files (PNG, SVG, PDF; the same bytes every time) and as SVG inside a page."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from bon.analysis.plots.style import BACKGROUND, GRID, INK, MUTED, OTHER, PALETTE, style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
_METADATA: dict[str, dict[str, str | None]] = {
    ".png": {"Software": None},
    ".svg": {"Date": None, "Creator": None},
    ".pdf": {"CreationDate": None, "Creator": None, "Producer": None},
}
VARIABLES = {
    BACKGROUND: "--surface",
    INK: "--ink",
    MUTED: "--muted",
    GRID: "--rule",
    OTHER: "--series-other",
    **{colour: f"--series-{i + 1}" for i, colour in enumerate(PALETTE)},
}
"""Colours that a page maps to its own variables."""


def save(figure: Figure, path: str | Path) -> list[Path]:
    """Write a figure as PNG, SVG and PDF, or as the one format that `path` ends with."""
    path = Path(path)
    targets = [path.with_name(path.name + suffix) for suffix in FORMATS]
    if path.suffix in FORMATS:
        targets = [path]
    path.parent.mkdir(parents=True, exist_ok=True)
    with style():
        for target in targets:
            figure.savefig(target, metadata=_METADATA[target.suffix])
    return targets


def inline_svg(
    figure: Figure, name: str, description: str, titles: Sequence[str] = ()
) -> tuple[str, str]:
    """Return a light figure as `<svg>` of its size for a page, and the CSS rules that it needs.

    Text stays text, colours become the page's CSS variables (so one drawing serves light and
    dark), and inline styles become classes (so a strict content security policy holds).
    `name` must be unique in the page; `titles` are shown over its marks.
    """
    buffer = io.BytesIO()
    with style(None, **{"svg.fonttype": "none", "svg.hashsalt": name}):
        figure.savefig(buffer, format="svg", transparent=True, metadata=_METADATA[".svg"])
    svg = buffer.getvalue().decode()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    svg = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
    svg = re.sub(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", "", svg, flags=re.S)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    svg = re.sub(r"\s*\n\s*", " ", svg)
    svg = re.sub(r" (?:xmlns:xlink|version)=\"[^\"]*\"", "", svg)
    svg = svg.replace("xlink:href", "href")
    svg = re.sub(r"-?\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}", svg)
    svg, css = _classes(svg, name)
    view = re.search(r'viewBox="([^"]*)"', svg)
    assert view is not None, "matplotlib writes a viewBox"
    for i, title in enumerate(titles):
        mark = f'<g id="{name}-mark-{i}">'
        svg = svg.replace(mark, f"{mark}<title>{escape(title)}</title>")
    width, height = (round(96 * inches) for inches in figure.get_size_inches())
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{view[1]}" width="{width}" '
        f'height="{height}" role="img" aria-label="{escape(description)}">'
    )
    return head + svg[svg.index(">") + 1 :], css


def _classes(svg: str, name: str) -> tuple[str, str]:
    """Replace style attributes by classes; return the drawing and the rules."""
    rules: dict[str, str] = {}

    def swap(match: re.Match[str]) -> str:
        body = re.sub(r"font-family:[^;]*;?|font:([^;]*?)\s*'[^;]*;?", _font, match[1]).strip()
        body = re.sub(r"\s*([:;])\s*", r"\1", body).rstrip(";")
        for colour, variable in VARIABLES.items():
            body = body.replace(colour, f"var({variable})")
        if not body:
            return ""
        label = rules.setdefault(body, f"{name}-{len(rules)}")
        return f' class="{label}"'

    svg = re.sub(r'\s+style="([^"]*)"', swap, svg)
    return svg, "".join(f".{label}{{{body}}}" for body, label in rules.items())


def _font(match: re.Match[str]) -> str:
    """Keep the size and weight of a font and drop its family, which is the page's."""
    if match[1] is None:
        return ""
    parts = match[1].split()
    size = next((p for p in parts if p.endswith("px")), "8px")
    kept = [f"font-size:{size}"]
    kept += ["font-weight:bold"] if {"bold", "700"} & set(parts) else []
    kept += ["font-style:italic"] if "italic" in parts else []
    return ";".join(kept) + ";"
