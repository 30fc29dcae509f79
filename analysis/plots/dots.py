"""Dot plots with intervals: position and length bias, outcomes, leaving one rewarder out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bon.analysis.plots.style import (
    LIGHT,
    NothingToDrawError,
    Theme,
    Width,
    marker_for,
    new_figure,
    style,
)
from bon.analysis.results import BenchmarkResult, Correlation, Estimate, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TREATMENTS = {"headline": "o", "drop": "<", "wrong": "v", "chance": "D", "official": "s"}
_UNDECIDED = ("tie", "unparsed", "error")


def _measured(results: Results, benchmark: str | None) -> list[BenchmarkResult]:
    """Results of real rewarders on one benchmark, best first."""
    baselines = {r.rewarder for r in results.rewarders if r.baseline}
    kinds = {r.rewarder for r in results.rewarders}
    shown = [b for b in results.benchmarks if b.rewarder in kinds - baselines]
    benchmark = benchmark or next((b.benchmark for b in shown), None)
    shown = [b for b in shown if b.benchmark == benchmark]
    return sorted(shown, key=lambda b: (-(b.macro.value or 0), b.rewarder))


def _rows(ax: Axes, names: list[str]) -> None:
    """Names on the y axis, the first on top."""
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.grid(axis="y", visible=False)


def _dot(ax: Axes, row: float, estimate: Estimate | None, colour: str, marker: str) -> None:
    """One estimate in percent with its interval."""
    if estimate is None or estimate.value is None:
        return
    if estimate.low is not None and estimate.high is not None:
        ax.plot([100 * estimate.low, 100 * estimate.high], [row, row], color=colour, linewidth=1)
    ax.plot([100 * estimate.value], [row], marker=marker, color=colour, markersize=4.5)


def bias(
    results: Results,
    *,
    benchmark: str | None = None,
    theme: Theme = LIGHT,
    width: Width = "double",
) -> Figure:
    """Signed position bias and length bias of every rewarder, with intervals."""
    kinds = {r.rewarder: r.kind for r in results.rewarders}
    shown = [
        b
        for b in _measured(results, benchmark)
        if any(e is not None and e.value is not None for e in (b.position_bias, b.length_bias))
    ]
    if not shown:
        raise NothingToDrawError("neither position nor length bias was measured")
    stacked = width == "single"
    with style(theme):
        height = 0.165 * len(shown) + 0.75
        figure, axes = new_figure(
            width, height * (2 if stacked else 1), 2 if stacked else 1, 1 if stacked else 2,
            sharey=not stacked,
        )  # fmt: skip
        panels = (
            ("position bias (points)", "← second shown  |  first shown →", "position_bias"),
            ("length bias (points)", "← shorter is favoured  |  longer →", "length_bias"),
        )
        for ax, (title, label, field) in zip(axes, panels, strict=True):
            ax.set_title(title)
            ax.set_xlabel(label)
            ax.axvline(0, color=theme.muted, linewidth=0.9)
            for row, b in enumerate(shown):
                marker = marker_for(kinds.get(b.rewarder, ""))
                _dot(ax, row, getattr(b, field), theme.palette[0], marker)
            edge = max(abs(v) for v in (*ax.get_xlim(), 5.0))
            ax.set_xlim(-edge, edge)
            _rows(ax, [b.rewarder for b in shown])
    return figure


def outcomes(
    results: Results,
    *,
    benchmark: str | None = None,
    theme: Theme = LIGHT,
    width: Width = "double",
) -> Figure:
    """How often a judgement was undecided, and what counting it otherwise would change."""
    shown = [b for b in _measured(results, benchmark) if b.outcomes or b.sensitivity]
    if not shown:
        raise NothingToDrawError("no judgements of preference pairs")
    stacked = width == "single"
    with style(theme):
        height = 0.165 * len(shown) + 0.95
        figure, axes = new_figure(
            width, height * (2 if stacked else 1), 2 if stacked else 1, 1 if stacked else 2,
            sharey=not stacked,
        )  # fmt: skip
        _undecided(axes[0], shown, theme)
        ax = axes[1]
        for row, b in enumerate(shown):
            found = [t for t in b.sensitivity if t.macro.value is not None]
            values = [100 * (t.macro.value or 0) for t in found]
            if b.macro.low is not None and b.macro.high is not None:
                ends = [100 * b.macro.low, 100 * b.macro.high]
                ax.plot(ends, [row, row], color=theme.muted, linewidth=0.9, alpha=0.7)
            for t, value in zip(found, values, strict=True):
                ax.plot(
                    [value], [row], marker=_TREATMENTS.get(t.treatment, "o"), markersize=4.2,
                    color=theme.palette[list(_TREATMENTS).index(t.treatment) % 7],
                    linestyle="none", markeredgecolor=theme.background, markeredgewidth=0.4,
                    label=t.treatment if row == 0 else None, zorder=3 + (t.treatment == "headline"),
                )  # fmt: skip
        ax.set_xlabel("accuracy (%)")
        _rows(ax, [b.rewarder for b in shown])
        _above(ax, "macro accuracy, if they count as", 5)
    return figure


def _undecided(ax: Axes, shown: list[BenchmarkResult], theme: Theme) -> None:
    """Stacked bars: ties, unparsed, errors; hatched, so not told apart by colour only."""
    colours = (theme.palette[5], theme.palette[4], theme.palette[1])
    for i, outcome in enumerate(_UNDECIDED):
        rates, starts = [], []
        for b in shown:
            rate = {o.outcome: 100 * (o.rate.value or 0) for o in b.outcomes}
            starts.append(sum(rate.get(o, 0) for o in _UNDECIDED[:i]))
            rates.append(rate.get(outcome, 0))
        ax.barh(
            range(len(shown)), rates, left=starts, height=0.62, color=colours[i], label=outcome,
            hatch=("", "////", "xxxx")[i], edgecolor=theme.background, linewidth=0.4,
        )  # fmt: skip
    ax.set_xlim(left=0, right=max(ax.get_xlim()[1], 2))
    ax.set_xlabel("share of judgements (%)")
    _rows(ax, [b.rewarder for b in shown])
    _above(ax, "judgements without a winner", 3)


def _above(ax: Axes, title: str, columns: int) -> None:
    """The title with a legend under it, above the panel."""
    ax.set_title(title, pad=16)
    ax.legend(
        loc="lower left", bbox_to_anchor=(-0.02, 0.985), ncols=columns, handletextpad=0.3,
        columnspacing=1.0, fontsize=6.5, handlelength=1.3, borderaxespad=0,
    )  # fmt: skip


def leave_one_out(
    correlation: Correlation, *, theme: Theme = LIGHT, width: Width = "single"
) -> Figure:
    """r without each rewarder in turn, beside r with all of them."""
    shown = [x for x in correlation.leave_one_out if x.pearson is not None]
    if not shown:
        raise NothingToDrawError("too few rewarders to leave one out")
    shown = sorted(shown, key=lambda x: (x.pearson or 0, x.left_out))
    with style(theme):
        figure, (ax,) = new_figure(width, 0.155 * len(shown) + 0.75)
        whole = correlation.pearson.estimate
        if whole.value is not None:
            ax.axvline(whole.value, color=theme.palette[0], linewidth=1)
            if whole.low is not None and whole.high is not None:
                ax.axvspan(whole.low, whole.high, color=theme.palette[0], alpha=0.1, linewidth=0)
        for row, x in enumerate(shown):
            carries = x.left_out == correlation.carried_by
            ax.plot(
                [x.pearson or 0], [row], marker="D" if carries else "o", markersize=4.5,
                color=theme.palette[1] if carries else theme.ink,
            )  # fmt: skip
        ax.set_xlim(right=1.0)
        ax.set_xlabel("r without this rewarder (band: r with all)")
        _rows(ax, [x.left_out for x in shown])
    return figure
