"""Training pairs by a rewarder: its best against its worst, as the analysis sees them."""

import numpy as np
import pytest

from bon.analysis.data.arrays import opinion, read
from bon.exports.preferences import Preferences, training_rows
from bon.running.reporting import open_run
from bon.storage.store import Store
from bon.work.run_tables import run_tables
from tests.running.conftest import change


@pytest.mark.parametrize("rewarder", ["judge", "critic", "head"])
def test_chosen_and_rejected_are_the_ends_of_its_opinion(make_experiment, go, rewarder):
    directory = go(make_experiment(6))
    with Store(directory, readonly=True) as store:
        setup = open_run(store)
        run = read(run_tables(setup, store))
        pool = run.pools["policy"]
        said = opinion(run, pool.located, rewarder)
        assert said is not None
        standing = dict(zip(pool.candidates.items, said.candidate_scores(), strict=True))
        made = list(training_rows(setup, store, Preferences(rewarder)))
    assert made
    for row in made:
        values = standing[row.question.key]
        assert row.chosen_score == pytest.approx(np.nanmax(values))
        assert row.rejected_score == pytest.approx(np.nanmin(values))


def test_votes_that_are_not_asked_for_today_train_nothing(make_experiment, go):
    directory = go(make_experiment(6))
    change(directory, "UPDATE judgements SET vote = 7 WHERE rewarder = 'head'")
    with Store(directory, readonly=True) as store:
        assert list(training_rows(open_run(store), store, Preferences("head"))) == []
