"""Accuracy against n."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import TYPE_CHECKING, Any

from bon.analysis.plots.labels import LABEL_SIZE, spread
from bon.analysis.plots.style import (
    INK,
    MARKERS,
    MUTED,
    OTHER,
    UNKNOWN,
    NothingToDrawError,
    Width,
    colours_for,
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
_DASHES = {"oracle": (0, (5, 1.5)), "majority": (0, (1, 1.3)), "random": (0, (4, 2))}


@dataclass(frozen=True)
class Line:
    """One curve with its look."""

    name: str
    x: list[float]
    estimates: list[Estimate]
    colour: str
    marker: str = ""
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

    def draw(self, ax: Axes) -> None:
        """Draw the curve, with its marker at the end."""
        ax.plot(self.x, self.y, color=self.colour, linestyle=self.dashes, linewidth=self.width)
        if self.marker:
            ax.plot(
                self.x[-1:], self.y[-1:], color=self.colour, marker=self.marker, markersize=4.5,
                linestyle="none", clip_on=False, zorder=5,
            )  # fmt: skip


def accuracy_at_n(
    results: Results,
    *,
    policy: str | None = None,
    width: Width = "double",
) -> Figure:
    """Plot Best-of-n accuracy of every rewarder for n = 1 … N, with the baselines.

    Names stand at the end of the curves with the accuracy and its interval there. An oracle far
    above everything else gets a strip of its own, so that differences stay visible. Of a race only
    the end is drawn: fewer candidates are estimated from a part of the questions.
    """
    policy = policy or (results.policies[0].policy if results.policies else "")
    shown = [b for b in results.best_of_n if b.policy == policy and b.headline and b.curve]
    drawn = {b.rewarder: b.curve[-1:] if b.raced else b.curve for b in shown}
    curves = {name: [(p.n, p.accuracy) for p in points] for name, points in drawn.items()}
    return _draw(_lines(results, policy, curves), width)


def depth(results: Results, *, policy: str, width: Width = "double") -> Figure:
    """Plot accuracy against n on the questions with more candidates (`judging.deep`)."""
    shown = [c for c in results.depth if c.policy == policy]
    curves = {c.rewarder: [(p.n, p.accuracy) for p in c.points] for c in shown}
    return _draw(_lines(results, "", curves), width)


def _draw(lines: list[Line], width: Width) -> Figure:
    main = [line for line in lines if line.name != "oracle"]
    oracle = [line for line in lines if line.name == "oracle"]
    low, high = min(min(x.y) for x in main), max(max(x.y) for x in main)
    split = bool(oracle) and len(main) > 3 and max(oracle[0].y) - high > 0.8 * max(high - low, 4.0)
    with style():
        height = max(2.7, 0.145 * len(lines) + (1.1 if split else 0.7))
        options = {"height_ratios": [1, 3.6], "hspace": 0.0} if split else None
        figure, axes = new_figure(
            width, height, rows=2 if split else 1, sharex=split, gridspec_kw=options
        )
        body, panels = axes[-1], [(axes[-1], main if split else lines)]
        if split:
            panels.append((axes[0], oracle))
        _log2(body, max(x.x[-1] for x in lines))
        _kl_axis(axes[0], body.get_xticks().tolist())
        body.set_xlabel("n (responses to choose from)")
        body.set_ylabel("accuracy (%)")
        for ax, shown in panels:
            for line in shown:
                line.draw(ax)
        values = [v for line in panels[0][1] for v in line.y]
        margin = max((max(values) - min(values)) * 0.05, 0.4)
        body.set_ylim(min(values) - margin, max(values) + margin)
        if split:
            _strip(axes[0], oracle[0], high)
        _name_ends(panels, intervals=not is_narrow(width))
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
    families = family_colours(results.rewarders, ())
    colours = {r.rewarder: families.get(r.family, INK) for r in results.rewarders}
    if not families:
        colours = colours_for(rewarders)
    lines = []
    for name in (*baselines, *rewarders):
        points = [(n, accuracy) for n, accuracy in curves[name] if accuracy.value is not None]
        look: tuple[Any, ...] = (INK, "", _DASHES.get(name), 1.5)
        if name not in baselines:
            kind = info[name].kind if name in info else ""
            look = (colours.get(name, OTHER), MARKERS.get(kind, UNKNOWN))
        xs, accuracies = [float(n) for n, _ in points], [accuracy for _, accuracy in points]
        lines.append(Line(_NAMES.get(name, name), xs, accuracies, *look))
    first = next((p for p in results.policies if p.policy == policy), None)
    if first is not None and first.pass_at_1.value is not None:
        ends = [1.0, max(line.x[-1] for line in lines if line.x)]
        flat = [first.pass_at_1, first.pass_at_1]
        lines.append(Line(_NAMES["random"], ends, flat, MUTED, "", _DASHES["random"], 1.0))
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


def _kl_axis(ax: Axes, ns: Sequence[float]) -> None:
    """Write at the top how far Best-of-n moves from the policy: ln n − (n − 1)/n at most."""
    top = ax.secondary_xaxis("top")
    top.set_xticks(ns, [f"{log(n) - (n - 1) / n:.2g}" for n in ns])
    top.minorticks_off()
    top.tick_params(length=0)
    top.spines["top"].set_visible(False)
    top.set_xlabel("KL from the policy, at most (nats)")


def _strip(ax: Axes, oracle: Line, high: float) -> None:
    """Show the upper part of the oracle's curve, with a mark where it is cut."""
    top = max(oracle.y)
    ax.set_ylim(high + (top - high) * 0.25, top + (top - high) * 0.12)
    ax.spines["bottom"].set_visible(False)
    ax.tick_params(axis="x", length=0, labelbottom=False)
    ax.locator_params(axis="y", nbins=3)
    ax.plot(
        [0], [0], transform=ax.transAxes, color=ax.spines["left"].get_edgecolor(), clip_on=False,
        marker=[(-1, -0.5), (1, 0.5)], markersize=6, linestyle="none", mew=0.8,
    )  # fmt: skip


