"""Gain against cost of every rewarder, with the Pareto front."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Unpack

from bon.analysis.plots.style import (
    MUTED,
    PALETTE,
    Look,
    NothingToDrawError,
    fix_layout,
    legend_below,
    names_beside,
    new_figure,
    style,
)
from bon.analysis.results import Recommendation, Recommended

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_UNITS = {"dollars": "cost ($ per question)", "seconds": "judge time (s per question)",
          "calls": "judge calls per question"}  # fmt: skip
_LOOKS = {True: ("o", "nothing cheaper gains as much"), False: ("v", "something cheaper does")}


def gain_and_cost(recommendation: Recommendation, **look: Unpack[Look]) -> Figure:
    """Plot gains with intervals against cost, the Pareto front and majority vote."""
    priced = [r for r in recommendation.rewarders if r.gain.value is not None]
    costs = {r.rewarder: r.cost for r in priced if r.cost is not None}
    shown = [r for r in priced if r.rewarder in costs]
    if not shown:
        raise NothingToDrawError("no rewarder has a gain and a cost")
    with style(look):
        figure, (ax,) = new_figure(look, 3.6)
        colours = {True: PALETTE[0], False: MUTED}
        for front, (marker, label) in _LOOKS.items():
            alike = [r for r in shown if r.front == front]
            for r in alike:
                if bar := _bar(r):
                    ax.plot(
                        [costs[r.rewarder]] * 2, bar, color=colours[front], linewidth=0.8, alpha=0.6
                    )
            if alike:
                ax.plot(
                    [costs[r.rewarder] for r in alike], [_points(r) for r in alike], marker=marker,
                    color=colours[front], linestyle="none", label=label, zorder=4,
                )  # fmt: skip
        best = sorted((r for r in shown if r.front), key=lambda r: costs[r.rewarder])
        ax.step(
            [costs[r.rewarder] for r in best], [_points(r) for r in best], where="post",
            color=PALETTE[0], linewidth=1, alpha=0.7,
        )  # fmt: skip
        if all(costs[r.rewarder] > 0 for r in shown):
            _log(ax)
        ax.set_xlabel(_UNITS[recommendation.unit])
        ax.set_ylabel("gain over pass@1 (points)")
        vote_gain = 100 * (recommendation.majority.value or 0.0)
        ax.annotate(
            "majority vote, free", (1.0, vote_gain),
            xycoords=("axes fraction", "data"), xytext=(-3, 2), textcoords="offset points",
            ha="right", va="bottom", fontsize="small", color=MUTED,
        )  # fmt: skip
        ax.axhline(
            vote_gain, color=MUTED, linewidth=0.9,
            linestyle=(0, (1, 1.6)),
        )  # fmt: skip
        if recommendation.budget is not None:
            ax.axvline(recommendation.budget, color=MUTED, linewidth=0.9, linestyle=(0, (4, 2)))
        ax.margins(x=0.12)
        legend_below(figure, ax.get_legend_handles_labels()[0])
        fix_layout(figure)
        at = [(costs[r.rewarder], _points(r)) for r in shown]
        steps = [(costs[r.rewarder], _points(r)) for r in best]
        lines = [[(costs[r.rewarder], y) for y in _bar(r)] for r in shown if _bar(r)]
        lines.append([(x, vote_gain) for x in ax.get_xlim()])
        lines += [[(x, low), (right, low), (right, y)] for (x, low), (right, y) in pairwise(steps)]
        names_beside(ax, at, [r.rewarder for r in shown], lines=lines)
    return figure


def _points(r: Recommended) -> float:
    assert r.gain.value is not None
    return 100 * r.gain.value


def _bar(r: Recommended) -> list[float]:
    return [100 * v for v in (r.gain.low, r.gain.high) if v is not None]


def _log(ax: Axes) -> None:
    """A logarithmic axis of plain numbers: 0.05, 0.1, 0.2."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
