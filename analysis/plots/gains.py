"""Three axes: gain by training against benchmark accuracy and against gain by choosing; and KL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

import numpy as np

from bon.analysis.plots.style import (
    MUTED,
    PALETTE,
    Look,
    NothingToDrawError,
    colours_for,
    fix_layout,
    is_narrow,
    names_beside,
    new_figure,
    style,
)
from bon.analysis.results import Estimate, Results, TrainedArm, Uplift

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


def gains_by_kl(study: Uplift, results: Results, **look: Unpack[Look]) -> Figure:
    """Plot gains in sampled accuracy against nats from the policy, by choosing and by training.

    A panel per method. Lines: Best-of-n for n = 1 … N, at most ln n − (n − 1)/n nats away (Beirami
    et al. 2024), on the run's questions; markers: trained policies, on the others.
    """
    shown = {
        m.method: [a for a in study.arms if a.method == m.method and a.kl and a.sampled]
        for m in study.methods
    }
    methods = [method for method, arms in shown.items() if arms]
    if not methods:
        raise NothingToDrawError("no trained policy has a KL")
    start = next((p.pass_at_1.value or 0 for p in results.policies if p.policy == study.policy), 0)
    colours = colours_for(list(dict.fromkeys(a.arm for a in study.arms if not a.reference)))
    columns = 1 if is_narrow(look) else min(len(methods), 2)
    rows = -(-len(methods) // columns)
    curves = [c for c in results.best_of_n if c.policy == study.policy and c.headline]
    with style(look):
        figure, axes = new_figure(look, 3.0 * rows, rows, columns)
        for ax in axes[len(methods) :]:
            ax.remove()
        for ax, method in zip(axes, methods, strict=False):
            for choice in curves:
                if choice.rewarder in colours:
                    known = [
                        (p.n, p.accuracy.value - start) for p in choice.curve if p.accuracy.value
                    ]
                    ax.plot(
                        [float(np.log(n) - (n - 1) / n) for n, _ in known],
                        [100 * gain for _, gain in known],
                        color=colours[choice.rewarder], linewidth=0.9, alpha=0.7,
                    )  # fmt: skip
            for arm in shown[method]:
                marker = "s" if arm.reference else "v" if arm.hurts else "o"
                colour = colours.get(arm.arm, MUTED)
                ax.plot(*_at(arm), marker=marker, color=colour, linestyle="none")
            ax.axhline(0, color=MUTED, linewidth=0.8)
            ax.set_xlabel("KL from the policy (nats)")
            ax.set_ylabel(f"sampled gain, {method.upper()} (points)")
            ax.margins(x=0.06, y=0.1)
        fix_layout(figure)
        for ax, method in zip(axes, methods, strict=False):
            own = shown[method]
            names_beside(ax, [_at(arm) for arm in own], [arm.arm for arm in own])
    return figure


def _at(arm: TrainedArm) -> tuple[float, float]:
    """Return the point of an arm: nats, and gain in points."""
    assert arm.kl is not None
    assert arm.sampled is not None
    return arm.kl.value or 0.0, 100 * (arm.sampled.value or 0.0)


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
