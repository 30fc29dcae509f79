"""How much is computed: counts of work, which depend on no machine."""

import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from synthetic import analyse, synthetic_tables

from bon.analysis import plots
from bon.analysis.calibration import verdict_accuracy
from bon.analysis.calibration.labelled import COLUMNS, by_rewarder
from bon.analysis.correlation.power import STUDIES, Design, outlook
from bon.analysis.data.arrays import read
from bon.analysis.estimators.resampling import Draws
from bon.analysis.report.figures import report_figures
from bon.analysis.results import Options
from bon.analysis.run import analyse as analyse_tables
from bon.analysis.verdict import posterior
from bon.choosing import subsets
from bon.running.reporting import open_run, question_views
from bon.storage.store import Store
from bon.work.run_tables import deep_tables, run_tables
from tests.running.conftest import go_in
from tools.bench_analysis import pointwise_tables


@pytest.fixture(scope="module")
def results():
    return analyse(synthetic_tables(8, 60, num_pairs=60), draws=100)


def test_every_figure_is_drawn_once(results, monkeypatch):
    drawn, draw = Counter(), Figure.draw
    monkeypatch.setattr(Figure, "draw", lambda self, r: (drawn.update([self]), draw(self, r))[1])
    figures = report_figures(results)
    assert set(drawn.values()) == {1}
    assert len(drawn) == len(figures) + 1  # the first one also for narrow screens


def test_the_draws_are_read_as_often_for_many_rewarders_as_for_few(monkeypatch):
    passes, sums = Counter(), Draws.sums
    for rewarders in (7, 14):  # of the same sizes

        def counted(self, values, rewarders=rewarders):
            passes[rewarders] += 1
            return sums(self, values)

        monkeypatch.setattr(Draws, "sums", counted)
        analyse_tables(pointwise_tables(rewarders, 60, 4, 30), Options(draws=100))
    assert passes[7] == passes[14]


def test_large_pools_have_curves_at_the_n_of_the_axis():
    """On a log axis, others would lie between its ticks."""
    found = analyse_tables(pointwise_tables(3, 30, 40, 12), Options(draws=100))
    ns = [1, 2, 4, 8, 16, 32, 40]
    assert {tuple(p.n for p in b.curve) for b in found.best_of_n} == {tuple(ns)}
    assert [p.n for p in found.correlation_by_n[0].points] == ns[1:]


def test_rewarders_share_where_their_judgements_are():
    """100 rewarders of the same responses hold scores and outcomes of their own, and no more."""
    tables = pointwise_tables(4, 30, 8, 12)
    run = read(tables)
    first, *others = run.candidates.values()
    for judged in others:
        assert judged.item is first.item
        assert judged.first is first.first
        assert np.shares_memory(judged.score, tables.judgements["score"].to_numpy())


@pytest.fixture
def deep_run(make_experiment, tmp_path):
    experiment = make_experiment(questions=24)
    return go_in(tmp_path)({**experiment, "judging": {"deep": {"n": 12, "share": 0.5}}})


@pytest.fixture
def rows_read(monkeypatch):
    """Queries and rows read from the database."""
    read_of, query = Counter(), Store.query

    def counted(self, sql, parameters=()):
        rows = query(self, sql, parameters)
        read_of.update(queries=1, **{table: len(rows) for table in TABLES if table in sql})
        return rows

    monkeypatch.setattr(Store, "query", counted)
    return read_of


TABLES = ("questions", "pairs", "candidates", "judgements")


def test_the_question_browser_reads_a_question_at_once(deep_run, rows_read):
    with Store(deep_run, readonly=True) as store:
        setup = open_run(store)
        run = read(run_tables(setup, store))
        rows_read.clear()
        views = list(question_views(setup, store, run, {}))
    assert len(views) == 24
    assert any(choice.judgements for view in views for choice in view.choices)
    assert rows_read["queries"] <= len(views) + 4


def test_further_candidates_are_read_without_the_pairs(deep_run, rows_read):
    with Store(deep_run, readonly=True) as store:
        setup = open_run(store)
        run_tables(setup, store)
        pairs = store.count("pairs")
        assert rows_read["pairs"] <= 2 * pairs + 1
        rows_read.clear()
        assert len(deep_tables(setup, store).candidates)
        assert not rows_read["pairs"]


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


def test_labels_that_fit_are_measured_once(results, monkeypatch):
    measured, box = Counter(), Axes.get_tightbbox
    monkeypatch.setattr(
        Axes, "get_tightbbox", lambda ax, *a, **k: (measured.update([ax]), box(ax, *a, **k))[1]
    )
    plots.inline_svg(plots.verdict(results), "v", "")
    assert [*measured.values()] == [1]


class Masks(np.ndarray):
    """Subsets that count the products with them."""

    products = 0

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        Masks.products += ufunc is np.matmul
        return getattr(ufunc, method)(*map(np.asarray, inputs), **options)

    def __array_function__(self, function, types, args, options):
        Masks.products += function is np.tensordot
        return function(*map(np.asarray, args), **options)


def test_a_vote_is_replayed_by_one_product():
    """Who is in which subset matters only without votes, or where equal answers differ in gold."""
    rng = np.random.default_rng(0)
    answers = rng.integers(0, 3, (20, 6))
    masks, average = subsets.masks_for(6, (1, 2, 3, 6), 9, 0)
    Masks.products = 0
    subsets.vote_values(
        answers, rng.random((20, 6)), 1.0 * (answers == 0), masks.view(Masks), average
    )
    assert Masks.products == 1
