"""One request served, the run that validates it, and a choice made by hand are the same choice.

The run is judged by the runner's code under the design of the rule and analysed as any run; the
service judges the same questions itself, in this process, and takes the unit of scores from the
results of the run.
"""

import asyncio
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bon.analysis.data.arrays import opinion, read
from bon.analysis.estimators.replay import Setting, replay_opinion
from bon.analysis.results import Options
from bon.analysis.run import analyse
from bon.choosing.opinion import Candidates, item_opinion
from bon.choosing.replaying import by_choosing
from bon.choosing.rules import RULES, rules_for
from bon.core.errors import BonError
from bon.core.keys import text_key
from bon.service.online.selector import Usage
from tests.choosing.scripted import card, judged, questions, selector_of, served, tables

FAST = Options(draws=100, subsets=8)
CASES = [
    (kind, rule.name)
    for kind in ("scores", "preferences", "choices")
    for rule in rules_for(kind)  # type: ignore[arg-type]
]


def run_of(kind, rule, seed, votes=1, spread=1.0, count=4):
    """A selector of one rewarder, its questions, and its run as arrays and as rows."""
    found = card(kind, votes, spread)
    selector = selector_of(found, scales={"r": 1.0})
    asked = questions(count, seed)
    rows = judged(selector, asked, RULES[rule].designs[0])
    return found, asked, rows, read(tables(asked, rows, kind))


def results_in(folder: Path, run) -> Path:
    """results.json of a run, as `bon report` writes it."""
    (folder / "results.json").write_text(analyse(run, FAST).model_dump_json())
    return folder


@pytest.mark.parametrize(("kind", "rule"), CASES)
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10**6), votes=st.integers(1, 2), spread=st.sampled_from([0.05, 1, 20]))
def test_served_is_replayed_is_chosen(tmp_path, kind, rule, seed, votes, spread):
    found, asked, rows, run = run_of(kind, rule, seed, votes, spread)
    scaled = RULES[rule].scaled and kind == "scores"
    selector = selector_of(found, **{"validated": results_in(tmp_path, run)} if scaled else {})
    shares = np.array([choice.ranking.probabilities for choice in served(selector, asked, rule)])

    pool = run.pools["p"]
    whole = opinion(run, pool.located, "r")
    if whole is None:  # nothing could be judged: all texts of a question are one
        return
    assert RULES[rule].choose(whole) == pytest.approx(shares)  # every question at once

    for q, each in enumerate(asked):  # by hand, from the run's rows
        mine = [row for row in rows if row.item == each.conversation.key]
        about = Candidates.of(each.conversation.key, list(map(text_key, each.texts)), each.answers)
        said = item_opinion(kind, mine, about, whole.scale)
        assert RULES[rule].choose(said)[0] == pytest.approx(shares[q])

    made, _ = replay_opinion(whole, Setting.of(pool, pool.size, FAST), "r", (rule,))
    if RULES[rule].judged:
        replays = {replay.rule: replay for replay in made}
        worth = (shares * pool.correct).sum(axis=1)
        assert replays[rule].at(pool.size) == pytest.approx(worth)


@pytest.mark.parametrize("spread", [0.05, 1.0, 20.0])
def test_the_served_weighted_vote_is_in_the_unit_that_was_validated(tmp_path, spread):
    """With the unit left at 1 a served vote is another one, most of all for narrow scores."""
    found, asked, _, run = run_of("scores", "weighted_vote", 7, spread=spread, count=150)
    right = [
        np.array([c.ranking.probabilities for c in served(selector, asked, "weighted_vote")])
        for selector in (
            selector_of(found, validated=results_in(tmp_path, run)),
            selector_of(found, scales={"r": 1.0}),
        )
    ]
    pool = run.pools["p"]
    said = opinion(run, pool.located, "r")
    assert said is not None
    replay = RULES["weighted_vote"].choose(said)
    assert right[0] == pytest.approx(replay)
    other = (np.abs(right[1] - replay) > 1e-6).any(axis=1).mean()
    assert other > 0.02 or spread == 1.0
    (entry,) = [b for b in analyse(run, FAST).best_of_n if b.rule == "weighted_vote"]
    assert entry.scale == pytest.approx(said.scale)
    worth = (right[0] * pool.correct).sum(axis=1).mean()
    assert entry.accuracy.value == pytest.approx(worth)