def _name_ends(panels: Sequence[tuple[Axes, Sequence[Line]]], *, intervals: bool) -> None:
    """Fix the layout with room at the right and name the curves there, without overlap."""
    figure: Any = panels[0][0].figure
    scale = figure.dpi / 72
    most = 0.5 * figure.bbox.width - 18 * scale
    probe = figure.text(0, 0, "", fontsize=LABEL_SIZE)

    def width(text: str) -> float:
        probe.set_text(text)
        return float(probe.get_window_extent().width)

    def shorten(line: Line) -> str:
        text, letters = line.label(intervals), len(line.name)
        while width(text) > most and letters > 4:
            letters -= 1
            text = line.label(intervals, letters)
        return text

    labels = {line.name: shorten(line) for _, lines in panels for line in lines}
    room = (max(map(width, labels.values())) + 18 * scale) / figure.bbox.width
    figure.get_layout_engine().set(rect=(0, 0, 1 - room, 1))
    probe.remove()
    fix_layout(figure)
    for ax, lines in panels:
        frame = ax.get_window_extent()
        ends = [float(ax.transData.transform((x.x[-1], x.y[-1]))[1]) for x in lines]
        gap = 9.2 * scale
        places = spread(ends, gap, frame.y0, max(frame.y1, frame.y0 + gap * (len(lines) - 1)))
        to_axes = ax.transAxes.inverted()
        x = to_axes.transform((frame.x1 + 12 * scale, 0))[0]
        for line, end, place in zip(lines, ends, places, strict=True):
            start, stop = (to_axes.transform((0, y))[1] for y in (end, place))
            ax.plot(
                [1.008, x * 0.998], [start, stop], transform=ax.transAxes, color=line.colour,
                linewidth=0.6, clip_on=False,
            )  # fmt: skip
            ax.text(
                x + 0.006, stop, labels[line.name], transform=ax.transAxes, va="center",
                fontsize=LABEL_SIZE, color=INK,
            )  # fmt: skip
