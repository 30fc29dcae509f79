"""`bon correlate` reads what spreadsheets write, and says what its headings promise."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from bon.analysis.data.arrays import _response_finder, read
from bon.analysis.estimators import pair_sets
from bon.analysis.published import correlate_table
from bon.analysis.results import Options
from bon.choosing.opinion import OUTCOMES
from bon.commands.decide_text import correlation_text
from tests.analysis.synthetic import synthetic_tables
from tests.analysis.test_published import FAST, table

ROWS = (("a", 40, 41), ("b", 50, 42.5), ("c", 60, 44), ("d", 71, 47))


@pytest.mark.parametrize(
    ("mark", "cell"),
    [(",", "{}%"), (",", "{} %"), ("\t", "{}"), (";", "{}"), (";", "{}%")],
)
def test_separators_and_percent_signs(tmp_path, mark, cell):
    lines = [mark.join(("judge", "macro", "bon@8"))]
    for name, *values in ROWS:
        cells = [cell.format(v) for v in values]
        if mark == ";":
            cells = [c.replace(".", ",") for c in cells]
        lines.append(mark.join((name, *cells)))
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines))
    found = correlate_table(path, options=FAST).correlations[0]
    expected = np.corrcoef([r[1] for r in ROWS], [r[2] for r in ROWS])[0, 1]
    assert found.pearson.estimate.value == pytest.approx(expected)
    assert found.points[1].y.value == pytest.approx(0.425)


def test_headings_hold_what_they_say(tmp_path):
    rng = np.random.default_rng(0)
    x = np.linspace(30, 70, 40)
    even = table(judge=[f"m{i}" for i in range(40)], macro=x, best_of_n=x + rng.normal(0, 1, 40))
    text = correlation_text(correlate_table(even, options=Options(draws=300)))
    assert "separate groups < 1%" in text
    assert "0.0000" not in text
    assert "1000 questions" not in text
    one = even.head(6).assign(macro=[30, 31, 29, 30, 32, 90], best_of_n=[41, 39, 40, 42, 40, 60])
    path = tmp_path / "one.csv"
    one.to_csv(path, index=False)
    far = correlation_text(correlate_table(path))
    assert "separate groups > 99%" in far, "one point decides r"
    assert "Yes" not in far


@pytest.mark.parametrize("x", [[60, 60, 62, 62, 64, 64, 66, 66], [60, 61, 61, 62, 62, 63, 63, 64]])
def test_rounded_scores_that_tie_are_no_groups(x):
    """Ties in pairs, evenly spaced, are a grid."""
    y = [50, 51, 53, 52, 55, 56, 57, 58]
    tied = table(judge=[f"m{i}" for i in range(8)], macro=x, best_of_n=y)
    found = correlate_table(tied, options=FAST)
    assert found.correlations[0].pearson.estimate.low is not None
    groups = re.search(r"separate groups <? ?(\d+)%", correlation_text(found))
    assert groups is not None
    assert int(groups[1]) <= 5


def test_thousands_of_rows():
    rng = np.random.default_rng(1)
    x = rng.random(2000)
    frame = pd.DataFrame(
        {"judge": [f"m{i}" for i in range(len(x))], "macro": x, "bon": (x + rng.random(len(x))) / 2}
    )
    found = correlate_table(frame).correlations[0]
    assert found.spearman.estimate.method == "fisher"
    assert found.pearson.estimate.method == "jackknife"


def test_a_text_that_nobody_sampled_matches_no_candidate():
    known = np.array([0, 1, 2, 3])  # two questions, each with both texts
    _, find = _response_finder(pd.Index(["one", "two"]), known)
    found = find(np.array([1, 1, -1]), np.array([1, -1, 1]))
    assert found.tolist() == [3, -1, -1]


def test_every_rewarder_has_what_it_said_wherever_its_rows_are():
    """Also one that was asked less than the one before it, and beside somebody of no card."""
    tables = synthetic_tables(6, 10, 4, 20)
    said = tables.judgements
    fewer = said.drop(said.index[(said["rewarder"] == "rewarder-02") & (said.index % 3 == 0)])
    strange = fewer.iloc[:5].assign(rewarder="nobody")
    frames = ([strange, fewer], [fewer[::2], strange, fewer[1::2]])
    run, mixed = (read(replace(tables, judgements=pd.concat(parts))) for parts in frames)
    for kind, judged, again, items in (
        ("question", run.candidates, mixed.candidates, tables.questions["question"]),
        ("pair", run.pairs, mixed.pairs, tables.pairs["pair"]),
    ):
        for name, own in fewer[fewer["item_kind"] == kind].groupby("rewarder"):
            found, other = judged[name], again[name]
            assert items.to_numpy()[found.item].tolist() == own["item"].tolist()
            assert found.vote.tolist() == own["vote"].tolist()
            assert [OUTCOMES[k] for k in found.outcome] == own["outcome"].tolist()
            assert found.score.tolist() == pytest.approx(own["score"].tolist(), nan_ok=True)
            ordered = [
                sorted(zip(one.item, one.first, one.second, one.vote, one.outcome, strict=True))
                for one in (found, other)
            ]
            assert ordered[0] == ordered[1]


def test_pairs_of_one_cluster_come_and_go_together():
    """20 clusters of 10 identical outcomes tell what 20 pairs tell: .28 to .72, not .43 to .57."""
    tables = synthetic_tables(3, 10, 4, 200)
    pairs = tables.pairs.assign(cluster=np.repeat([f"c{i}" for i in range(20)], 10), group="all")
    tables.pairs.loc[:, "group"] = "all"
    outcome = np.repeat([0.0, 1.0] * 10, 10)

    def bounds(frame):
        run = read(type(tables)(**{**vars(tables), "pairs": frame}))
        (found,) = pair_sets.pair_sets(run, Options(draws=4000))
        return np.quantile(found.draws.means(outcome[:, None]), [0.025, 0.975])

    assert bounds(pairs) == pytest.approx([0.28, 0.72], abs=0.03)
    assert bounds(tables.pairs) == pytest.approx([0.43, 0.57], abs=0.01)
