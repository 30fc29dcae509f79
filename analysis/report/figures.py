"""The figures of a page as inline SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from markupsafe import Markup

from bon.analysis import plots
from bon.analysis.report.leaderboard import titles
from bon.analysis.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Figures(dict[str, Markup]):
    """Figures of a page by name, as inline SVG, and the CSS they share."""

    css = ""

    def add(
        self,
        name: str,
        title: str,
        draw: Callable[..., Figure],
        height: int,
        wide: tuple[int, int] | None = None,
        titles: Sequence[str] = (),
    ) -> None:
        """Draw a figure at its natural size in pixels; if `wide`, with more names for screens.

        Of height 0, it is as high as it needs to be. It is left out without data.
        """
        sizes: list[tuple[str, int, int, dict[str, int]]] = [("", NARROW, height, {})]
        if wide is not None:
            sizes = [("wide", *wide, {"names": 5}), ("narrow", NARROW, height, {"names": 3})]
        drawn = Markup()
        for kind, width, tall, names in sizes:
            try:
                look = {"width": width / 96} | ({"height": tall / 96} if tall else {})
                figure = draw(**look, **names)
            except plots.NothingToDrawError:
                return
            svg, css = plots.inline_svg(figure, f"f{len(self)}{kind}", title, titles)
            drawn += Markup(svg.replace("<svg ", f'<svg class="{kind}" ', 1) if kind else svg)
            self.css += css
        self[name] = drawn


NARROW = 358
"""Pixels of a phone's screen between its margins."""


def report_figures(results: Results, pick: str = "") -> Figures:
    """Draw every figure of the report that the results have data for, each size once."""
    figures = Figures()
    shown = {c.policy for c in results.correlations if c.points}
    with plots.page_style():
        figures.add(
            "correlation",
            "Benchmark accuracy against points gained over majority vote, a mark per rewarder",
            partial(plots.correlation, results, emphasis=pick),
            330,
            (700, 430),
            titles(results),
        )
        figures.add("verdict", "Posterior density of r", partial(plots.verdict, results), 220)
        for policy in (p.policy for p in results.policies if p.policy in shown and len(shown) > 1):
            figures.add(
                f"correlation:{policy}",
                f"Benchmark accuracy against points gained over majority vote, {policy}",
                partial(plots.correlation, results, policy=policy, names=5),
                360,
            )
        for i, study in enumerate(results.trained):
            figures.add(
                f"trained:{i}",
                "Gain by training against benchmark accuracy and gain by choosing",
                partial(plots.gains, study),
                560 * max(len(study.methods), 1),
            )
        tall = 140 + 14 * len(results.rewarders)
        for policy in (p.policy for p in results.policies):
            figures.add(
                f"accuracy_at_n:{policy}",
                f"Accuracy against n for the responses of {policy}",
                partial(plots.accuracy_at_n, results, policy=policy),
                tall,
            )
        for policy in dict.fromkeys(c.policy for c in results.depth):
            figures.add(
                f"depth:{policy}",
                f"Accuracy against n for more responses of {policy}",
                partial(plots.depth, results, policy=policy),
                300,
            )
    return figures
