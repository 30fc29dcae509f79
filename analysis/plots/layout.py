"""Where the axes of a figure lie: inside what their labels need, which is measured once.

matplotlib's constrained layout solves the general case and measures everything twice over; that
was half of what the figures of a report took. Ours are plain grids.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.backends.backend_agg import RendererAgg
from matplotlib.layout_engine import LayoutEngine
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

PAD = 0.04
"""Inches left free around everything."""

GAP = 0.03
"""The same beside a neighbour, as a share of what a row or column has, where that is more."""


class Grid(LayoutEngine):
    """Axes of one row are equally high and those of one column equally wide, or as ratios say.

    `right`: inches left free for labels that stand outside the axes at the right. Legends of the
    figure stand below everything.
    """

    _adjust_compatible = False
    _colorbar_gridspec = False

    def __init__(self) -> None:
        super().__init__()
        self.right = 0.0

    def execute(self, figure: Figure) -> None:
        """Place the axes, and again where they then have other ticks."""
        if figure.axes:
            before = self._place(figure)
            if _ticks(figure) != before:
                self._place(figure)

    def _place(self, figure: Figure) -> list[list[float]]:
        """Place the axes by what is around them now; return the ticks that they had."""
        renderer = _measuring(figure.dpi)
        grid: Any = figure.axes[0].get_gridspec()
        margins = np.zeros((4, max(grid.nrows, grid.ncols)))  # left, right, bottom, top in inches
        for ax in figure.axes:
            row, column = _cell(ax)
            inside = ax.get_window_extent(renderer)
            whole = ax.get_tightbbox(renderer, for_layout_only=True)
            assert whole is not None, "axes are visible"
            around = np.array([inside.p0 - whole.p0, whole.p1 - inside.p1]).T.ravel() / figure.dpi
            for side, place in enumerate((column, column, row, row)):
                margins[side, place] = max(margins[side, place], around[side])
        ticks = _ticks(figure)
        below = sum(
            legend.get_window_extent(renderer).height / figure.dpi + 2 * PAD
            for legend in figure.legends
        )
        width, height = figure.get_size_inches()
        left, right = margins[:2, : grid.ncols]
        bottom, top = margins[2:, : grid.nrows]
        x, wide = _spread(
            width, width - self.right, left, right, grid.get_width_ratios(), grid.wspace
        )
        y, high = _spread(
            height, height - below, top, bottom, grid.get_height_ratios(), grid.hspace
        )
        for ax in figure.axes:
            row, column = _cell(ax)
            foot = height - y[row] - high[row]
            ax.set_position(
                (x[column] / width, foot / height, wide[column] / width, high[row] / height)
            )
            ax.set_in_layout(True)
        return ticks


def _spread(
    size: float, room: float, before: Floats, after: Floats, ratios: list[float], gap: float | None
) -> tuple[Floats, Floats]:
    """Where columns (or rows, from the top) begin, and how long they are, in inches.

    `before`, `after`: what each needs beside it. `gap`: of the figure's size, between two of them.
    """
    count = len(before)
    between = max(PAD, size * (GAP if gap is None else gap / 2) / count)
    before, after = before + between, after + between
    before[0] += PAD - between
    after[-1] += PAD - between
    free = max(room - (before + after).sum(), 0.1 * size)
    lengths = free * np.asarray(ratios, dtype=float) / sum(ratios)
    starts = before + np.concatenate([[0.0], np.cumsum(before + lengths + after)[:-1]])
    return starts, lengths


def _cell(ax: Axes) -> tuple[int, int]:
    place = ax.get_subplotspec()
    assert place is not None, "axes come from new_figure"
    return place.rowspan.start, place.colspan.start


def _ticks(figure: Figure) -> list[list[float]]:
    """The places of all ticks."""
    axes = (axis for ax in figure.axes for axis in (ax.xaxis, ax.yaxis))
    return [list(axis.get_majorticklocs()) for axis in axes]


@cache
def _measuring(dpi: float) -> RendererAgg:
    """What measures texts; shared, since it remembers those that it has measured."""
    return RendererAgg(1, 1, dpi)  # type: ignore[no-untyped-call]
