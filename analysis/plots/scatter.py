"""The correlation plot: benchmark accuracy against Best-of-N accuracy, one panel per policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from textwrap import fill
from typing import TYPE_CHECKING, Any

from bon.analysis.plots.labels import box_of, overlap, place_labels
from bon.analysis.plots.style import (
    BACKGROUND,
    INK,
    MARKERS,
    MUTED,
    OTHER,
    PALETTE,
    UNKNOWN,
    NothingToDrawError,
    Width,
    family_colours,
    fix_layout,
    is_narrow,
    new_figure,
    new_mosaic,
    style,
)
from bon.analysis.results import (
    STRONG,
    Correlation,
    CorrelationReport,
    Estimate,
    Point,
    Results,
    Verdict,
)
from bon.analysis.results.phrasing import bounded, chance, coefficient, plural, probability

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text

_DASHES = ((0, (4, 2)), (0, (1, 1.6)), (0, (5, 1.5, 1, 1.5)))
_MAX_LABELS = 40
_MAX_PANELS = 24
_PredictionLine = tuple[list[tuple[float, float]], float]


def correlation(results: Results | CorrelationReport, *, width: Width = "double") -> Figure:
    """Plot points with intervals on both axes, the fit with its band, and reference lines.

    A panel a policy, on the primary axis. Horizontal lines mark accuracy without Best-of-N and of
    the majority vote.
    """
    usable = [c for c in sorted(results.correlations, key=lambda c: not c.primary) if c.points]
    if not usable:
        raise NothingToDrawError("no rewarder was measured on both axes")
    axis = (usable[0].benchmark, usable[0].axis, usable[0].leaks)
    same = [c for c in results.correlations if (c.benchmark, c.axis, c.leaks) == axis and c.points]
    shown = list({c.policy: c for c in reversed(same)}.values())[::-1]
    kinds = {r.rewarder: r.kind for r in results.rewarders} if isinstance(results, Results) else {}
    families = family_colours(
        results.rewarders if isinstance(results, Results) else (),
        [p.family for c in results.correlations for p in c.points],
    )
    drawn = {p.family for c in shown for p in c.points}
    families = {name: colour for name, colour in families.items() if name in drawn}
    columns = 1 if width == "single" or len(shown) == 1 else min(2, len(shown))
    rows = ceil(len(shown) / columns)
    crowded = width == "single" and any(len(_usable(c)) > 8 for c in shown)
    with style():
        panel = 3.0 if columns == 2 or (width == "single" and not crowded) else 4.0
        figure, axes = new_figure(width, panel * rows + 0.35 * bool(families), rows, columns)
        for ax in axes[len(shown) :]:
            ax.remove()
        references = [_references(results, c.policy) for c in shown]
        panels = list(zip(axes, shown, references, strict=False))
        for ax, c, lines in panels:
            _panel(ax, c)
            _set_limits(ax, c, lines, 0.35 if crowded else 0.12)
            if len(shown) > 1:
                ax.set_title(c.policy)
        _legend(figure, shown, kinds, families)
        fix_layout(figure)
        for ax, c, lines in panels:
            marks = [_at(p) for p in _usable(c)]
            _write_r(ax, c, marks)
            _name_references(ax, lines, marks)
            _points(ax, c, kinds, families, [100 * y for _, y in lines])
    return figure


def published(report: CorrelationReport) -> Figure:
    """Plot a published table: one pair of proportions as `correlation` does, others small.

    Small panels have the units of the table, and name no rewarder.
    """
    pairs = list(dict.fromkeys((c.axis, c.outcome) for c in report.correlations))[:_MAX_PANELS]
    if len(pairs) == 1 and "scale" not in report.units.values():
        return correlation(report)
    columns = min(4, len({x for x, _ in pairs} if len({x for x, _ in pairs}) > 1 else pairs))
    rows = ceil(len(pairs) / columns)
    with style():
        figure, axes = new_figure("double", 1.85 * rows + 0.2, rows, columns)
        for ax in axes[len(pairs) :]:
            ax.remove()
        for ax, (x, y) in zip(axes, pairs, strict=False):
            found = [c for c in report.correlations if (c.axis, c.outcome) == (x, y)]
            for place, c in enumerate(found):
                at = [
                    [100 * v if report.units[column] == "percent" else v for v in values]
                    for column, values in (
                        (x, [p.x.value or 0.0 for p in _usable(c)]),
                        (y, [p.y.value or 0.0 for p in _usable(c)]),
                    )
                ]
                colour = PALETTE[place % len(PALETTE)]
                ax.plot(*at, "o", markersize=3, color=colour, label=c.policy)
            first, n = found[0].pearson.estimate, found[0].num_rewarders
            text = ", ".join(coefficient(c.pearson.estimate.value) for c in found)
            ax.set_title(
                f"r = {bounded(first) if len(found) == 1 else text}, n = {n}", fontsize=6.5
            )
            ax.set_xlabel(fill(x.replace("_", " "), 24), fontsize=6.5)
            ax.set_ylabel(fill(y.replace("_", " "), 24), fontsize=6.5)
            ax.tick_params(labelsize=6)
        if len(found) > 1:
            figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower left", ncols=4)
        fix_layout(figure)
    return figure


def verdict(results: Results | CorrelationReport, *, width: Width = "double") -> Figure:
    """Plot the verdict on the first benchmark: its rewarders, the density of r, and the accounts.

    The scatter holds means over policies. Beside it the posterior of r, shaded above 0 and above
    .5, and a bar each for one line, separate groups and a ceiling.
    """
    v = next(iter(results.verdicts), None)
    if v is None or not v.points:
        raise NothingToDrawError("there is no verdict")
    primary = [c for c in results.correlations if c.primary and c.benchmark == v.benchmark]
    mean = primary[0]
    if len(primary) > 1:
        mean = mean.model_copy(update={"points": v.points, "fit": None, "policy": "mean"})
    kinds = {r.rewarder: r.kind for r in results.rewarders} if isinstance(results, Results) else {}
    families = family_colours(
        results.rewarders if isinstance(results, Results) else (),
        [p.family for c in results.correlations for p in c.points],
    )
    families = {f: colour for f, colour in families.items() if f in {p.family for p in v.points}}
    lines = _mean_references([_references(results, c.policy) for c in primary])
    narrow = is_narrow(width)
    shape: dict[str, Any] = {"width_ratios": [2.1, 1], "height_ratios": [1.6, 1]}
    layout = [["points", "density"], ["points", "accounts"]]
    if narrow:
        shape = {"height_ratios": [4, 1.3, 1]}
        layout = [["points"], ["density"], ["accounts"]]
    with style():
        height = 5.6 if narrow else 3.4
        figure, axes = new_mosaic(width, height + 0.35 * bool(families), layout, **shape)
        ax = axes["points"]
        _panel(ax, mean)
        _set_limits(ax, mean, lines, 0.35 if narrow else 0.12)
        if len(primary) > 1:
            ax.set_ylabel(f"{ax.get_ylabel()}, mean of {len(primary)} policies")
        _density(axes["density"], v)
        _accounts(axes["accounts"], v)
        _legend(figure, [mean], kinds, families)
        fix_layout(figure)
        _name_references(ax, lines, [_at(p) for p in _usable(mean)])
        _points(ax, mean, kinds, families, [100 * y for _, y in lines])
    return figure


def _mean_references(every: list[list[tuple[str, float]]]) -> list[tuple[str, float]]:
    """Average the horizontal lines that all policies have."""
    shared = [name for name, _ in every[0] if all(name in dict(lines) for lines in every)]
    return [(name, sum(dict(lines)[name] for lines in every) / len(every)) for name in shared]


def _density(ax: Axes, v: Verdict) -> None:
    """Draw the posterior of r, darker above 0 and above .5."""
    step = 1.98 / (len(v.density) - 1)
    r = [-0.99 + step * i for i in range(len(v.density))]
    for low, alpha in ((-1.0, 0.12), (0.0, 0.28), (STRONG, 0.6)):
        part = [(x, y) for x, y in zip(r, v.density, strict=True) if x >= low - step / 2]
        xs, ys = zip(*part, strict=True)
        ax.fill_between(xs, ys, color=MUTED, alpha=alpha, linewidth=0)
    ax.plot(r, v.density, color=INK, linewidth=1)
    ax.set_xticks([-1, 0, 0.5, 1], ["−1", "0", ".5", "1"])
    ax.set_yticks([])
    ax.set_xlabel("r of true accuracies" if v.reliability_x is not None else "r")
    ax.grid(visible=False)


def _accounts(ax: Axes, v: Verdict) -> None:
    """Draw a bar for each account of the points."""
    bars = (("a ceiling", v.ceiling), ("groups", v.groups), ("one line", v.line))
    ax.barh([name for name, _ in bars], [p for _, p in bars], color=MUTED, height=0.55)
    for place, (_, p) in enumerate(bars):
        ax.annotate(
            chance(p), (p, place), xytext=(3, 0), textcoords="offset points", va="center",
            fontsize=6.5,
        )  # fmt: skip
    ax.set_xlim(0, 1.3)
    ax.set_xticks([])
    ax.tick_params(axis="y", length=0)
    ax.grid(visible=False)
    ax.spines["bottom"].set_visible(False)


def _references(results: Results | CorrelationReport, policy: str) -> list[tuple[str, float]]:
    """Horizontal lines: name and accuracy."""
    if isinstance(results, CorrelationReport):
        return [(r.name, r.accuracy) for r in results.references if r.policy in ("", policy)]
    return [
        (name, estimate.value)
        for p in results.policies
        if p.policy == policy
        for name, estimate in (("pass@1", p.pass_at_1), ("majority vote", p.majority))
        if estimate.value is not None
    ]


def _usable(correlation: Correlation) -> list[Point]:
    return [p for p in correlation.points if p.x.value is not None and p.y.value is not None]


def _at(point: Point) -> tuple[float, float]:
    """Return the coordinates of a point in percent."""
    assert point.x.value is not None
    assert point.y.value is not None
    return 100 * point.x.value, 100 * point.y.value


def _panel(ax: Axes, correlation: Correlation) -> None:
    """Label the axes; draw the fitted line with its band."""
    axis = correlation.axis.removeprefix("group:")
    whole = correlation.axis in ("macro", "overall", "natural")
    kind = f"{axis} accuracy" if whole else f"accuracy, {axis}"
    at = f"Best-of-{correlation.n}" if correlation.n else "Best-of-N"
    names = f"{correlation.benchmark or 'reward-benchmark'} {kind}", f"{at} accuracy"
    if correlation.outcome:
        names = correlation.axis, correlation.outcome
    ax.set_xlabel(f"{names[0]} (%)")
    ax.set_ylabel(f"{names[1]} (%)")
    colour, fit = MUTED, correlation.fit  # no family's colour
    if fit is not None and fit.band:
        x = [100 * b.x for b in fit.band]
        line = fit.structural.band if fit.structural else fit.band
        low, high, *predicted = (
            [100 * y for y in ends if y is not None]
            for ends in zip(
                *(
                    (a.low, a.high, b.predict_low, b.predict_high)
                    for a, b in zip(line, fit.band, strict=True)
                ),
                strict=True,
            )
        )
        if low and correlation.num_rewarders > 3:  # around three points it would fill the panel
            ax.fill_between(x, low, high, color=colour, alpha=0.13, linewidth=0, zorder=1)
            for ends in predicted:
                ax.plot(
                    x, ends, color=colour, linewidth=0.7, linestyle=_DASHES[0], alpha=0.7, zorder=1
                )
        ax.plot(x, [100 * b.y for b in line], color=colour, linewidth=1.4, zorder=3)


def _set_limits(
    ax: Axes, correlation: Correlation, references: list[tuple[str, float]], room: float
) -> None:
    """Set limits around everything drawn, with room for names; before the layout."""
    points = _usable(correlation)
    xs = [v for p in points for v in (_at(p)[0], *_bar(p.x))]
    ys = [v for p in points for v in (_at(p)[1], *_bar(p.y))]
    ys += [100 * value for _, value in references]
    for values, margin, limit in ((xs, room, ax.set_xlim), (ys, 0.10, ax.set_ylim)):
        low, high = min(values), max(values)
        grow = max((high - low) * margin, (4 - (high - low)) / 2, 0.1)
        limit(low - grow, min(high + grow, 100.5))


def _name_references(
    ax: Axes,
    references: list[tuple[str, float]],
    marks: list[tuple[float, float]],
) -> None:
    """Draw horizontal lines, each named near it where there is room; tint what they divide."""
    at = dict(references)
    single, vote = at.get("pass@1"), at.get("majority vote")
    if single is not None and vote is not None and single <= vote:
        low, high = ax.get_ylim()
        ax.axhspan(100 * vote, high, color=PALETTE[2], alpha=0.07, linewidth=0, zorder=0)
        ax.axhspan(low, 100 * single, color=PALETTE[1], alpha=0.09, linewidth=0, zorder=0)
        references = [
            ("worse than doing nothing (pass@1)", single),
            ("better than majority vote", vote),
        ]
    for i, (name, value) in enumerate(sorted(references, key=lambda r: r[1])):
        y, side = 100 * value, -1 if i == 0 and len(references) > 1 else 1
        ax.axhline(y, color=MUTED, linewidth=0.9, linestyle=_DASHES[i % 3])
        text = ax.annotate(
            f"{name} {y:.1f}", (0, y), (0, 0), ("axes fraction", "data"),
            ("axes fraction", "offset points"), fontsize=6.5, color=MUTED,
            va="top" if side < 0 else "bottom",
        )  # fmt: skip
        places = [
            {"position": (x, side * away), "ha": ha}
            for away in (1.5, 9, 18, 27, 36, 45, 54)
            for x, ha in ((0.985, "right"), (0.015, "left"), (0.5, "center"))
        ]
        _settle(ax, text, marks, places)


def _settle(
    ax: Axes, text: Text, marks: list[tuple[float, float]], places: list[dict[str, Any]]
) -> None:
    """Move a text to the first place that covers fewest points, with a margin, and no text."""
    pad, at = 8 * ax.figure.dpi / 72, ax.transData.transform(marks)
    occupied = [box_of(other) for other in ax.texts if other is not text]

    def covered(place: dict[str, Any]) -> float:
        text.set(**place)
        left, bottom, right, top = box_of(text)
        inside = (at > (left - pad, bottom - pad)) & (at < (right + pad, top + pad))
        frame = ax.get_window_extent()
        out = max(right - frame.x1, frame.x0 - left, frame.y0 - bottom, top - frame.y1, 0.0)
        texts = sum(overlap(box_of(text), box) for box in occupied)
        return float(inside.all(axis=1).sum() + texts + out)

    text.set(**min(places, key=covered))


def _write_r(ax: Axes, correlation: Correlation, marks: list[tuple[float, float]]) -> None:
    """Write r with its interval, p and the number of rewarders where there is room."""
    r = correlation.pearson
    text = "r cannot be computed, "
    if r.estimate.value is not None:
        text = f"r = {bounded(r.estimate)}\n"
        text += f"{probability(r.p_value)}, " if r.p_value is not None else ""
    text += f"{correlation.num_rewarders} rewarders"
    if correlation.num_bases is not None:
        text += f" from {plural(correlation.num_bases, 'base model')}"
    label = ax.text(0, 0, text, transform=ax.transAxes, fontsize=7.5, linespacing=1.35)

    sides = {0.015: "left", 0.985: "right", 0.5: "center"}
    heights = {0.985: "top", 0.02: "bottom", 0.8: "center", 0.65: "center", 0.5: "center"}
    at = [(0.015, 0.985), (0.985, 0.02), (0.985, 0.985), (0.015, 0.02)]
    at += [(x, y) for y in heights for x in sides if (x, y) not in at]
    places = [{"x": x, "y": y, "ha": sides[x], "va": heights[y]} for x, y in at]
    _settle(ax, label, marks, places)


def _points(
    ax: Axes,
    correlation: Correlation,
    kinds: Mapping[str, str],
    families: Mapping[str, str],
    heights: Sequence[float],
) -> None:
    """Draw error bars, markers and names."""
    points = _usable(correlation)
    looks: dict[tuple[str, str], list[Point]] = {}
    for p in points:
        colour = families[p.family] if p.family else INK if families else PALETTE[0]
        look = colour, kinds.get(p.rewarder, "pairwise")
        looks.setdefault(look, []).append(p)
    for (colour, kind), alike in looks.items():
        bars: dict[str, Any] = {"colors": colour, "linewidth": 0.7, "alpha": 0.45, "zorder": 2}
        xs, ys = zip(*map(_at, alike), strict=True)
        ax.hlines(ys, *zip(*(_bar(p.x) for p in alike), strict=True), **bars)
        ax.vlines(xs, *zip(*(_bar(p.y) for p in alike), strict=True), **bars)
        ax.plot(
            xs, ys, marker=MARKERS.get(kind, UNKNOWN), color=colour,
            markeredgecolor=BACKGROUND, markeredgewidth=0.6, markersize=5.5,
            linestyle="none", zorder=5,
        )  # fmt: skip
    avoid: list[_PredictionLine] = []
    if correlation.fit is not None and len(correlation.fit.band) > 1:
        line = correlation.fit.structural or correlation.fit
        avoid.append(([(100 * b.x, 100 * b.y) for b in line.band], 2.5))
    for p in points:
        x, y = _at(p)
        avoid.append(([(end, y) for end in _bar(p.x)], 1.0))
        avoid.append(([(x, end) for end in _bar(p.y)], 1.0))
    avoid += [([(x, y) for x in ax.get_xlim()], 1.2) for y in heights]
    named = sorted(points, key=lambda p: _at(p)[1])
    if len(points) > _MAX_LABELS:  # the ends of the y axis are named, the table has the rest
        ends = named[: _MAX_LABELS // 2] + named[-_MAX_LABELS // 2 :]
        points = [p for p in points if p in ends]
    place_labels(
        ax, [_at(p) for p in points], [p.rewarder for p in points], avoid=avoid,
        occupied=[box_of(text) for text in ax.texts if text.get_text()],  # not those of arrows
    )  # fmt: skip


def _bar(estimate: Estimate) -> tuple[float, float]:
    """Return the ends of an error bar in percent; without an interval, the value."""
    low, high, value = estimate.low, estimate.high, estimate.value
    assert value is not None
    return 100 * (value if low is None else low), 100 * (value if high is None else high)


def _legend(
    figure: Figure,
    shown: list[Correlation],
    kinds: Mapping[str, str],
    families: Mapping[str, str],
) -> None:
    """Explain markers by kind and colours by family, below the panels."""
    from matplotlib.lines import Line2D

    points = [p for c in shown for p in c.points]
    present = dict.fromkeys(kinds.get(p.rewarder, "") for p in points)
    handles = [
        Line2D([], [], marker=MARKERS.get(kind, UNKNOWN), color=MUTED, linestyle="none",
               markersize=5, label=kind)
        for kind in present if kind
    ]  # fmt: skip
    alone = [p for p in points if not p.family]
    if len(families) + bool(alone) > 1:
        own = {family: colour for family, colour in families.items() if colour != OTHER}
        others = len(families) - len(own)
        if others > 1:
            families = {**own, f"{others} other families": OTHER}
        handles += [
            Line2D([], [], color=colour, linewidth=3.2, label=family, solid_capstyle="butt")
            for family, colour in families.items()
        ]
        if alone and families:
            handles.append(Line2D([], [], color=INK, linewidth=3.2, label="no base model named"))
    if len(handles) > 1:
        figure.legend(
            handles=handles, loc="outside lower left", ncols=3 if figure.get_figwidth() < 4 else 5,
            handletextpad=0.5, columnspacing=1.4, handlelength=1.1, borderaxespad=0.2,
        )  # fmt: skip
