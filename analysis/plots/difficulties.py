"""Ability of rewarders and difficulty of items on the scale of the Rasch model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bon.analysis.plots.style import PALETTE, NothingToDrawError, Width, new_figure, style
from bon.analysis.results.audit import CurationAudit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EDGE = 6.0
"""Logits beyond which items are drawn at the edge: all or no rewarders were right."""


def items_and_rewarders(audit: CurationAudit, *, width: Width = "double") -> Figure:
    """Plot abilities with their intervals above, item difficulties below."""
    model = audit.by_rewarders
    rows = (
        [(r.rewarder, r.ability) for r in model.rewarders if r.ability is not None] if model else []
    )
    if model is None or model.rasch is None or not rows:
        raise NothingToDrawError("there is no Rasch model")
    rows.sort(key=lambda row: row[1].value or 0.0)
    names, abilities = zip(*rows, strict=True)
    hard = np.clip([i.difficulty for i in model.items if i.difficulty is not None], -EDGE, EDGE)
    with style():
        height = 0.17 * len(rows)
        figure, (above, below) = new_figure(
            width, height + 1.9, 2, 1, sharex=True, height_ratios=[height + 0.2, 1.2]
        )
        value, low, high = (
            np.array([getattr(ability, name) for ability in abilities], dtype=float)
            for name in ("value", "low", "high")
        )
        above.errorbar(
            value, np.arange(len(rows)), xerr=np.stack([value - low, high - value]), fmt="o",
            color=PALETTE[0], markersize=3.5, linewidth=1,
        )  # fmt: skip
        above.set_yticks(range(len(rows)), names)
        above.set_ylim(-0.7, len(rows) - 0.3)
        bins = np.arange(-EDGE, EDGE + 0.25, 0.5).tolist()
        below.hist(hard, bins=bins, color=PALETTE[1], alpha=0.7)
        below.set_ylabel("items")
        below.set_xlabel("weaker, easier  ←  logits  →  abler, harder")
    return figure
