"""Reliability diagrams: what a rewarder's probabilities say against what is right."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import numpy as np

from bon.analysis.plots.style import (
    MUTED,
    PALETTE,
    Look,
    NothingToDrawError,
    new_figure,
    style,
)
from bon.analysis.results.calibration import Calibration

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLUMNS = 3


def reliability(calibration: Calibration, **look: Unpack[Look]) -> Figure:
    """Plot the share of right items against the score in ten bins, a panel for each rewarder.

    Scores outside [0, 1] are drawn after Platt's map.
    """
    rows = [row for row in calibration.rewarders if row.reliability]
    if not rows:
        raise NothingToDrawError("no rewarder has scores")
    across = min(COLUMNS, len(rows))
    down = -(-len(rows) // across)
    with style(look):
        figure, axes = new_figure(look, 2.3 * down, down, across, sharex=True, sharey=True)
        for axis, row in zip(axes, rows, strict=False):
            bins = row.reliability[0].bins
            score, share, low, high = (
                np.array(values, dtype=float)
                for values in zip(
                    *((b.score, b.share.value, b.share.low, b.share.high) for b in bins),
                    strict=True,
                )
            )
            axis.plot([0, 1], [0, 1], color=MUTED, linewidth=0.8, linestyle=(0, (3, 2)))
            axis.errorbar(
                score, share, yerr=np.stack([share - low, high - share]), fmt="o-",
                color=PALETTE[0], markersize=3.5, linewidth=1,
            )  # fmt: skip
            kind = "" if row.reliability[0].map == "raw" else " (Platt's map)"
            axis.set_title(f"{row.rewarder}, {row.kind}{kind}", fontsize="small")
            axis.set_xlim(0, 1)
            axis.set_ylim(0, 1)
        for axis in axes[len(rows) :]:
            axis.set_visible(False)
        figure.supxlabel("predicted probability", fontsize="small")
        figure.supylabel("share that is right", fontsize="small")
    return figure
