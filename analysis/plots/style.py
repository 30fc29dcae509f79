"""How every figure looks: widths, palettes, markers, and the settings matplotlib runs under.

Figures are made with the object API (`Figure`, the Agg canvas), never with pyplot, and the
settings hold only while a figure is drawn or written. matplotlib is imported on first use.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ThemeName = Literal["light", "dark"]
Width = Literal["single", "double"] | float

WIDTHS = {"single": 3.25, "double": 6.75}
"""Inches: one column and both columns of a conference page."""


class NothingToDrawError(ValueError):
    """The results hold nothing that this figure could show."""


@dataclass(frozen=True)
class Theme:
    """The colours of a figure. `palette` is Okabe and Ito's, adapted to the background."""

    name: ThemeName
    background: str
    ink: str
    muted: str
    grid: str
    palette: tuple[str, ...]
    other: str


LIGHT = Theme(
    "light",
    background="#ffffff",
    ink="#16191d",
    muted="#5b636d",
    grid="#e2e5e9",
    palette=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7d5ba6"),
    other="#8d949d",
)
DARK = Theme(
    "dark",
    background="#14171b",
    ink="#eceef1",
    muted="#a3abb5",
    grid="#2c3138",
    palette=("#4ea3dc", "#f2803a", "#2fbf93", "#e29cc4", "#f3b73e", "#8fd0f5", "#b59ad6"),
    other="#7b838d",
)
THEMES: dict[ThemeName, Theme] = {"light": LIGHT, "dark": DARK}

MARKERS = {
    "pairwise": "o",
    "pointwise": "s",
    "scalar": "^",
    "likelihood": "D",
    "listwise": "P",
    "verifier": "v",
    "rerank": "<",
    "ensemble": "h",
    "baseline": "X",
}
SPARE_MARKERS = ("o", "s", "^", "D", "P", "v", "h", "X")

_RC: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 7.5,
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # without one matplotlib looks for it by measuring all labels again
    "axes.labelsize": 7.5,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.fontsize": 7,
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "lines.linewidth": 1.3,
    "lines.markersize": 5,
    "axes.unicode_minus": True,
    # vector fonts that journals accept, and the same bytes from the same data
    "pdf.fonttype": 42,
    "svg.hashsalt": "bon",
    "figure.dpi": 100,
    "savefig.dpi": 300,
}
_LOCK = threading.RLock()


@cache
def _defaults() -> dict[str, Any]:
    """matplotlib's own defaults, so a user's matplotlibrc does not change the figures."""
    import matplotlib

    skip = {"backend", "backend_fallback", "interactive", "toolbar", "timezone"}
    return {k: v for k, v in matplotlib.rcParamsDefault.items() if k not in skip}


@contextmanager
def style(theme: Theme, **extra: Any) -> Iterator[None]:
    """Draw or write under this theme; the process's settings are the same afterwards."""
    import matplotlib

    colours = {
        "figure.facecolor": theme.background,
        "axes.facecolor": theme.background,
        "savefig.facecolor": theme.background,
        "text.color": theme.ink,
        "axes.labelcolor": theme.ink,
        "axes.edgecolor": theme.muted,
        "axes.titlecolor": theme.ink,
        "xtick.color": theme.muted,
        "ytick.color": theme.muted,
        "grid.color": theme.grid,
    }
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore", category=DeprecationWarning)
        settings: Any = {**_defaults(), **_RC, **colours, **extra}
        with matplotlib.rc_context(settings):
            yield


def new_figure(
    width: Width, height: float, rows: int = 1, columns: int = 1, **options: Any
) -> tuple[Figure, list[Axes]]:
    """A figure of this size in inches with a grid of axes, laid out without pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from bon.analysis.plots.layout import Grid

    inches = WIDTHS[width] if isinstance(width, str) else width
    figure = Figure(figsize=(inches, height), layout=Grid())
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, list(axes.ravel())


def leave(figure: Figure, *, right: float) -> None:
    """Leave so many inches free at the right, for labels outside the axes."""
    engine: Any = figure.get_layout_engine()
    engine.right = right


def settle(figure: Figure) -> None:
    """Fix the layout, so positions measured from now on are the final ones."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")


def colours_for(names: Sequence[str], theme: Theme) -> dict[str, str]:
    """A palette colour a name, in order; names beyond the palette share one grey."""
    unique = list(dict.fromkeys(names))
    return {
        name: theme.palette[i] if i < len(theme.palette) else theme.other
        for i, name in enumerate(unique)
    }


def marker_for(kind: str) -> str:
    """The marker of a kind of rewarder; kinds unknown here get one by their name."""
    if kind in MARKERS:
        return MARKERS[kind]
    return SPARE_MARKERS[sum(map(ord, kind)) % len(SPARE_MARKERS)]
