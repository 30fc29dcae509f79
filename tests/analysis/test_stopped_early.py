"""Races that end at a projected lead: an audit takes out the bias, however wrong the lead was."""

from dataclasses import replace

import numpy as np
import pytest

from bon.analysis.calls import AUDIT, COMPLETE, pool, verdicts
from bon.analysis.estimators.stopped_early import Early
from bon.choosing.opinion import Candidates, Opinion
from bon.choosing.race import next_matches
from bon.choosing.replaying import Trial
from bon.choosing.rules import RULES
from bon.choosing.tournaments import seats

Q, M, LEAD = 80, 8, 1.0
RULE = RULES["round_robin"]


@pytest.fixture(scope="module")
def whole():
    """A judge's verdicts on all pairs of different texts."""
    answers, plausible = pool(Q, M, 5)
    prefer, _ = verdicts(answers, plausible, 0.5, 0.4, 0.8, seed=6)
    local = np.tile(np.arange(M), (Q, 1))
    keys = np.array([[f"t{m}" for m in range(M)]] * Q, dtype=object)
    about = Candidates(tuple(f"q{q}" for q in range(Q)), keys, answers, local)
    games, complete = np.full(prefer.shape, 2), np.ones(Q, dtype=bool)
    said = Opinion(about, "preferences", None, prefer, games, complete, 0.0, 0)
    right = (answers == 0).astype(float)
    classes = right.astype(np.int64)
    early, certain = (raced(said, classes, np.full(Q, audited)) for audited in (False, True))
    trial = Trial(about, [right, np.zeros_like(right)], M, 16, 0)
    return said, trial, early.prefer, certain.prefer


def raced(said, classes, audited):
    """What races with these audited questions would have asked."""
    known = np.where(np.eye(M, dtype=bool), 0.5, np.full(said.prefer.shape, np.nan))
    for q in range(Q):
        order = seats(said.about, q)
        square = np.ix_(order, order)
        told, asked = said.prefer[q][square], known[q][square]
        lead = None if audited[q] else LEAD
        copies = np.ones(M, dtype=np.int64)
        while matches := next_matches(asked, copies, classes[q][order], 2, lead):
            for a, b in matches:
                asked[a, b], asked[b, a] = told[a, b], told[b, a]
        known[q][square] = asked
    return replace(said, prefer=known, complete=~np.isnan(known).any(axis=(1, 2)))


def estimate(whole, audited):
    said, trial, early, certain = whole
    prefer = np.where(audited[:, None, None], certain, early)
    known = replace(said, prefer=prefer, complete=~np.isnan(prefer).any(axis=(1, 2)))
    early = Early(trial.golds[0].astype(np.int64), audited, 2, LEAD)
    return early.replayed(known, RULE.certain(known, trial.golds), trial)


def test_unbiased_over_audits_with_the_error_that_is_said(whole):
    said, trial, *_ = whole
    truth = (RULE.choose(said) * trial.golds[0]).sum(axis=1).mean()
    rng = np.random.default_rng(0)
    errors, said_error = [], []
    for _ in range(25):
        found, audit = estimate(whole, rng.random(Q) < 0.4)
        errors.append(found.values[0][:, -1].mean() - truth)
        said_error.append(audit.error)
    assert audit.stopped > 20
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(len(errors))
    assert np.std(errors) < np.mean(said_error)


def test_audited_everywhere_it_is_round_robin(whole):
    said, trial, *_ = whole
    found, audit = estimate(whole, np.ones(Q, dtype=bool))
    wanted = (RULE.choose(said) * trial.golds[0]).sum(axis=1)
    assert found.values[0][:, -1] == pytest.approx(wanted, abs=1e-12)
    assert audit.stopped == audit.audited
    assert audit.error == 0


def test_nothing_is_said_without_an_audit_or_of_races_under_way(whole):
    said, trial, *_ = whole
    assert estimate(whole, np.zeros(Q, dtype=bool)) is None
    classes = trial.golds[0].astype(np.int64)
    early = Early(classes, np.arange(Q) < 40, 2, LEAD)
    blank = np.where(np.eye(M, dtype=bool), 0.5, np.full(said.prefer.shape, np.nan))
    nothing = replace(said, prefer=blank, complete=np.zeros(Q, dtype=bool))
    assert early.replayed(nothing, RULE.certain(nothing, trial.golds), trial) is None


def test_the_simulation_measures_what_a_run_does_unless_told():
    from bon.experiment.config import Race

    assert (Race().audit, Race().complete) == (AUDIT, COMPLETE)
