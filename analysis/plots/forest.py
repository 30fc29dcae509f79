"""Forest plot: r of every study by kind of outcome, their means, and the next study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from bon.analysis.plots.style import (
    INK,
    MUTED,
    PALETTE,
    Look,
    fix_layout,
    is_narrow,
    new_figure,
    style,
)
from bon.analysis.results import Estimate, MetaAnalysis, PooledMean, PooledStudy
from bon.analysis.results.phrasing import MINUS, bounded, interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW = 0.2
"""Inches."""


def forest(pooled: MetaAnalysis, **look: Unpack[Look]) -> Figure:
    """Plot a row per study, as measured and with its interval; means as diamonds."""
    rows: list[tuple[str, PooledStudy | PooledMean | None]] = []
    pools = {pool.name: pool.r for pool in pooled.pools if pool.by == "outcome"}
    for kind in dict.fromkeys([*(study.kind for study in pooled.studies), *pools]):
        rows.append((kind, None))
        rows += [(_name(s, look), s) for s in pooled.studies if s.kind == kind]
        rows += [("mean", pools[kind]), ("next study", None)] if kind in pools else []
    with style(look):
        figure, (ax,) = new_figure(look, ROW * len(rows) + 0.6)
        for at, (_, shown) in enumerate(rows):
            if isinstance(shown, PooledStudy):
                _study(ax, at, shown)
                numbers = bounded(shown.r)
            elif shown is not None:
                _summary(ax, at, shown)
                numbers = bounded(shown.mean)
                _annotate(ax, at + 1, interval(shown.predicted).strip(), look)
            else:
                continue
            _annotate(ax, at, numbers, look)
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.set_xlim(-1, 1)
        ax.set_xticks((-1, -0.5, 0, 0.5, 1), (f"{MINUS}1", f"{MINUS}.5", "0", ".5", "1"))
        ax.set_xlabel("r")
        for x in (0, 0.5):
            ax.axvline(x, color=MUTED, linewidth=0.8)
        ax.grid(visible=False, axis="y")
        ax.set_yticks(range(len(rows)), [name for name, _ in rows])
        ax.tick_params(axis="y", length=0, labelcolor=INK)
        for label, (name, shown) in zip(ax.get_yticklabels(), rows, strict=True):
            if shown is None and name != "next study":
                label.set_fontweight("bold")
        fix_layout(figure)
    return figure


def _name(study: PooledStudy, look: Look) -> str:
    """Return the benchmark of a study, and where there is room its source and policy."""
    where = " ".join(filter(None, (study.source, study.policy)))
    return study.benchmark if is_narrow(look) else f"{study.benchmark}, {where}"


def _study(ax: Axes, row: int, study: PooledStudy) -> None:
    low, middle, high = _bounds(study.r)
    ax.plot([low, high], [row, row], color=PALETTE[0], linewidth=1)
    ax.plot([middle], [row], marker="s", color=PALETTE[0], markersize=4)
    ax.plot([study.measured], [row], marker="|", color=PALETTE[1], markersize=8)


def _summary(ax: Axes, row: int, r: PooledMean) -> None:
    low, middle, high = _bounds(r.mean)
    ax.fill([low, middle, high, middle], [row, row - 0.3, row, row + 0.3], color=INK, linewidth=0)
    low, _, high = _bounds(r.predicted)
    ax.plot([low, high], [row + 1] * 2, color=INK, linewidth=1.4, linestyle=(0, (4, 2)))


def _bounds(r: Estimate) -> tuple[float, float, float]:
    """Return the numbers of an estimate, which a posterior always has."""
    return r.low or 0.0, r.value or 0.0, r.high or 0.0


def _annotate(ax: Axes, row: int, text: str, look: Look) -> None:
    """Write a number to the right of the panel, where there is room."""
    if is_narrow(look):
        return
    ax.annotate(
        text, (1.0, row), xycoords=("axes fraction", "data"), xytext=(4, 0),
        textcoords="offset points", va="center", fontsize="small", color=INK,
    )  # fmt: skip
