"""The report's figures as inline SVG: a wide and a narrow drawing of each."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from markupsafe import Markup

from bon.analysis import plots
from bon.analysis.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = Callable[..., "Figure"]


@dataclass(frozen=True)
class Drawing:
    """One figure of the page."""

    wide: Markup
    narrow: Markup
    title: str
    small: bool = False


@dataclass
class Figures:
    """All figures by name, and the CSS they share. A figure that has no data is not there."""

    drawings: dict[str, Drawing] = field(default_factory=dict)
    css: list[str] = field(default_factory=list)

    def get(self, name: str) -> Drawing | None:
        """A figure, or None where there was nothing to draw."""
        return self.drawings.get(name)

    def add(self, name: str, title: str, draw: Draw, wide: float = 6.75) -> None:
        """Draw both widths; leave the figure out where the results have nothing for it."""
        try:
            figures = (draw(width=wide), draw(width="single"))
        except plots.NothingToDrawError:
            return
        parts = []
        for suffix, figure in zip(("w", "n"), figures, strict=True):
            svg, css = plots.inline_svg(figure, f"f{len(self.css)}{suffix}", title)
            parts.append(Markup(svg))
            self.css.append(css)
        self.drawings[name] = Drawing(parts[0], parts[1], title, wide < 5)


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without looking for garbage among a figure's thousands of parts: a tenth of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@_uncollected()
def draw_all(results: Results) -> Figures:
    """Every figure that the results have data for."""
    figures = Figures()
    policies = [p.policy for p in results.policies]
    main = results.main
    drawn = {c.policy for c in results.correlations if c.points}
    figures.add(
        "correlation",
        "Reward-benchmark accuracy against Best-of-N accuracy, one point per rewarder",
        partial(plots.correlation, results),
        wide=6.75 if len(drawn) > 1 else 5.2,
    )
    if main is None:
        figures.add(
            "baselines",
            "Accuracy without rewarders: pass@1, votes and the best that any choice could reach",
            partial(plots.baselines, results),
            wide=5.2,
        )
    else:
        figures.add(
            "leave_one_out",
            "Correlation without each rewarder in turn",
            partial(plots.leave_one_out, main),
            wide=4.2,
        )
    for policy in policies:
        figures.add(
            f"accuracy_at_n:{policy}",
            f"Accuracy against n for the candidates of {policy}",
            partial(plots.accuracy_at_n, results, policy=policy),
        )
    figures.add(
        "correct_counts",
        "How many candidates per question are right",
        partial(plots.correct_counts, results),
        wide=4.2,
    )
    figures.add(
        "correlation_at_n", "r for every n", partial(plots.correlation_at_n, results), wide=4.2
    )
    columns = len(drawn) * (2 if results.leaks.num_questions + results.leaks.num_pairs else 1)
    figures.add(
        "group_heatmap",
        "Correlation of every axis of the reward benchmark with Best-of-N accuracy",
        partial(plots.group_heatmap, results),
        wide=6.75 if columns > 2 else 4.2,
    )
    figures.add(
        "how_much",
        "r and the loss of the pick against the number of preference pairs",
        partial(plots.how_much, results),
    )
    for name, title in (
        ("votes_curve", "Reward-benchmark accuracy against the number of votes"),
        ("bias", "Position and length bias"),
        ("outcomes", "Judgements without a winner, and what counting them otherwise changes"),
    ):
        figures.add(name, title, partial(getattr(plots, name), results))
    return figures
