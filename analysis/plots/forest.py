"""Forest plot: r of every study, their mean, and a new policy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bon.analysis.plots.style import INK, MUTED, PALETTE, Width, new_figure, style
from bon.analysis.results import Estimate, PooledMean, PooledRuns
from bon.analysis.results.phrasing import bounded, coefficient

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def forest(pooled: PooledRuns, *, width: Width = "double") -> Figure:
    """Plot a row per study; the mean as a diamond, the prediction dashed."""
    names = [f"{s.run}\n{s.policy}" for s in pooled.studies]
    rows = len(names) + 2
    with style():
        figure, (ax,) = new_figure(width, 0.32 * rows + 0.75)
        for row, study in enumerate(pooled.studies):
            _study(ax, row, study.pearson)
        _summary(ax, len(names), pooled.pearson)
        ax.set_ylim(rows - 0.4, -0.6)
        ax.set_xlabel("r")
        ax.axvline(0, color=MUTED, linewidth=0.8)
        ax.grid(visible=False, axis="y")
        ax.set_yticks(range(rows), [*names, "mean", "next policy"])
        ax.tick_params(axis="y", length=0, labelcolor=INK)
    return figure


def _study(ax: Axes, row: int, r: Estimate) -> None:
    if r.value is None:
        return
    if r.low is not None and r.high is not None:
        ax.plot([r.low, r.high], [row, row], color=PALETTE[0], linewidth=1)
    ax.plot([r.value], [row], marker="s", color=PALETTE[0], markersize=5)
    _annotate(ax, row, bounded(r))


def _summary(ax: Axes, row: int, mean: PooledMean) -> None:
    r, colour = mean.mean, PALETTE[1]
    assert r.value is not None
    if r.low is not None and r.high is not None:
        x = [r.low, r.value, r.high, r.value]
        ax.fill(x, [row, row - 0.22, row, row + 0.22], color=colour, linewidth=0)
    else:
        ax.plot([r.value], [row], marker="D", color=colour)
    _annotate(ax, row, bounded(r))
    low, high = mean.predicted.low, mean.predicted.high
    text = "no interval"
    if low is not None and high is not None:
        ax.plot([low, high], [row + 1] * 2, color=colour, linewidth=1.4, linestyle=(0, (4, 2)))
        text = f"[{coefficient(low)}, {coefficient(high)}]"
    _annotate(ax, row + 1, text)


def _annotate(ax: Axes, row: int, text: str) -> None:
    """Write a number to the right of the panel."""
    ax.annotate(
        text, (1.0, row), xycoords=("axes fraction", "data"), xytext=(4, 0),
        textcoords="offset points", va="center", fontsize=6.5, color=INK,
    )  # fmt: skip
