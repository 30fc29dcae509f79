"""Accuracy against n."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from bon.analysis.plots.style import (
    INK,
    MUTED,
    OTHER,
    Look,
    NothingToDrawError,
    family_colours,
    fix_layout,
    is_narrow,
    new_figure,
    style,
)
from bon.analysis.results import Estimate, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_NAMES = {"oracle": "oracle", "majority": "majority vote", "random": "pass@1"}
_DASHES = {"oracle": (0, (5, 1.5)), "majority": "-", "random": (0, (4, 2))}


@dataclass(frozen=True)
class Line:
    """One curve with its look."""

    name: str
    x: list[float]
    estimates: list[Estimate]
    colour: str
    dashes: Any = "-"
    width: float = 1.2

    @property
    def y(self) -> list[float]:
        """Values in percent."""
        return [100 * (e.value or 0.0) for e in self.estimates]

    def label(self, interval: bool, letters: int = 1000) -> str:
        """Return its name, shortened to `letters`, with the accuracy at its end."""
        last = self.estimates[-1]
        name = self.name if len(self.name) <= letters else f"{self.name[: letters - 1]}…"
        text = f"{name}  {self.y[-1]:.1f}"
        if interval and last.low is not None and last.high is not None:
            text += f" [{100 * last.low:.1f}, {100 * last.high:.1f}]"
        return text


def accuracy_at_n(results: Results, *, policy: str = "", **look: Unpack[Look]) -> Figure:
    """Plot Best-of-n accuracy of every rewarder for n = 1 … N, with the baselines.

    Names stand at the end of the curves with the accuracy and its interval there. An oracle above
    the panel is named at its upper edge. Of a race only the end is drawn: fewer candidates are
    estimated from a part of the questions.
    """
    policy = results.policy(policy).policy
    shown = [b for b in results.best_of_n if b.policy == policy and b.headline and b.curve]
    drawn = {b.rewarder: b.curve[-1:] if b.raced else b.curve for b in shown}
    curves = {name: [(p.n, p.accuracy) for p in points] for name, points in drawn.items()}
    return _draw(_lines(results, policy, curves), look)


def depth(results: Results, *, policy: str, **look: Unpack[Look]) -> Figure:
    """Plot accuracy against n on the questions with more candidates (`judging.deep`)."""
    shown = [c for c in results.depth if c.policy == policy]
    curves = {c.rewarder: [(p.n, p.accuracy) for p in c.points] for c in shown}
    return _draw(_lines(results, "", curves), look)


def _draw(lines: list[Line], look: Look) -> Figure:
    with style(look):
        figure, (ax,) = new_figure(look, max(2.7, 0.15 * len(lines) + 0.8))
        _log2(ax, max(x.x[-1] for x in lines))
        ax.set_xlabel("n (responses to choose from)")
        ax.set_ylabel("accuracy (%)")
        for line in lines:
            ax.plot(
                line.x, line.y, color=line.colour, linestyle=line.dashes, linewidth=line.width,
                marker="o" if len(line.x) == 1 else "",
            )  # fmt: skip
        values = [v for line in lines if line.name != "oracle" for v in line.y] or lines[0].y
        margin = max((max(values) - min(values)) * 0.1, 0.4)
        ax.set_ylim(min(values) - margin, max(values) + margin)
        _name_ends(ax, lines, intervals=not is_narrow(look))
    return figure


def _lines(
    results: Results, policy: str, curves: dict[str, list[tuple[int, Estimate]]]
) -> list[Line]:
    """Curves of the rewarders, and the baselines to compare with."""
    info = {r.rewarder: r for r in results.rewarders}
    baselines = [name for name in curves if name in ("oracle", "majority")]
    rewarders = [name for name in curves if name not in info or not info[name].baseline]
    rewarders = [name for name in rewarders if name not in baselines]
    if not rewarders and not baselines:
        raise NothingToDrawError(f"nothing was chosen from the candidates of {policy!r}")
    families = family_colours([r.family for r in results.rewarders])
    lines = []
    for name in (*baselines, *rewarders):
        points = [(n, accuracy) for n, accuracy in curves[name] if accuracy.value is not None]
        look: tuple[Any, ...] = (INK, _DASHES.get(name), 1.5)
        if name not in baselines:
            look = (families.get(info[name].family if name in info else "", OTHER),)
        xs, accuracies = [float(n) for n, _ in points], [accuracy for _, accuracy in points]
        lines.append(Line(_NAMES.get(name, name), xs, accuracies, *look))
    first = next((p for p in results.policies if p.policy == policy), None)
    if first is not None and first.pass_at_1.value is not None:
        ends = [1.0, max(line.x[-1] for line in lines if line.x)]
        flat = [first.pass_at_1, first.pass_at_1]
        lines.append(Line(_NAMES["random"], ends, flat, MUTED, _DASHES["random"], 1.0))
    return [line for line in lines if line.x]


def _log2(ax: Axes, last: float) -> None:
    """A log2 axis with a tick at every power of two, and at the end."""
    from matplotlib.ticker import FixedLocator, NullLocator

    if last <= 1:
        ax.set_xticks([1], ["1"])
        return
    ax.set_xscale("log", base=2)
    ticks = [2**k for k in range(int(last).bit_length()) if 2**k <= last]
    if ticks[-1] != int(last) and last / ticks[-1] > 1.2:
        ticks.append(int(last))
    ax.xaxis.set_major_locator(FixedLocator([float(t) for t in ticks]))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xticklabels([str(t) for t in ticks])
    ax.set_xlim(0.97, last * 1.02)


def _name_ends(ax: Axes, lines: Sequence[Line], *, intervals: bool) -> None:
    """Fix the layout with room at the right and name the curves there, without overlap."""
    figure: Any = ax.figure
    scale = figure.dpi / 72
    most = 0.5 * figure.bbox.width - 18 * scale
    probe = figure.text(0, 0, "", fontsize="small")

    def width(text: str) -> float:
        probe.set_text(text)
        return float(probe.get_window_extent().width)

    def shorten(line: Line) -> str:
        text, letters = line.label(intervals), len(line.name)
        while width(text) > most and letters > 4:
            letters -= 1
            text = line.label(intervals, letters)
        return text

    labels = [shorten(line) for line in lines]
    gap = 1.05 * probe.get_window_extent().height
    room = (max(map(width, labels)) + 18 * scale) / figure.bbox.width
    probe.remove()
    fix_layout(figure, room)
    frame = ax.get_window_extent()
    ends = np.array([ax.transData.transform((x.x[-1], x.y[-1]))[1] for x in lines])
    ends = ends.clip(frame.y0, frame.y1)
    places = spread(ends.tolist(), gap, frame.y0, frame.y1)
    to_axes = ax.transAxes.inverted()
    x = to_axes.transform((frame.x1 + 12 * scale, 0))[0]
    for line, label, end, place in zip(lines, labels, ends, places, strict=True):
        start, stop = (to_axes.transform((0, y))[1] for y in (end, place))
        ax.plot(
            [1.008, x * 0.998], [start, stop], transform=ax.transAxes, color=line.colour,
            linewidth=0.6, clip_on=False,
        )  # fmt: skip
        ax.text(
            x + 0.006, stop, label, transform=ax.transAxes, va="center", fontsize="small", color=INK
        )


def spread(positions: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Move positions apart to at least `gap`, in order and as little as possible.

    The gap shrinks where there is too little room.
    """
    count = len(positions)
    if count == 0:
        return []
    gap = min(gap, (high - low) / max(count - 1, 1))
    order, offsets = np.argsort(positions, kind="stable"), gap * np.arange(count)
    bases = _rising((np.asarray(positions, dtype=float)[order] - offsets).tolist())
    placed = np.empty(count)
    placed[order] = np.clip(bases, low, max(low, high - (count - 1) * gap)) + offsets
    return placed.tolist()


def _rising(values: Sequence[float]) -> list[float]:
    """Return the nearest values that never fall, by pooling (scipy's takes .2 s to import)."""
    pools: list[tuple[float, int]] = []
    for value in values:
        total, count = value, 1
        while pools and pools[-1][0] * count > total * pools[-1][1]:
            more, size = pools.pop()
            total, count = total + more, count + size
        pools.append((total, count))
    return [total / count for total, count in pools for _ in range(count)]
