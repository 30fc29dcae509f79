"""The report's figures as inline SVG: a wide and a narrow drawing of each."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from markupsafe import Markup

from bon.analysis import plots
from bon.analysis.plots.style import Width
from bon.analysis.results import Results
from bon.core.aside import aside
from bon.core.forked import shared

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Draw = Callable[..., "Figure"]


def load_drawing() -> None:
    """Import what draws: once, before copies of this process draw, or each of them does."""
    import matplotlib.backends.backend_svg
    import matplotlib.figure  # noqa: F401


@dataclass(frozen=True)
class Sketch:
    """A figure to be drawn: `draw(width=...)` makes it, `wide` is its width on a wide page."""

    name: str
    title: str
    draw: Draw
    wide: float = 6.75

    def inline(self, width: Width, label: str) -> tuple[str, str] | None:
        """It as SVG with its CSS; None where the results have nothing for it."""
        with _uncollected():
            try:
                return plots.inline_svg(self.draw(width=width), label, self.title)
            except plots.NothingToDrawError:
                return None


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


@contextmanager
def drawing(sketches: Sequence[Sketch]) -> Iterator[Callable[[], Figures]]:
    """Drawing begins, on another core where there is one; the call gives all that is drawn."""
    works = []
    for i, sketch in enumerate(sketches):
        works.append(partial(sketch.inline, sketch.wide, f"f{2 * i}w"))
        works.append(partial(sketch.inline, "single", f"f{2 * i}n"))

    def bound(drawn: Sequence[tuple[str, str] | None]) -> Figures:
        figures = Figures()
        for sketch, wide, narrow in zip(sketches, drawn[::2], drawn[1::2], strict=True):
            if wide is not None and narrow is not None:
                parts = Markup(wide[0]), Markup(narrow[0])
                figures.drawings[sketch.name] = Drawing(*parts, sketch.title, sketch.wide < 5)
                figures.css += [wide[1], narrow[1]]
        return figures

    if works:
        load_drawing()
    with shared(works) as rest:
        yield lambda: bound(rest())


def drawn(*sketches: Sketch) -> Figures:
    """All that these have something for."""
    with drawing(sketches) as done:
        return done()


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


def figures_aside() -> AbstractContextManager[Callable[[Results], Callable[[], Figures]]]:
    """What draws the figures of one report: a copy of this process, which loads matplotlib now.

    A call begins; what it returns gives the figures. The copy shares them with one of its own: it
    has none of the tables, which cost every later copy of this process time.
    """
    return aside(load_drawing, _draw_all)


def _draw_all(results: Results) -> Figures:
    return drawn(*_sketches(results))


def report_figures(results: Results) -> AbstractContextManager[Callable[[], Figures]]:
    """The figures of a run's report, as `drawing` gives them."""
    return drawing(_sketches(results))


def _sketches(results: Results) -> list[Sketch]:
    """Every figure that the results may have data for."""
    policies = [p.policy for p in results.policies]
    main = results.main
    points = {c.policy for c in results.correlations if c.points}
    columns = len(points) * (2 if results.leaks.num_questions + results.leaks.num_pairs else 1)
    return [
        Sketch(
            "correlation",
            "Reward-benchmark accuracy against Best-of-N accuracy, one point per rewarder",
            partial(plots.correlation, results),
            wide=6.75 if len(points) > 1 else 5.2,
        ),
        Sketch(
            "baselines",
            "Accuracy without rewarders: pass@1, votes and the best that any choice could reach",
            partial(plots.baselines, results),
            wide=5.2,
        )
        if main is None
        else Sketch(
            "leave_one_out",
            "Correlation without each rewarder in turn",
            partial(plots.leave_one_out, main),
            wide=4.2,
        ),
        *(
            Sketch(
                f"accuracy_at_n:{policy}",
                f"Accuracy against n for the candidates of {policy}",
                partial(plots.accuracy_at_n, results, policy=policy),
            )
            for policy in policies
        ),
        Sketch(
            "correct_counts",
            "How many candidates per question are right",
            partial(plots.correct_counts, results),
            wide=4.2,
        ),
        Sketch(
            "correlation_at_n", "r for every n", partial(plots.correlation_at_n, results), wide=4.2
        ),
        Sketch(
            "group_heatmap",
            "Correlation of every axis of the reward benchmark with Best-of-N accuracy",
            partial(plots.group_heatmap, results),
            wide=6.75 if columns > 2 else 4.2,
        ),
        Sketch(
            "how_much",
            "r and the loss of the pick against the number of preference pairs",
            partial(plots.how_much, results),
        ),
        Sketch(
            "votes_curve",
            "Reward-benchmark accuracy against the number of votes",
            partial(plots.votes_curve, results),
        ),
        Sketch("bias", "Position and length bias", partial(plots.bias, results)),
        Sketch(
            "outcomes",
            "Judgements without a winner, and what counting them otherwise changes",
            partial(plots.outcomes, results),
        ),
    ]
