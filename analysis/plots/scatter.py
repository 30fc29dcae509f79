"""The correlation plot: benchmark accuracy against Best-of-N accuracy, a panel a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import TYPE_CHECKING, Any

from bon.analysis.plots.labels import Box, overlap, place_labels
from bon.analysis.plots.style import (
    LIGHT,
    NothingToDrawError,
    Theme,
    Width,
    colours_for,
    marker_for,
    new_figure,
    settle,
    style,
)
from bon.analysis.results import (
    Correlation,
    CorrelationReport,
    Estimate,
    Leaks,
    Point,
    Reference,
    Results,
)
from bon.analysis.results.phrasing import coefficient, probability

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

WITHOUT = "w/o BoN (pass@1)"
VOTE = "majority vote"
_DASHES = ((0, (4, 2)), (0, (1, 1.6)), (0, (5, 1.5, 1, 1.5)))
_MAX_LABELS = 40


def correlation(
    results: Results | CorrelationReport,
    *,
    benchmark: str | None = None,
    axis: str | None = None,
    leaks: Leaks = "in",
    policies: Sequence[str] | None = None,
    theme: Theme = LIGHT,
    width: Width = "double",
) -> Figure:
    """Points with intervals on both axes, the fit with its band, and what to compare with.

    One panel a policy. `benchmark` and `axis` default to the primary ones. Horizontal lines
    show accuracy without Best-of-N and of the majority vote.
    """
    shown = _choose(results, benchmark, axis, leaks, policies)
    kinds = {r.rewarder: r.kind for r in results.rewarders} if isinstance(results, Results) else {}
    families = colours_for([p.family for c in shown for p in c.points if p.family], theme)
    columns = 1 if width == "single" or len(shown) == 1 else min(2, len(shown))
    rows = ceil(len(shown) / columns)
    with style(theme):
        panel = 3.0 if columns == 2 or width == "single" else 4.0
        figure, axes = new_figure(width, panel * rows + 0.35 * bool(families), rows, columns)
        for ax in axes[len(shown) :]:
            ax.remove()
        lines = [_references(results, one.policy) for one in shown]
        for ax, one, references in zip(axes, shown, lines, strict=False):
            _panel(ax, one, theme)
            _limit(ax, one, references)
            if len(shown) > 1:
                ax.set_title(one.policy)
        _legend(figure, shown, kinds, families, theme)
        settle(figure)
        for ax, one, references in zip(axes, shown, lines, strict=False):
            marks = [(100 * _value(p.x), 100 * _value(p.y)) for p in _usable(one)]
            corner = _write_r(ax, one, marks)
            _name_references(ax, references, marks, corner, theme)
            _mark_threshold(ax, results, one, theme)
            _points(ax, one, kinds, families, [100 * y for _, y in references], theme)
    return figure


def _choose(
    results: Results | CorrelationReport,
    benchmark: str | None,
    axis: str | None,
    leaks: Leaks,
    policies: Sequence[str] | None,
) -> list[Correlation]:
    """The correlations to draw, one per policy."""
    found: dict[str, Correlation] = {}
    ordered = sorted(results.correlations, key=lambda c: not c.primary)
    first = next((c for c in ordered if c.points), None)
    if first is None:
        raise NothingToDrawError("no rewarder was measured on both axes")
    benchmark, axis = benchmark or first.benchmark, axis or first.axis
    for c in results.correlations:
        wanted = c.benchmark == benchmark and c.axis == axis and c.leaks == leaks and c.points
        if wanted and (policies is None or c.policy in policies):
            found.setdefault(c.policy, c)
    if not found:
        raise NothingToDrawError(f"no correlation of {benchmark} on {axis}, leaks {leaks}")
    return list(found.values())


def _references(results: Results | CorrelationReport, policy: str) -> list[tuple[str, float]]:
    """Horizontal lines: name and accuracy."""
    if isinstance(results, CorrelationReport):
        return [(r.name, r.accuracy) for r in results.references if _of(r, policy)]
    lines = []
    for p in results.policies:
        if p.policy == policy:
            lines = [(WITHOUT, p.pass_at_1.value), (VOTE, p.majority.value)]
    return [(name, value) for name, value in lines if value is not None]


def _of(reference: Reference, policy: str) -> bool:
    return reference.policy in ("", policy)


def _usable(correlation: Correlation) -> list[Point]:
    return [p for p in correlation.points if p.x.value is not None and p.y.value is not None]


def _panel(ax: Axes, correlation: Correlation, theme: Theme) -> None:
    """Axes, limits, the fitted line with its band."""
    axis = correlation.axis.removeprefix("group:")
    kind = (
        f"{axis} accuracy"
        if correlation.axis in ("macro", "overall", "natural")
        else f"accuracy, {axis}"
    )
    ax.set_xlabel(f"{correlation.benchmark or 'reward-benchmark'} {kind} (%)")
    at = f"Best-of-{correlation.n}" if correlation.n else "Best-of-N"
    ax.set_ylabel(f"{at} accuracy (%)")
    fit = correlation.fit
    if fit is not None and fit.band:
        x = [100 * b.x for b in fit.band]
        low, high, *predicted = (
            [100 * y for y in ends if y is not None]
            for ends in zip(
                *((b.low, b.high, b.predict_low, b.predict_high) for b in fit.band), strict=True
            )
        )
        if low and correlation.num_rewarders > 3:  # around three points it would fill the panel
            ax.fill_between(
                x,
                low,
                high,
                color=theme.palette[0],
                alpha=0.13,
                linewidth=0,
                zorder=1,
            )
            for ends in predicted:
                ax.plot(
                    x,
                    ends,
                    color=theme.palette[0],
                    linewidth=0.7,
                    linestyle=_DASHES[0],
                    alpha=0.7,
                    zorder=1,
                )
        ax.plot(x, [100 * b.y for b in fit.band], color=theme.palette[0], linewidth=1.4, zorder=3)
    if correlation.better_half is not None:
        ax.axvline(
            100 * correlation.better_half.edge, color=theme.muted, linewidth=0.8, alpha=0.6,
            linestyle=(0, (1, 3)), zorder=1,
        )  # fmt: skip


def _span(values: list[float], margin: float, least: float) -> tuple[float, float]:
    low, high = min(values), max(values)
    grow = max((high - low) * margin, (least - (high - low)) / 2, 0.1)
    return low - grow, high + grow


def _limit(ax: Axes, correlation: Correlation, references: list[tuple[str, float]]) -> None:
    """Limits around all that is drawn; before the layout is settled, which measures the ticks."""
    points = _usable(correlation)
    xs = [100 * v for p in points for v in _ends(p.x)]
    ys = [100 * v for p in points for v in _ends(p.y)]
    ys += [100 * value for _, value in references]
    ax.set_xlim(*_span(xs, 0.12, 4))
    ax.set_ylim(*_span(ys, 0.10, 4))
    ax.set_xlim(right=min(ax.get_xlim()[1], 100.5))
    ax.set_ylim(top=min(ax.get_ylim()[1], 100.5))


def _mark_threshold(
    ax: Axes, results: Results | CorrelationReport, correlation: Correlation, theme: Theme
) -> None:
    """Where the prediction for a new rewarder clears majority vote, if the panel reaches so far."""
    if not isinstance(results, Results):
        return
    c = correlation
    for t in results.thresholds if c.primary else ():
        here = (t.policy, t.benchmark, t.over) == (c.policy, c.benchmark, "majority")
        if here and t.score.value is not None and 100 * t.score.value < ax.get_xlim()[1]:
            ax.plot(
                [100 * t.score.value] * 2,
                [ax.get_ylim()[0], 100 * t.accuracy],
                color=theme.muted,
                linewidth=0.9,
                linestyle=_DASHES[1],
            )
            left, end = ax.get_xlim()
            room = 100 * t.score.value < left + 0.75 * (end - left)  # at the right of the line
            ax.annotate(
                f"clears the vote\nfrom {100 * t.score.value:.1f}",
                (100 * t.score.value, 0.02),
                xycoords=("data", "axes fraction"),
                xytext=(3 if room else -3, 0),
                textcoords="offset points",
                ha="left" if room else "right",
                fontsize=6.5,
                color=theme.muted,
            )


def _name_references(
    ax: Axes,
    references: list[tuple[str, float]],
    marks: list[tuple[float, float]],
    corner: Box,
    theme: Theme,
) -> None:
    """Horizontal lines, each named at the end where there is more room."""
    ordered = sorted(references, key=lambda r: r[1])
    for i, (name, value) in enumerate(ordered):
        ax.axhline(100 * value, color=theme.muted, linewidth=0.9, linestyle=_DASHES[i % 3])
        below = i == 0 and len(ordered) > 1
        best = None
        for right in (True, False):
            text = ax.annotate(
                f"{name} {100 * value:.1f}",
                (1.0 if right else 0.0, 100 * value),
                xycoords=("axes fraction", "data"),
                xytext=(-3 if right else 3, -2 if below else 2),
                textcoords="offset points",
                ha="right" if right else "left",
                va="top" if below else "bottom",
                fontsize=6.5,
                color=theme.muted,
            )
            cost = _covered(ax, text, marks) + overlap(_box(text), corner)
            if best is None:
                best = (cost, text)
            elif cost < best[0]:
                best[1].remove()
            else:
                text.remove()


def _covered(ax: Axes, text: Text, marks: list[tuple[float, float]]) -> int:
    """How many points a text would lie on, with a little room around each."""
    left, bottom, right, top = _box(text)
    pad = 8 * ax.figure.dpi / 72
    at = ax.transData.transform(marks)
    return sum(left - pad < x < right + pad and bottom - pad < y < top + pad for x, y in at)


def _box(text: Text) -> Box:
    extent = text.get_window_extent()
    return (extent.x0, extent.y0, extent.x1, extent.y1)


def _write_r(ax: Axes, correlation: Correlation, marks: list[tuple[float, float]]) -> Box:
    """r with its interval, p and the number of rewarders in the emptiest corner."""
    estimate = correlation.pearson.estimate
    if estimate.value is None:
        text = "r cannot be computed, "
    else:
        text = f"r = {_r(estimate)}\n"
        if correlation.pearson.p_value is not None:
            text += f"{probability(correlation.pearson.p_value)}, "
    text += f"{correlation.num_rewarders} rewarders"
    if correlation.families is not None:
        count = correlation.families.num_families
        text += f" from {count} {'base' if count == 1 else 'bases'}"
    half = correlation.better_half
    if half is not None and half.pearson.value is not None:
        text += f"\nbetter half: r = {_r(half.pearson)}"
    label = ax.text(0, 0, text, transform=ax.transAxes, fontsize=7.5, linespacing=1.35)
    costs = []
    corners = ((0.015, 0.985), (0.985, 0.02), (0.985, 0.985), (0.015, 0.02))
    for x, y in corners:
        label.set(x=x, y=y, ha="left" if x < 0.5 else "right", va="bottom" if y < 0.5 else "top")
        costs.append(_covered(ax, label, marks))
    x, y = corners[costs.index(min(costs))]
    label.set(x=x, y=y, ha="left" if x < 0.5 else "right", va="bottom" if y < 0.5 else "top")
    return _box(label)


def _r(estimate: Estimate) -> str:
    """.91 [.61, .99]."""
    text = coefficient(estimate.value)
    if estimate.low is not None and estimate.high is not None:
        text += f" [{coefficient(estimate.low)}, {coefficient(estimate.high)}]"
    return text


def _ends(estimate: Estimate) -> list[float]:
    return [v for v in (estimate.value, estimate.low, estimate.high) if v is not None]


def _points(
    ax: Axes,
    correlation: Correlation,
    kinds: Mapping[str, str],
    families: Mapping[str, str],
    heights: Sequence[float],
    theme: Theme,
) -> None:
    """Error bars, markers and names."""
    points = _usable(correlation)
    looks: dict[tuple[str, str], list[Point]] = {}
    for p in points:
        look = families.get(p.family, theme.palette[0]), kinds.get(p.rewarder, "pairwise")
        looks.setdefault(look, []).append(p)
    for (colour, kind), alike in looks.items():
        bars: dict[str, Any] = {"colors": colour, "linewidth": 0.7, "alpha": 0.45, "zorder": 2}
        xs, ys = [100 * _value(p.x) for p in alike], [100 * _value(p.y) for p in alike]
        for across, draw, places in ((True, ax.hlines, ys), (False, ax.vlines, xs)):
            bar = [_bar(p.x if across else p.y) for p in alike]
            draw(places, [low for low, _ in bar], [high for _, high in bar], **bars)
        ax.plot(
            xs, ys, marker=marker_for(kind), color=colour, markeredgecolor=theme.background,
            markeredgewidth=0.6, markersize=5.5, linestyle="none", zorder=5,
        )  # fmt: skip
    at = [(100 * _value(p.x), 100 * _value(p.y)) for p in points]
    paths: list[tuple[list[tuple[float, float]], float]] = []
    if correlation.fit is not None and len(correlation.fit.band) > 1:
        paths.append(([(100 * b.x, 100 * b.y) for b in correlation.fit.band], 2.5))
    for p, (x, y) in zip(points, at, strict=True):
        for low, high, horizontal in ((p.x.low, p.x.high, True), (p.y.low, p.y.high, False)):
            if low is not None and high is not None:
                ends = (100 * low, 100 * high)
                line = [(e, y) for e in ends] if horizontal else [(x, e) for e in ends]
                paths.append((line, 1.0))
    paths += [([(x, y) for x in ax.get_xlim()], 1.2) for y in heights]
    paths += [(line, 2.0) for line in _arrows(ax, points, theme)]
    taken = [_box(text) for text in ax.texts]
    names = [p.rewarder for p in points]
    if len(names) > _MAX_LABELS:  # the ends of both axes are named, the table has the rest
        ranked = sorted(range(len(at)), key=lambda i: at[i][1])
        keep = {*ranked[: _MAX_LABELS // 2], *ranked[-_MAX_LABELS // 2 :]}
        at = [at[i] for i in sorted(keep)]
        names = [names[i] for i in sorted(keep)]
    place_labels(
        ax, at, names, colour=theme.ink, line_colour=theme.muted, size=6.8, avoid=paths,
        taken=taken,
    )  # fmt: skip


def _arrows(ax: Axes, points: Sequence[Point], theme: Theme) -> list[list[tuple[float, float]]]:
    """From each model before training to the same model after it; return their lines."""
    lines = []
    at = {p.rewarder: (100 * _value(p.x), 100 * _value(p.y)) for p in points}
    for p in points:
        if p.before in at:
            ax.annotate(
                "", at[p.rewarder], at[p.before], zorder=4,
                arrowprops={"arrowstyle": "-|>", "color": theme.ink, "linewidth": 1.0,
                            "shrinkA": 4, "shrinkB": 4, "alpha": 0.75},
            )  # fmt: skip
            lines.append([at[p.before], at[p.rewarder]])
    return lines


def _value(estimate: Estimate) -> float:
    assert estimate.value is not None, "only points with both values are drawn"
    return estimate.value


def _bar(estimate: Estimate) -> tuple[float, float]:
    """The ends of an error bar in percent: the value itself where there is no interval."""
    low, high, value = estimate.low, estimate.high, _value(estimate)
    return 100 * (value if low is None else low), 100 * (value if high is None else high)


def _legend(
    figure: Figure,
    shown: list[Correlation],
    kinds: Mapping[str, str],
    families: Mapping[str, str],
    theme: Theme,
) -> None:
    """Markers by kind, colours by family, below the panels."""
    from matplotlib.lines import Line2D

    present = [kinds.get(p.rewarder, "") for c in shown for p in c.points]
    handles = []
    for kind in dict.fromkeys(k for k in present if k):
        handles.append(
            Line2D([], [], marker=marker_for(kind), color=theme.muted, linestyle="none",
                   markersize=5, label=kind)
        )  # fmt: skip
    if len(families) > 1:
        own = {family: colour for family, colour in families.items() if colour != theme.other}
        left = len(families) - len(own)
        rest = {f"{left} other families": theme.other} if left > 1 else {}
        for family, colour in ({**own, **rest} if left != 1 else families).items():
            handles.append(
                Line2D([], [], color=colour, linewidth=3.2, label=family, solid_capstyle="butt")
            )
    if len(handles) > 1:
        narrow = figure.get_figwidth() < 4
        figure.legend(
            handles=handles, loc="lower left", ncols=3 if narrow else 7,
            handletextpad=0.5, columnspacing=1.4, handlelength=1.1, borderaxespad=0.2,
        )  # fmt: skip
