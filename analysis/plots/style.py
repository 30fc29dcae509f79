"""Shared style of all figures: size, fonts, palette, layout and matplotlib settings.

Figures use the object API (`Figure`, the Agg canvas), never pyplot, and the settings hold only
while a figure is drawn or written. matplotlib is imported on first use.
"""

from __future__ import annotations

import io
import threading
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from functools import cache
from textwrap import fill
from typing import TYPE_CHECKING, Any, Literal, TypedDict, cast

from bon.core.errors import BonError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.gridspec import GridSpec
    from matplotlib.transforms import Bbox

Width = Literal["single", "double"] | float

WIDTHS = {"single": 3.25, "double": 6.75}
"""Inches: one and both columns of a conference page."""


class Look(TypedDict, total=False):
    """Size and font of a figure.

    width: "single" or "double" column, or inches; height: inches; font: a family that matplotlib
    finds; size: of the text in points. What is left out is matplotlib's setting where the user
    changed it (rcParams, a style sheet), and ours where not.
    """

    width: Width
    height: float
    font: str
    size: float


class NothingToDrawError(ValueError):
    """The results hold no data for this figure."""


BACKGROUND, INK, MUTED, GRID = "#ffffff", "#16191d", "#5b636d", "#e2e5e9"
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#7d5ba6", "#a88600", "#7a4a2b")
"""Okabe and Ito's first; pages replace every colour by a variable of style.css."""
OTHER = "#8d949d"
"""Base models of one rewarder, and those beyond the palette."""

_RC: dict[str, Any] = {
    "font.size": 7.5,
    "axes.titlesize": "medium",
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # fixed: searching for it measures all labels again
    "legend.frameon": False,
    "legend.fontsize": "small",
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
    # vector fonts that journals accept, and the same bytes from the same data
    "pdf.fonttype": 42,
    "svg.hashsalt": "bon",
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "grid.color": GRID,
    "savefig.dpi": 300,
}
_LOCK = threading.RLock()


@contextmanager
def style(look: Look | None = None, **extra: Any) -> Iterator[None]:
    """Draw or write in this style and the user's settings, and restore matplotlib's."""
    import matplotlib
    from matplotlib.font_manager import FontProperties, findfont

    look = look or {}
    if "size" in look:
        extra["font.size"] = look["size"]
    if "font" in look:
        try:
            findfont(FontProperties(family=[look["font"]]), fallback_to_default=False)
        except ValueError:
            raise BonError(
                f"matplotlib finds no font {look['font']!r}", "name a font that is installed"
            ) from None
        extra["font.family"] = [look["font"]]
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore", category=DeprecationWarning)
        mine: Any = matplotlib.rcParams
        default: Any = matplotlib.rcParamsDefault
        settings: Any = {k: v for k, v in _RC.items() if mine[k] == default[k]} | extra
        with matplotlib.rc_context(settings):
            yield


