"""How able the rewarders are and how hard the items, on the one scale of the Rasch model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from bon.analysis.plots.style import LIGHT, NothingToDrawError, Theme, Width, new_figure, style
from bon.analysis.results.audited import CurationAudit

if TYPE_CHECKING:
    from matplotlib.figure import Figure

EDGE = 6.0
"""Logits beyond which items are drawn at the edge: all or none were right."""


def items_and_rewarders(
    audit: CurationAudit, *, theme: Theme = LIGHT, width: Width = "double"
) -> Figure:
    """Abilities with their intervals above, the items' difficulties below."""
    found = audit.by_rewarders
    able = [one for one in found.rewarders if one.ability is not None] if found else []
    if found is None or found.rasch is None or not able:
        raise NothingToDrawError("there is no Rasch model")
    able.sort(key=lambda one: one.ability.value or 0.0)  # type: ignore[union-attr]
    hard = np.clip([i.difficulty for i in found.items if i.difficulty is not None], -EDGE, EDGE)
    with style(theme):
        height = 0.17 * len(able) + 1.9
        figure, (above, below) = new_figure(
            width, height, 2, 1, sharex=True, height_ratios=[0.17 * len(able) + 0.2, 1.2]
        )
        known = [one.ability for one in able if one.ability is not None]
        values, low, high = (
            np.array([getattr(e, name) for e in known], dtype=float)
            for name in ("value", "low", "high")
        )
        above.errorbar(
            values,
            np.arange(len(able)),
            xerr=np.stack([values - low, high - values]),
            fmt="o",
            color=theme.palette[0],
            markersize=3.5,
            linewidth=1,
        )
        above.set_yticks(range(len(able)), [one.rewarder for one in able])
        above.set_ylim(-0.7, len(able) - 0.3)
        below.hist(
            hard,
            bins=np.arange(-EDGE, EDGE + 0.25, 0.5).tolist(),
            color=theme.palette[1],
            alpha=0.7,
        )
        below.set_ylabel("items")
        below.set_xlabel("weaker, easier  ←  logits  →  abler, harder")
    return figure
