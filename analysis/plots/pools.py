"""What the candidates hold before any rewarder chooses: baselines, right ones per question."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bon.analysis.plots.style import LIGHT, NothingToDrawError, Theme, Width, new_figure, style
from bon.analysis.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BASELINES = (
    ("pass@1", "pass_at_1", "o"),
    ("first candidate", "first", "s"),
    ("majority vote", "majority", "D"),
    ("longest answer", "longest", "v"),
    ("highest log-probability", "logprob", "^"),
    ("oracle", "oracle", "P"),
)


def baselines(results: Results, *, theme: Theme = LIGHT, width: Width = "single") -> Figure:
    """Accuracy of every baseline with its interval, for each policy."""
    shown = results.policies
    if not shown:
        raise NothingToDrawError("no candidates")
    rows = [
        (name, field, marker)
        for name, field, marker in _BASELINES
        if any((e := getattr(p, field)) is not None and e.value is not None for p in shown)
    ]
    with style(theme):
        figure, (ax,) = new_figure(width, 0.3 * len(rows) + 0.16 * len(shown) * len(rows) / 2 + 0.7)
        gap = 0.5 / max(len(shown), 1)
        for i, policy in enumerate(shown):
            colour = theme.palette[i % len(theme.palette)]
            for row, (_, field, marker) in enumerate(rows):
                estimate = getattr(policy, field)
                if estimate is None or estimate.value is None:
                    continue
                y = row + (i - (len(shown) - 1) / 2) * gap
                text = f"{100 * estimate.value:.1f}"
                right = estimate.value
                if estimate.low is not None and estimate.high is not None:
                    ax.plot([100 * estimate.low, 100 * estimate.high], [y, y], color=colour)
                    text += f" [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"
                    right = estimate.high
                ax.plot([100 * estimate.value], [y], marker=marker, color=colour, markersize=5)
                ax.annotate(
                    text, (100 * right, y), xytext=(5, 0), textcoords="offset points",
                    va="center", fontsize=6.8, color=theme.ink,
                )  # fmt: skip
            if len(shown) > 1:
                ax.plot([], [], color=colour, label=policy.policy)
        low, high = ax.get_xlim()
        narrow = figure.get_figwidth() < 4
        ax.set_xlim(low, high + (0.68 if narrow else 0.42) * (high - low))
        ax.set_yticks(range(len(rows)), [name for name, _, _ in rows])
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.tick_params(axis="y", length=0, labelcolor=theme.ink)
        ax.spines["left"].set_visible(False)
        ax.grid(axis="y", visible=False)
        ax.set_xlabel("accuracy (%)")
        if len(shown) > 1:
            figure.legend(loc="lower left", ncols=3)
    return figure


def correct_counts(results: Results, *, theme: Theme = LIGHT, width: Width = "single") -> Figure:
    """Share of questions with 0, 1, … right candidates: only those between can be chosen well."""
    shown = [p for p in results.policies if sum(p.correct_per_question)]
    if not shown:
        raise NothingToDrawError("no candidates")
    most = max(len(p.correct_per_question) for p in shown)
    if most > 40:
        raise NothingToDrawError("too many candidates per question for one bar each")
    with style(theme):
        figure, (ax,) = new_figure(width, 2.1)
        bar = 0.8 / len(shown)
        for i, policy in enumerate(shown):
            total = sum(policy.correct_per_question)
            at = [k + (i - (len(shown) - 1) / 2) * bar for k in range(most)]
            heights = [100 * c / total for c in policy.correct_per_question]
            ax.bar(
                at[: len(heights)], heights, width=bar * 0.92, label=policy.policy,
                color=theme.palette[i % len(theme.palette)], hatch=("", "////", "xxxx")[i % 3],
                edgecolor=theme.background, linewidth=0,
            )  # fmt: skip
        step = max(1, most // 9)
        ax.set_xticks(range(0, most, step))
        ax.grid(axis="x", visible=False)
        ax.set_xlabel("right candidates per question")
        ax.set_ylabel("questions (%)")
        if len(shown) > 1:
            figure.legend(loc="lower left", ncols=3)
    return figure
