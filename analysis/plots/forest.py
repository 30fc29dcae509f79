"""Forest plot: r of every study by kind of outcome, their means, and the next study."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bon.analysis.plots.style import INK, MUTED, PALETTE, Width, is_narrow, new_figure, style
from bon.analysis.results import MetaAnalysis, Pool, PooledStudy
from bon.analysis.results.phrasing import bounded, interval

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROW = 0.2
"""Inches."""


def forest(pooled: MetaAnalysis, *, width: Width = "double") -> Figure:
    """Plot a row per study, as measured and with its interval; means as diamonds."""
    rows: list[tuple[str, PooledStudy | Pool | None]] = []
    pools = {pool.name: pool for pool in pooled.pools if pool.by == "outcome"}
    kinds = dict.fromkeys(study.kind for study in pooled.studies)
    for kind in kinds:
        rows.append((kind, None))
        rows += [(_name(s, width), s) for s in pooled.studies if s.kind == kind]
        rows += [("mean", pools[kind]), ("next study", None)] if kind in pools else []
    rows += [
        row
        for name, pool in pools.items()
        if name not in kinds
        for row in ((name, None), ("mean", pool), ("next study", None))
    ]
    with style():
        figure, (ax,) = new_figure(width, ROW * len(rows) + 0.6)
        for at, (_, shown) in enumerate(rows):
            if isinstance(shown, PooledStudy):
                _study(ax, at, shown)
            elif shown is not None:
                _summary(ax, at, shown)
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.set_xlim(-1, 1)
        ax.set_xlabel("r")
        for x in (0, 0.5):
            ax.axvline(x, color=MUTED, linewidth=0.8)
        ax.grid(visible=False, axis="y")
        ax.set_yticks(range(len(rows)), [name for name, _ in rows])
        ax.tick_params(axis="y", length=0, labelcolor=INK)
        for label, (name, shown) in zip(ax.get_yticklabels(), rows, strict=True):
            if shown is None and name != "next study":
                label.set_fontweight("bold")
    return figure


def _name(study: PooledStudy, width: Width) -> str:
    """Return the benchmark of a study, and where there is room its source and policy."""
    where = " ".join(filter(None, (study.source, study.policy)))
    return study.benchmark if is_narrow(width) else f"{study.benchmark}, {where}"


def _study(ax: Axes, row: int, study: PooledStudy) -> None:
    r = study.r
    assert r.value is not None
    assert r.low is not None
    assert r.high is not None
    ax.plot([r.low, r.high], [row, row], color=PALETTE[0], linewidth=1)
    ax.plot([r.value], [row], marker="s", color=PALETTE[0], markersize=4)
    ax.plot([study.measured], [row], marker="|", color=PALETTE[1], markersize=8)
    _annotate(ax, row, bounded(r))


def _summary(ax: Axes, row: int, pool: Pool) -> None:
    r, following, colour = pool.r.mean, pool.r.predicted, INK
    assert r.value is not None
    assert r.low is not None
    assert r.high is not None
    assert following.low is not None
    assert following.high is not None
    x = [r.low, r.value, r.high, r.value]
    ax.fill(x, [row, row - 0.3, row, row + 0.3], color=colour, linewidth=0)
    _annotate(ax, row, bounded(r))
    ends = [following.low, following.high]
    ax.plot(ends, [row + 1] * 2, color=colour, linewidth=1.4, linestyle=(0, (4, 2)))
    _annotate(ax, row + 1, interval(following).strip())


def _annotate(ax: Axes, row: int, text: str) -> None:
    """Write a number to the right of the panel."""
    ax.annotate(
        text, (1.0, row), xycoords=("axes fraction", "data"), xytext=(4, 0),
        textcoords="offset points", va="center", fontsize=6.5, color=INK,
    )  # fmt: skip
