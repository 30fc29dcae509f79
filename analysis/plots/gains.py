"""Gain by training against benchmark accuracy and against gain by choosing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from bon.analysis.plots.style import (
    MUTED,
    PALETTE,
    Look,
    NothingToDrawError,
    fix_layout,
    is_narrow,
    names_beside,
    new_figure,
    style,
)
from bon.analysis.results import Estimate, TrainedArm, Uplift

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_AXES = {"benchmark": "benchmark accuracy (%)", "best_of_n": "gain by choosing (points)"}


def gains(study: Uplift, **look: Unpack[Look]) -> Figure:
    """Plot a row of panels per method; dotted lines are the arms without a rewarder."""
    methods = [m.method for m in study.methods]
    panels = [(m, x) for m in methods for x in _AXES if _points(study, m, x)]
    if not panels:
        raise NothingToDrawError("no trained rewarder has a benchmark score or a gain by choosing")
    columns = 1 if is_narrow(look) else 2
    rows = -(-len(panels) // columns)
    with style(look):
        figure, axes = new_figure(look, 2.8 * rows, rows, columns)
        for ax in axes[len(panels) :]:
            ax.remove()
        for ax, (method, x) in zip(axes, panels, strict=False):
            _panel(ax, study, method, x)
        fix_layout(figure)
        for ax, (method, x) in zip(axes, panels, strict=False):
            shown = _points(study, method, x)
            lines = [[(v, _y(a)) for v in ax.get_xlim()] for a in _references(study, method)]
            at = [(x, _y(arm)) for arm, x in shown]
            names_beside(ax, at, [arm.arm for arm, _ in shown], lines=lines)
    return figure


def _y(arm: TrainedArm) -> float:
    """Return the gain by training in points."""
    return 100 * (arm.greedy.value or 0.0)


def _points(study: Uplift, method: str, x: str) -> list[tuple[TrainedArm, float]]:
    rows = []
    for arm in study.arms:
        value = getattr(arm, x)
        value = value.value if isinstance(value, Estimate) else value
        if arm.method == method and not arm.reference and value is not None:
            rows.append((arm, 100 * value))
    return rows


def _references(study: Uplift, method: str) -> list[TrainedArm]:
    return [arm for arm in study.arms if arm.reference and arm.method == method]


def _panel(ax: Axes, study: Uplift, method: str, x: str) -> None:
    for arm, at in _points(study, method, x):
        colour = PALETTE[1] if arm.hurts else PALETTE[0]
        bar = [100 * v for v in (arm.greedy.low, arm.greedy.high) if v is not None]
        if bar:
            ax.plot([at] * 2, bar, color=colour, linewidth=0.8, alpha=0.6)
        ax.plot(
            [at], [_y(arm)], marker="v" if arm.hurts else "o", color=colour, linestyle="none",
            zorder=4,
        )  # fmt: skip
    ax.axhline(0, color=MUTED, linewidth=0.8)
    for arm in _references(study, method):
        ax.axhline(_y(arm), color=MUTED, linewidth=0.9, linestyle=(0, (1, 1.6)))
        ax.annotate(
            arm.arm, (1.0, _y(arm)), xycoords=("axes fraction", "data"), xytext=(3, 0),
            textcoords="offset points", ha="left", va="center", fontsize="small", color=MUTED,
        )  # fmt: skip
    ax.set_xlabel(_AXES[x])
    ax.set_ylabel(f"gain by {method.upper()} (points)")
    ax.margins(x=0.15, y=0.1)
