"""How much is computed: counts of work, which depend on no machine."""

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from matplotlib.figure import Figure
from synthetic import analyse, synthetic_tables

from bon.analysis.calibration import verdict_accuracy
from bon.analysis.calibration.labelled import COLUMNS, by_rewarder
from bon.analysis.correlation.power import STUDIES, Design, outlook
from bon.analysis.report.figures import report_figures
from bon.analysis.verdict import posterior


@pytest.fixture(scope="module")
def results():
    return analyse(synthetic_tables(8, 60, num_pairs=60), draws=100)


def test_every_figure_is_drawn_once(results, monkeypatch):
    drawn, draw = Counter(), Figure.draw
    monkeypatch.setattr(Figure, "draw", lambda self, r: (drawn.update([self]), draw(self, r))[1])
    figures = report_figures(results)
    assert set(drawn.values()) == {1}
    assert len(drawn) == len(figures) + 1  # the first one also for narrow screens


def test_studies_of_one_design_share_its_directions(monkeypatch):
    posterior._directions.cache_clear()
    outlook(Design(12, 6, 100, 100, (0.1, 0.1)), np.full(STUDIES, 0.1))
    cached = posterior._directions.cache_info()
    assert cached.hits + cached.misses >= STUDIES
    assert cached.misses == 1


def test_rewarders_share_the_features_of_a_text():
    import pandas as pd

    count = 40
    rows = pd.DataFrame({name: [""] * count for name in COLUMNS})
    rows = rows.assign(
        kind="answers", item=[f"q{i}" for i in range(count)], label=np.arange(count) % 2,
        verdict=1.0, score=np.nan, probability=1.0, length=1.0,
    )  # fmt: skip
    rows["cluster"] = rows["text"] = rows["item"]
    frame = pd.concat([rows.assign(rewarder=name) for name in "abc"])
    verdict_accuracy._features.cache_clear()
    for votes in by_rewarder(frame):
        verdict_accuracy.feature_biases(votes, votes.draws(0, 100), 0.95)
    assert verdict_accuracy._features.cache_info().misses == count


@pytest.mark.parametrize(
    ("line", "unused"),
    [
        ("import bon", "numpy"),
        ("import bon.analysis.published, bon.analysis.run", "scipy.stats"),
        ("from bon.analysis.plots.curves import spread; spread([1.0, 2.0], 5, 0, 10)",
         "scipy.optimize"),
    ],
)  # fmt: skip
def test_imports(line, unused):
    code = f"{line}; import sys; print({unused!r} in sys.modules)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "False"
