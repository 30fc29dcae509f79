"""Baselines that need no rewarder.

`random` is pass@1 at every n. `first` is the candidate of lowest index. `longest` has the most
characters. `logprob` has the highest mean log-probability per token. `majority` gives the most
frequent answer. `oracle` is correct if any of the n candidates is. Only `random` (½) and `longest`
apply to preference pairs.
"""

from dataclasses import replace

import numpy as np

from bon.analysis.estimators.replay import Replay, Setting
from bon.choosing import subsets
from bon.choosing.opinion import Floats, no_opinion
from bon.choosing.replaying import Replayed
from bon.choosing.rules import RULES

ON_PAIRS = ("random", "longest")


def baseline_replays(setting: Setting) -> list[Replay]:
    """Replay every baseline; those of log-probabilities only where they are known."""
    pool, trial = setting.pool, setting.trial
    correct, ns = trial.gold, trial.ns

    def replay(name: str, values: Floats) -> Replay:
        grid = np.broadcast_to(values, (len(correct), len(ns)))
        return setting.replay(name, "baseline", Replayed(ns, grid, None))

    # There is one vote per pool, so it can afford more random subsets than a rewarder.
    more = replace(trial, draws=4 * trial.draws)
    voted = RULES["majority"].replayed(no_opinion(pool.candidates), more)
    assert voted is not None
    replays = [
        replay("random", correct.mean(axis=1)[:, None]),
        replay("first", pool.first_correct[:, None]),
        setting.replay("majority", "baseline", voted),
    ]
    for name, scores in (("longest", pool.length), ("logprob", pool.mean_logprob)):
        if np.isfinite(scores).any():
            replays.append(replay(name, subsets.best_of_n(scores, correct, ns)))
    replays.append(replay("oracle", subsets.pass_at_n(correct, ns)))
    return replays
