"""Benchmark accuracy against what Best-of-N gains over majority vote, and the posterior of r."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean
from textwrap import fill
from typing import TYPE_CHECKING, Any, Unpack

from bon.analysis.decision.recommend import over_majority
from bon.analysis.plots.style import (
    BACKGROUND,
    INK,
    MUTED,
    OTHER,
    Look,
    NothingToDrawError,
    family_colours,
    fix_layout,
    is_narrow,
    legend_below,
    names_beside,
    new_figure,
    style,
)
from bon.analysis.results import STRONG, Correlation, CorrelationReport, Estimate, Results
from bon.analysis.results.phrasing import MINUS, chance, coefficient, evidence, signed
from bon.core.errors import BonError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MAX_PANELS = 24
_DASHES = ("-", (0, (4, 3)), (0, (1, 1.6)))


@dataclass(frozen=True)
class Mark:
    """One rewarder in percent or points: value, low and high on both axes."""

    rewarder: str
    family: str
    x: tuple[float, float, float]
    y: tuple[float, float, float]

    @property
    def differs(self) -> bool:
        """Whether the interval of y excludes 0."""
        return self.y[1] > 0 or self.y[2] < 0


@dataclass(frozen=True)
class Panel:
    """What one panel shows: marks, horizontal lines, a line with its band (x, y, low, high)."""

    title: str
    axes: tuple[str, ...]
    marks: list[Mark]
    lines: list[tuple[str, float]]
    band: list[tuple[float, float, float | None, float | None]]
    gains: bool


def correlation(
    results: Results | CorrelationReport,
    *,
    policy: str | None = None,
    names: int | None = None,
    emphasis: str = "",
    **look: Unpack[Look],
) -> Figure:
    """Plot rewarders by benchmark accuracy and by points gained over majority vote.

    The mean over policies, or one `policy`; of a published table accuracies, a panel for each
    policy. Crosses are intervals; a filled mark differs from majority vote. `names`: how many are
    named at most: `emphasis`, the first and the last on the benchmark, then those farthest from
    the line; by default all with room.
    """
    if isinstance(results, Results):
        panels = [_panel(results, policy)]
    else:
        panels = _published_panels(results, policy)
    families = family_colours(
        [r.family for r in results.rewarders]
        if isinstance(results, Results)
        else [mark.family for mark in panels[0].marks]
    )
    columns = 1 if is_narrow(look) else 4 if len(panels) > 2 else len(panels)
    rows = ceil(len(panels) / columns)
    if columns == 4:
        names = 0
    with style(look):
        height = {1: 3.8, 2: 3.2, 4: 2.2}[columns] * rows
        figure, axes = new_figure(look, height, rows, columns)
        for ax in axes[len(panels) :]:
            ax.remove()
        for ax, panel in zip(axes, panels, strict=False):
            _draw(ax, panel, families, emphasis)
        _legend(figure, panels[0].marks, families)
        fix_layout(figure)
        for ax, panel in zip(axes, panels, strict=False):
            _name(ax, panel, names, emphasis)
    return figure


def _panel(results: Results, policy: str | None) -> Panel:
    """Return the mean over policies, or the panel of one."""
    main = results.main
    if main is None:
        raise NothingToDrawError("no rewarder was measured on both axes")
    all_own = {
        c.policy: c
        for c in reversed(results.correlations)
        if (c.benchmark, c.axis, c.leaks) == (main.benchmark, main.axis, main.leaks) and c.points
    }
    known = [p.policy for p in results.policies if p.policy in all_own]
    if policy is not None and policy not in known:
        raise BonError(f"no policy {policy!r}", f"choose one of {', '.join(known)}")
    shown = [p.policy for p in results.policies] if policy is None else [policy]
    own = [all_own[name] for name in shown if name in all_own]
    gains = over_majority(results)
    if policy is not None:
        gains = {
            b.rewarder: b.versus_majority
            for b in results.best_of_n
            if b.headline and b.policy == policy
        }
    xs = {p.rewarder: p for c in own for p in c.points}
    marks = [
        Mark(name, p.family, _percent(p.x), _percent(gains[name]))
        for name, p in xs.items()
        if name in gains and gains[name].value is not None and p.x.value is not None
    ]
    if not marks:
        raise NothingToDrawError("no rewarder was measured on both axes")
    axis = main.axis.removeprefix("group:")
    kind = "" if main.axis in ("macro", "overall", "natural") else f", {axis}"
    mean = f",\nmean of {len(shown)} policies" if len(shown) > 1 else ""
    title, c = "", own[0]
    if policy is not None:
        title = f"{policy}\n{evidence(c.pearson, c.num_rewarders, c.num_bases)}"
    lines = [("majority vote", 0.0)]
    single = gains.get("random")
    if single is not None and single.value is not None:
        lines.append(("pass@1", 100 * single.value))
    votes = {p.policy: p for p in results.policies}
    return Panel(
        title,
        (
            f"accuracy on {main.benchmark or 'the reward benchmark'}{kind} (%)",
            f"Best-of-{main.n or 'N'}, points over majority vote{mean}",
        ),
        marks,
        lines,
        _mean_band([_fitted(c, _vote(votes[c.policy], c.leaks)) for c in own])
        if len(own) == len(shown)
        else [],
        True,
    )


def _vote(policy: Any, leaks: str) -> float:
    """Return the accuracy of majority vote that a line is drawn above."""
    vote = policy.majority_without_leaks if leaks == "out" else None
    return float((vote or policy.majority).value or 0.0)


Band = list[tuple[float, float, float | None, float | None]]


def _fitted(c: Correlation, base: float = 0.0) -> Band:
    """Return the line of a correlation above `base`, without its band around three points."""
    if c.fit is None:
        return []
    bounded = c.num_rewarders > 3
    return [
        (
            100 * b.x,
            100 * (b.y - base),
            100 * (b.low - base) if bounded and b.low is not None else None,
            100 * (b.high - base) if bounded and b.high is not None else None,
        )
        for b in c.fit.band
    ]


def _mean_band(bands: list[Band]) -> Band:
    """Average lines over the same x; a mean is no less certain than its parts on average."""
    if not all(bands) or len({len(band) for band in bands}) > 1:
        return []
    mean: Band = []
    for parts in zip(*bands, strict=True):
        x, y, low, high = zip(*parts, strict=True)
        ends = [None if None in end else fmean(end) for end in (low, high)]
        mean.append((fmean(x), fmean(y), ends[0], ends[1]))
    return mean


def _published_panels(report: CorrelationReport, policy: str | None) -> list[Panel]:
    """Return a panel for each pair of columns and policy, the leading pair first."""
    usable = [c for c in report.correlations if c.points and policy in (None, c.policy)]
    usable.sort(key=lambda c: not c.primary)
    if not usable:
        raise NothingToDrawError("no rewarder was measured on both axes")
    few = len(usable) < 3
    units = {column: 1 if unit == "scale" else 100 for column, unit in report.units.items()}
    panels = []
    for c in usable[:_MAX_PANELS]:
        scale, up = units.get(c.axis, 100), units.get(c.outcome, 100)
        r = evidence(c.pearson, c.num_rewarders, c.num_bases)
        if not few:
            r = f"r = {coefficient(c.pearson.estimate.value)}, n = {c.num_rewarders}"
        panels.append(
            Panel(
                f"{c.policy}\n{r}".strip(),
                tuple(
                    f"{n}{' (%)' if u == 100 else ''}"
                    for n, u in ((c.axis, scale), (c.outcome, up))
                ),
                [
                    Mark(p.rewarder, p.family, _percent(p.x, scale), _percent(p.y, up))
                    for p in c.points
                    if p.x.value is not None and p.y.value is not None
                ],
                [
                    (r.name, up * r.accuracy)
                    for r in report.references
                    if r.policy in ("", c.policy)
                ],
                _fitted(c) if few and scale == up == 100 else [],
                False,
            )
        )
    return panels


def _percent(e: Estimate, scale: float = 100) -> tuple[float, float, float]:
    """Return value, low and high in percent; without an interval, three times the value."""
    assert e.value is not None
    low, high = (e.value if end is None else end for end in (e.low, e.high))
    return scale * e.value, scale * low, scale * high


def _draw(ax: Axes, panel: Panel, families: Mapping[str, str], emphasis: str) -> None:
    """Draw line and band, baselines with their names, error bars and marks."""
    ax.set_xlabel(panel.axes[0])
    ax.set_ylabel(panel.axes[1])
    ax.set_title("\n".join(fill(line, 44) for line in panel.title.splitlines()), fontsize="small")
    x, y, low, high = zip(*panel.band, strict=True) if panel.band else ((),) * 4
    if x:
        if None not in (*low, *high):
            ax.fill_between(x, low, high, color=MUTED, alpha=0.14, linewidth=0, zorder=1)
        ax.plot(x, y, color=MUTED, linewidth=1.3, zorder=3)
    for i, (name, height) in enumerate(panel.lines):
        first = i == 0 and panel.gains
        ax.axhline(
            height, color=INK if first else MUTED, linewidth=0.9, linestyle=_DASHES[i % 3], zorder=2
        )
        ax.annotate(
            name if panel.gains else f"{name} {height:.1f}", (1, height), (0, -2),
            ("axes fraction", "data"), "offset points", ha="right", va="top", fontsize="small",
            color=INK if first else MUTED,
        )  # fmt: skip
    colours = [families.get(mark.family, OTHER) for mark in panel.marks]
    bars: dict[str, Any] = {"colors": colours, "linewidth": 0.8, "alpha": 0.5, "zorder": 2}
    xs, ys = zip(*((mark.x, mark.y) for mark in panel.marks), strict=True)
    for lines, at, ends in ((ax.hlines, ys, xs), (ax.vlines, xs, ys)):
        _, low, high = zip(*ends, strict=True)
        lines([value for value, *_ in at], low, high, **bars)
    for i, (mark, colour) in enumerate(zip(panel.marks, colours, strict=True)):
        filled = mark.differs or not panel.gains
        big = mark.rewarder == emphasis
        (dot,) = ax.plot(
            mark.x[0], mark.y[0], "o", color=colour, zorder=5, clip_on=False,
            markerfacecolor=colour if filled else BACKGROUND, markeredgewidth=1.1,
            markersize=7.5 if big else 5,
        )  # fmt: skip
        dot.set_gid(f"mark-{i}")
    x_ends = [v for x in xs for v in x]
    y_ends = [v for y in ys for v in y] + [height for _, height in panel.lines]
    for values, limit in ((x_ends, ax.set_xlim), (y_ends, ax.set_ylim)):
        room = max(0.06 * (max(values) - min(values)), 0.5)
        limit(min(values) - room, max(values) + room)
    if panel.gains:
        ax.yaxis.set_major_formatter(lambda v, _: signed(v, 0, sign=True))


def points(results: Results, policy: str | None = None) -> list[dict[str, Any]]:
    """Return what the marks of `correlation` stand for, in its order, as fractions."""
    rows = []
    for mark in _panel(results, policy).marks if results.main else []:
        row: dict[str, Any] = {"rewarder": mark.rewarder, "family": mark.family}
        for name, values in (("x", mark.x), ("gain", mark.y)):
            ends = zip(("", "_low", "_high"), values, strict=True)
            row |= {f"{name}{end}": value / 100 for end, value in ends}
        rows.append(row)
    return rows


def _name(ax: Axes, panel: Panel, most: int | None, emphasis: str) -> None:
    marks = panel.marks
    by_x = sorted(range(len(marks)), key=lambda i: marks[i].x[0])
    line = [(x, y) for x, y, *_ in panel.band]

    def far(i: int) -> float:
        """Return how far a mark lies from the line."""
        near = min(line, key=lambda at: abs(at[0] - marks[i].x[0]), default=(0.0, 0.0))
        return -abs(marks[i].y[0] - near[1])

    first = [i for i in by_x if marks[i].rewarder == emphasis]
    order = list(dict.fromkeys([*first, by_x[-1], by_x[0], *sorted(by_x, key=far)]))
    lines: list[Sequence[tuple[float, float]]] = [line] if line else []
    lines += [[(x, height) for x in ax.get_xlim()] for _, height in panel.lines]
    for mark in marks:
        lines += [[(end, mark.y[0]) for end in mark.x[1:]], [(mark.x[0], v) for v in mark.y[1:]]]
    at = [(mark.x[0], mark.y[0]) for mark in marks]
    names_beside(ax, at, [mark.rewarder for mark in marks], order[:most], lines)
    for text in ax.texts:
        if emphasis and text.get_text() == emphasis:
            text.set_fontweight("bold")


def _legend(figure: Figure, marks: Sequence[Mark], families: Mapping[str, str]) -> None:
    """Explain the colours of base models below the panels."""
    from matplotlib.lines import Line2D

    known = {mark.family for mark in marks}
    shown = {family: colour for family, colour in families.items() if family in known}
    if not shown:
        return
    if known - set(shown):
        shown["others, one each"] = OTHER
    handles = [
        Line2D([], [], color=colour, marker="o", linestyle="none", label=family)
        for family, colour in shown.items()
    ]
    legend_below(figure, handles)


def verdict(results: Results | CorrelationReport, **look: Unpack[Look]) -> Figure:
    """Plot the posterior of r on the first benchmark, darker above 0 and above .5.

    Over each region stands its probability.
    """
    v = next(iter(results.verdicts), None)
    if v is None or not v.density:
        raise NothingToDrawError("there is no verdict")
    step = 1.98 / (len(v.density) - 1)
    r = [-0.99 + step * i for i in range(len(v.density))]
    regions = (
        (-1.0, 0.0, "r < 0", 0.15),
        (0.0, STRONG, f"0 to {coefficient(STRONG)[:2]}", 0.35),
        (STRONG, 1.0, f"> {coefficient(STRONG)[:2]}", 0.8),
    )
    with style(look):
        figure, (ax,) = new_figure(look, 2.4)
        for low, high, name, alpha in regions:
            inside = [(x, y) for x, y in zip(r, v.density, strict=True) if low < x <= high]
            p = sum(y for _, y in inside) / sum(v.density)
            edge = [(x, y) for x, y in zip(r, v.density, strict=True) if low - step < x <= high]
            xs, ys = zip(*edge, strict=True)
            ax.fill_between(xs, ys, color=MUTED, alpha=alpha, linewidth=0)
            ax.annotate(
                f"{name}\n{chance(p)}", ((low + high) / 2, 1), (0, 3), ("data", "axes fraction"),
                "offset points", ha="center", va="bottom", fontsize="small", annotation_clip=False,
            )  # fmt: skip
        ax.plot(r, v.density, color=INK, linewidth=1)
        for edge_at in (0, STRONG):
            ax.axvline(edge_at, color=MUTED, linewidth=0.7)
        ax.set_xlim(-1, 1)
        ax.set_ylim(0)
        ax.set_xticks([-1, -0.5, 0, 0.5, 1], [f"{MINUS}1", f"{MINUS}.5", "0", ".5", "1"])
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_xlabel("r of true accuracies" if v.reliability_x is not None else "r")
        ax.grid(visible=False)
        fix_layout(figure)
    return figure
