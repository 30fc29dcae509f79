"""Shared style of all figures: widths, palettes, markers, layout and matplotlib settings.

Figures use the object API (`Figure`, the Agg canvas), never pyplot, and the settings hold only
while a figure is drawn or written. matplotlib is imported on first use.
"""

from __future__ import annotations

import io
import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

from bon.analysis.results import RewarderInfo

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Width = Literal["single", "double"] | float

WIDTHS = {"single": 3.25, "double": 6.75}
"""Inches: one and both columns of a conference page."""


class NothingToDrawError(ValueError):
    """The results hold no data for this figure."""


BACKGROUND, INK, MUTED, GRID = "#ffffff", "#16191d", "#5b636d", "#e2e5e9"
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7d5ba6", "#a88600", "#7a4a2b")
"""Okabe and Ito's first; pages replace every colour by a variable of style.css."""
OTHER = "#8d949d"
"""Names beyond the palette."""

MARKERS = {
    "pairwise": "o",
    "pointwise": "s",
    "scalar": "^",
    "likelihood": "D",
    "listwise": "P",
    "stepwise": "v",
    "rerank": "<",
    "python": "*",
    "ensemble": "h",
    "baseline": "X",
}
"""One for each kind of rewarder; kinds of other tools share UNKNOWN."""
UNKNOWN = ">"

_RC: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],
    "font.size": 7.5,
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # fixed: searching for it measures all labels again
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
    "figure.facecolor": BACKGROUND,
    "axes.facecolor": BACKGROUND,
    "savefig.facecolor": BACKGROUND,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.titlecolor": INK,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "grid.color": GRID,
    "figure.dpi": 100,
    "figure.constrained_layout.w_pad": 0.04,
    "figure.constrained_layout.h_pad": 0.04,
    "figure.constrained_layout.wspace": 0.06,
    "figure.constrained_layout.hspace": 0.06,
    "savefig.dpi": 300,
}
_LOCK = threading.RLock()


@cache
def _defaults() -> dict[str, Any]:
    """Return matplotlib's own defaults, so that a user's matplotlibrc has no effect."""
    import matplotlib

    skip = {"backend", "backend_fallback", "interactive", "toolbar", "timezone"}
    return {k: v for k, v in matplotlib.rcParamsDefault.items() if k not in skip}


@contextmanager
def style(**extra: Any) -> Iterator[None]:
    """Draw or write in this style, and restore matplotlib's settings."""
    import matplotlib

    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore", category=DeprecationWarning)
        settings: Any = {**_defaults(), **_RC, **extra}
        with matplotlib.rc_context(settings):
            yield


@cache
def _figure_class() -> type[Figure]:
    from matplotlib.figure import Figure

    class NotebookFigure(Figure):
        """Shows itself in notebooks, which know figures of pyplot alone."""

        def _repr_png_(self) -> bytes:
            self.savefig(buffer := io.BytesIO(), format="png", dpi=150)
            return buffer.getvalue()

    return NotebookFigure


def new_figure(
    width: Width, height: float, rows: int = 1, columns: int = 1, **options: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure of this size in inches with a grid of axes, without pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    inches = WIDTHS[width] if isinstance(width, str) else width
    figure = _figure_class()(figsize=(inches, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, list(axes.ravel())


def new_mosaic(
    width: Width, height: float, layout: list[list[str]], **shape: Any
) -> tuple[Figure, dict[str, Axes]]:
    """Return a figure of this size in inches with named axes, without pyplot."""
    figure, axes = new_figure(width, height)
    axes[0].remove()
    mosaic: Any = layout
    return figure, figure.subplot_mosaic(mosaic, **shape)


def is_narrow(width: Width) -> bool:
    """Whether a figure is too narrow for panels side by side."""
    return (WIDTHS[width] if isinstance(width, str) else width) < 4.5


def fix_layout(figure: Figure) -> None:
    """Lay out the figure for good, so that positions measured from now on are final."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine("none")


def colours_for(names: Sequence[str]) -> dict[str, str]:
    """Return a palette colour for each name, in order; names beyond the palette share a grey."""
    unique = list(dict.fromkeys(names))
    return {name: PALETTE[i] if i < len(PALETTE) else OTHER for i, name in enumerate(unique)}


def family_colours(rewarders: Sequence[RewarderInfo], families: Sequence[str]) -> dict[str, str]:
    """Return a colour for each family, the same in every figure; the unknown one has none."""
    named = {*(r.family for r in rewarders), *families} - {""}
    return colours_for(sorted(named))
