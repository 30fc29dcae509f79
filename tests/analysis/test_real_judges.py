"""Thirty real judges of LLMBar: natural pairs against pairs that mislead, by the counts of both."""

import json
from pathlib import Path

import pandas as pd
import pytest

from bon.analysis.published import correlate_table
from bon.analysis.results.phrasing import bounded, chance

REAL = Path(__file__).parents[2] / ".." / "shared" / "data" / "real" / "llmbar"
PAGE = Path(__file__).parents[2] / "docs" / "measurements" / "validity.md"

pytestmark = pytest.mark.skipif(not REAL.exists(), reason="needs ../shared/data/real/llmbar")


def lines(name):
    return map(json.loads, (REAL / name).read_text(encoding="utf-8").splitlines())


def accuracies() -> pd.DataFrame:
    """Accuracy of each judge over both orders, and the number of pairs."""
    natural = {row["id"]: row["group"] == "Natural" for row in lines("pairs.jsonl")}
    judged = pd.DataFrame(lines("verdicts.jsonl"))
    chosen = judged["first"].where(judged["outcome"] == "first", judged["second"])
    judged["right"] = (chosen == "chosen") & judged["outcome"].isin(["first", "second"])
    judged["axis"] = judged["pair"].map(natural).map({True: "natural", False: "adversarial"})
    table = judged.pivot_table("right", ["rewarder", "family"], "axis").reset_index()
    counts = pd.Series(natural).value_counts()
    return table.assign(natural_n=counts[True], adversarial_n=counts[False])


def test_what_is_right_on_natural_pairs_is_not_known_to_resist_misleading_ones():
    table = accuracies()
    assert len(table) == 30
    assert table["natural_n"].iloc[0] == 100
    report = correlate_table(table, outcomes=("adversarial",), benchmarks=("natural",))
    (v,) = report.verdicts
    assert (v.num_rewarders, v.num_bases) == (30, 5)
    row = next(r for r in PAGE.read_text("utf-8").splitlines() if r.startswith("| LLMBar"))
    assert f"r = {bounded(v.r)}" in row
    assert f"yes: {chance(v.p_yes)}, no: {chance(v.p_low)}" in row
    assert v.word in row
