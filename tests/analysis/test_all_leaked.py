"""Where everything is a leak, nothing can be said without leaks, and nothing breaks."""

import pytest
from synthetic import synthetic_tables

from bon.analysis.results import Options
from bon.analysis.run import analyse


@pytest.mark.parametrize("table", ["questions", "pairs"])
def test_everything_leaked(table):
    tables = synthetic_tables(num_rewarders=4, num_questions=40, num_pairs=40)
    getattr(tables, table)["leaked"] = True
    results = analyse(tables, Options(draws=100))
    assert {c.leaks for c in results.correlations} == {"in"}
    assert all(b.macro_without_leaks is None for b in results.benchmarks) == (table == "pairs")
