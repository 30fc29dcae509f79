"""The report of a run as one HTML file. See docs/report.md.

from bon.analysis.report import build_views, write_report
write_report(results, views, Path("report.html"), images=True)
"""

from bon.analysis.report.page import write_report
from bon.analysis.report.question_views import CandidateView, ChoiceView, QuestionView, build_views

__all__ = ["CandidateView", "ChoiceView", "QuestionView", "build_views", "write_report"]
