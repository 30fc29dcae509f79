"""The page of a training run's rewards: one HTML file that works offline."""

from functools import partial
from pathlib import Path

from markupsafe import Markup

import bon
from bon.analysis.plots.over_time import TITLES, rewards_over_time
from bon.analysis.report.figures import Sketch, drawn
from bon.analysis.report.format import NONE, interval, points, share, signed
from bon.analysis.report.page import icon, policy, script
from bon.analysis.report.templates import HERE, pages
from bon.analysis.results.drifts import SHARES, TrainingReport
from bon.analysis.results.record import Estimate


def training_page(report: TrainingReport) -> str:
    """The page as HTML."""
    figures = drawn(
        Sketch("drift", "How rewards and responses changed", partial(rewards_over_time, report))
    )
    style = (HERE / "style.css").read_text(encoding="utf-8") + "".join(figures.css)
    code = script()
    template = pages().get_template("training.html.jinja")
    return template.render(
        report=report,
        figure_of=figures.get,
        titles={name: title.removesuffix(" (%)") for name, title in TITLES.items()},
        shown=[d for d in report.drifts if d.quantity != "reward" or report.scales != ("raw",)],
        value=_value,
        change=_change,
        style=Markup(style),
        script=Markup(code),
        csp=policy(style, code, None),
        icon=icon(),
        version=bon.__version__,
    )


def _value(name: str, one: Estimate) -> str:
    return share(one) if name in SHARES else _plain(one, 0 if name == "characters" else 2)


def _change(name: str, one: Estimate) -> str:
    if name in SHARES:
        return points(one)
    return _plain(one, 0 if name == "characters" else 2, sign=True)


def _plain(one: Estimate, digits: int, sign: bool = False) -> str:
    if one.value is None:
        return NONE
    bounds = interval(one, 1, digits, sign)
    return f"{signed(one.value, digits, sign)} {bounds}".rstrip()


def write_training_page(report: TrainingReport, path: Path) -> Path:
    """Write the page, and the numbers beside it as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(training_page(report), encoding="utf-8")
    path.with_suffix(".json").write_text(report.model_dump_json(indent=1), encoding="utf-8")
    return path
