"""Figures of a run, as functions that return a matplotlib `Figure`.

    from bon.analysis import plots
    figure = plots.correlation(results, width=3.3, font="serif", size=9)
    plots.save(figure, "figures/correlation")   # .png, .svg and .pdf

Every function takes the results and a `Look`, obeys matplotlib's rcParams and style sheets, and
raises `NothingToDrawError` where the results hold nothing to show.
"""

from bon.analysis.plots.curves import accuracy_at_n, depth
from bon.analysis.plots.forest import forest
from bon.analysis.plots.gains import gains
from bon.analysis.plots.output import inline_svg, save
from bon.analysis.plots.scatter import correlation, points, verdict
from bon.analysis.plots.style import WIDTHS, Look, NothingToDrawError, page_style

__all__ = [
    "WIDTHS",
    "Look",
    "NothingToDrawError",
    "accuracy_at_n",
    "correlation",
    "depth",
    "forest",
    "gains",
    "inline_svg",
    "page_style",
    "points",
    "save",
    "verdict",
]
