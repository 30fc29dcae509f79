"""Figures of a run, as functions that return a matplotlib `Figure`.

    from bon.analysis import plots
    figure = plots.correlation(results)
    plots.save(figure, "figures/correlation")   # .png, .svg and .pdf

Every function takes the results and a `width` ("single" and "double" column, or inches), and
raises `NothingToDrawError` where the results hold nothing to show.
"""

from bon.analysis.plots.curves import accuracy_at_n, depth
from bon.analysis.plots.forest import forest
from bon.analysis.plots.gain_and_cost import gain_and_cost
from bon.analysis.plots.gains import gains, gains_by_kl
from bon.analysis.plots.output import inline_svg, save
from bon.analysis.plots.reliability import reliability
from bon.analysis.plots.scatter import correlation, published, verdict
from bon.analysis.plots.style import WIDTHS, NothingToDrawError, Width

__all__ = [
    "WIDTHS",
    "NothingToDrawError",
    "Width",
    "accuracy_at_n",
    "correlation",
    "depth",
    "forest",
    "gain_and_cost",
    "gains",
    "gains_by_kl",
    "inline_svg",
    "published",
    "reliability",
    "save",
    "verdict",
]