@contextmanager
def page_style() -> Iterator[None]:
    """Draw for a page, whose look is the same for every user: text of 13 pixels."""
    import matplotlib

    skip = {"backend", "backend_fallback", "interactive", "toolbar", "timezone"}
    default = {k: v for k, v in matplotlib.rcParamsDefault.items() if k not in skip}
    settings: Any = {**default, **_RC, "font.size": 9.75}  # 10, the default, is no user's choice
    with _LOCK, matplotlib.rc_context(settings):
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
    look: Look, height: float, rows: int = 1, columns: int = 1, **options: Any
) -> tuple[Figure, list[Axes]]:
    """Return a figure with a grid of axes; its height, for our text, unless the look has one."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    height *= max(matplotlib.rcParams["font.size"] / _RC["font.size"], 1)
    size = inches(look), _inches(look.get("height", height), "height", "inches")
    none: Any = "none"  # whatever engine the user has set
    figure = _figure_class()(figsize=size, layout=none)
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, list(axes.ravel())


def inches(look: Look) -> float:
    """Return the width of a figure."""
    width: Any = look.get("width", "double")
    known = WIDTHS.get(width, width) if isinstance(width, str) else width
    return _inches(known, "width", "single, double or inches")


def _inches(value: Any, name: str, choices: str) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0.5 <= value <= 100:
        return float(value)
    raise BonError(f"a figure has no {name} {value!r}", f"use {choices}")


def is_narrow(look: Look) -> bool:
    """Whether a figure is too narrow for panels side by side."""
    return inches(look) < 4.5


def fix_layout(figure: Figure, room: float = 0.0) -> None:
    """Give all axes their places, with a share `room` of the width free at the right.

    Labels of axes that are longer than these are wrapped, and set smaller where a word is longer.
    An engine of matplotlib would measure all labels twice as often.
    """
    before = None
    for _ in range(4):  # a label of more lines leaves less room, and more room has more ticks
        ticks = [[*ax.get_xticks(), *ax.get_yticks()] for ax in figure.axes]
        if ticks == before:
            return
        _place(figure, room)
        before = None if any([_fitted(ax) for ax in figure.axes]) else ticks


def _place(figure: Figure, room: float) -> None:
    """Leave as much room around all axes as the labels of any need, and for legends below."""
    width, height, pad = figure.bbox.width, figure.bbox.height, 0.04 * figure.dpi
    left = bottom = right = top = pad
    for ax in figure.axes:
        frame = ax.get_window_extent()
        box = cast("Bbox", ax.get_tightbbox(for_layout_only=True))
        left, bottom = max(left, frame.x0 - box.x0 + pad), max(bottom, frame.y0 - box.y0 + pad)
        right, top = max(right, box.x1 - frame.x1 + pad), max(top, box.y1 - frame.y1 + pad)
    below = max((legend.get_window_extent().y1 for legend in figure.legends), default=0.0)
    rows, columns = cast("GridSpec", figure.axes[0].get_gridspec()).get_geometry()
    across, along = (left + right) * columns, (bottom + top) * rows
    wide, tall = width * (1 - room) - across, height - below - along
    if wide > 0 and tall > 0:
        figure.subplots_adjust(
            left / width, (below + bottom) / height, 1 - room - right / width, 1 - top / height,
            across / wide, along / tall,
        )  # fmt: skip


def _fitted(ax: Axes) -> bool:
    """Shorten labels that are longer than their axis; return whether there were any."""
    frame, changed = ax.get_window_extent(), False
    for label, room, side in (
        (ax.xaxis.label, frame.width, "width"),
        (ax.yaxis.label, frame.height, "height"),
    ):
        text, long = label.get_text(), getattr(label.get_window_extent(), side)
        if long > room + 1:
            changed = True
            most = int(max(map(len, text.split("\n"))) * room / long)
            label.set_text(fill(" ".join(text.split()), max(most, 8)))
            still = getattr(label.get_window_extent(), side)
            label.set_fontsize(label.get_fontsize() * min(room / still, 1))
    return changed


def legend_below(figure: Figure, handles: Sequence[Any]) -> None:
    """Explain handles below the panels, in as many columns as fit."""
    columns = len(handles)
    while columns:
        legend = figure.legend(
            handles=handles, loc="lower left", ncols=columns, handletextpad=0.4,
            columnspacing=1.2, borderaxespad=0.2,
        )  # fmt: skip
        share = figure.bbox.width / legend.get_window_extent().width
        if columns == 1 or share > 1:
            return
        legend.remove()
        # A column takes no less on average where there are fewer of them, but for a gap.
        columns = max(min(columns - 1, int(columns * share) + 1), 1)


def colours_for(names: Sequence[str]) -> dict[str, str]:
    """Return a palette colour for each name, in order; names beyond the palette share a grey."""
    unique = list(dict.fromkeys(names))
    return {name: PALETTE[i] if i < len(PALETTE) else OTHER for i, name in enumerate(unique)}


def family_colours(families: Sequence[str]) -> dict[str, str]:
    """Return a colour for each base model of several rewarders: the same in every figure."""
    count = Counter(families)
    return colours_for(sorted(name for name, many in count.items() if name and many > 1))


def names_beside(
    ax: Axes,
    points: Sequence[tuple[float, float]],
    names: Sequence[str],
    wanted: Sequence[int] | None = None,
    lines: Sequence[Sequence[tuple[float, float]]] = (),
) -> None:
    """Name points once the layout is fixed: those `wanted` (all by default), in this order.

    No name covers a point, a text or another name. First they keep off `lines` too; a name for
    which there is no room at all is left out.
    """
    import matplotlib
    import numpy as np
    import textalloc
    from matplotlib.font_manager import FontProperties

    data, pixel = ax.transData.inverted(), ax.figure.dpi / 72
    around = np.array([(0, 0), (-3, 0), (3, 0), (0, -3), (0, 3)]) * pixel
    dots = data.transform(
        (ax.transData.transform(np.reshape(points, (-1, 2)))[:, None] + around).reshape(-1, 2)
    )
    left = list(range(len(points)) if wanted is None else wanted)
    size = FontProperties(size="medium").get_size_in_points()
    figure: Any = ax.figure
    figure.draw_without_rendering = lambda: None  # textalloc measures all again, every time
    for obstacles in (lines, ()):
        if not left:
            break
        boxes = [text.get_window_extent() for text in ax.texts if text.get_text()]
        written = [
            data.transform([(b.x0, y), (b.x1, y)])
            for b in boxes
            for y in np.linspace(b.y0, b.y1, 4)
        ]
        paths = [np.asarray(line, dtype=float) for line in (*obstacles, *written)]
        keep_off: dict[str, Any] = {"x_scatter": dots[:, 0], "y_scatter": dots[:, 1]}
        if paths:
            keep_off |= {"x_lines": [p[:, 0] for p in paths], "y_lines": [p[:, 1] for p in paths]}
        xs, ys = ([points[i][side] for i in left] for side in (0, 1))
        with redirect_stdout(io.StringIO()):  # it prints where nothing has room
            _, _, texts, _ = textalloc.allocate(
                ax, xs, ys, [_shortened(names[i]) for i in left], textsize=size, max_distance=0.16,
                nbr_candidates=300, draw_all=False, linecolor=MUTED, linewidth=0.5, zorder=6,
                textcolor=matplotlib.rcParams["text.color"],
                avoid_label_lines_overlap=True, avoid_crossing_label_lines=True, **keep_off,
            )  # fmt: skip
        left = [i for i, text in zip(left, texts, strict=True) if text is None]
    del figure.draw_without_rendering


def _shortened(name: str, most: int = 24) -> str:
    """Return a name without its middle if it is long."""
    return name if len(name) <= most else f"{name[: most // 2 - 1]}…{name[-most // 2 :]}"
