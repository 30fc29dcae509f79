"""The schema of results.json and of the other results that commands print as JSON."""

from bon.analysis.results.accuracy import *
from bon.analysis.results.across_runs import *
from bon.analysis.results.correlation import *
from bon.analysis.results.decision import *
from bon.analysis.results.prediction import *
from bon.analysis.results.record import *
from bon.analysis.results.results import *
from bon.analysis.results.study import *
from bon.analysis.results.uplift import *
from bon.analysis.results.verdict import *
