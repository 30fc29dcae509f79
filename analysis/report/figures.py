"""The figures of a page as inline SVG."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from markupsafe import Markup

from bon.analysis import plots
from bon.analysis.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Figures(dict[str, Markup]):
    """Figures of a page by name, as inline SVG, and the CSS they share."""

    css = ""

    def add(
        self, name: str, title: str, draw: Callable[..., Figure], wide: float | None = None
    ) -> None:
        """Draw a figure for small screens, which serves all unless it is drawn `wide` (inches) too.

        It is left out without data.
        """
        sizes: list[tuple[str, plots.Width]] = [("", "single")]
        if wide is not None:
            sizes = [("wide", wide), ("narrow", "single")]
        drawn = Markup()
        for kind, width in sizes:
            try:
                figure = draw(width=width)
            except plots.NothingToDrawError:
                return
            svg, css = plots.inline_svg(figure, f"f{len(self)}{kind}", title)
            drawn += Markup(svg.replace("<svg ", f'<svg class="{kind}" ', 1) if kind else svg)
            self.css += css
        self[name] = drawn


def report_figures(results: Results) -> Figures:
    """Draw every figure of the report that the results have data for."""
    figures = Figures()
    figures.add(
        "verdict",
        "Reward-benchmark accuracy against Best-of-N accuracy, and what follows for r",
        partial(plots.verdict, results),
        plots.WIDTHS["double"],
    )
    several = len({c.policy for c in results.correlations if c.points}) > 1
    figures.add(
        "correlation",
        "Reward-benchmark accuracy against Best-of-N accuracy, one point per rewarder",
        partial(plots.correlation, results),
        plots.WIDTHS["double"] if several else 4.8,
    )
    for i, study in enumerate(results.trained):
        figures.add(
            f"trained:{i}",
            "Gain by training against benchmark accuracy and gain by choosing",
            partial(plots.gains, study),
            plots.WIDTHS["double"],
        )
        figures.add(
            f"trained_kl:{i}",
            "Gains in sampled accuracy against the distance from the policy",
            partial(plots.gains_by_kl, study, results),
            plots.WIDTHS["double"],
        )
    for policy in (p.policy for p in results.policies):
        figures.add(
            f"accuracy_at_n:{policy}",
            f"Accuracy against n for the responses of {policy}",
            partial(plots.accuracy_at_n, results, policy=policy),
            plots.WIDTHS["double"],
        )
    for policy in dict.fromkeys(c.policy for c in results.depth):
        figures.add(
            f"depth:{policy}",
            f"Accuracy against n for more responses of {policy}",
            partial(plots.depth, results, policy=policy),
            plots.WIDTHS["double"],
        )
    return figures