def test_a_vote_whose_unit_is_not_known_is_refused(tmp_path):
    selector = selector_of(card("scores"))
    with pytest.raises(BonError, match=r"needs the unit of r's scores -> set online.validated"):
        selector.scale("p", "r", "weighted_vote")
    assert selector.scale("p", "r", "best_score") is None
    assert selector_of(card("preferences")).scale("p", "r", "weighted_vote") is None
    *_, run = run_of("scores", "weighted_vote", 3)
    validated = selector_of(card("scores"), validated=results_in(tmp_path, run))
    assert validated.scale("p", "r", "weighted_vote") > 0
    with pytest.raises(BonError, match="a run that has weighted_vote of r on other"):
        validated.scale("other", "r", "weighted_vote")
    told = selector_of(card("scores"), validated=tmp_path, scales={"r": 2.5})
    assert told.scale("other", "r", "weighted_vote") == 2.5


def test_a_validated_run_without_results_is_one_line(tmp_path):
    with pytest.raises(BonError, match=r"online.validated: .* holds no results.json -> bon report"):
        selector_of(card("scores"), validated=tmp_path)
    (tmp_path / "results.json").write_text('{"schema_version": "9.9"}')
    with pytest.raises(BonError, match=r"online.validated: .*results.json is from another version"):
        selector_of(card("scores"), validated=tmp_path)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6), kind=st.sampled_from(["scores", "preferences", "choices"]))
def test_the_fast_replay_is_the_mean_over_choices_among_subsets(seed, kind):
    """Every rule that is replayed at every n, against its own `choose` on every subset."""
    *_, run = run_of(kind, rules_for(kind)[0].name, seed)
    pool = run.pools["p"]
    said = opinion(run, pool.located, "r")
    if said is None:
        return
    trial = Setting.of(pool, pool.size, FAST).trial
    for rule in rules_for(kind):
        made = rule.replayed(said, trial)
        assert made is not None
        if made.error is None and made.ns == trial.ns:
            slow = by_choosing(rule.choose, said.fill_ties(trial.constant), trial)
            assert made.values == pytest.approx(slow.values)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), keep=st.floats(0.3, 1.0), data=st.data())
def test_what_was_not_judged_is_neither_chosen_nor_replayed(seed, keep, data):
    rule = RULES[data.draw(st.sampled_from([rule.name for rule in rules_for("preferences")]))]
    _, asked, rows, _ = run_of("preferences", rule.name, seed)
    rng = np.random.default_rng(seed)
    run = read(tables(asked, [row for row in rows if rng.random() < keep], "preferences"))
    pool = run.pools["p"]
    said = opinion(run, pool.located, "r")
    if said is None or not rule.judged:
        return
    trial = Setting.of(pool, pool.size, FAST).trial
    lost = np.isnan(rule.certain(said, trial.gold)).any(axis=1) & ~pool.constant
    assert (rule.replayed(said, trial) is None) == bool(lost.any())


def test_what_is_shown_is_a_number_for_each_candidate():
    """Scores of a request: mean scores, shares of comparisons won, times chosen."""
    (asked,) = questions(1, 5)
    for kind in ("scores", "preferences", "choices"):
        selector = selector_of(card(kind))
        rule = rules_for(kind)[0].name
        choice = asyncio.run(
            selector.choose("r", rule, asked.conversation, asked.texts, Usage(), asked.answers)
        )
        by_text = {}
        for text, score in zip(asked.texts, choice.ranking.scores, strict=True):
            assert by_text.setdefault(text, score) == score
        assert sorted(choice.ranking.order) == list(range(len(asked.texts)))
