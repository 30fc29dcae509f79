"""Panels: by hand; served, rewarded and replayed alike."""

import asyncio
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from bon.analysis.data.arrays import opinion, read
from bon.analysis.estimators.replay import panel_opinion
from bon.analysis.results import Options
from bon.analysis.run import analyse
from bon.choosing.opinion import panel
from bon.choosing.rules import RULES
from bon.core.errors import BonError
from bon.service.api.rewards import Rollout, give_rewards
from bon.service.online.selector import Selector, Usage
from bon.service.settings import Online
from tests.choosing.opinions import scoring
from tests.choosing.scripted import card, judged, questions, selector_of, tables

FAST = Options(draws=100, subsets=8)
CARDS = [
    {**card("scores", spread=0.05), "name": "narrow"},
    {**card("preferences"), "name": "pairs"},
    {**card("scores", spread=20), "name": "wide"},
]
PANEL = {"name": "panel", "kind": "ensemble", "engine": "none",
         "members": [c["name"] for c in CARDS]}  # fmt: skip


def run_of(count: int):
    """Questions, and a run in which every rewarder judged them and the panel was replayed."""
    asked, parts = questions(count, 5), []
    for one in CARDS:
        kind = "preferences" if one["name"] == "pairs" else "scores"
        rows = judged(selector_of({**one, "name": "r"}), asked, "all_pairs")
        part = tables(asked, rows, kind)
        parts.append(
            replace(
                part,
                judgements=part.judgements.assign(rewarder=one["name"]),
                rewarders=part.rewarders.assign(rewarder=one["name"]),
            )
        )
    whole = replace(
        parts[0],
        judgements=pd.concat([p.judgements for p in parts], ignore_index=True),
        rewarders=pd.concat([p.rewarders for p in parts], ignore_index=True),
        meta={"ensembles": {"panel": PANEL["members"]}},
    )
    return asked, read(whole)


def online(**settings) -> Selector:
    online = {"rewarders": [*CARDS, PANEL], "backend": "process", **settings}
    return Selector(Online.model_validate(online), Path())


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    asked, run = run_of(200)
    folder = tmp_path_factory.mktemp("run")
    results = analyse(run, FAST)
    (folder / "results.json").write_text(results.model_dump_json())
    return asked, run, results, folder


def choices(selector, asked, rewarder="panel"):
    async def work():
        return [
            await selector.choose(rewarder, "best_score", q.conversation, q.texts, Usage())
            for q in asked
        ]

    return asyncio.run(work())


def test_a_panel_by_hand():
    first = scoring(np.array([1.0, 3.0, np.nan, 0.0]))
    second = scoring(np.array([10.0, -10.0, 0.0, 0.0]))
    said = panel([first, second], [1.0, 10.0])
    third = 4 / 3
    mean = [(1 - third + 1) / 2, (3 - third - 1) / 2, 0.0, (0 - third + 0) / 2]
    assert said.scores[0] == pytest.approx(mean)  # who gave no score abstains


def test_a_panel_served_online_chooses_what_the_replay_chose(study):
    asked, run, results, folder = study
    selector = online(validated=folder)
    shares = np.array([c.ranking.probabilities for c in choices(selector, asked)])
    members = [opinion(run, run.pools["p"].located, name) for name in PANEL["members"]]
    replayed = RULES["best_score"].choose(panel_opinion(members))
    assert len(shares) == 200
    assert replayed == pytest.approx(shares)
    (row,) = [b for b in results.best_of_n if (b.rewarder, b.rule) == ("panel", "best_score")]
    worth = (shares * run.pools["p"].correct).sum(axis=1).mean()
    assert row.accuracy.value == pytest.approx(worth)
    assert [p.n for p in row.curve] == [1, 5]  # shares won are among all: no n between


def test_a_panel_rewards_as_it_chooses(study):
    asked, _, _, folder = study
    selector = online(validated=folder)
    some = [q for q in asked if len(set(q.texts)) > 1][:20]

    async def rate(q):
        samples = [Rollout(q.conversation, text) for text in q.texts]
        return await give_rewards(selector, "panel", "best_score", samples)

    for q, choice in zip(some, choices(selector, some), strict=True):
        values = [r.value for r in asyncio.run(rate(q))]
        assert values == list(choice.ranking.scores)


def test_a_panel_that_cannot_be_served_is_one_line(tmp_path, study):
    with pytest.raises(BonError, match=r"the unit of \w+'s scores in a panel .* online.validated"):
        online()
    assert online(scales={name: 1.0 for name in PANEL["members"]}).unit("wide") == 1
    with pytest.raises(BonError, match=r"panel names 'narrow', which is not online"):
        online(rewarders=[PANEL], validated=study[3])
