"""The page of a training run's rewards: one HTML file that works offline."""

from functools import partial
from pathlib import Path
from typing import Any

from bon.analysis.plots.over_time import TITLES, rewards_over_time
from bon.analysis.report.figures import Figures
from bon.analysis.report.templates import render
from bon.analysis.results.format import points, scaled, share
from bon.analysis.results.record import Estimate
from bon.analysis.results.reward_log import SHARES, Quantity, TrainingReport


def training_page(report: TrainingReport) -> str:
    """Return the page as HTML."""
    figures = Figures()
    figures.add("drift", "How rewards and responses changed", partial(rewards_over_time, report))
    return render("training.html.jinja", figures, **training_context(report))


def training_context(report: TrainingReport) -> dict[str, Any]:
    """Return what the template needs besides the figures."""
    titles = dict(TITLES)
    if report.scales == ("raw",):
        del titles["reward"]  # the score itself
    return {
        "report": report,
        "titles": titles,
        "shown": [drift for drift in report.drifts if drift.quantity in titles],
        "value": _shown,
        "change": partial(_shown, sign=True),
    }


def _shown(name: Quantity, estimate: Estimate, sign: bool = False) -> str:
    if name in SHARES:
        return points(estimate) if sign else share(estimate)
    return scaled(estimate, 0 if name == "characters" else 2, sign, scale=1)


def write_training_page(report: TrainingReport, path: Path) -> Path:
    """Write the page, and the numbers beside it as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(training_page(report), encoding="utf-8")
    path.with_suffix(".json").write_text(report.model_dump_json(indent=1), encoding="utf-8")
    return path
