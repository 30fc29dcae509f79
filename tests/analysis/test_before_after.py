"""One model before and after training: arrows, paired changes, whether the gain carried over."""

import numpy as np
import pytest
from synthetic import analyse, synthetic_tables
from test_published import table

import bon
from bon.analysis import plots
from bon.analysis.correlation.paired_accuracies import Label, Measured
from bon.analysis.decision.before_after import before_after
from bon.analysis.published import correlate_table
from bon.analysis.results import Estimate, Options
from bon.experiment.cards import load_rewarder
from bon.planning.run_tables import run_tables
from bon.planning.setup import prepare
from bon.running.start import start
from bon.storage.store import Store

OPTIONS = Options(draws=200)
LABEL = Label("p", "bench", "macro", n=8, primary=True)


def trained(dx: float, dy: float, spread: float = 0.01) -> Measured:
    """Five rewarders on the line y = x, and a sixth before and after training."""
    rng = np.random.default_rng(0)
    x = np.array([0.3, 0.4, 0.5, 0.6, 0.7, 0.5, 0.5 + dx])
    y = np.array([0.3, 0.4, 0.5, 0.6, 0.7, 0.5, 0.5 + dy])
    draws = [(v[:, None] + rng.normal(0, spread, (7, 500))).astype(np.float32) for v in (x, y)]
    known = tuple(Estimate(value=0.5, n=100, method="questions") for _ in x)
    names = (*"abcde", "base", "tuned")
    return Measured(names, x, y, known, known, *draws, before=("",) * 6 + ("base",))


@pytest.mark.parametrize(
    ("dx", "dy", "carried"),
    [
        (0.2, 0.2, "carried over"),
        (0.2, 0.08, "fell short"),
        (0.2, 0.0, "did not carry over"),
        (0.2, -0.1, "did not carry over"),
        (0.03, 0.02, "unclear"),
        (0.01, 0.2, "no gain"),
        (-0.2, -0.2, "no gain"),
    ],
)
def test_whether_the_gain_carried_over(dx, dy, carried):
    (found,) = before_after(LABEL, trained(dx, dy), OPTIONS)
    assert (found.before, found.after, found.carried) == ("base", "tuned", carried)
    assert found.benchmark_change.value == pytest.approx(dx)
    assert found.choice_change.value == pytest.approx(dy)
    assert found.expected == pytest.approx(dx, abs=1e-6)  # the others lie on y = x
    assert found.sentence.startswith("From base to tuned: ")


def test_changes_are_paired():
    """What moves both alike moves no difference."""
    m = trained(0.05, 0.05, spread=0.0)
    common = np.random.default_rng(1).normal(0, 0.2, 500).astype(np.float32)
    shaken = Measured(**{**vars(m), "x_draws": m.x_draws + common, "y_draws": m.y_draws + common})
    (found,) = before_after(LABEL, shaken, OPTIONS)
    assert found.carried == "carried over"
    assert found.choice_change.high - found.choice_change.low < 1e-3


@pytest.fixture(scope="module")
def results():
    tables = synthetic_tables(num_rewarders=6, num_questions=50, num_pairs=60)
    for frame in (tables.questions, tables.pairs):
        frame["leaked"] = False
    tables.meta["before"] = {"rewarder-01": "rewarder-00", "rewarder-02": "rewarder-01",
                             "rewarder-05": "elsewhere"}  # fmt: skip
    return analyse(tables, draws=100, permutations=100)


def test_they_are_the_comparisons_of_the_same_two_rewarders(results):
    changes = [(b.before[-1], b.after[-1]) for b in results.before_after]
    assert changes == [("0", "1"), ("1", "2")]
    for b in results.before_after:
        for table_, change in (("best_of_n", b.choice_change), ("benchmark", b.benchmark_change)):
            same = next(
                c.difference
                for c in results.comparisons
                if (c.table, c.a, c.b) == (table_, b.before, b.after)
            )
            assert change.value == pytest.approx(-same.value)
            assert (change.low, change.high) == pytest.approx((-same.high, -same.low), abs=1e-6)
    assert any("rewarder-05 names elsewhere as itself before" in w for w in results.warnings)


def test_an_arrow_for_each(results):
    (ax,) = plots.correlation(results).axes
    arrows = [t for t in ax.texts if getattr(t, "arrowprops", None) and not t.get_text()]
    assert len(arrows) == 2
    frame = table(judge=list("abcd"), macro=[10.0, 20, 30, 50], best_of_n=[20.0, 30, 50, 60],
                  before=["", "a", "", ""])  # fmt: skip
    report = correlate_table(frame, options=OPTIONS)
    assert [p.before for p in report.correlations[0].points] == ["", "a", "", ""]
    assert [c.axis for c in report.correlations] == ["macro"]


def test_a_card_names_it_and_the_run_keeps_its_rows(make_experiment, tmp_path):
    experiment = make_experiment()
    plain = prepare(experiment, tmp_path)
    first, second = (r.card.name for r in plain.rewarders[:2])
    experiment["rewarders"][1]["before"] = first
    setup = prepare(experiment, tmp_path)
    assert [r.spec for r in setup.rewarders] == [r.spec for r in plain.rewarders]
    with Store(tmp_path / "run") as store:
        start(setup, store, quiet=True)
        assert run_tables(setup, store).meta["before"] == {second: first}
    experiment["rewarders"][1]["before"] = second
    with pytest.raises(bon.BonError, match="is itself"):
        prepare(experiment, tmp_path)


def test_the_demo_has_three(tmp_path):
    cards = [load_rewarder(n, tmp_path).card for n in ("mini-critic-a", "mini-critic-a-long")]
    assert [c.before for c in cards] == ["mini-critic-a-short", "mini-critic-a"]
