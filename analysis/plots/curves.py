"""Accuracy against n, benchmark accuracy against votes, and r against n."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bon.analysis.plots.labels import spread
from bon.analysis.plots.style import (
    LIGHT,
    NothingToDrawError,
    Theme,
    Width,
    colours_for,
    leave,
    marker_for,
    new_figure,
    settle,
    style,
)
from bon.analysis.results import CorrelationByN, CurvePoint, Estimate, Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ORACLE, VOTE, RANDOM = "oracle", "majority", "random"
LABEL_SIZE = 6.8
_NAMES = {ORACLE: "oracle", VOTE: "majority vote", RANDOM: "pass@1"}


@dataclass(frozen=True)
class Line:
    """One curve: where it goes, what it is called and how it is drawn."""

    name: str
    x: tuple[float, ...]
    estimates: tuple[Estimate, ...]
    colour: str
    marker: str = ""
    dashes: Any = "-"
    width: float = 1.2

    @property
    def y(self) -> list[float]:
        """Values in percent."""
        return [100 * (e.value or 0.0) for e in self.estimates]

    def label(self, interval: bool, letters: int = 1000) -> str:
        """Its name, of so many letters at most, with the accuracy at its end."""
        last = self.estimates[-1]
        name = self.name if len(self.name) <= letters else f"{self.name[: letters - 1]}…"
        text = f"{name}  {self.y[-1]:.1f}"
        if interval and last.low is not None and last.high is not None:
            text += f" [{100 * last.low:.1f}, {100 * last.high:.1f}]"
        return text


def accuracy_at_n(
    results: Results,
    *,
    policy: str | None = None,
    theme: Theme = LIGHT,
    width: Width = "double",
) -> Figure:
    """Best-of-n accuracy of every rewarder for n = 1 … N, with oracle and majority vote.

    The names stand at the end of their curves with the accuracy and its interval there. Where
    the oracle is far above everything else it gets a strip of its own, so that the differences
    between rewarders stay visible.
    """
    policy = policy or (results.policies[0].policy if results.policies else "")
    lines = _lines(results, policy, theme)
    main = [line for line in lines if line.name != _NAMES[ORACLE]]
    oracle = [line for line in lines if line.name == _NAMES[ORACLE]]
    low, high = min(min(x.y) for x in main), max(max(x.y) for x in main)
    split = bool(oracle) and len(main) > 3 and max(oracle[0].y) - high > 0.8 * max(high - low, 4.0)
    narrow = width == "single" or (not isinstance(width, str) and width < 4.5)
    with style(theme):
        height = max(2.7, 0.145 * len(lines) + (1.1 if split else 0.7))
        ratios = {"height_ratios": [1, 3.6], "hspace": 0.0} if split else {}
        figure, axes = new_figure(
            width, height, rows=2 if split else 1, sharex=split, gridspec_kw=ratios or None
        )
        last = max(x.x[-1] for x in lines)
        body = axes[-1]
        _log2(body, last)
        body.set_xlabel("n (candidates to choose from)")
        body.set_ylabel("accuracy (%)")
        for ax, shown in ((body, main if split else lines), (axes[0], oracle if split else [])):
            for line in shown:
                _draw(ax, line)
        body.set_ylim(*_room([v for x in (main if split else lines) for v in x.y], 0.05))
        if split:
            _strip(axes[0], oracle[0], high)
        written = _settle_with_names(figure, lines, intervals=not narrow)
        labels = {line.name: label for line, label in zip(lines, written, strict=True)}
        for ax, shown in ((body, main if split else lines), (axes[0], oracle if split else [])):
            _name_ends(ax, shown, [labels[line.name] for line in shown], theme)
    return figure


def _lines(results: Results, policy: str, theme: Theme) -> list[Line]:
    """Headline curves of the rewarders, and the baselines to compare with."""
    info = {r.rewarder: r for r in results.rewarders}
    shown = [b for b in results.best_of_n if b.policy == policy and b.headline and b.curve]
    rewarders = [b for b in shown if not _is_baseline(results, b.rewarder)]
    baselines = {b.rewarder: b for b in shown if b.rewarder in (ORACLE, VOTE)}
    if not rewarders and not baselines:
        raise NothingToDrawError(f"nothing was chosen from the candidates of {policy!r}")
    families = colours_for(
        [info[b.rewarder].family or b.rewarder for b in rewarders if b.rewarder in info], theme
    )
    lines = []
    for name, b in baselines.items():
        dashes = (0, (5, 1.5)) if name == ORACLE else (0, (1, 1.3))
        lines.append(_line(b.curve, _NAMES[name], theme.ink, "", dashes, 1.5))
    for b in rewarders:
        one = info.get(b.rewarder)
        family = (one.family or b.rewarder) if one else b.rewarder
        colour = families.get(family, theme.other)
        lines.append(_line(b.curve, b.rewarder, colour, marker_for(one.kind if one else "")))
    first = next((p for p in results.policies if p.policy == policy), None)
    if first is not None and first.pass_at_1.value is not None:
        ends = (1.0, max(x.x[-1] for x in lines))
        flat = (first.pass_at_1, first.pass_at_1)
        lines.append(Line(_NAMES[RANDOM], ends, flat, theme.muted, "", (0, (4, 2)), 1.0))
    return [x for x in lines if x.x]


def _is_baseline(results: Results, name: str) -> bool:
    return any(r.rewarder == name and r.baseline for r in results.rewarders)


def _line(
    curve: Sequence[CurvePoint],
    name: str,
    colour: str,
    marker: str = "",
    dashes: Any = "-",
    width: float = 1.2,
) -> Line:
    """A line from curve points that have an accuracy."""
    points = [p for p in curve if p.accuracy.value is not None]
    return Line(
        name,
        tuple(float(p.n) for p in points),
        tuple(p.accuracy for p in points),
        colour,
        marker,
        dashes,
        width,
    )


def _draw(ax: Axes, line: Line) -> None:
    ax.plot(line.x, line.y, color=line.colour, linestyle=line.dashes, linewidth=line.width)
    if line.marker:
        ax.plot(
            line.x[-1:], line.y[-1:], color=line.colour, marker=line.marker, markersize=4.5,
            linestyle="none", clip_on=False, zorder=5,
        )  # fmt: skip


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


def _room(values: Sequence[float], margin: float) -> tuple[float, float]:
    low, high = min(values), max(values)
    grow = max((high - low) * margin, 0.4)
    return low - grow, high + grow


def _strip(ax: Axes, oracle: Line, high: float) -> None:
    """The strip of the oracle above the rest: its upper part, with a mark where it is cut."""
    top = max(oracle.y)
    ax.set_ylim(high + (top - high) * 0.25, top + (top - high) * 0.12)
    ax.spines["bottom"].set_visible(False)
    ax.tick_params(axis="x", length=0, labelbottom=False)
    ax.locator_params(axis="y", nbins=3)
    cut: dict[str, Any] = {
        "marker": [(-1, -0.5), (1, 0.5)],
        "markersize": 6,
        "linestyle": "none",
        "mew": 0.8,
    }
    ax.plot([0], [0], transform=ax.transAxes, color=ax.spines["left"].get_edgecolor(),
            clip_on=False, **cut)  # fmt: skip


def _settle_with_names(figure: Figure, lines: Sequence[Line], *, intervals: bool) -> list[str]:
    """Fix the layout with room at the right for the names; return them, cut where too long."""
    scale = figure.dpi / 72
    most = 0.5 * figure.bbox.width - 18 * scale
    probe = figure.text(0, 0, "", fontsize=LABEL_SIZE)

    def width(text: str) -> float:
        probe.set_text(text)
        return float(probe.get_window_extent().width)

    labels = []
    for line in lines:
        text, letters = line.label(intervals), len(line.name)
        while width(text) > most and letters > 4:
            letters -= 1
            text = line.label(intervals, letters)
        labels.append(text)
    room = max(map(width, labels)) + 18 * scale
    probe.remove()
    leave(figure, right=room / figure.dpi)
    settle(figure)
    return labels


def _name_ends(ax: Axes, lines: Sequence[Line], labels: Sequence[str], theme: Theme) -> None:
    """Names at the right of the curves, moved apart where they would overlap."""
    if not lines:
        return
    scale = ax.figure.dpi / 72
    frame = ax.get_window_extent()
    ends = [float(ax.transData.transform((x.x[-1], x.y[-1]))[1]) for x in lines]
    gap = 9.2 * scale
    places = spread(ends, gap, frame.y0, max(frame.y1, frame.y0 + gap * (len(lines) - 1)))
    to_axes = ax.transAxes.inverted()
    for line, label, end, place in zip(lines, labels, ends, places, strict=True):
        start = to_axes.transform((frame.x1, end))[1]
        stop = to_axes.transform((frame.x1, place))[1]
        x = to_axes.transform((frame.x1 + 12 * scale, place))[0]
        ax.plot(
            [1.008, x * 0.998], [start, stop], transform=ax.transAxes, color=line.colour,
            linewidth=0.6, clip_on=False,
        )  # fmt: skip
        ax.text(
            x + 0.006, stop, label, transform=ax.transAxes, va="center",
            fontsize=LABEL_SIZE, color=theme.ink,
        )  # fmt: skip


def votes_curve(
    results: Results,
    *,
    benchmark: str | None = None,
    theme: Theme = LIGHT,
    width: Width = "double",
) -> Figure:
    """Benchmark accuracy (macro) when K votes are taken, for the judges that vote."""
    info = {r.rewarder: r for r in results.rewarders}
    shown = [
        b
        for b in results.benchmarks
        if len(b.votes) > 1 and benchmark in (None, b.benchmark) and b.rewarder in info
    ]
    if not shown:
        raise NothingToDrawError("no rewarder gave more than one vote on the reward benchmark")
    colours = colours_for([info[b.rewarder].family or b.rewarder for b in shown], theme)
    lines = []
    for b in shown:
        points = [v for v in b.votes if v.macro.value is not None]
        one = info[b.rewarder]
        lines.append(
            Line(b.rewarder, tuple(float(v.k) for v in points), tuple(v.macro for v in points),
                 colours[one.family or b.rewarder], marker_for(one.kind))
        )  # fmt: skip
    lines = [x for x in lines if x.x]
    narrow = width == "single"
    with style(theme):
        figure, (ax,) = new_figure(width, max(2.4, 0.15 * len(lines) + 0.7))
        for line in lines:
            ax.fill_between(
                line.x, [100 * (e.low or e.value or 0) for e in line.estimates],
                [100 * (e.high or e.value or 0) for e in line.estimates],
                color=line.colour, alpha=0.07, linewidth=0,
            )  # fmt: skip
            _draw(ax, line)
        ax.set_xticks(sorted({int(x) for line in lines for x in line.x}))
        ax.set_xlim(0.95, max(x.x[-1] for x in lines) + 0.05)
        ax.set_xlabel("K (votes)")
        ax.set_ylabel("macro accuracy (%)")
        labels = _settle_with_names(figure, lines, intervals=not narrow)
        _name_ends(ax, lines, labels, theme)
    return figure


def correlation_at_n(results: Results, *, theme: Theme = LIGHT, width: Width = "single") -> Figure:
    """Pearson's r between benchmark and Best-of-n accuracy for every n, one line per policy."""
    shown = [c for c in results.correlation_by_n if c.points]
    first = next(iter(shown), None)
    if first is None:
        raise NothingToDrawError("no correlation by n")
    shown = [c for c in shown if (c.benchmark, c.axis, c.leaks) == _which(results, first)]
    with style(theme):
        figure, (ax,) = new_figure(width, 2.3)
        for i, one in enumerate(shown):
            points = [p for p in one.points if p.pearson.value is not None]
            if not points:
                continue
            colour = theme.palette[i % len(theme.palette)]
            n = [p.n for p in points]
            low = [p.pearson.low for p in points]
            high = [p.pearson.high for p in points]
            if None not in low and None not in high:
                ax.fill_between(n, low, high, color=colour, alpha=0.13, linewidth=0)  # type: ignore[arg-type]
            ax.plot(
                n, [p.pearson.value or 0 for p in points], color=colour, label=one.policy,
                marker=("o", "s", "^", "D")[i % 4], markersize=3,
            )  # fmt: skip
        _log2(ax, max(p.n for one in shown for p in one.points))
        ax.set_xlim(left=min(p.n for one in shown for p in one.points) * 0.95)
        ax.set_ylim(min(0, ax.get_ylim()[0]), 1)
        ax.set_xlabel("n (candidates to choose from)")
        ax.set_ylabel("r with the benchmark")
        if len(shown) > 1:
            ax.legend(loc="lower right")
    return figure


def _which(results: Results, first: CorrelationByN) -> tuple[str, str, str]:
    """Benchmark, axis and leaks of the primary correlation, or of the first one."""
    for c in results.correlations:
        if c.primary and any(
            (d.benchmark, d.axis, d.leaks) == (c.benchmark, c.axis, c.leaks)
            for d in results.correlation_by_n
        ):
            return (c.benchmark, c.axis, c.leaks)
    return (first.benchmark, first.axis, first.leaks)
