"""The page of a meta-analysis: one HTML file that works offline."""

from functools import partial
from typing import TYPE_CHECKING, Unpack

from bon.analysis import plots
from bon.analysis.decision.pooled_tables import agreement_rows, pool_rows, study_rows
from bon.analysis.report.figures import Figures
from bon.analysis.report.templates import render
from bon.analysis.results import MetaAnalysis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDE = 900
"""Pixels of the figure on large screens."""


def evidence_page(pooled: MetaAnalysis) -> str:
    """Return the page as HTML."""
    figures = Figures()
    title = "r of every study by kind of outcome, their means, and what the next may show"
    with plots.page_style():
        figures.add("forest", title, partial(_forest, pooled), 0, (WIDE, 0))
    tables = {"Together": pool_rows(pooled), "Studies": study_rows(pooled)}
    if pooled.agreements:
        tables["Outcomes with each other"] = agreement_rows(pooled)
    return render(
        "evidence.html.jinja", figures, pooled=pooled, headline=_headline(pooled), tables=tables
    )


def _forest(pooled: MetaAnalysis, *, names: int, **look: Unpack[plots.Look]) -> "Figure":
    """Draw the forest plot, which names every study at any width."""
    return plots.forest(pooled, **look)


def _headline(pooled: MetaAnalysis) -> str:
    pool = pooled.pools[0]
    if (pool.r.mean.low or 0) <= 0:
        return f"Published studies cannot tell whether reward benchmarks predict {pool.name}"
    certain = (pool.r.predicted.low or 0) > 0
    rest = "" if certain else " on average; the next study may find nothing"
    return f"Reward benchmarks predict {pool.name}{rest}"
