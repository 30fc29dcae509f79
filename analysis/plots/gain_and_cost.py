"""Gain against cost of every rewarder, with the Pareto front."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from bon.analysis.plots.labels import box_of, place_labels
from bon.analysis.plots.style import (
    MUTED,
    PALETTE,
    NothingToDrawError,
    Width,
    fix_layout,
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


def gain_and_cost(recommendation: Recommendation, *, width: Width = "double") -> Figure:
    """Plot gains with intervals against cost, the Pareto front and majority vote."""
    priced = [r for r in recommendation.rewarders if r.gain.value is not None]
    costs = {r.rewarder: r.cost for r in priced if r.cost is not None}
    shown = [r for r in priced if r.rewarder in costs]
    if not shown:
        raise NothingToDrawError("no rewarder has a gain and a cost")
    with style():
        figure, (ax,) = new_figure(width, 3.6)
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
        vote = ax.annotate(
            "majority vote, free", (1.0, vote_gain),
            xycoords=("axes fraction", "data"), xytext=(-3, 2), textcoords="offset points",
            ha="right", va="bottom", fontsize=6.5, color=MUTED,
        )  # fmt: skip
        ax.axhline(
            vote_gain, color=MUTED, linewidth=0.9,
            linestyle=(0, (1, 1.6)),
        )  # fmt: skip
        if recommendation.budget is not None:
            ax.axvline(recommendation.budget, color=MUTED, linewidth=0.9, linestyle=(0, (4, 2)))
        ax.margins(x=0.12)
        columns = 1 if figure.get_figwidth() < 4 else 3
        figure.legend(loc="outside lower left", ncols=columns, handletextpad=0.4)
        fix_layout(figure)
        steps = [(costs[r.rewarder], _points(r)) for r in best]
        lines = [([(costs[r.rewarder], y) for y in _bar(r)], 1.0) for r in shown if _bar(r)]
        lines.append(([(x, vote_gain) for x in ax.get_xlim()], 1.5))
        for (left, low), (right, high) in pairwise(steps):
            lines.append(([(left, low), (right, low), (right, high)], 2.0))
        place_labels(
            ax, [(costs[r.rewarder], _points(r)) for r in shown], [r.rewarder for r in shown],
            avoid=lines, occupied=[box_of(vote)],
        )  # fmt: skip
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
