"""Nothing that is printed takes rewarders of one base for independent, wherever it is printed."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from synthetic import analyse, synthetic_tables
from test_robustness import OPTIONS, seventeen, studied

from bon.analysis.artifacts import frames
from bon.analysis.correlation.pooled import pool
from bon.analysis.finding.verdict import verdict
from bon.analysis.published import correlate_table
from bon.analysis.report import write_report
from bon.commands.decide_text import correlation_text


def two_bases(within: float) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Twenty rewarders of two bases far apart; r within a base is about `within`."""
    rng = np.random.default_rng(2)
    x = np.tile(np.linspace(0, 0.1, 10), 2)
    noise = rng.normal(0, 0.1 * np.sqrt(1 - within**2), 20) if within < 1 else np.zeros(20)
    base = np.repeat([0.0, 0.3], 10)
    return 0.4 + base + x, 0.3 + base + within * x + noise / 3, ("a",) * 10 + ("b",) * 10


@pytest.fixture(scope="module")
def results():
    tables = synthetic_tables(num_rewarders=8, num_questions=60, num_pairs=80)
    return analyse(tables, draws=100, permutations=100)


def test_two_bases_far_apart_say_nothing_unless_it_holds_within_them():
    x, y, bases = two_bases(0.0)
    apart = studied(x, y, bases)
    assert stats.pearsonr(x, y).pvalue < 1e-6
    assert verdict(apart) == "cannot tell"
    inside = studied(*two_bases(1.0))
    assert verdict(inside) == "weak"
    assert verdict(studied(x, -y, bases)) == "cannot tell"


def test_only_r_is_said_of_few_bases(results):
    for c in results.correlations:
        for one in (c.pearson, c.spearman, c.kendall):
            assert (one.estimate.low, one.p_value, one.p_adjusted) == (None, None, None)
            assert one.fisher.low is not None
        assert {x.p_value for x in c.leave_one_out + c.leave_family_out} == {None}
        assert (c.agreement.agreement.low, c.better_half.pearson.low) == (None, None)
    assert all(p.pearson.low is None for one in results.correlation_by_n for p in one.points)


def test_no_table_no_figure_and_no_export_prints_more(results, tmp_path):
    page = write_report(results, None, tmp_path / "report.html").read_text()
    table = page[page.index('aria-label="Coefficients"') :]
    table = table[: table.index("</table>")]
    assert 'class="ci"' not in table
    assert ", p " not in table
    assert "Fisher" not in page
    assert "fit with its band" not in page
    assert "fit without a band" in page
    rows = frames(results)["correlations"]
    named = re.compile(r"_(low|high|fisher|bootstrap|jackknife|p_value|p_parametric|p_adjusted)")
    coefficients = [c for c in rows if re.match("pearson|spearman|kendall", c) and named.search(c)]
    assert coefficients
    assert rows[coefficients].isna().all(axis=None)


INTERVAL = re.compile(r"\[−?[.\d]+, −?[.\d]+\]")


def text_of(path):
    return correlation_text(correlate_table(path))


def test_the_table_at_the_terminal_neither(tmp_path):
    x, y, bases = two_bases(1.0)
    frame = pd.DataFrame({"judge": [f"j{i}" for i in range(20)], "macro": x, "best_of_n": y})
    frame.assign(family=bases).to_csv(tmp_path / "shared.csv", index=False)
    frame.to_csv(tmp_path / "own.csv", index=False)
    said = text_of(tmp_path / "shared.csv")
    assert not INTERVAL.search(said.partition("\n\n")[0])  # the table
    assert not INTERVAL.search(said.splitlines()[-1])  # the finding
    assert "p =" not in said
    assert "p <" not in said
    assert INTERVAL.search(text_of(tmp_path / "own.csv"))


def test_a_table_of_seventeen_models_that_two_of_them_make_is_no_yes(tmp_path):
    x, y = seventeen()
    frame = pd.DataFrame({"model": [f"m{i}" for i in range(17)], "score": x, "bon": y})
    frame.to_csv(tmp_path / "seventeen.csv", index=False)
    said = text_of(tmp_path / "seventeen.csv")
    assert said.splitlines()[-1].startswith("Perhaps")
    assert "separate groups: m15 and m16; " in said


def test_several_policies_are_as_sure_as_the_least_sure_of_them():
    rng = np.random.default_rng(5)
    base = np.arange(24) % 6
    shared = rng.normal(size=6)[base] + 0.3 * rng.normal(size=24)
    found = []
    for policy in ("p", "q"):
        y = shared + 0.6 * rng.normal(size=6)[base] + 0.2 * rng.normal(size=24)
        one = studied(shared, y, tuple(f"base-{b}" for b in base))
        found.append(one.model_copy(update={"policy": policy}))
    pooled = pool(found, OPTIONS.level).pearson
    assert pooled.method == "jackknife over families"
    ends = [np.arctanh([c.pearson.estimate.low, c.pearson.estimate.high]) for c in found]
    widest = max(high - low for low, high in ends)
    assert np.arctanh(pooled.high) - np.arctanh(pooled.low) == pytest.approx(widest)
    few = [c.model_copy(update={"families": c.families, "pearson": apart}) for c, apart in
           zip(found, (studied(*two_bases(1.0)).pearson,) * 2, strict=True)]  # fmt: skip
    assert pool(few, OPTIONS.level).pearson.low is None
