"""The report of a run as one HTML file. See docs/report.md.

from bon.analysis.report import build_views, write_report
write_report(results, views, Path("report.html"), images="none")
"""

from bon.analysis.report.figures import figures_aside
from bon.analysis.report.page import write_report
from bon.analysis.report.views import (
    CandidateView,
    ChoiceView,
    JudgementView,
    QuestionView,
    build_views,
)

__all__ = [
    "CandidateView",
    "ChoiceView",
    "JudgementView",
    "QuestionView",
    "build_views",
    "figures_aside",
    "write_report",
]
