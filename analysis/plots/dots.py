"""Dot plots with intervals: position and length bias, outcomes, leaving one rewarder out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

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
    """Names at the left, the first on top; in a grid only beside the first panel.

    As texts: a tick is five things to make, measure and draw, and there may be a hundred.
    """
    from matplotlib import rcParams
    from matplotlib.transforms import ScaledTranslation, blended_transform_factory

    ax.set_yticks([])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.spines["left"].set_visible(False)
    place = ax.get_subplotspec()
    if place is None or not place.is_first_col():
        return
    away = ScaledTranslation(-rcParams["ytick.major.pad"] / 72, 0, ax.figure.dpi_scale_trans)
    beside = blended_transform_factory(ax.transAxes, ax.transData) + away
    for row, name in enumerate(names):
        ax.text(
            0, row, name, transform=beside, ha="right", va="center_baseline",
            size=rcParams["ytick.labelsize"], color=rcParams["ytick.color"],
        )  # fmt: skip


def _dots(ax: Axes, estimates: list[Estimate | None], markers: list[str], colour: str) -> None:
    """Estimates in percent with their intervals, a row each."""
    found = [(row, e) for row, e in enumerate(estimates) if e is not None and e.value is not None]
    _intervals(ax, dict(found), color=colour, linewidth=1)
    for marker in dict.fromkeys(markers):
        points = [(100 * (e.value or 0), row) for row, e in found if markers[row] == marker]
        if points:
            x, y = zip(*points, strict=True)
            ax.plot(x, y, marker=marker, color=colour, markersize=4.5, linestyle="none")


def _intervals(ax: Axes, estimates: dict[int, Estimate], **look: Any) -> None:
    """Intervals in percent, each on its row."""
    rows = [row for row, e in estimates.items() if e.low is not None and e.high is not None]
    low = [100 * (estimates[row].low or 0) for row in rows]
    ax.hlines(rows, low, [100 * (estimates[row].high or 0) for row in rows], **look)


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
    markers = [marker_for(kinds.get(b.rewarder, "")) for b in shown]
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
            _dots(ax, [getattr(b, field) for b in shown], markers, theme.palette[0])
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
        _intervals(
            ax, {row: b.macro for row, b in enumerate(shown)},
            color=theme.muted, linewidth=0.9, alpha=0.7,
        )  # fmt: skip
        for treatment, marker in _TREATMENTS.items():
            points = [
                (100 * t.macro.value, row)
                for row, b in enumerate(shown)
                for t in b.sensitivity
                if t.treatment == treatment and t.macro.value is not None
            ]
            if points:
                x, y = zip(*points, strict=True)
                ax.plot(
                    x, y, marker=marker, markersize=4.2, linestyle="none", label=treatment,
                    color=theme.palette[list(_TREATMENTS).index(treatment) % 7],
                    markeredgecolor=theme.background, markeredgewidth=0.4,
                    zorder=3 + (treatment == "headline"),
                )  # fmt: skip
        ax.set_xlabel("accuracy (%)")
        _rows(ax, [b.rewarder for b in shown])
        _above(ax, "macro accuracy, if they count as", 3 if stacked else 5)
    return figure


def _undecided(ax: Axes, shown: list[BenchmarkResult], theme: Theme) -> None:
    """Stacked bars: ties, unparsed, errors; hatched, so not told apart by colour only."""
    colours = (theme.palette[5], theme.palette[4], theme.palette[1])
    shares = [{o.outcome: 100 * (o.rate.value or 0) for o in b.outcomes} for b in shown]
    for i, outcome in enumerate(_UNDECIDED):
        # a bar of no width takes as long to draw; one is there for the legend
        rows = [row for row, share in enumerate(shares) if share.get(outcome)] or [0]
        ax.barh(
            rows, [shares[row].get(outcome, 0) for row in rows],
            left=[sum(shares[row].get(o, 0) for o in _UNDECIDED[:i]) for row in rows],
            height=0.62, color=colours[i], label=outcome,
            hatch=("", "////", "xxxx")[i], edgecolor=theme.background, linewidth=0.4,
        )  # fmt: skip
    ax.set_xlim(left=0, right=max(ax.get_xlim()[1], 2))
    ax.set_xlabel("share of judgements (%)")
    _rows(ax, [b.rewarder for b in shown])
    _above(ax, "judgements without a winner", 3)


def _above(ax: Axes, title: str, columns: int) -> None:
    """The title with a legend under it, above the panel."""
    rows = -(-len(ax.get_legend_handles_labels()[0]) // columns)
    ax.set_title(title, pad=6 + 10 * rows)
    legend = ax.legend(
        loc="lower left", bbox_to_anchor=(-0.02, 0.985), ncols=columns, handletextpad=0.3,
        columnspacing=1.0, fontsize=6.5, handlelength=1.3, borderaxespad=0,
    )  # fmt: skip
    legend.set_in_layout(False)  # the title keeps its room


def leave_one_out(
    correlation: Correlation, *, theme: Theme = LIGHT, width: Width = "single"
) -> Figure:
    """r without each rewarder in turn, beside r with all of them."""
    shown = [x for x in correlation.leave_one_out if x.pearson is not None]
    if not shown:
        raise NothingToDrawError("too few rewarders to leave one out")
    shown = sorted(shown, key=lambda x: (x.pearson or 0, x.left_out))
    carrier = correlation.carried_by
    with style(theme):
        figure, (ax,) = new_figure(width, 0.155 * len(shown) + 0.75)
        whole = correlation.pearson.estimate
        if whole.value is not None:
            ax.axvline(whole.value, color=theme.palette[0], linewidth=1)
            if whole.low is not None and whole.high is not None:
                ax.axvspan(whole.low, whole.high, color=theme.palette[0], alpha=0.1, linewidth=0)
        for carries, marker, colour in ((False, "o", theme.ink), (True, "D", theme.palette[1])):
            rows = [i for i, x in enumerate(shown) if carries == (x.left_out == carrier)]
            ax.plot(
                [shown[i].pearson or 0 for i in rows], rows, marker=marker, markersize=4.5,
                color=colour, linestyle="none",
            )  # fmt: skip
        ax.set_xlim(right=1.0)
        ax.set_xlabel("r without this rewarder (band: r with all)")
        _rows(ax, [x.left_out for x in shown])
    return figure
