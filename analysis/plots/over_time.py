"""Rewards of a training run over time: a small panel for each quantity."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bon.analysis.plots.style import (
    PALETTE,
    NothingToDrawError,
    Width,
    is_narrow,
    new_figure,
    style,
)
from bon.analysis.results.reward_log import SHARES, Quantity, TrainingReport

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLES: dict[Quantity, str] = {
    "score": "score of the rewarder",
    "correct": "right answers (%)",
    "told_apart": "right above wrong (%)",
    "reward": "reward as given",
    "characters": "characters per response",
    "length_pull": "length with score, within groups",
    "spread": "spread of scores within groups",
    "flat": "groups of equal rewards (%)",
    "distinct": "distinct responses (%)",
    "parsed": "replies read (%)",
    "consistency": "same verdict in both orders (%)",
}
"""In the order of the panels."""


def rewards_over_time(report: TrainingReport, *, width: Width = "double") -> Figure:
    """Plot means of consecutive groups with their intervals, without constant quantities."""
    shown = [name for name in TITLES if _varies(report, name)]
    if not shown or len(report.spans) < 2:
        raise NothingToDrawError("too few rewards to show how they changed")
    columns = 1 if is_narrow(width) else 2
    rows = -(-len(shown) // columns)
    middle = [(span.first + span.last) / 2 for span in report.spans]
    colours = {"score": 0, "reward": 0, "correct": 2, "told_apart": 2}
    with style():
        figure, axes = new_figure(width, 1.35 * rows + 0.35, rows, columns, sharex=True)
        for i, (ax, name) in enumerate(zip(axes, shown, strict=False)):
            colour, scale = PALETTE[colours.get(name, 1)], 100 if name in SHARES else 1
            spans = zip(middle, (span.values[name] for span in report.spans), strict=True)
            known = [(at, e.low, e.value, e.high) for at, e in spans if e.value is not None]
            at, low, value, high = np.array(known, dtype=float).T
            low, high = (scale * np.where(np.isnan(end), value, end) for end in (low, high))
            ax.fill_between(at, low, high, color=colour, alpha=0.13, linewidth=0)
            ax.plot(at, scale * value, color=colour, marker="o", markersize=2.5)
            ax.set_title(TITLES[name], fontsize=7.5)
            if i >= len(shown) - columns:
                ax.set_xlabel("groups judged")
                ax.tick_params(labelbottom=True)
        for ax in axes[len(shown) :]:
            ax.set_visible(False)
    return figure


def _varies(report: TrainingReport, name: Quantity) -> bool:
    values = {span.values[name].value for span in report.spans} - {None}
    if name == "reward" and report.scales == ("raw",):
        return False  # the score itself
    return len(values) > 1
